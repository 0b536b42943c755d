//! Text as manual pages have it, and the sections that all pages end with.

/// Files that commands and managers read and write.
const FILES: [(&str, &str); 7] = [
    (
        "/usr/lib/cpumgr/cpumgr.toml, /usr/lib/cpumgr/cpumgr.toml.d/*.toml",
        "what comes with packages",
    ),
    ("/etc/cpumgr/cpumgr.toml, /etc/cpumgr/cpumgr.toml.d/*.toml", "the administrator's"),
    ("~/.config/cpumgr/cpumgr.toml, ~/.config/cpumgr/cpumgr.toml.d/*.toml", "a user's own"),
    ("/run/cpumgr/app.sock", "the socket of the manager of the whole machine"),
    (
        "$XDG_RUNTIME_DIR/cpumgr/app.sock, /tmp/cpumgr-UID/app.sock",
        "that of a user's own manager; SOCKET.log is its log where it runs in the background",
    ),
    (
        "SOCKET.settings, SOCKET.masks, SOCKET.lock",
        "what a manager leaves for the next one if it is killed, and its lock",
    ),
    (
        "/var/lib/cpumgr/history.redb, ~/.local/state/cpumgr/history.redb",
        "what `cpumgr history` shows; *.broken is one that could not be read",
    ),
];

/// As text that no formatter takes for a request.
pub(super) fn escaped(text: &str) -> String {
    let plain = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let guarded = |line: &str| match line.starts_with('.') {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    };
    plain.lines().map(guarded).collect::<Vec<_>>().join("\n")
}

/// A word and what it means.
pub(super) fn item(word: &str, means: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", escaped(word), escaped(means))
}

/// A page with EXIT STATUS, ENVIRONMENT and FILES before its last section; `said` is what stands
/// below the help of each command.
pub(super) fn with_sections(page: &str, said: &str) -> String {
    let mut sections = String::new();
    for (head, title) in [("Exit codes:", "EXIT STATUS"), ("Environment:", "ENVIRONMENT")] {
        let Some((_, rest)) = said.split_once(head) else { continue };
        let part = rest.split("\n\n").next().unwrap_or_default();
        sections.push_str(&format!(".SH \"{title}\"\n{}", items(part)));
    }
    sections.push_str(&files());
    match page.find(".SH VERSION") {
        Some(at) => format!("{}{sections}{}", &page[..at], &page[at..]),
        None => format!("{page}{sections}"),
    }
}

/// FILES and SEE ALSO.
pub(super) fn files() -> String {
    FILES.iter().fold(".SH FILES\n".to_owned(), |text, (file, what)| text + &item(file, what))
}

/// Lines of words and what they mean, two blanks between them; others are a paragraph.
fn items(part: &str) -> String {
    let mut text = String::new();
    let mut is_table = true;
    for line in part.lines().filter(|line| !line.trim().is_empty()) {
        let line = line.trim();
        match line.split_once("  ").filter(|_| is_table) {
            Some((word, means)) => text.push_str(&item(word, means.trim())),
            // A code of three digits has one blank less.
            None => match line.split_once(' ') {
                Some((word, means)) if word.parse::<u8>().is_ok() => {
                    text.push_str(&item(word, means.trim()));
                }
                Some((word, means)) if word.starts_with("CPUMGR_") && is_table => {
                    text.push_str(&item(word, means.trim()));
                }
                _ => {
                    if std::mem::replace(&mut is_table, false) {
                        text.push_str(".PP\n");
                    }
                    text.push_str(&escaped(line));
                    text.push('\n');
                }
            },
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_text_is_a_request() {
        assert_eq!(escaped(".TH a-b\n'c\\d"), "\\&.TH a\\-b\n\\(aqc\\ed");
    }

    #[test]
    fn lines_of_words_are_items_and_sentences_a_paragraph() {
        let text = items("\n  0    done\n  126  run: no\n  otherwise `run` ends so.\n  and so.");
        assert_eq!(
            text,
            item("0", "done")
                + &item("126", "run: no")
                + ".PP\notherwise `run` ends so.\nand so.\n"
        );
    }
}
