//! Real managers and real programs for the end-to-end tests.
//!
//! A program is this test binary run again (`acts_as_a_program`): it obeys commands on its standard
//! input and answers on its standard output. Every manager has a socket of its own in a temporary
//! directory, and is gone, with its socket file, when its test ends.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of this")]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use arena::message::{self, Register, ToManager};
use platform::affinity::CpuSet;

mod actor;
mod before;
mod compiled;
mod copy;
mod crew;
mod latency;
mod leaks;
mod manager;
mod others;
mod program;
mod reuse;
mod scribble;
mod streams;
mod times;

pub(crate) use actor::act_as_a_program;
pub(crate) use before::Before;
pub(crate) use compiled::Compiled;
pub(crate) use copy::{copy_program, lengthen_program, write_script};
pub(crate) use latency::{End, Releases, Times, bare_squeeze, chain};
pub(crate) use manager::{ANSWERS_WITHIN, CPUMGR, EndManagers, Manager, cpumgr, processes_of};
pub(crate) use others::{eventually_alone, is_low};
pub(crate) use program::{Program, Seen};

/// How long anything may take on a busy machine; on an emulated one as `cargo xtask vm` says, which
/// builds for it.
pub(crate) const PATIENCE: Duration =
    Duration::from_secs(seconds(option_env!("NANOS_TEST_PATIENCE")));

const fn seconds(said: Option<&str>) -> u64 {
    let Some(said) = said else { return 20 };
    match u64::from_str_radix(said, 10) {
        Ok(seconds) => seconds,
        Err(_) => panic!("NANOS_TEST_PATIENCE is a number of seconds"),
    }
}

/// Looks until something is so.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processors of this process, or a printed reason why a test cannot run.
pub(crate) fn two_processors() -> Option<String> {
    let mask = platform::affinity::affinity(None).unwrap();
    if mask.len() < 2 {
        platform::skip!("needs two processors, this process may use {mask}");
        return None;
    }
    Some(mask.iter().take(2).collect::<CpuSet>().to_string())
}

/// What a finished command said on standard error.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A registration as a packet.
pub(crate) fn register_packet(layout: u32) -> Vec<u8> {
    let register = Register {
        layout,
        max_processors: 2,
        request: 2,
        fixed_team: false,
        broker: false,
        library: "raw".into(),
        held: None,
        within: None,
    };
    message::encode(&ToManager::Register(register)).unwrap()
}

/// A bare connection to a manager.
pub(crate) fn connection(socket: &Path) -> OwnedFd {
    platform::fdpass::connect(socket, PATIENCE).unwrap()
}
