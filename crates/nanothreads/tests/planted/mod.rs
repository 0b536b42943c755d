//! How the loom models are explored, and how their twins with planted bugs are refuted.

use loom::model::Builder;
use std::process::Command;

/// Explores all executions of `body` with up to three preemptions.
pub(crate) fn explore(body: impl Fn() + Sync + Send + 'static) {
    explore_within(3, body);
}

/// Explores all executions of `body` with up to `preemptions`: fewer than three for a model that is too large.
pub(crate) fn explore_within(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Asserts that loom finds something wrong with the planted bug in `body`, the model of test `name`. It runs in a
/// process of its own, because loom's objects panic again while a failed model is unwound.
pub(crate) fn is_refuted(name: &str, body: impl Fn() + Sync + Send + 'static) {
    const PLANTED: &str = "LOOM_PLANTED";
    if std::env::var_os(PLANTED).is_some() {
        explore(body);
        return;
    }
    let test = std::env::current_exe().expect("the path of this test");
    let mut twin = Command::new(test);
    twin.args([name, "--exact"]).env(PLANTED, "1").env("RUST_BACKTRACE", "0");
    let output = twin.output().expect("this test can be run again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("running 1 test"), "{name} was not run:\n{text}");
    assert!(!output.status.success(), "loom did not find the bug planted in {name}");
}
