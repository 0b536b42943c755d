//! A policy from outside the workspace's crates, in the shipped daemon and in the simulator.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::EndManagers;

/// The example, where cargo puts it beside the program. `cargo test --test custom_policy` alone
/// does not build it.
fn example() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_cpumgr")).parent()?.join("examples/custom_policy");
    if !program.exists() {
        platform::skip!("{} is not built; run all tests of the package", program.display());
        return None;
    }
    Some(program)
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().expect("the program can be started")
}

#[test]
fn the_shipped_daemon_runs_a_policy_that_it_does_not_know_of() {
    let Some(program) = example() else { return };
    let dir = tempfile::tempdir().unwrap();
    let _end = EndManagers(dir.path());
    let socket = dir.path().join("m/app.sock");
    let socket = socket.to_str().unwrap();
    let started = run(
        &program,
        &[
            "daemon",
            "--background",
            "--idle-exit",
            "never",
            "--socket",
            socket,
            "--policy",
            "halves",
            "--strangers",
            "ignore",
        ],
    );
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let policy = || {
        let output = run(&program, &["status", "--socket", socket, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        report["policy"].as_str().map(str::to_owned)
    };
    assert_eq!(policy().as_deref(), Some("halves"));
    // Another one takes over, and it again.
    for name in ["equip", "halves"] {
        let output = run(&program, &["policy", "--socket", socket, name]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(policy().as_deref(), Some(name));
    }
    // The program as shipped has no such policy.
    let shipped = run(
        Path::new(env!("CARGO_BIN_EXE_cpumgr")),
        &["daemon", "--socket", socket, "--policy", "halves"],
    );
    assert_eq!(shipped.status.code(), Some(2));
}

#[test]
fn the_simulator_runs_it_too() {
    let Some(program) = example() else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/p0-bt.toml");
    let output =
        run(&program, &["simulate", file.to_str().unwrap(), "--copies", "2", "--policy", "halves"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("policy halves"));
}
