//! A second process for tests: this test program run again with one test that does the helper's part.

use std::process::{Child, Command, Stdio};

/// Starts `test` (its full name) in a child that finds `argument` in `PLATFORM_HELPER`. The child has a pipe as
/// standard input, and ends when that is closed if its part says so.
pub(crate) fn start(test: &str, argument: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("PLATFORM_HELPER", argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The helper's argument; `None` in an ordinary test run, where the helper's part has nothing to do.
pub(crate) fn argument() -> Option<String> {
    std::env::var("PLATFORM_HELPER").ok()
}

/// Waits until the parent closes our standard input, or dies.
pub(crate) fn wait_for_parent() {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}
