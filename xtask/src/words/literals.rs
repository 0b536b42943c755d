//! The names of tests and the string literals of a Rust file, as lines of plain text.

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};

use super::prose::Line;

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    /// Names of functions with an attribute `test`, their `_` as spaces.
    pub(super) names: Vec<Line>,
    /// Lines of strings, without what stands between backticks.
    pub(super) strings: Vec<Line>,
}

/// What `tokens` of `text` hold.
pub(super) fn found(text: &str, tokens: TokenStream) -> Found {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Found::default();
    found.read(&lines, tokens);
    found
}

impl Found {
    fn read(&mut self, lines: &[&str], tokens: TokenStream) {
        let mut is_test = false;
        let mut tokens = tokens.into_iter().peekable();
        while let Some(tree) = tokens.next() {
            match tree {
                // A comment of documentation is an attribute in the same place.
                TokenTree::Group(group) if !is_comment(lines, group.span().start()) => {
                    is_test |=
                        group.delimiter() == Delimiter::Bracket && is_test_mark(group.stream());
                    // A body, or the end of an item.
                    is_test &= group.delimiter() != Delimiter::Brace;
                    self.read(lines, group.stream());
                }
                TokenTree::Ident(word) if word == "fn" && is_test => {
                    if let Some(TokenTree::Ident(name)) = tokens.peek() {
                        let place = name.span().start();
                        let text = name.to_string().replace('_', " ");
                        self.names.push(line(place.line, place.column, text));
                    }
                    is_test = false;
                }
                TokenTree::Literal(literal) => {
                    let (place, text) = (literal.span().start(), literal.to_string());
                    if text.contains('"') && !is_comment(lines, place) {
                        self.string(place, &text);
                    }
                }
                _ => {}
            }
        }
    }

    fn string(&mut self, place: LineColumn, literal: &str) {
        let mut is_code = false;
        for (number, text) in literal.lines().enumerate() {
            // Blanks, so that columns stay.
            let text = text.replace("\\n", "  ").replace("\\t", "  ");
            let plain = |sign: char| {
                is_code ^= sign == '`';
                if is_code { ' ' } else { sign }
            };
            let text = text.chars().map(plain).collect();
            let column = if number == 0 { place.column } else { 0 };
            self.strings.push(line(place.line + number, column, text));
        }
    }
}

fn line(number: usize, column: usize, text: String) -> Line {
    Line { number, column, text }
}

/// `test`, or a path that ends so.
fn is_test_mark(attribute: TokenStream) -> bool {
    let words = attribute.into_iter().take_while(|tree| !matches!(tree, TokenTree::Group(_)));
    words.last().is_some_and(|last| last.to_string() == "test")
}

fn is_comment(lines: &[&str], place: LineColumn) -> bool {
    let mut signs = lines
        .get(place.line.saturating_sub(1))
        .map(|line| line.chars().skip(place.column))
        .into_iter()
        .flatten();
    signs.next() == Some('/') && matches!(signs.next(), Some('/' | '*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        proc_macro2::extra::invalidate_current_thread_spans();
        let found = found(text, text.parse().unwrap());
        let shown = |line: &Line| format!("{}:{} {}", line.number, line.column, line.text);
        (found.names.iter().map(shown).collect(), found.strings.iter().map(shown).collect())
    }

    #[test]
    fn functions_with_a_test_mark_are_names_also_inside_of_macros() {
        let text = "#[test]\n#[ignore]\nfn a_b() {}\nfn c() {}\nproptest! \
                    {\n    #[test]\n    fn d(x in 0..9) {}\n}\n\
                    #[cfg(test)]\nmod tests { fn e() {} }\n#[tokio::test]\nasync fn f() {}";
        assert_eq!(read(text).0, ["3:3 a b", "7:7 d", "12:9 f"]);
    }

    #[test]
    fn strings_of_every_kind_are_read_line_by_line_without_code() {
        let text = "fn f() {\n    let a = \"ä\\nb `c` d\n e\"; // \"no\"\n    let b = (r#\"g\"#, b\"h\", 'i');\n}";
        assert_eq!(read(text).1, ["2:12 \"ä  b   ` d", "3:0  e\"", "4:13 r#\"g\"#", "4:21 b\"h\""]);
    }

    #[test]
    fn comments_of_documentation_are_no_strings() {
        assert_eq!(read("//! \"a\"\n/// b\n#[doc = \"c\"]\nfn f() {}").1, ["3:8 \"c\""]);
    }
}
