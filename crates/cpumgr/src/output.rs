//! What a command shows: on standard output what was asked for, on standard error what went wrong.

use std::io::{self, Write};
use std::path::Path;

use crate::error::Error;
use crate::escape::printable;

/// One line on standard error. Where that is closed or full nothing else suffers: `run` runs its
/// program all the same, and an exit code is what it is.
pub(crate) fn complain(text: &str) {
    platform::message::say(format_args!("cpumgr: {}", printable(text)));
}

/// Whether a path stands for standard output, as a dash does on command lines.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whatever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(source) => {
            Err(Error::Io { what: "cannot write to", path: "standard output".into(), source })
        }
        Ok(()) => Ok(()),
    }
}
