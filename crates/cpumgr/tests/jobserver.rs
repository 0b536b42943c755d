//! `cpumgr jobserver` with real make and real cargo.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use support::{Manager, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A folder with a makefile whose jobs write into a log when they begin and when they end.
struct Work {
    dir: tempfile::TempDir,
}

impl Work {
    /// `jobs` jobs after those that `rules` make of the target `first`.
    fn new(jobs: usize, rules: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let all: Vec<String> = (0..jobs).map(|job| format!("job{job}")).collect();
        let all = all.join(" ");
        // Each line is one write to a file that is open for appending.
        let text = format!(
            "all: {all}\n{all}: first\n\t@echo begin >>log; sleep 0.05; echo end >>log\n{rules}\n\
             .PHONY: all first {all}\n"
        );
        fs::write(dir.path().join("Makefile"), text).unwrap();
        fs::write(dir.path().join("log"), "").unwrap();
        Self { dir }
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    /// The most jobs at a time in lines of the log, as they stood at its `from`th line.
    fn most(&self, from: usize) -> usize {
        let (mut now, mut most) = (0_usize, 0);
        for (at, line) in self.log().iter().enumerate() {
            now = if line == "begin" { now + 1 } else { now.saturating_sub(1) };
            most = if at >= from { most.max(now) } else { 0 };
        }
        most
    }

    fn start(&self, manager: &Manager, options: &[&str], program: &[&str]) -> Child {
        let mut command = jobserver(Some(manager), options, program);
        command.current_dir(self.dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn jobserver(manager: Option<&Manager>, options: &[&str], program: &[&str]) -> Command {
    let mut command = cpumgr();
    for variable in ["MAKEFLAGS", "CARGO_MAKEFLAGS", "MFLAGS"] {
        command.env_remove(variable);
    }
    command.arg("jobserver").args(options);
    match manager {
        Some(manager) => drop(command.arg("--socket").arg(manager.socket())),
        None => drop(command.env("NANOS_CPUMGR", "off")),
    }
    command.arg("--").args(program);
    command
}

fn processors(manager: &Manager) -> u32 {
    manager.status().status.processor_count
}

fn has_make() -> bool {
    let has = Command::new("make").arg("--version").output().is_ok();
    if !has {
        platform::skip!("there is no make");
    }
    has
}

/// Of the jobserver, from the report.
fn granted(manager: &Manager) -> Option<u32> {
    let programs = manager.status().programs;
    programs.iter().find(|it| it.library == "cpumgr jobserver").map(|it| it.granted)
}

fn finish(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), errors(&output))
}

#[test]
fn makes_jobs_follow_the_grant() {
    if !has_make() {
        return;
    }
    let manager = Manager::start(&["--policy", "equip"]);
    if processors(&manager) < 2 {
        platform::skip!("a grant that changes needs two processors");
        return;
    }
    let work = Work::new(400, "first:");
    let make = work.start(&manager, &["--jobs", "2"], &["make"]);
    eventually("two jobs run", || (work.most(0) == 2).then_some(()));
    assert_eq!(granted(&manager), Some(2));
    assert_eq!(manager.status().programs[0].name, "make", "tables of programs are by name");

    // Another program that wants all has its share.
    let all = processors(&manager);
    let others: Vec<_> = (1..all).map(|_| manager.program(all, all)).collect();
    eventually("it has one processor", || (granted(&manager) == Some(1)).then_some(()));
    // Jobs that ran then end, and their token may be given to one more of them.
    let begin = work.log().len();
    eventually("one job runs at a time", || {
        let log = work.log();
        let last = &log[log.len().saturating_sub(20).max(begin)..];
        (last.len() == 20 && last.windows(2).all(|pair| pair[0] != pair[1])).then_some(())
    });

    drop(others);
    eventually("it has two again", || (granted(&manager) == Some(2)).then_some(()));
    let from = work.log().len();
    eventually("two jobs run again", || (work.most(from) == 2).then_some(()));
    assert!(work.most(0) <= 2);
    let (code, errors) = finish(make);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    eventually("it has left", || granted(&manager).is_none().then_some(()));
}

#[test]
fn killed_jobs_and_killed_makes_lose_no_token() {
    if !has_make() {
        return;
    }
    let manager = Manager::start(&[]);
    if processors(&manager) < 2 {
        platform::skip!("a token needs two processors");
        return;
    }
    // Jobs that are killed: their make gives the tokens back.
    let killed = "first: k1 k2 k3 k4\nk1 k2 k3 k4:\n\t-@kill -9 $$$$";
    let work = Work::new(40, killed);
    let (code, errors) = finish(work.start(&manager, &["--jobs", "2"], &["make"]));
    assert_eq!((code, work.most(0)), (Some(0), 2), "{errors}");

    // A make that is killed with a token in its hand.
    let rules = "first:\n\t-@$(MAKE) -f sub.mk both";
    let work = Work::new(120, rules);
    let sub = "both: a b\na:\n\t@sleep 0.2; kill -9 $$PPID; sleep 0.1\nb:\n\t@sleep 0.4\n.PHONY: a \
               b both\n";
    fs::write(work.dir.path().join("sub.mk"), sub).unwrap();
    let (code, errors) = finish(work.start(&manager, &["--jobs", "2"], &["make"]));
    assert!(errors.contains("Killed"), "{errors}");
    assert_eq!((code, work.most(0)), (Some(0), 2), "its token did not come back: {errors}");
}

#[test]
fn cargo_takes_the_tokens() {
    let cargo = PathBuf::from(env!("CARGO"));
    if !cargo.exists() {
        platform::skip!("cargo is not where this was built");
        return;
    }
    let manager = Manager::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("src")).unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    write("src/main.rs", "fn main() {}\n");
    write(
        "build.rs",
        "fn main() { std::fs::write(\"flags\", std::env::var(\"CARGO_MAKEFLAGS\").unwrap()).unwrap() }\n",
    );
    for (style, mark) in [("fifo", "fifo:"), ("pipe", "--jobserver-auth=")] {
        let _clean = fs::remove_dir_all(dir.path().join("target"));
        let program = [cargo.to_str().unwrap(), "build", "--offline", "--quiet"];
        let mut command = jobserver(Some(&manager), &["--style", style], &program);
        command.current_dir(dir.path()).env("CARGO_TARGET_DIR", dir.path().join("target"));
        for variable in ["RUSTFLAGS", "RUSTC_WRAPPER", "CARGO_BUILD_TARGET"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{style}: {}", errors(&output));
        assert!(!errors(&output).contains("jobserver"), "{style}: {}", errors(&output));
        let flags = fs::read_to_string(dir.path().join("flags")).unwrap();
        assert!(flags.contains(mark), "{style}: {flags}");
        assert_eq!(flags.contains("cpumgr-jobs-"), style == "fifo", "{flags}");
    }
    assert!(Path::new(&dir.path().join("target/debug/small")).exists());
}

#[test]
fn it_ends_as_its_program_does_and_needs_no_manager() {
    for (program, code) in [
        (&["sh", "-c", "exit 3"][..], 3),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["/nowhere/at/all"], 127),
        (&["/dev/null"], 126),
    ] {
        let output = jobserver(None, &[], program).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{program:?}: {}", errors(&output));
    }
    let output =
        jobserver(None, &["--jobs", "1", "--style", "pipe"], &["sh", "-c", "echo $MAKEFLAGS"]);
    let mut output = output;
    let output = output.output().unwrap();
    let flags = String::from_utf8(output.stdout).unwrap();
    assert!(flags.starts_with("-j --jobserver-auth="), "{flags:?}");
    let wrong = jobserver(None, &["--jobs", "0"], &["true"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_signal_reaches_the_program() {
    let manager = Manager::start(&[]);
    let script = "trap 'echo heard >heard; exit 5' TERM; echo ready >ready; \
         while [ -e ready ]; do sleep 0.05; done";
    let dir = tempfile::tempdir().unwrap();
    let mut command = jobserver(Some(&manager), &[], &["sh", "-c", script]);
    let mut child = command.current_dir(dir.path()).spawn().unwrap();
    eventually("it runs", || dir.path().join("ready").exists().then_some(()));
    // At once: what ends it in its program's first moment would leave that one alone.
    let pidfd = platform::process::pidfd_open(platform::process::Pid(child.id().cast_signed()));
    platform::process::pidfd_send_signal(pidfd.unwrap(), nix::libc::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert!(dir.path().join("heard").exists());
}
