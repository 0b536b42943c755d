//! Text as a reader sees it: Markdown without code, and without the targets of links.

/// A line of a comment or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: usize,
    /// Characters to the left of the text.
    pub(super) column: usize,
    pub(super) text: String,
}

/// A line that may break a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prose {
    pub(super) number: usize,
    pub(super) column: usize,
    /// The line with spaces in the place of code and of targets of links.
    pub(super) text: String,
    /// Characters of the whole line, code too, but no target of a link.
    pub(super) width: usize,
    pub(super) is_table: bool,
}

/// The lines of a document.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let line =
        |(index, text): (usize, &str)| Line { number: index + 1, column: 0, text: text.to_owned() };
    text.lines().enumerate().map(line).collect()
}

/// Leaves code blocks out, and blanks code and targets of links in the other lines.
pub(super) fn read(block: &[Line]) -> Vec<Prose> {
    let mut found = Vec::new();
    let mut paragraph: Vec<&Line> = Vec::new();
    // The sign and the length of the fence that a code block ends with.
    let mut fence: Option<(char, usize)> = None;
    for line in block {
        let text = line.text.trim();
        let sign = text.chars().next().filter(|sign| matches!(sign, '`' | '~'));
        let length = sign.map_or(0, |sign| text.chars().take_while(|next| *next == sign).count());
        match (fence, sign) {
            (Some((open, least)), _) => {
                if sign == Some(open) && length >= least && text.chars().count() == length {
                    fence = None;
                }
                continue;
            }
            // A line that begins with code in three backticks has more of them.
            (None, Some(sign)) if length >= 3 && !text[length..].contains('`') => {
                fence = Some((sign, length));
                found.extend(blanked(&std::mem::take(&mut paragraph)));
                continue;
            }
            _ => {}
        }
        let ends = text.is_empty() || text.starts_with('|');
        if ends {
            found.extend(blanked(&std::mem::take(&mut paragraph)));
        }
        paragraph.push(line);
        if ends {
            found.extend(blanked(&std::mem::take(&mut paragraph)));
        }
    }
    found.extend(blanked(&paragraph));
    found
}

/// Blanks a paragraph: code may go over the end of a line.
fn blanked(paragraph: &[&Line]) -> Vec<Prose> {
    let joined = paragraph.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let mut text: Vec<char> = joined.chars().collect();
    blank_code(&mut text);
    let mut is_target = vec![false; text.len()];
    mark_targets(&text, &mut is_target);
    let mut found = Vec::new();
    let mut at = 0;
    for line in paragraph {
        let length = line.text.chars().count();
        let range = at..at + length;
        let targets = is_target[range.clone()].iter().filter(|is_target| **is_target).count();
        let shown = range.clone().map(|at| if is_target[at] { ' ' } else { text[at] }).collect();
        found.push(Prose {
            number: line.number,
            column: line.column,
            text: shown,
            width: line.column + line.text.trim_end().chars().count() - targets,
            is_table: line.text.trim_start().starts_with('|'),
        });
        at = range.end + 1;
    }
    found
}

/// Code begins with a run of backticks and ends with one that is as long; a run without another is
/// text.
fn blank_code(text: &mut [char]) {
    let run = |text: &[char], at: usize| text[at..].iter().take_while(|sign| **sign == '`').count();
    let mut at = 0;
    while at < text.len() {
        let length = run(text, at);
        if length == 0 {
            at += 1;
            continue;
        }
        let mut end = at + length;
        while end < text.len() && run(text, end) != length {
            end += run(text, end).max(1);
        }
        if end < text.len() {
            for sign in &mut text[at..end + length] {
                if *sign != '\n' {
                    *sign = ' ';
                }
            }
            at = end;
        }
        at += length;
    }
}

/// Marks what stands in `](...)`, after `[name]:` and in an address.
fn mark_targets(text: &[char], is_target: &mut [bool]) {
    let begins = |at: usize, what: &str| {
        what.chars().enumerate().all(|(index, sign)| text.get(at + index) == Some(&sign))
    };
    let mark = |is_target: &mut [bool], from: usize, ends: &dyn Fn(char) -> bool| {
        for at in (from..text.len()).take_while(|at| !ends(text[*at])) {
            is_target[at] = true;
        }
    };
    // A definition begins its line; anywhere else `]: ` is a bracket and a colon.
    let is_name = |at: usize| {
        let start = text[..at].iter().rposition(|sign| *sign == '\n').map_or(0, |end| end + 1);
        let name = text[start..at].iter().collect::<String>();
        name.trim_start().starts_with('[') && !name.contains(']')
    };
    for at in 0..text.len() {
        if begins(at, "](") {
            mark(is_target, at + 2, &|sign| sign == ')' || sign == '\n');
        } else if begins(at, "]: ") && is_name(at) {
            mark(is_target, at + 3, &char::is_whitespace);
        } else if begins(at, "://") {
            let scheme =
                text[..at].iter().rev().take_while(|sign| sign.is_ascii_alphabetic()).count();
            mark(is_target, at - scheme, &|sign| sign.is_whitespace() || matches!(sign, '>' | ')'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        read(&lines(text)).into_iter().map(|line| line.text.trim_end().to_owned()).collect()
    }

    #[test]
    fn code_is_blank() {
        assert_eq!(shown("a `b` c ``d ` e`` f"), ["a     c           f"]);
        assert_eq!(shown("a ` b"), ["a ` b"]);
        assert_eq!(shown("a `b\nc` d"), ["a", "   d"]);
        assert_eq!(shown("a `b\n\nc` d"), ["a `b", "", "c` d"]);
    }

    #[test]
    fn code_blocks_are_left_out() {
        assert_eq!(shown("a\n```rust\nb\n~~~\n```\nc\n~~~~\nd\n~~~\n~~~~\ne"), ["a", "c", "e"]);
    }

    #[test]
    fn targets_of_links_are_blank_and_have_no_width() {
        let found = read(&lines("a [b](docs/behind.md) c\n<https://x.org/who>\n[n]: docs/who.md"));
        let texts: Vec<&str> = found.iter().map(|line| line.text.trim_end()).collect();
        assert_eq!(texts, ["a [b](              ) c", "<                 >", "[n]:"]);
        assert_eq!(found.iter().map(|line| line.width).collect::<Vec<_>>(), [9, 2, 5]);
    }

    #[test]
    fn a_bracket_and_a_colon_define_no_link() {
        assert_eq!(shown("it ends after [`A`]: who waits"), ["it ends after [   ]: who waits"]);
        assert_eq!(shown("a\n [`A`]: src/who.rs"), ["a", " [   ]:"]);
    }

    #[test]
    fn widths_count_what_is_left_of_the_text() {
        let found = read(&[Line { number: 3, column: 7, text: " äö `c`  ".to_owned() }]);
        assert_eq!((found[0].number, found[0].width), (3, 14));
    }

    #[test]
    fn tables_are_known() {
        let found = read(&lines("a\n| b |\nc"));
        assert_eq!(
            found.iter().map(|line| line.is_table).collect::<Vec<_>>(),
            [false, true, false]
        );
    }
}
