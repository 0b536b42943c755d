//! Names that come from programs, made safe to show: a program names itself, and a terminal obeys
//! what it is shown.

/// Readable characters of any script as they are, everything else escaped.
pub fn escape(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    name.chars()
        .map(|c| {
            if is_readable(c) && c != '\\' { c.to_string() } else { c.escape_default().to_string() }
        })
        .collect()
}

/// A text of ours with parts from elsewhere: control characters and the like escaped, backslashes
/// as they are (the parts may have been escaped before).
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_readable(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

/// A terminal shows it and does nothing else. It is no control character, no character that turns
/// or hides its neighbours (bidirectional and other format characters), no blank but the usual one,
/// and no character without a meaning (unassigned, for private use).
fn is_readable(c: char) -> bool {
    // What the standard library would not escape in a text for debugging; after a letter, so that
    // an accent counts.
    matches!(c, '\'' | '"' | '\\') || String::from_iter(['a', c]).escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_and_logs_stay_safe() {
        assert_eq!(escape(b"cg.A x64"), "cg.A x64");
        assert_eq!(escape(b"\x1b[2J\n\\"), r"\u{1b}[2J\n\\");
        assert_eq!(escape("a\u{202e}b".as_bytes()), r"a\u{202e}b");
        assert_eq!(escape(&[0xff]), "\u{fffd}");
        for c in [
            '\u{2066}', '\u{200f}', '\u{200b}', '\u{feff}', '\u{85}', '\u{a0}', '\u{2028}',
            '\u{e000}', '\u{7f}', '\u{ad}',
        ] {
            assert_eq!(escape(c.to_string().as_bytes()), c.escape_default().to_string());
        }
    }

    #[test]
    fn names_in_any_script_stay_readable() {
        for name in ["café", "cafe\u{301}", "计算", "расчёт", "מחשב", "गणना", "it's \"x\""]
        {
            assert_eq!((escape(name.as_bytes()).as_str(), printable(name).as_str()), (name, name));
        }
    }
}
