//! What the library says on stderr: whole lines, and nothing happens when they cannot be written.
//!
//! A closed or full stderr must not stop a program, and the engine speaks where a panic would leave
//! other threads waiting. `eprintln!` panics there. No lock is taken either: a child may be forked
//! while a thread of its parent speaks.

use crate::aside::Aside;
use std::fmt;

/// Writes `text` and a line end to stderr, in one piece. What cannot be written is dropped.
///
/// ```
/// # use nanothreads_platform as platform;
/// platform::message::say(format_args!("nanos: {} is no number; using {}", "abc", 4));
/// ```
#[cold]
pub fn say(text: fmt::Arguments<'_>) {
    let _aside = Aside::begin();
    let line = format!("{text}\n");
    // SAFETY: - pointer and length describe `line`, which lives through the call.
    let _written = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
