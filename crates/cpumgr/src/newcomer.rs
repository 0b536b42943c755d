//! `run --tell-share`: a program that asks once how many processors there are hears how many a
//! newcomer gets now.
//!
//! For programs whose threads no manager and no library of ours can follow: they choose at their
//! start. The answer is given in the process, by a library in front of the C library's
//! (`crates/omp-shim/abi/count.c`); programs that call the kernel without it, as those in Go do,
//! hear it by a variable. Children of the program and OpenMP programs are told nothing.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use arena::client::ConnectError;
use platform::process;

use crate::preload::{self, Program};
use crate::status;

/// The library, beside the drop-in one.
const LIBRARY: &str = "libnanos_count.so";
/// What that reads.
const VARIABLE: &str = "NANOS_COUNT";
/// What programs in Go read.
const GO: &str = "GOMAXPROCS";

/// How many processors a program would have that came now, if all wanted as many.
///
/// # Errors
/// No manager answers.
pub(crate) fn share(socket: &Path) -> Result<u32, ConnectError> {
    let status = status::of_manager(socket)?;
    let own = process::current_pid().0;
    let silent = status.silent.iter().filter(|pid| **pid != own).count();
    let others = status.program_count.saturating_add(u32::try_from(silent).unwrap_or(u32::MAX));
    Ok((status.processor_count / others.saturating_add(1)).max(1))
}

/// Has the program hear that. What it cannot hear is an error's text.
///
/// # Errors
/// The library is not there, or the loader cannot be told of it.
pub(crate) fn tell(
    command: &mut Command,
    directory: &Path,
    share: u32,
) -> Result<OsString, String> {
    let library = directory.join(LIBRARY);
    if std::env::var_os(GO).is_none()
        && preload::of_command(Path::new(command.get_program())) == Some(Program::Static)
    {
        command.env(GO, share.to_string());
    }
    if !library.is_file() {
        return Err(format!("there is no {}", library.display()));
    }
    if preload::is_split(&library, preload::LIST) {
        return Err(format!("LD_PRELOAD is split at blanks: {}", library.display()));
    }
    command.env(VARIABLE, format!("{share}:{}", process::current_pid().0));
    Ok(library.into_os_string())
}
