//! `cpumgr numa` and `cpumgr run --placement`. What needs several nodes runs in the guest of
//! `cargo xtask vm numa`.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Names the program of `c/places.c` where there is no compiler, and the drop-in library's folder.
const PLACES: &str = "CPUMGR_TEST_PLACES";
const SHIM: &str = "NANOS_TEST_SHIM";
/// With this variable a machine with one node is a failure.
const REQUIRED: &str = "NANOS_NUMA_REQUIRED";
/// With this one each check of several nodes has a fault, and is to be seen failing.
const PLANTED: &str = "NANOS_NUMA_PLANTED";
/// Pages of that program.
const PAGES: usize = 1024;

fn cpumgr(arguments: &[&str]) -> Output {
    support::cpumgr().args(arguments).output().unwrap()
}

fn is_planted() -> bool {
    std::env::var_os(PLANTED).is_some()
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
    // Nodes where it has nothing are left out.
    assert!(table.contains("node ") && table.contains("remote: "), "{table}");
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
    support::cpumgr().arg("run").args(arguments).env("NANOS_CPUMGR", "off").output().unwrap()
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

/// How many nodes have memory, and the program, where there are several.
struct Several {
    nodes: usize,
    program: PathBuf,
    shim: PathBuf,
    _folder: tempfile::TempDir,
}

impl Several {
    fn find() -> Option<Self> {
        let list = std::fs::read_to_string("/sys/devices/system/node/has_memory");
        let nodes = match list.unwrap_or_default().trim().split_once('-') {
            Some(("0", last)) => last.parse::<usize>().unwrap() + 1,
            _ => 1,
        };
        if nodes < 2 {
            assert!(std::env::var_os(REQUIRED).is_none(), "this machine has one memory node");
            platform::skip!("this machine has not several memory nodes in one row");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let shipped = || Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("shim");
        let shim = std::env::var_os(SHIM).map_or_else(shipped, PathBuf::from);
        let program = match std::env::var_os(PLACES) {
            Some(named) => named.into(),
            None => {
                let program = folder.path().join("places");
                let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/places.c");
                let mut gcc = Command::new("gcc");
                gcc.args(["-O1", "-fopenmp"]).arg(source).arg("-o").arg(&program);
                if !gcc.status().is_ok_and(|status| status.success()) {
                    platform::skip!("no gcc here");
                    return None;
                }
                program
            }
        };
        Some(Self { nodes, program, shim, _folder: folder })
    }

    /// The program under `cpumgr run`, with so many steps.
    fn command(&self, options: &[&str], steps: &str) -> Command {
        let mut command = support::cpumgr();
        command.env("NANOS_CPUMGR", "off").arg("run").arg("--lib").arg(&self.shim);
        // A placement that does nothing.
        let options = if is_planted() { &[] } else { options };
        command.args(options).arg(&self.program).arg(steps).env("OMP_NUM_THREADS", "4");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// How many of its pages are on each node, how many in turns, and what was said besides.
    fn places(&self, options: &[&str], steps: &str) -> (Vec<usize>, usize, String) {
        let output = self.command(options, steps).stdin(Stdio::null()).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{options:?}: {}: {out}{err}", output.status);
        let (on, turns) = counts(&out, self.nodes);
        (on, turns, err)
    }
}

fn counts(line: &str, nodes: usize) -> (Vec<usize>, usize) {
    let (on, turns) = line.trim().split_once(" turns ").unwrap();
    let mut on: Vec<usize> = on.split(' ').map(|count| count.parse().unwrap()).collect();
    on.resize(nodes, 0);
    (on, turns.parse().unwrap())
}

#[test]
fn each_placement_puts_the_pages_of_a_program_that_is_not_changed_where_it_says() {
    let Some(several) = Several::find() else { return };
    let nodes = several.nodes;
    let alone = |node: usize| -> Vec<usize> {
        (0..nodes).map(|other| PAGES * usize::from(other == node)).collect()
    };
    let on = |scheme: &str, more: &[&str], steps: &str| {
        let (on, turns, err) = several.places(&[&["--placement", scheme], more].concat(), steps);
        println!("{scheme}: {on:?}, {turns} in turns {err}");
        assert_eq!(err, "", "{scheme}");
        (on, turns)
    };
    let cpus = platform::topology::Topology::read().unwrap().node_cpus(1).to_string();
    let last = nodes - 1;
    assert_eq!(on(&format!("worst-case:{last}"), &[], "0").0, alone(last));
    assert_eq!(on("worst-case", &["--cpus", &cpus], "0").0, alone(0));
    assert_eq!(on("first-touch", &["--cpus", &cpus], "0").0, alone(1));
    // What the program has besides takes turns, too.
    let mean = PAGES / nodes;
    let is_even = |on: &[usize], most: usize| on.iter().all(|count| count.abs_diff(mean) <= most);
    let (round, turns) = on("round-robin", &[], "0");
    assert!(is_even(&round, mean / 8) && turns > PAGES * 9 / 10, "{round:?}, {turns}");
    let (random, turns) = on("random:7", &[], "40");
    assert!(is_even(&random, mean / 3), "{random:?}");
    assert!(turns < PAGES / nodes * 3 / 2, "{turns} pages follow in turn: nothing is random");
    assert_eq!(on("random:7", &[], "40").0, random, "a seed makes it the same");
}

#[test]
fn a_random_placement_that_cannot_be_is_an_error_and_one_that_did_nothing_is_said() {
    let Some(several) = Several::find() else { return };
    let (on, turns, err) = several.places(&["--placement", "random"], "1");
    assert!(turns > PAGES * 9 / 10, "{on:?}, {turns}");
    assert!(err.contains("UPM_PLACEMENT: random: no outer loop was found; pages took"), "{err}");
    let absent = run(&["--placement", "random", "--lib", "/absent", "sh", "-c", "echo ran"]);
    assert_eq!((absent.status.code(), text(&absent.stdout)), (Some(2), String::new()));
    let said = text(&absent.stderr);
    assert!(said.contains("--placement random: ") && said.contains("choose round-robin"), "{said}");
    let named = several.shim.to_str().unwrap();
    let never = ["--placement", "random", "--lib", named, "--preload", "never"];
    // It names no OpenMP library: by itself it would not load ours.
    let own = std::env::current_exe().unwrap();
    let output = run(&[&never[..], &[own.to_str().unwrap(), "--list"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// One that runs until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn pages_of_a_program_on_several_nodes_are_shown_with_their_policy() {
    let Some(several) = Several::find() else { return };
    for (scheme, policy) in [("worst-case:1", "prefer"), ("round-robin", "interleave:")] {
        let mut child = Running(several.command(&["--placement", scheme], "0").spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (own, _) = counts(&line, several.nodes);
        let pid = child.0.id().to_string();
        let output = cpumgr(&["numa", &pid, "--json", "--seconds", "0"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let kib = |map: &serde_json::Value, node: usize| {
            map.get(node.to_string()).map_or(0, |kib| kib.as_u64().unwrap())
        };
        let areas = report["areas"].as_array().unwrap();
        let is_its = |area: &&serde_json::Value| {
            (0..several.nodes).map(|node| kib(&area["kib"], node)).sum::<u64>() >= 4 * PAGES as u64
        };
        let area = areas.iter().find(is_its).unwrap_or_else(|| panic!("{report}"));
        let shown = area["policy"].as_str().unwrap();
        assert!(shown.starts_with(policy), "{scheme}: {area}");
        for (node, pages) in own.iter().enumerate() {
            // An area has the program's other static data, too, which may be in huge pages.
            let (shown, pages) = (kib(&area["kib"], node), 4 * *pages as u64);
            assert!((pages..pages + 2 * 2048).contains(&shown), "{scheme}: node {node}: {area}");
            assert!(kib(&report["nodes"], node) >= shown, "{report}");
        }
        let table = text(&cpumgr(&["numa", &pid, "--seconds", "0"]).stdout);
        assert!(table.contains(shown) && table.contains("node 1"), "{table}");
    }
}
