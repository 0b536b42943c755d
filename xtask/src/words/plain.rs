//! The comments of files in C, assembler and TOML.
//!
//! C and assembler (whose files are preprocessed) have `/* */` and `//`, assembler and TOML `#`. A
//! sign in a string or a character is none; a string of TOML in three quotes is not known for one.

use super::prose::Line;

/// A language, by what begins its comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Assembler,
    Toml,
}

impl Language {
    /// That of files whose names end so.
    pub(super) fn of(end: &str) -> Option<Self> {
        match end {
            "c" | "h" => Some(Self::C),
            "s" | "S" => Some(Self::Assembler),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }

    fn has_slashes(self) -> bool {
        self != Self::Toml
    }

    fn has_hash(self) -> bool {
        self != Self::C
    }

    fn is_quote(self, sign: char) -> bool {
        sign == '"' || (sign == '\'' && self != Self::Assembler)
    }
}

/// All comments, each line by itself.
pub(super) fn comments(text: &str, language: Language) -> Vec<Line> {
    let mut found = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        let signs: Vec<char> = line.chars().collect();
        let mut add = |from: usize, to: usize| {
            let text = signs[from..to].iter().collect();
            found.push(Line { number: index + 1, column: from, text });
        };
        let two = |at: usize, what: [char; 2]| signs[at..].starts_with(&what);
        let mut at = 0;
        while at < signs.len() {
            if is_open {
                let end = (at..signs.len()).find(|at| two(*at, ['*', '/']));
                add(at, end.unwrap_or(signs.len()));
                is_open = end.is_none();
                at = end.map_or(signs.len(), |end| end + 2);
            } else if language.has_slashes() && two(at, ['/', '*']) {
                is_open = true;
                at += 2;
            } else if language.has_slashes() && two(at, ['/', '/']) {
                add(at + 2, signs.len());
                break;
            } else if language.has_hash() && signs[at] == '#' {
                add(at + 1, signs.len());
                break;
            } else if language.is_quote(signs[at]) {
                at = end_of_quote(&signs, at);
            } else {
                at += 1;
            }
        }
    }
    found
}

/// The place after a string or character that begins at `at`; at most the end of the line.
fn end_of_quote(signs: &[char], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < signs.len() && signs[at] != signs[begin] {
        at += if signs[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(signs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `line:column text` of each comment.
    fn read(text: &str, language: Language) -> Vec<String> {
        let shown = |line: Line| format!("{}:{} {}", line.number, line.column, line.text.trim());
        comments(text, language).into_iter().map(shown).collect()
    }

    #[test]
    fn comments_of_c_are_found_and_strings_are_none() {
        let text = "int a; // one\nchar *b = \"/* x */ // \\\" y\"; /* two\n three */ char c = '\"'; \
                    /* four */\n#include <a.h>";
        assert_eq!(read(text, Language::C), ["1:9 one", "2:31 two", "3:0 three", "3:26 four"]);
    }

    #[test]
    fn comments_of_assembler_begin_with_a_hash_too() {
        let text = "# one\nmov $1, %eax // two\n/* three */ .ascii \"# x\" # four's";
        let expected = ["1:1 one", "2:15 two", "3:2 three", "3:26 four's"];
        assert_eq!(read(text, Language::Assembler), expected);
    }

    #[test]
    fn comments_of_toml_are_found() {
        let text = "a = \"# x\" # one\nb = '#' # // two\nhttp://c";
        assert_eq!(read(text, Language::Toml), ["1:11 one", "2:9 // two"]);
    }

    #[test]
    fn other_files_have_no_language() {
        assert_eq!(Language::of("py"), None);
        assert_eq!(Language::of("S"), Some(Language::Assembler));
    }
}
