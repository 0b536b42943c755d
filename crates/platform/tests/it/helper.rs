//! A second process for tests: this test program run again with one test that does the helper's
//! part, and is ignored otherwise.

use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Between fork and exec a new process holds copies of all our descriptors, so that what we close
/// then stays open for a moment. Starts are the writers.
static STARTS: RwLock<()> = RwLock::new(());

/// While the guard lives no helper is started: what a test closes is closed.
pub(crate) fn hold_starts() -> RwLockReadGuard<'static, ()> {
    // A test that panicked with the guard has broken nothing: there is no data.
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// While the guard lives a child may have copies of our descriptors: nothing is closed by a test
/// that counts on it.
pub(crate) fn exclusive() -> RwLockWriteGuard<'static, ()> {
    STARTS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Starts `test` (its full name) in a child that finds `argument` in `PLATFORM_HELPER`. The child
/// has a pipe as standard input, and ends when that is closed if its part says so.
pub(crate) fn start(test: &str, argument: &str) -> Child {
    let _exclusive = exclusive();
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"])
        .env("PLATFORM_HELPER", argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The helper's argument; `None` in an ordinary test run, where the helper's part has nothing to
/// do.
pub(crate) fn argument() -> Option<String> {
    std::env::var("PLATFORM_HELPER").ok()
}

/// Waits until the parent closes our standard input, or dies.
pub(crate) fn wait_for_parent() {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}
