//! How a test says that it did not run, or ran in part: one line that no test harness keeps to
//! itself.
//!
//! The line is `skipped: REASON [FILE:LINE]` for what the machine lacks, and
//! `skipped (busy): REASON [FILE:LINE]` where the machine was too busy to show anything. It goes to
//! descriptor 2 directly: what a test that passes prints through the standard library is captured
//! and thrown away. It is also appended to the file that the variable [`FILE`] names, where the
//! program that started the tests counts the lines.
//!
//! # Not here
//! The programs' messages: `message`.

use std::fmt::{Arguments, Write as _};
use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;

/// The variable that names the file to which each line is appended.
pub const FILE: &str = "NANOS_SKIPS";

/// Why a test does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The machine, the user or the build lacks something. The same at each run.
    Lacking,
    /// Others used the processors. Another run may show it.
    Busy,
}

/// Says that a test is skipped: `skip!("no {program} here")`, or
/// `skip!(busy: "others used {share}")`.
///
/// Its value is `()`, so that a test can `return skip!(...)`.
#[macro_export]
macro_rules! skip {
    (busy: $($reason:tt)+) => {
        $crate::skip::say($crate::skip::Why::Busy, format_args!($($reason)+), (file!(), line!()))
    };
    ($($reason:tt)+) => {
        $crate::skip::say($crate::skip::Why::Lacking, format_args!($($reason)+), (file!(), line!()))
    };
}

/// The line for a reason, without its end; a reason of several lines becomes one line.
fn line(why: Why, reason: Arguments<'_>, (file, line): (&str, u32)) -> String {
    let begin = match why {
        Why::Lacking => "skipped: ",
        Why::Busy => "skipped (busy): ",
    };
    let mut text = begin.to_owned();
    for word in reason.to_string().split_whitespace() {
        let _ = write!(text, "{word} ");
    }
    let _ = write!(text, "[{file}:{line}]");
    text
}

/// Writes the line. Called by [`skip!`](crate::skip!), which knows the place.
pub fn say(why: Why, reason: Arguments<'_>, place: (&str, u32)) {
    let text = line(why, reason, place) + "\n";
    // SAFETY: descriptor 2 is only written to, and not closed: its owner is never dropped.
    let mut error = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(2) });
    // A message that cannot be written has no other way out; the same below.
    let _ = error.write_all(text.as_bytes());
    let Some(path) = std::env::var_os(FILE).filter(|path| !path.is_empty()) else { return };
    #[cfg_attr(
        not(any(test, loom)),
        expect(clippy::disallowed_methods, reason = "only tests come here")
    )]
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    // One write of a line: tests that run beside this one append to the same file.
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD: &str = "NANOS_TEST_SKIPS";

    #[test]
    fn a_line_says_why_and_where() {
        let reason = "no gcc:\n  exit code 1\n";
        assert_eq!(
            line(Why::Lacking, format_args!("{reason}"), ("a.rs", 7)),
            "skipped: no gcc: exit code 1 [a.rs:7]"
        );
        assert_eq!(
            line(Why::Busy, format_args!("others"), ("b.rs", 8)),
            "skipped (busy): others [b.rs:8]"
        );
    }

    #[test]
    fn the_harness_does_not_capture_it_and_the_file_has_every_line() {
        if std::env::var_os(CHILD).is_some() {
            println!("captured");
            crate::skip!("{} is lacking", 1);
            return crate::skip!(busy: "{} runs", 2);
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skips");
        for _ in 0..2 {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args([
                "--exact",
                "skip::tests::the_harness_does_not_capture_it_and_the_file_has_every_line",
            ]);
            let output = command.env(CHILD, "1").env(FILE, &file).output().unwrap();
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(
                output.status.success() && out.contains("1 passed") && !out.contains("captured"),
                "{out}{err}"
            );
            let lines: Vec<&str> = err.lines().collect();
            assert!(
                lines[0].starts_with("skipped: 1 is lacking [") && lines[0].ends_with(']'),
                "{err}"
            );
            assert!(lines[1].starts_with("skipped (busy): 2 runs [") && lines.len() == 2, "{err}");
        }
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            text.lines().filter(|line| line.starts_with("skipped: 1 is lacking [")).count(),
            2,
            "{text}"
        );
        assert_eq!(
            text.lines().filter(|line| line.starts_with("skipped (busy): 2 runs [")).count(),
            2,
            "{text}"
        );
    }
}
