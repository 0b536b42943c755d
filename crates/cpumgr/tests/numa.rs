//! `cpumgr numa` and `cpumgr run --placement`.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

use std::process::{Command, Output, Stdio};

fn cpumgr(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cpumgr")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn pages_of_a_process_are_shown_by_node_and_the_sum_is_that_of_the_areas() {
    let pid = std::process::id().to_string();
    let output = cpumgr(&["numa", &pid, "--json", "--seconds", "0"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sum = |map: &serde_json::Value| {
        map.as_object().unwrap().values().map(|kib| kib.as_u64().unwrap()).sum::<u64>()
    };
    let areas = report["areas"].as_array().unwrap();
    assert!(sum(&report["nodes"]) > 100);
    assert_eq!(areas.iter().map(|area| sum(&area["kib"])).sum::<u64>(), sum(&report["nodes"]));
    // One of the two.
    assert!(report["remote_percent"].is_null() != report["remote_unknown"].is_null());
    let table = text(&cpumgr(&["numa", &pid, "--seconds", "0"]).stdout);
    assert!(table.contains("node 0") && table.contains("remote: "), "{table}");
}

#[test]
fn a_process_that_is_not_there_is_a_clear_error() {
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    child.wait().unwrap();
    let output = cpumgr(&["numa", &pid]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(&format!("there is no process {pid}")));
}

#[test]
fn a_process_that_is_dead_but_not_gone_is_a_clear_error() {
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    // Waits for its end and leaves it a zombie.
    let id = nix::sys::wait::Id::Pid(nix::unistd::Pid::from_raw(pid.parse().unwrap()));
    let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
    nix::sys::wait::waitid(id, flags).unwrap();
    let output = cpumgr(&["numa", &pid]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(!output.stderr.is_empty());
    child.wait().unwrap();
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cpumgr"))
        .arg("run")
        .args(arguments)
        .env("NANOS_CPUMGR", "off")
        .output()
        .unwrap()
}

#[test]
fn a_placement_on_one_node_is_said_and_the_program_runs_and_is_told_of_it() {
    if platform::topology::Topology::read().unwrap().nodes() > 1 {
        return platform::skip!("this machine has several nodes");
    }
    for scheme in ["first-touch", "round-robin", "random:3", "worst-case", "worst-case:0"] {
        let output = run(&["--placement", scheme, "sh", "-c", "echo $UPM_PLACEMENT"]);
        assert!(output.status.success());
        assert_eq!(text(&output.stdout), format!("{scheme}\n"));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("--placement {scheme}: this machine has one")), "{said}");
    }
}

#[test]
fn a_placement_that_cannot_be_is_refused_before_the_program_runs() {
    for (scheme, why) in [
        ("worst-case:63", "node 63 has no memory; choose one that has: 0"),
        ("worst-case:64", "a node below 64"),
        ("scattered", "it is first-touch, round-robin, random"),
    ] {
        let output = run(&["--placement", scheme, "echo", "ran"]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}
