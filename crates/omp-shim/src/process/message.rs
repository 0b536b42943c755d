//! What the library says on stderr, and how it ends the process when it cannot go on.

use std::io::Write;

/// Says something that the user should know, and goes on.
#[cold]
pub(crate) fn warn(text: &str) {
    // A closed stderr must not stop the program.
    let _ = writeln!(std::io::stderr(), "\nlibgomp: {text}");
}

/// Says why the program cannot go on, and ends it with status 1.
#[cold]
pub(crate) fn fatal(text: &str) -> ! {
    warn(text);
    std::process::exit(1)
}
