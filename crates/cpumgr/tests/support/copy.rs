//! Copies of programs that a test runs.

use std::path::Path;
use std::process::Command;

/// Copies a program with `cp`, which leaves it executable for certain.
///
/// A copy made by this process would be open for writing here for a moment. A child that another
/// test's thread forks in that moment has the same open file until it calls `execve`. Running the
/// copy in the meantime fails with ETXTBSY.
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path) {
    made(Command::new("cp").arg("--").arg(from.as_ref()).arg(to));
}

/// Makes a program's file this many bytes long; the end is a hole.
pub(crate) fn lengthen_program(path: &Path, bytes: u64) {
    made(Command::new("truncate").arg(format!("--size={bytes}")).arg("--").arg(path));
}

fn made(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
