//! Programs that a test makes and runs.

use std::os::unix::fs::PermissionsExt;
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

/// Writes a script by another process, for the same reason.
pub(crate) fn write_script(path: &Path, text: &str) {
    made(Command::new("sh").args(["-c", "printf %s \"$1\" > \"$2\"", "sh", text]).arg(path));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Makes a program's file this many bytes long; the end is a hole.
pub(crate) fn lengthen_program(path: &Path, bytes: u64) {
    made(Command::new("truncate").arg(format!("--size={bytes}")).arg("--").arg(path));
}

fn made(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
