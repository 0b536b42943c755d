//! Names that come from programs, made safe to show: a program names itself, and a terminal obeys what it is shown.

/// Printable ASCII as it is, everything else escaped.
pub fn escape(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .chars()
        .flat_map(|c| {
            let plain = (c.is_ascii_graphic() || c == ' ') && c != '\\';
            plain.then_some(c).into_iter().chain((!plain).then(|| c.escape_default()).into_iter().flatten())
        })
        .collect()
}

/// A text of ours with parts from elsewhere: control characters and the like escaped, backslashes as they are (the
/// parts may have been escaped before).
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_and_logs_stay_safe() {
        assert_eq!(escape(b"cg.A x64"), "cg.A x64");
        assert_eq!(escape(b"\x1b[2J\n\\"), r"\u{1b}[2J\n\\");
        assert_eq!(escape("a\u{202e}b".as_bytes()), r"a\u{202e}b");
        assert_eq!(escape(&[0xff]), r"\u{fffd}");
    }
}
