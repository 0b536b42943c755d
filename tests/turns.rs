//! Real programs on the engine that take turns under a real manager: a master outside its turn does
//! not spend the next turn in a region that it began alone.
//!
//! A program is this test binary run again. It needs three processors: of two, one is kept for
//! masters outside their turn, and a turn is one processor. `cargo xtask vm smp --test turns` runs
//! this on eight.
#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

mod manager;

use nanothreads::Team;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Set in programs: regions that it forks.
const REGIONS: &str = "NANOS_TURNS_REGIONS";
/// Programs that take turns, each as wide as the machine.
const PROGRAMS: usize = 3;
const QUANTUM: Duration = Duration::from_millis(50);
/// Steps of a region, which its threads take one by one, and how long one is by the clock: alone a
/// region takes two whole rounds of turns, whatever else runs on the processor.
const STEPS: usize = 60;
const STEP: Duration = Duration::from_millis(5);

/// Forks `regions`, and says after each how many threads it had.
fn fork(regions: usize) {
    for _ in 0..regions {
        let (next, size) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Team::available().run(|member| {
            size.store(member.size(), Relaxed);
            while next.fetch_add(1, Relaxed) < STEPS {
                let begin = Instant::now();
                while begin.elapsed() < STEP {
                    std::hint::spin_loop();
                }
            }
        });
        // Past the capture of the test harness.
        let mut out = std::io::stdout().lock();
        writeln!(out, "> {}", size.into_inner()).unwrap();
        out.flush().unwrap();
    }
}

/// The program's side; does nothing in the test process itself.
#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    let Some(regions) = std::env::var_os(REGIONS) else { return };
    fork(regions.to_str().unwrap().parse().unwrap());
}

/// A program in a process of its own.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

fn program(manager: &Manager, regions: usize) -> Program {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "acts_as_a_program", "--nocapture", "--test-threads=1"]);
    command.env(REGIONS, regions.to_string()).env("NANOS_CPUMGR", manager.socket());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    Program { child, output }
}

impl Program {
    /// The size of its next region; `None`: it has ended.
    fn region(&mut self) -> Option<usize> {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            // The test harness of the program prints lines of its own.
            if let Some((_, size)) = line.split_once("> ") {
                return Some(size.trim_end().parse().unwrap());
            }
            line.clear();
        }
        None
    }

    /// The sizes of all that are left, of a program that ends well.
    fn regions(mut self) -> Vec<usize> {
        let sizes = std::iter::from_fn(|| self.region()).collect();
        assert!(self.child.wait().unwrap().success());
        sizes
    }
}

struct Manager {
    folder: tempfile::TempDir,
    child: Child,
}

impl Manager {
    /// `None`, with a printed reason, where a turn is not to be seen with it.
    fn start(policy: &str) -> Option<Self> {
        let (_, program) = manager::found()?;
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("app.sock");
        let quantum = format!("{}ms", QUANTUM.as_millis());
        let child = Command::new(&program)
            .args(["daemon", "--policy", policy, "--quantum", &quantum, "--socket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let manager = Self { folder, child };
        let begin = Instant::now();
        let answers = || {
            let mut status = Command::new(&program);
            status.arg("status").arg("--socket").arg(&socket);
            status.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        };
        while !answers() {
            assert!(begin.elapsed() < PATIENCE, "the manager does not answer");
            thread::sleep(Duration::from_millis(5));
        }
        Some(manager)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("app.sock")
    }

    fn end(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end();
    }
}

/// Of three programs under `policy`, how many regions had one thread, and of how many.
fn alone(policy: &str) -> Option<(usize, usize)> {
    const EACH: usize = 10;
    let manager = Manager::start(policy)?;
    let programs = [(); PROGRAMS].map(|()| program(&manager, EACH));
    let sizes: Vec<usize> = programs.into_iter().flat_map(Program::regions).collect();
    println!("measured: {policy}: sizes of the regions of {PROGRAMS} programs: {sizes:?}");
    Some((sizes.iter().filter(|size| **size == 1).count(), sizes.len()))
}

/// What a program does not know yet, and what comes when turns come late, costs some regions each.
#[test]
fn masters_outside_their_turn_wait_for_it_rather_than_keep_it_with_one_thread() {
    for policy in ["rr", "gang"] {
        let Some((alone, all)) = alone(policy) else { return };
        assert!(alone * 2 <= all, "{policy}: {alone} of {all} regions had one thread");
    }
}

#[test]
fn a_master_goes_on_when_the_manager_dies_for_whose_turn_it_waits() {
    let Some(mut manager) = Manager::start("rr") else { return };
    const EACH: usize = 6;
    let mut programs = [(); PROGRAMS].map(|()| program(&manager, EACH));
    // Two of three are outside their turn at any time, and know what their regions take.
    let before: Vec<_> = programs.iter_mut().map(|it| [it.region(), it.region()]).collect();
    assert!(before.iter().flatten().all(Option::is_some), "{before:?}");
    manager.end();
    for program in programs {
        assert_eq!(program.regions().len(), EACH - 2);
    }
}
