//! The manager's program for tests that show several programs under it.

use platform::affinity::{CpuSet, affinity};
use std::path::PathBuf;

/// Names the manager's program where that is not in the folder of this one: in the guest of
/// `cargo xtask vm smp`.
const ELSEWHERE: &str = "CPUMGR_TEST_MANAGER";

/// The processors of this process and the manager's program; `None`, with a printed reason, where
/// there are less than three, or there is no such program.
pub(crate) fn found() -> Option<(CpuSet, PathBuf)> {
    let mask = affinity(None).expect("the kernel tells a process its mask");
    if mask.len() < 3 {
        platform::skip!("needs three processors, this process may use {mask}");
        return None;
    }
    // Beside the folder of the tests.
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("cpumgr"));
    let program = std::env::var_os(ELSEWHERE).map(PathBuf::from).or_else(beside)?;
    if !program.exists() {
        platform::skip!("no {} (cargo build -p cpumgr)", program.display());
        return None;
    }
    Some((mask, program))
}
