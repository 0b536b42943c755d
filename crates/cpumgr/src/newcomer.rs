//! `run --tell-share`: a program that asks once how many processors there are hears how many a
//! newcomer gets now.
//!
//! For programs whose threads no manager and no library of ours can follow: they choose at their
//! start. The answer is given in the process, by a library in front of the C library's
//! (`crates/omp-shim/abi/count.c`); programs in Go, which call the kernel without it, hear it by a
//! variable, which programs that they start inherit. Other children of the program and OpenMP
//! programs are told nothing.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use arena::client::{ConnectError, SOCKET_VARIABLE};
use platform::process;

use crate::error::Error;
use crate::preload;
use crate::status;

/// The library, beside the drop-in one.
const LIBRARY: &str = "libnanos_count.so";
/// What that reads.
const VARIABLE: &str = "NANOS_COUNT";
/// What programs in Go read.
const GO: &str = "GOMAXPROCS";
const PRELOAD: &str = "LD_PRELOAD";

/// Has the program of `command`, which this process becomes, hear how many processors a newcomer
/// gets; says what keeps it from that. `directory`: the drop-in library's, where there is one.
pub(crate) fn tell(command: &mut Command, directory: Option<&Path>, warn: &impl Fn(&str)) {
    if let Err(why) = try_to_tell(command, directory) {
        warn(&format!("--tell-share: {why}; the program hears how many processors there are"));
    }
}

fn try_to_tell(command: &mut Command, directory: Option<&Path>) -> Result<(), String> {
    let Some(socket) = variable(command, SOCKET_VARIABLE).filter(|socket| socket != "off") else {
        return Err("no manager says what a newcomer gets".into());
    };
    let share = share(Path::new(&socket)).map_err(|error| Error::from(error).to_string())?;
    let is_go = preload::is_go(Path::new(command.get_program()));
    // Its own wish comes first.
    if is_go && env::var_os(GO).is_none() {
        command.env(GO, share.to_string());
    }
    // What a program in Go has of C asks the C library.
    let Some(library) = directory.map(|directory| directory.join(LIBRARY)) else {
        if is_go {
            return Ok(());
        }
        return Err(format!("there is no {LIBRARY} where no drop-in library is"));
    };
    if !library.is_file() {
        return Err(format!("there is no {}", library.display()));
    }
    if preload::is_split(&library, preload::LIST) {
        return Err(format!("LD_PRELOAD is split at blanks: {}", library.display()));
    }
    let mut list = library.into_os_string();
    if let Some(others) = variable(command, PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    command.env(PRELOAD, list).env(VARIABLE, format!("{share}:{}", process::current_pid().0));
    Ok(())
}

/// What the program will find.
fn variable(command: &Command, name: &str) -> Option<OsString> {
    let set = command.get_envs().find(|(key, _)| *key == name);
    set.map_or_else(|| env::var_os(name), |(_, value)| value.map(OsStr::to_owned))
}

/// How many processors a program would have that came now, if all wanted as many.
fn share(socket: &Path) -> Result<u32, ConnectError> {
    let status = status::of_manager(socket)?;
    let own = process::current_pid().0;
    let silent = status.silent.iter().filter(|pid| **pid != own).count();
    let others = status.program_count.saturating_add(u32::try_from(silent).unwrap_or(u32::MAX));
    Ok((status.processor_count / others.saturating_add(1)).max(1))
}
