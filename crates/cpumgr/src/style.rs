//! Colours and bold letters: on a terminal only, and not where `NO_COLOR` is set.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// Whether what is shown may have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style(bool);

impl Style {
    /// Of standard output.
    pub(crate) fn of_output() -> Self {
        let [no_color, term] = ["NO_COLOR", "TERM"].map(std::env::var_os);
        Self::of(io::stdout().is_terminal(), no_color.as_deref(), term.as_deref())
    }

    /// Without any.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self(false)
    }

    fn of(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        // https://no-color.org: set and not empty.
        let is_unwanted = no_color.is_some_and(|value| !value.is_empty());
        Self(is_terminal && !is_unwanted && term.is_some_and(|term| term != "dumb"))
    }

    /// The head of a table.
    pub(crate) fn head(self, text: &str) -> String {
        self.within(text, "1")
    }

    /// Something that is well.
    pub(crate) fn good(self, text: &str) -> String {
        self.within(text, "32")
    }

    /// Something to see to.
    pub(crate) fn bad(self, text: &str) -> String {
        self.within(text, "33")
    }

    /// `text` in this rendition (ECMA-48, 8.3.117).
    fn within(self, text: &str, rendition: &str) -> String {
        match self.0 {
            true => format!("\x1b[{rendition}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_without_a_ban_has_colours() {
        let (some, none) = (Some(OsStr::new("1")), None);
        let xterm = Some(OsStr::new("xterm"));
        for (terminal, no_color, term, has) in [
            (true, none, xterm, true),
            (true, Some(OsStr::new("")), xterm, true),
            (true, some, xterm, false),
            (false, none, xterm, false),
            (true, none, Some(OsStr::new("dumb")), false),
            (true, none, none, false),
        ] {
            assert_eq!(Style::of(terminal, no_color, term).0, has, "{terminal} {no_color:?}");
        }
        assert_eq!(Style(true).head("PID"), "\x1b[1mPID\x1b[0m");
        assert_eq!(Style(false).good("x") + &Style(false).bad("y"), "xy");
    }
}
