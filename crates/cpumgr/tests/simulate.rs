//! `cpumgr simulate` as a command: the papers' workloads, formats, bad files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cpumgr::simulate::paraver::{Trace, validate};
use cpumgr::simulate::read;
use policies::{Needs, Registry};

fn workloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

fn simulate(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_cpumgr")).arg("simulate").args(arguments).output();
    output.expect("cpumgr can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("cpumgr prints UTF-8")
}

#[test]
fn every_workload_of_the_papers_can_be_read() {
    let registry = Registry::with_builtin_for(Needs::EVERYTHING);
    let mut number = 0;
    for entry in fs::read_dir(workloads()).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            read(&path, &registry).unwrap_or_else(|error| panic!("{error}"));
            number += 1;
        }
    }
    assert!(number >= 11, "{number} workloads");
}

#[test]
fn pdpa_gains_three_times_on_swim_and_apsi_and_on_ltomcatv() {
    for file in ["p2-table3.toml", "p2-table5.toml"] {
        let path = workloads().join(file);
        let output = simulate(&[path.to_str().unwrap(), "--json", "--policy", "none", "--policy", "pdpa"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let makespan = |run: usize| report["runs"][run]["measures"]["makespan_s"].as_f64().expect("it is a number");
        assert!(makespan(0) >= 3.0 * makespan(1), "{file}: {} and {}", makespan(0), makespan(1));
    }
}

#[test]
fn traces_and_pictures_are_written_and_sound() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let workload = workloads().join("p2-table2.toml");
    for policy in ["vtq-dss", "none"] {
        let [prv, svg] = [at("run.prv"), at("run.svg")];
        let output = simulate(&[workload.to_str().unwrap(), "--policy", policy, "--prv", &prv, "--svg", &svg, "--csv"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let load = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let trace = Trace { prv: load("run.prv"), pcf: load("run.pcf"), row: load("run.row") };
        let totals = validate(&trace).unwrap_or_else(|error| panic!("{policy}: {error}"));
        assert_eq!(totals.by_application.len(), text(&output.stdout).lines().count() - 1, "one per execution");
        let picture = load("run.svg");
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{policy}");
    }
}

#[test]
fn what_is_wrong_is_said_with_file_and_line_and_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.toml");
    let good = fs::read_to_string(workloads().join("p2-table5.toml")).unwrap();
    fs::write(&file, good.replace("processors = 64", "processors = 0")).unwrap();
    let line = good.lines().position(|line| line == "processors = 64").unwrap() + 1;
    let output = simulate(&[file.to_str().unwrap()]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("bad.toml:{line}: machine.processors: 0")), "{error}");
    assert!(error.contains("from 1 to 4096"), "{error}");

    fs::write(&file, good).unwrap();
    for (arguments, has) in [
        (&["--policy", "fair"][..], "dss-ts"),
        (&["--policy", "all", "--svg", "x"], "one policy"),
        (&["--copies", "100000000"], "--copies"),
    ] {
        let output = simulate(&[&[file.to_str().unwrap()], arguments].concat());
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(has), "{error}");
    }
    // What never ends, and what is no text.
    fs::write(&file, b"name = \"x\"\n\xff").unwrap();
    for (path, says) in
        [("/dev/zero", "/dev/zero:1: it is too long"), (file.to_str().unwrap(), "bad.toml:2: bytes that are no text")]
    {
        let output = simulate(&[path]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(says), "{error}");
    }
    let output = simulate(&["/nowhere/at/all.toml"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("/nowhere/at/all.toml"));
}
