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
    let output =
        Command::new(env!("CARGO_BIN_EXE_cpumgr")).arg("simulate").args(arguments).output();
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
        let output =
            simulate(&[path.to_str().unwrap(), "--json", "--policy", "none", "--policy", "pdpa"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let makespan = |run: usize| {
            report["runs"][run]["measures"]["makespan_s"].as_f64().expect("it is a number")
        };
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
        let output = simulate(&[
            workload.to_str().unwrap(),
            "--policy",
            policy,
            "--prv",
            &prv,
            "--svg",
            &svg,
            "--csv",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let load = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let trace = Trace { prv: load("run.prv"), pcf: load("run.pcf"), row: load("run.row") };
        let totals = validate(&trace).unwrap_or_else(|error| panic!("{policy}: {error}"));
        assert_eq!(
            totals.by_application.len(),
            text(&output.stdout).lines().count() - 1,
            "one per execution"
        );
        let picture = load("run.svg");
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{policy}");
    }
}

#[test]
fn outputs_that_would_overwrite_each_other_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("w.toml");
    fs::copy(workloads().join("p2-table5.toml"), &file).unwrap();
    let before = fs::read(&file).unwrap();
    std::os::unix::fs::symlink("t.row", dir.path().join("link")).unwrap();
    fs::write(dir.path().join("t.row"), "").unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for arguments in [
        vec!["--prv".to_owned(), at("t.pcf")],
        vec!["--prv".to_owned(), at("t.row")],
        vec!["--prv".to_owned(), at("t.prv"), "--svg".to_owned(), at("./t.pcf")],
        vec!["--prv".to_owned(), at("t.prv"), "--svg".to_owned(), at("t.prv")],
        vec!["--prv".to_owned(), at("t.prv"), "--svg".to_owned(), at("link")],
        vec!["--svg".to_owned(), at("w.toml")],
    ] {
        let given: Vec<&str> = [file.to_str().unwrap()]
            .into_iter()
            .chain(arguments.iter().map(String::as_str))
            .collect();
        let output = simulate(&given);
        let error = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && error.contains("both the "),
            "{arguments:?}: {error}"
        );
        assert!(
            !dir.path().join("t.prv").exists() && fs::read(&file).unwrap() == before,
            "{arguments:?}"
        );
    }
}

#[test]
fn all_policies_are_all_whatever_is_named_beside() {
    let file = workloads().join("p0-bt.toml");
    let output = simulate(&[file.to_str().unwrap(), "--policy", "none", "--policy", "all"]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        table.matches("\npolicy ").count(),
        Registry::with_builtin_for(Needs::EVERYTHING).names().len()
    );
}

#[test]
fn policies_are_compared_a_line_each() {
    let file = workloads().join("p2-table2.toml");
    let compare = |arguments: &[&str]| {
        let output = simulate(&[&[file.to_str().unwrap(), "--compare"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let two = compare(&["--policy", "dss", "--policy", "rr"]);
    let lines: Vec<&str> = two.lines().collect();
    assert_eq!(lines.len(), 5, "{two}");
    let columns = |line: &str| line.split_whitespace().count();
    // Two of the heads are "wait p50" and "used %".
    assert_eq!((columns(lines[2]), columns(lines[3])), (14, 12), "{two}");
    assert!(lines[3].starts_with("dss ") && lines[4].starts_with("rr "), "the best first: {two}");
    let numbers: Vec<f64> =
        lines[3].split_whitespace().skip(2).map(|it| it.parse().unwrap()).collect();
    assert!(numbers[0] <= numbers[1] && numbers[1] <= numbers[2], "p50, p95, p99: {two}");
    let all = compare(&[]);
    assert_eq!(
        all.lines().count(),
        3 + Registry::with_builtin_for(Needs::EVERYTHING).names().len()
    );
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

    let many = good.replacen("copies = 9", "repetitions = 1000, copies = 9", 1);
    assert_ne!(many, good);
    fs::write(&file, many).unwrap();
    for (arguments, has) in [
        (&["--policy", "just"][..], "dss-ts"),
        (&["--policy", "all", "--svg", "x"], "one policy"),
        (&["--policy", "all", "--policy", "just", "--svg", "x"], "one policy"),
        (&["--copies", "100000000"], "--copies"),
        // It is within the option's range, and more than the simulator runs.
        (&["--copies", "1024"], "--copies 1024: jobs[0].copies: "),
    ] {
        let output = simulate(&[&[file.to_str().unwrap()], arguments].concat());
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(has), "{error}");
    }
    // A third number, which would be left out without a word.
    for (from, to, key) in [
        ("processors = 64\n", "processors = 64\nspeeds = [[64, 1.0, 0.5]]\n", "speeds"),
        ("processors = 64\n", "processors = 64\nspeeds = [[64]]\n", "speeds"),
    ] {
        let bad = good.replacen(from, to, 1);
        let line = bad.lines().position(|line| line.starts_with(key)).unwrap() + 1;
        fs::write(&file, bad).unwrap();
        let output = simulate(&[file.to_str().unwrap()]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("two numbers"), "{error}");
        assert!(error.contains(&format!("bad.toml:{line}: ")), "{error}");
    }
    // What never ends, and what is no text.
    fs::write(&file, b"name = \"x\"\n\xff").unwrap();
    for (path, says) in [
        ("/dev/zero", "cannot read /dev/zero: it is no regular file"),
        (file.to_str().unwrap(), "bad.toml:2: bytes that are no text"),
    ] {
        let output = simulate(&[path]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(says), "{error}");
    }
    // A pipe to which no process writes.
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let output = simulate(&[pipe.to_str().unwrap()]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("no regular file"));
    let output = simulate(&["/nowhere/at/all.toml"]);
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("/nowhere/at/all.toml")
    );
}

#[test]
fn a_dash_is_standard_output_for_one_picture_and_no_file() {
    let dir = tempfile::tempdir().expect("there is room");
    let workload = fs::canonicalize(workloads().join("p2-table2.toml")).expect("it is there");
    let within = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_cpumgr"))
            .current_dir(dir.path())
            .args(arguments)
            .output()
            .expect("cpumgr can be started")
    };
    let workload = workload.to_str().expect("it is text");
    let output = within(&["simulate", workload, "--svg", "-"]);
    let picture = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture:.200}");
    for arguments in [
        &["simulate", workload, "--svg", "-", "--json"][..],
        &["simulate", workload, "--svg", "-", "--csv"],
        &["simulate", workload, "--svg", "-", "--compare", "--policy", "dss"],
        &["simulate", workload, "--prv", "-"],
        &["trace", "convert", "trace", "--prv", "-"],
        &["trace", "start", "-"],
    ] {
        let output = within(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains("standard output"), "{arguments:?}: {error}");
    }
    let trace = r#"{"t_ns":1000,"event":"start","pid":1,"name":"cpumgr","cpus":[0],"shared":false}
{"t_ns":2000,"event":"arrival","pid":7,"name":"solver","cpus":[],"shared":false}
{"t_ns":2000,"event":"allocation","pid":7,"name":"solver","cpus":[0],"shared":false}
{"t_ns":9000,"event":"exit","pid":7,"name":"solver","cpus":[],"shared":false}
{"t_ns":10000,"event":"stop","pid":1,"name":"cpumgr","cpus":[0],"shared":false}
"#;
    fs::write(dir.path().join("trace"), trace).expect("there is room");
    let output = within(&["trace", "convert", "trace", "--perfetto", "-"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let events: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(events.to_string().contains("solver"), "{events}");
    assert!(!dir.path().join("-").exists());
}
