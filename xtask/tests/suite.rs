//! The suite as it is used: ended by Ctrl-C in the middle of a run, and gone on with.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A copy alone lasts about a second.
const SECONDS: &str = "1";
/// The runs that are asked for, in their order: one copy and two, twice. With its copies each.
const RUNS: [(&str, &str, usize); 4] =
    [("c/ep*1", "0", 1), ("c/ep*2", "0", 2), ("c/ep*1", "1", 1), ("c/ep*2", "1", 2)];
/// Suites that are begun at most. On a busy machine one may end before this test has a processor.
const SUITES: usize = 3;

/// Leaves the test out where what builds the programs is not here.
fn lacks_tools() -> bool {
    let is_here = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    let Some(tool) = ["make", "gcc", "gfortran"].iter().find(|tool| !is_here(tool)) else {
        return false;
    };
    let line = format!("skipped: needs {tool} [{}:{}]", file!(), line!());
    println!("{line}");
    if let Some(path) = std::env::var_os("NANOS_SKIPS") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
    true
}

/// A suite of four runs of EP, in a process group of its own as a shell gives it.
fn suite(record: &Path, resumes: bool) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["suite", "--programs", "c/ep", "--class", "S", "--seconds", SECONDS]);
    command.args(["--copies", "1,2", "--runtimes", "one", "--mixes", "none"]);
    command.args(["--repetitions", "2", "--record"]).arg(record);
    command.args(resumes.then_some("--resume")).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The command lines of the processes whose parent is this one.
fn children(parent: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        // A process may end while it is looked at.
        let of = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let status = String::from_utf8_lossy(&of("status")).into_owned();
        let own = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        if own.is_some_and(|own| own.trim() == parent.to_string()) {
            found.push(String::from_utf8_lossy(&of("cmdline")).replace('\0', " "));
        }
    }
    found
}

/// Sends a signal to a whole process group, as Ctrl-C does; 0 only asks for it. `false` where none
/// of it is left.
fn signal(group: u32, signal: libc::c_int) -> bool {
    // SAFETY: takes two numbers; callers pass the group of a child of theirs that has not been
    // waited for, or signal 0, which does nothing to it.
    unsafe { libc::kill(-group.cast_signed(), signal) == 0 }
}

/// Reads what the suite says until it told of a run, and returns when the copies of a later one
/// compute. `None`: it ended first.
fn until_a_later_run(child: &mut Child) -> Option<impl BufRead + use<>> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("0 c/ep*1") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended before a run did");
    }
    let suite = child.id();
    let copies = || children(suite).iter().filter(|line| line.contains("c/ep")).count();
    while copies() < 2 {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "it ended before its later runs: {status}");
            return None;
        }
        std::thread::yield_now();
    }
    Some(output)
}

/// The runs of a record, each with its copies; a row that is not whole is a failure.
fn runs(text: &str) -> BTreeSet<(String, String, usize)> {
    assert!(text.ends_with('\n'), "torn: {text}");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let place = |name: &str| header.iter().position(|field| field == name).unwrap();
    let [scenario, repetition, copy] = ["scenario", "repetition", "copy"].map(place);
    let outcome = place("outcome");
    let mut copies = BTreeSet::new();
    for row in reader.records() {
        let row = row.unwrap();
        // On a machine that is busy by then a copy may take longer than it may.
        assert!(["verified", "killed"].contains(&&row[outcome]), "{text}");
        let copy = (row[scenario].to_owned(), row[repetition].to_owned(), row[copy].to_owned());
        assert!(copies.insert(copy.clone()), "{copy:?} has two rows");
    }
    let of_run = |(scenario, repetition, _): &(String, String, String)| {
        (
            scenario.clone(),
            repetition.clone(),
            scenario.rsplit_once('*').unwrap().1.parse().unwrap(),
        )
    };
    let runs: BTreeSet<_> = copies.iter().map(of_run).collect();
    let all: usize = runs.iter().map(|(_, _, copies)| copies).sum();
    assert_eq!(copies.len(), all, "a run without some of its copies: {text}");
    runs
}

/// The first `count` of [`RUNS`], as [`runs`] gives them.
fn first_runs(count: usize) -> BTreeSet<(String, String, usize)> {
    let owned = |&(scenario, repetition, copies): &(&str, &str, usize)| {
        (scenario.to_owned(), repetition.to_owned(), copies)
    };
    RUNS[..count].iter().map(owned).collect()
}

/// Ends a suite in the middle of a run after the first, and returns its record's text; `None` where
/// it had ended by then.
fn interrupted(record: &Path) -> Option<String> {
    let mut child = suite(record, false).spawn().unwrap();
    // It goes on telling, so that the pipe stays open.
    let _output = until_a_later_run(&mut child)?;
    let group = child.id();
    assert!(signal(group, libc::SIGINT));
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!signal(group, 0), "a process of the suite is left");
    let text = std::fs::read_to_string(record).unwrap();
    if runs(&text).len() == RUNS.len() {
        return None;
    }
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted") && said.contains("--resume"), "{said}");
    Some(text)
}

#[test]
fn ctrl_c_leaves_whole_runs_and_the_next_suite_goes_on_after_them() {
    if lacks_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let found = (0..SUITES).find_map(|number| {
        let record = folder.path().join(format!("suite{number}.csv"));
        interrupted(&record).map(|text| (record, text))
    });
    let (record, before) = found.expect("a suite is ended before all of its runs are done");
    let done = runs(&before);
    assert!(!done.is_empty() && done.len() < RUNS.len(), "{before}");
    assert_eq!(done, first_runs(done.len()));

    let again = suite(&record, true).output().unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{said}{}", String::from_utf8_lossy(&again.stderr));
    for (scenario, repetition, _) in &done {
        let heading = format!("{repetition} {scenario} ");
        let runs_again = said.lines().any(|line| line.starts_with(&heading));
        assert!(!runs_again, "what was done ran again: {said}");
    }
    let after = std::fs::read_to_string(&record).unwrap();
    assert!(after.starts_with(&before), "what was measured was changed:\n{before}\n{after}");
    assert_eq!(runs(&after), first_runs(RUNS.len()));
}
