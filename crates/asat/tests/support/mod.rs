//! Processes for tests: which sizer a program has is settled once, so each test that installs one
//! starts this test program again for itself.
#![allow(dead_code, reason = "each test program uses a part of this")]

use engine::{Member, Team};
use std::io::Write;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names the test whose process this is.
const VARIABLE: &str = "NANOS_TEST_PROCESS";

/// True in the process in which the body of `test` is to run, which has these `variables`.
/// Elsewhere it has run when this returns, and ended well. One process at a time: others would be
/// load.
pub(crate) fn is_own_process(test: &str, variables: &[(&str, &str)]) -> bool {
    if let Ok(own) = std::env::var(VARIABLE) {
        assert_eq!(own, test, "{VARIABLE}: this process is another test's");
        return true;
    }
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(VARIABLE, test);
    let output = command.envs(variables.iter().copied()).output().expect("it runs again");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    // Past the harness, as a reason to skip was written.
    std::io::stderr().write_all(&output.stderr).expect("standard error");
    assert!(output.status.success(), "{test}, in its own process: {}", output.status);
    false
}

/// Some 200 us of work for each member.
///
/// # Safety
/// - Needs nothing.
unsafe fn work(_: *const (), _: Member) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
}

/// Forks regions of the size that is granted until `is_enough` says so of that size, or the time is
/// over. Returns how long that took.
pub(crate) fn until(
    most: usize,
    limit: Duration,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Option<Duration> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        let size = engine::grant_for(most);
        assert!((1..=most).contains(&size));
        // SAFETY: - takes no data, and does not unwind.
        unsafe { Team::reserve(size).run(work, std::ptr::null()) };
        if is_enough(size) {
            return Some(begin.elapsed());
        }
    }
    None
}

/// Evaluations so far: with evidence, and without.
pub(crate) fn evaluations() -> (u64, u64) {
    asat::statistics().map_or((0, 0), |statistics| (statistics.evaluations, statistics.blind))
}
