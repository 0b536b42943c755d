//! What is kept of programs beyond their end and their manager's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{Manager, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn on(manager: &Manager, words: &[&str]) -> Output {
    cpumgr().args(words).arg("--socket").arg(manager.socket()).output().unwrap()
}

fn rows(manager: &Manager, words: &[&str]) -> Vec<Value> {
    let output = on(manager, &[&["history", "--json"], words].concat());
    assert!(output.status.success(), "{}", errors(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["schema"], &document["kind"]), (&1.into(), &"history".into()));
    document["rows"].as_array().unwrap().clone()
}

/// A manager that keeps a history in a folder of its own.
fn start(state: &Path) -> Manager {
    let file = state.join("history.redb");
    Manager::start(&["--policy", "equip", "--history", file.to_str().unwrap()])
}

#[test]
fn a_program_is_accounted_for_after_its_end_and_the_managers() {
    let state = tempfile::tempdir().unwrap();
    let mut manager = start(state.path());
    let mut program = manager.program(2, 2);
    let pid = program.pid();
    program.ask("spinners 2");
    let running = eventually("it used a tenth of a second", || {
        let row = rows(&manager, &["--each"]).into_iter().find(|row| row["pid"] == pid)?;
        (row["used_ns"].as_u64()? > 100_000_000).then_some(row)
    });
    assert_eq!((&running["state"], &running["runs"]), (&"runs".into(), &1.into()));
    assert_eq!(running["user"], nix::unistd::geteuid().as_raw());
    assert!(running["granted_ns"].as_u64() >= Some(50_000_000), "{running}");
    program.kill();
    let ended = eventually("its end is known", || {
        let row = rows(&manager, &["--each"]).into_iter().find(|row| row["pid"] == pid)?;
        (row["state"] == "ended").then_some(row)
    });
    assert!(ended["used_ns"].as_u64() >= running["used_ns"].as_u64(), "{ended}");

    assert_eq!(rows(&manager, &["--user", "4000000000"]).len(), 0);
    assert_eq!(rows(&manager, &["--program", "no-such-program"]).len(), 0);
    assert_eq!(rows(&manager, &["--since", "1h"]).len(), 1);
    let unknown = on(&manager, &["history", "--user", "no-such-user"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(errors(&unknown).contains("no-such-user"), "{}", errors(&unknown));

    let table = String::from_utf8(on(&manager, &["history"]).stdout).unwrap();
    assert!(table.starts_with("user ") && table.lines().count() == 2, "{table}");
    manager.signal(nix::libc::SIGTERM);
    manager.wait();
    let file = state.path().join("history.redb");
    manager.start_again(&["--history", file.to_str().unwrap()]);
    let total = &rows(&manager, &[])[0];
    assert_eq!((&total["runs"], &total["used_ns"]), (&1.into(), &ended["used_ns"]));
}

#[test]
fn a_manager_that_is_killed_at_any_moment_leaves_a_history_that_is_read() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("history.redb");
    let mut manager = start(state.path());
    let mut known = 0;
    for round in 0..8 {
        let program = manager.program(1, 1);
        let pid = program.pid();
        eventually("it is noted", || {
            rows(&manager, &["--each"]).into_iter().find(|row| row["pid"] == pid)
        });
        program.kill();
        // Another moment each time: runs that ended are written a second later, while others come.
        let until = std::time::Instant::now() + std::time::Duration::from_millis(180 * round);
        while std::time::Instant::now() < until {
            manager.program(1, 1).kill();
        }
        manager.kill();
        manager.start_again(&["--history", file.to_str().unwrap()]);
        let document = on(&manager, &["history", "--json"]);
        let document: Value = serde_json::from_slice(&document.stdout).unwrap();
        assert_eq!(document["fault"], Value::Null);
        let runs: u64 = rows(&manager, &[]).iter().map(|row| row["runs"].as_u64().unwrap()).sum();
        assert!(runs >= known, "{runs} of {known} are left");
        known = runs;
    }
    assert!(known > 0, "nothing was ever written");
    let files: Vec<_> = std::fs::read_dir(state.path()).unwrap().flatten().collect();
    assert_eq!(files.len(), 1, "none was broken: {files:?}");
}

#[test]
fn a_full_disk_costs_the_history_and_is_told_once() {
    let state = tempfile::tempdir().unwrap();
    let manager = start(state.path());
    assert_eq!(rows(&manager, &[]).len(), 0);
    let mut program = manager.program(1, 1);
    let first = manager.program(1, 1);
    let written = u64::from(first.pid());
    first.kill();
    eventually("its end is written", || {
        let bytes = std::fs::read(state.path().join("history.redb")).ok()?;
        let text = format!("\"pid\":{written},\"state\":\"ended\"");
        bytes.windows(text.len()).any(|it| it == text.as_bytes()).then_some(())
    });
    let others: Vec<_> = (0..3).map(|_| manager.program(1, 1)).collect();
    // No file of its may grow from now on (nor memory that a newcomer would share with it).
    if !cannot_write(&manager) {
        return platform::skip!("no prlimit here");
    }
    for other in others {
        other.kill();
        eventually("it is seen that it cannot be written", || {
            let document = on(&manager, &["history", "--json"]);
            let document: Value = serde_json::from_slice(&document.stdout).unwrap();
            document["fault"].as_str().map(str::to_owned)
        });
    }
    assert!(program.seen().alive && manager.status().programs.len() == 1);
    // Told once: the log is such a file itself, so what was told before the limit is all of it.
    assert!(manager.log().matches("the history is not written").count() <= 1);
    let told = rows(&manager, &["--each"]);
    let has = |pid: u64| told.iter().any(|row| row["pid"] == pid);
    assert!(has(written), "what is in the file: {told:?}");
    assert!(told.len() >= 4 && has(u64::from(program.pid())), "what is not written: {told:?}");
}

/// The sizes of all files that the manager writes have a limit from now on: false where that cannot
/// be said.
fn cannot_write(manager: &Manager) -> bool {
    let pid = manager.pid().to_string();
    let set = std::process::Command::new("prlimit").args(["--pid", &pid, "--fsize=1"]).status();
    set.is_ok_and(|status| status.success())
}

#[test]
fn a_manager_that_keeps_none_says_so() {
    let manager = Manager::start(&[]);
    let output = on(&manager, &["history"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(errors(&output).contains("keeps no history"), "{}", errors(&output));
}
