//! Programs on threads that no library of ours knows, under `cpumgr run` and `--tell-share`: their
//! results are right beside another program, and meanwhile they were attached, or left alone with
//! the reason that their threads run all the time, or told. `cargo xtask real` has their times.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use platform::process::{self, Pid};
use support::{Manager, cpumgr};

/// In which a program is attached, or has heard its share: it works all the time.
const LIMIT: Duration = Duration::from_secs(60);
/// Of one piece of work.
const PHASES: &str = "400";
/// What it finds.
const SUM: &str = "\"result\":[4169272351]";

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real/pools").join(name)
}

/// Whether a tool made the program; prints what keeps it from that where the tool is missing.
fn made(command: &mut Command) -> bool {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{name}: {output:?}");
            true
        }
        Err(error) => {
            platform::skip!("no {name} here: {error}");
            false
        }
    }
}

/// The library that answers, where it can be made.
fn library(dir: &Path) -> Option<PathBuf> {
    support::two_processors()?;
    let folder = dir.join("library");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("libgomp.so.1"), "").unwrap();
    let mut compile = Command::new("gcc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libnanos_count.so"));
    let count = Path::new(env!("CARGO_MANIFEST_DIR")).join("../omp-shim/abi/count.c");
    made(compile.arg(count).arg("-ldl")).then_some(folder)
}

/// Runs a program beside another one, without the option and with it: it is attached or left alone
/// with a reason, or was told, and what it finds is right.
fn must_be_right(library: &Path, program: &[OsString]) {
    let manager = Manager::start(&["--cpus", "0,1"]);
    let _other = manager.program(2, 2);
    for options in [&[][..], &["--tell-share"][..]] {
        let mut command = cpumgr();
        command.args(["run", "--preload", "never", "--socket"]).arg(manager.socket());
        command.arg("--lib").arg(library).args(options).arg("--").args(program).arg(PHASES);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = Watched::start(&mut command);
        let pid = child.pid();
        // One line for each piece of work, until what is meant has been seen, twice at least.
        let (mut rounds, begin) = (0, Instant::now());
        let mut is_seen = false;
        while rounds < 2 || !is_seen {
            assert!(begin.elapsed() < LIMIT, "not so: {program:?}, {options:?}");
            let said = child.work();
            assert!(said.replace(' ', "").contains(SUM), "{program:?}, {options:?}: {said:?}");
            rounds += 1;
            let report = manager.status();
            let is_attached = report.programs.iter().any(|it| it.pid == pid && it.attached);
            let is_alone = || {
                report
                    .status
                    .reasons
                    .iter()
                    .any(|(of, why)| *of == pid && why.contains("left alone"))
            };
            is_seen |= if options.is_empty() { is_attached || is_alone() } else { was_told(pid) };
        }
        child.end();
    }
}

/// Whether the library that answers is in the process, or the variable of programs in Go.
fn was_told(pid: i32) -> bool {
    let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let has = |bytes: &[u8], text: &str| String::from_utf8_lossy(bytes).contains(text);
    let environment = read("environ");
    has(&read("maps"), "libnanos_count.so") && has(&environment, "NANOS_COUNT=1:")
        || has(&environment, "GOMAXPROCS=1\0")
}

/// A program that is killed when it takes too long, or its test ends.
struct Watched {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Dropped with this: the watch is over.
    _is_over: Sender<()>,
}

impl Watched {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let pidfd = process::pidfd_open(Pid(child.id().cast_signed())).unwrap();
        let (is_over, end) = mpsc::channel();
        // What it says ends then, and the test fails.
        thread::spawn(move || {
            if end.recv_timeout(2 * LIMIT) == Err(RecvTimeoutError::Timeout) {
                let _ =
                    process::pidfd_send_signal(&pidfd, nix::sys::signal::Signal::SIGKILL as i32);
            }
        });
        let mut started = Self { child, input, output, _is_over: is_over };
        assert_eq!(started.line(), "ready\n");
        started
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// What it says of one piece of work.
    fn work(&mut self) -> String {
        self.input.as_mut().unwrap().write_all(b"go\n").unwrap();
        self.line()
    }

    /// It ends by itself when there is no more work.
    fn end(&mut self) {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn threads_that_spin_at_a_barrier() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let program = dir.path().join("spin");
    let mut build = Command::new("rustc");
    build.args(["--edition", "2024", "-O"]).arg(source("spin.rs")).arg("-o").arg(&program);
    if made(&mut build) {
        must_be_right(&library, &[program.into()]);
    }
}

#[test]
fn rayon() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    // Not in the folder of this run: it is compiled once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sum-rayon");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--locked", "--offline", "--manifest-path"]);
    build.arg(source("rayon/Cargo.toml")).arg("--target-dir").arg(&target);
    let output = build.output().unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // Cargo names the option where something would have to be fetched.
        assert!(said.contains("--offline"), "{said}");
        return platform::skip!("rayon cannot be had without a network: {}", said.trim());
    }
    must_be_right(&library, &[target.join("release/sum-rayon").into()]);
}

#[test]
fn go() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let program = dir.path().join("sum");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(source("sum.go"));
    build.env("GOCACHE", dir.path().join("cache")).env("GOTOOLCHAIN", "local");
    if made(&mut build) {
        must_be_right(&library, &[program.into()]);
    }
}

#[test]
fn java() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let mut build = Command::new("javac");
    if made(build.arg("-d").arg(dir.path()).arg(source("Sum.java"))) {
        must_be_right(&library, &["java".into(), "-cp".into(), dir.path().into(), "Sum".into()]);
    }
}

#[test]
fn node() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let counts = "process.exit(require('os').availableParallelism ? 0 : 1)";
    match Command::new("node").args(["-e", counts]).status() {
        Ok(status) if status.success() => {
            must_be_right(&library, &["node".into(), source("sum.js").into()]);
        }
        Ok(_) => platform::skip!("this node has no os.availableParallelism"),
        Err(error) => platform::skip!("no node here: {error}"),
    }
}
