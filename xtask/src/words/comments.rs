//! The comments of a Rust file, found between the tokens that a Rust lexer found.
//!
//! What lies between two tokens is space and comments only, so that no string, character or
//! identifier is ever taken for a comment. A comment of documentation is a token of its own, whose
//! text begins as a comment does.

use proc_macro2::{LineColumn, Span, TokenStream, TokenTree};

use super::prose::Line;

/// All comments between `tokens` of `text`, which this thread has read last: each block is a run of
/// lines that belong together.
pub(super) fn blocks(text: &str, tokens: TokenStream) -> Vec<Vec<Line>> {
    let mut gaps = Gaps {
        text,
        lines: text.split_inclusive('\n').scan(0, starts).collect(),
        at: 0,
        found: Vec::new(),
    };
    gaps.tokens(tokens);
    gaps.until(text.len());
    gathered(text, &gaps.found)
}

/// The begin of each line, and whether its characters are bytes.
fn starts(at: &mut usize, line: &str) -> Option<(usize, bool)> {
    let begin = *at;
    *at += line.len();
    Some((begin, line.is_ascii()))
}

struct Gaps<'a> {
    text: &'a str,
    lines: Vec<(usize, bool)>,
    /// The end of the last token.
    at: usize,
    /// Begin and end of each comment.
    found: Vec<(usize, usize)>,
}

impl Gaps<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        for tree in tokens {
            match tree {
                TokenTree::Group(group) if !self.is_comment(self.byte(group.span().start())) => {
                    self.token(group.span_open());
                    self.tokens(group.stream());
                    self.token(group.span_close());
                }
                tree => self.token(tree.span()),
            }
        }
    }

    /// The byte of a place. A span can say it, too, and takes twenty times as long.
    fn byte(&self, place: LineColumn) -> usize {
        let Some((begin, is_ascii)) = self.lines.get(place.line.saturating_sub(1)) else {
            return self.text.len();
        };
        if *is_ascii {
            return begin + place.column;
        }
        let mut places = self.text[*begin..].char_indices().map(|(at, _)| begin + at);
        places.nth(place.column).unwrap_or(self.text.len())
    }

    fn is_comment(&self, at: usize) -> bool {
        let text = self.text.get(at..).unwrap_or_default();
        text.starts_with("//") || text.starts_with("/*")
    }

    fn token(&mut self, span: Span) {
        let begin = self.byte(span.start());
        // A comment of documentation is several tokens of one place.
        if begin < self.at {
            return;
        }
        let end = self.byte(span.end());
        self.until(begin);
        if self.is_comment(begin) {
            self.found.push((begin, end));
        }
        self.at = end;
    }

    /// Takes the comments up to the next token.
    fn until(&mut self, end: usize) {
        while self.at < end {
            let rest = &self.text[self.at..end];
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                block_length(rest)
            } else {
                self.at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            self.found.push((self.at, self.at + length));
            self.at += length;
        }
    }
}

/// The length of a `/* */` with those inside it.
fn block_length(text: &str) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(pair) = text.as_bytes().get(at..at + 2) {
        match pair {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => {
                (depth, at) = (depth.saturating_sub(1), at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// Splits comments into lines, and gathers lines of one kind that follow each other.
fn gathered(text: &str, comments: &[(usize, usize)]) -> Vec<Vec<Line>> {
    let mut blocks: Vec<Vec<Line>> = Vec::new();
    let mut last: Option<(usize, &str)> = None;
    let (mut number, mut counted) = (1, 0);
    for (begin, end) in comments {
        number += text[counted..*begin].matches('\n').count();
        counted = *begin;
        let comment = &text[*begin..*end];
        let kind = ["//!", "///", "//", "/*"]
            .into_iter()
            .find(|kind| comment.starts_with(kind))
            .unwrap_or("//");
        let start = text[..*begin].rfind('\n').map_or(0, |at| at + 1);
        let column = text[start..*begin].chars().count();
        let is_alone = text[start..*begin].trim().is_empty();
        let is_next = kind != "/*" && is_alone && last == Some((number - 1, kind));
        if !is_next {
            blocks.push(Vec::new());
        }
        for (index, line) in comment.lines().enumerate() {
            let column = if index == 0 { column } else { 0 };
            let body = if index == 0 {
                line.strip_prefix(kind)
            } else {
                line.trim_start().strip_prefix('*')
            };
            let body = body.unwrap_or(line);
            let before = line.chars().count() - body.chars().count();
            if let Some(block) = blocks.last_mut() {
                block.push(Line {
                    number: number + index,
                    column: column + before,
                    text: body.to_owned(),
                });
            }
        }
        // What comes after a line of code speaks of that line.
        last = is_alone.then_some((number, kind));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Vec<Line>> {
        proc_macro2::extra::invalidate_current_thread_spans();
        blocks(text, text.parse().unwrap())
    }

    /// `line:column text` of each line, block by block.
    fn found(text: &str) -> Vec<Vec<String>> {
        let shown = |line: &Line| format!("{}:{}{}", line.number, line.column, line.text);
        read(text).iter().map(|block| block.iter().map(shown).collect()).collect()
    }

    #[test]
    fn every_kind_of_comment_is_found() {
        let text = "//! Head.\n//! More.\n\n/// Doc.\nfn f() \
                    { // trailing\n    // own\n    /* a\n     * b /* c */ */ g(); }";
        assert_eq!(
            found(text),
            [
                vec!["1:3 Head.", "2:3 More."],
                vec!["4:3 Doc."],
                vec!["5:11 trailing"],
                vec!["6:6 own"],
                vec!["7:6 a", "8:6 b /* c */ */"]
            ]
        );
    }

    #[test]
    fn strings_characters_and_names_hold_no_comment() {
        let text = "fn f<'a>() { let s = \"// no\"; let r = r#\"/* \" no */\"#; let c = '\"'; let d = '/'; } // yes";
        assert_eq!(found(text), [["1:85 yes"]]);
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(found("const S: &str = \"äöü\"; // ß"), [["1:25 ß"]]);
    }

    #[test]
    fn lines_of_two_kinds_are_two_blocks() {
        assert_eq!(found("// a\n/// b\nfn f() {}\n\n// c\n\n// d").len(), 4);
    }
}
