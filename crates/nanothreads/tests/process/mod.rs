//! Processes for tests: settings of the engine belong to a process, so a test program starts itself
//! again for them.
//!
//! # Protocol
//! 1. `own_process!()` is the first line of a test. In the process that cargo began the test's body
//!    does not run: the tests of its module (the outermost one) that this run has selected run
//!    together in one process, which is this program again, by their exact names, with the module's
//!    name in [`VARIABLE`]. `own_process!(alone)` is the same for one test, which has a process to
//!    itself: other tests' masters would borrow its workers between its regions. `own_process!(n)`
//!    gives it `n` processors there, too.
//! 2. There the body runs.
//! 3. The first test that comes to it starts the process, and shows its output; all of them have
//!    the verdicts that they had in it.
//!
//! A test that looks at a process from outside starts it by [`again`], of itself: there
//! [`is_again`] is true.
//!
//! # Invariants
//! - I1: One process at a time: others would be load for tests that look at what threads do.
//! - I2: A process that takes longer than [`LIMIT`] is killed, and reported. It does not outlive
//!   the thread that waits for it.
//! - I3: A process that ends otherwise than by the harness's verdict has failed in all its tests.
//!
//! # Not here
//! Children of a fork: `forks/forked.rs`.
#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(unused_macros, reason = "as above")]

use platform::affinity::{CpuSet, affinity, set_affinity};
use std::collections::BTreeMap;
use std::io::{Error, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// Names the module, or the test, whose process this is.
const VARIABLE: &str = "NANOS_TEST_PROCESS";

/// Far more than any of them takes, also under a sanitizer.
const LIMIT: Duration = Duration::from_secs(280);

/// The variable that lengthens stress tests, in seconds.
const LONGER: &str = "NANOS_STRESS_SECONDS";

/// The first line of a test that needs settings of its own; see the module head.
macro_rules! own_process {
    () => {
        own_process!(@ $crate::process::Owner::Module)
    };
    (alone) => {
        own_process!(@ $crate::process::Owner::Test { processors: None })
    };
    (@ $owner:expr) => {
        if !$crate::process::is_here($crate::process::name_of(&|| ()), $owner) {
            return;
        }
    };
    ($processors:expr) => {
        own_process!(@ $crate::process::Owner::Test { processors: Some($processors) })
    };
}

/// Whose a process is.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// All tests of a module.
    Module,
    /// One test, on so many processors, if it says how many.
    Test { processors: Option<usize> },
}

/// The name by which the harness knows the test in which `closure` was made.
pub(crate) fn name_of<F: Fn()>(_: &F) -> &'static str {
    let path = std::any::type_name::<F>();
    let (_program, path) = path.split_once("::").expect("a test is in a program");
    path.split("::{{closure}}").next().unwrap_or(path)
}

/// True in the process in which the body of `test` is to run. Elsewhere it has run when this
/// returns, and ended well.
pub(crate) fn is_here(test: &'static str, owner: Owner) -> bool {
    let (owner, processors) = match owner {
        Owner::Module => (test.split("::").next().unwrap_or(test), None),
        Owner::Test { processors } => (test, processors),
    };
    if let Ok(own) = std::env::var(VARIABLE) {
        assert_eq!(own, owner, "{VARIABLE}: this process is another module's");
        return true;
    }
    let mut command = program(owner);
    if let Some(count) = processors {
        let mask = affinity(None).expect("the kernel tells every thread its mask");
        if mask.len() < count {
            platform::skip!("{test} needs {count} processors, the mask has {}", mask.len());
            return false;
        }
        begin_on(&mut command, mask.iter().take(count).collect());
    }
    static OUTCOMES: Mutex<BTreeMap<&str, Outcome>> = Mutex::new(BTreeMap::new());
    let mut outcomes = OUTCOMES.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = outcomes.entry(owner).or_insert_with(|| Outcome::of(owner, command));
    let report = (!outcome.is_well(test)).then(|| outcome.report());
    drop(outcomes);
    match report {
        None => false,
        Some(report) => panic!("{report}"),
    }
}

/// What became of a process.
struct Outcome {
    owner: &'static str,
    output: Output,
    /// How many tests it was to run; 0: not known.
    tests: usize,
    is_reported: bool,
}

impl Outcome {
    fn of(owner: &'static str, mut command: Command) -> Self {
        let is_owned = |name: &String| {
            let rest = name.strip_prefix(owner);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let tests: Vec<String> = selected().into_iter().filter(is_owned).collect();
        command.args(passed_on(std::env::args().skip(1))).arg("--include-ignored");
        match tests.as_slice() {
            [] if owner.contains("::") => command.args(["--exact", owner]),
            [] => command.arg(format!("{owner}::")),
            tests => command.arg("--exact").args(tests),
        };
        let output = output_of(command);
        // The harness keeps what a test prints, unless it was told to show it.
        println!("{}", quoted(&output.stdout));
        let (skips, rest): (Vec<_>, Vec<_>) = output
            .stderr
            .split(|byte| *byte == b'\n')
            .partition(|line| line.starts_with(b"skipped"));
        eprintln!("{}", quoted(&rest.join(&b'\n')));
        for line in skips {
            // No harness keeps this. Where nothing reads it, it is in the file of skips.
            let _ = std::io::stderr().write_all(&[line, b"\n"].concat());
        }
        Self { owner, output, tests: tests.len(), is_reported: false }
    }

    fn is_well(&self, test: &str) -> bool {
        is_well(
            test,
            self.tests,
            self.output.status.success(),
            &String::from_utf8_lossy(&self.output.stdout),
        )
    }

    /// All that it said, but once.
    fn report(&mut self) -> String {
        let Self { owner, output, .. } = self;
        let text = format!("the process of `{owner}`: {}", output.status);
        if std::mem::replace(&mut self.is_reported, true) {
            return text + "; its output stands at another one of its tests";
        }
        let [said, warned] = [&output.stdout, &output.stderr].map(|text| quoted(text));
        format!("{text}\n{said}\n{warned}\n(end of `{owner}`)")
    }
}

/// Whether `test`, one of `tests` (0: not known), ended well in a process that printed `text`.
pub(crate) fn is_well(test: &str, tests: usize, is_success: bool, text: &str) -> bool {
    if is_success {
        let verdict = format!("test result: ok. {tests} passed");
        return text.contains(if tests == 0 { "test result: ok. " } else { &verdict });
    }
    // Where the harness says that others failed. A sanitizer, or a crash, ends the process after an
    // `ok`, or before it.
    text.contains("test result: FAILED") && text.contains(&format!("test {test} ... ok"))
}

/// What a process printed, marked as its: nothing takes it for what this one's harness prints.
fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().map(|line| format!("| {line}")).collect::<Vec<_>>().join("\n")
}

/// The tests that the arguments of this process select; none where the harness does not tell.
fn selected() -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("a program has a file"));
    command.args(std::env::args().skip(1)).args(["--list", "--format", "terse"]);
    let listing = command.output().expect("the test's own file can be run").stdout;
    let lines = String::from_utf8_lossy(&listing);
    lines.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Those of this process's arguments that say how tests run, not which.
pub(crate) fn passed_on(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut arguments = arguments.peekable();
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.split('=').next() {
            Some("--nocapture" | "--no-capture" | "--show-output") => kept.push(argument),
            Some("--test-threads") if argument.contains('=') => kept.push(argument),
            Some("--test-threads") => {
                kept.extend(arguments.next().map(|number| format!("--test-threads={number}")))
            }
            _ => {}
        }
    }
    kept
}

/// This program again, as the process of `owner`.
fn program(owner: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program has a file"));
    command.env(VARIABLE, owner).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// This program again, for the test that calls it only: `again(name_of(&|| ()))`. What it prints is
/// not captured.
pub(crate) fn again(test: &str) -> Command {
    let mut command = program(test);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
}

/// True in a process that [`again`] made.
pub(crate) fn is_again(test: &str) -> bool {
    std::env::var_os(VARIABLE).is_some_and(|owner| owner == test)
}

/// Begins the program on these processors only.
fn begin_on(command: &mut Command, processors: CpuSet) {
    // SAFETY: - between fork and exec: one system call with memory that was made before.
    unsafe { command.pre_exec(move || set_affinity(None, &processors).map_err(Error::from)) };
}

/// Held while a process runs (I1).
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs it to its end (I1, I2).
pub(crate) fn output_of(command: Command) -> Output {
    let longer = std::env::var(LONGER).ok().and_then(|seconds| seconds.parse().ok());
    output_within(command, LIMIT.saturating_add(Duration::from_secs(longer.unwrap_or(0))))
}

/// The same with a limit of its own.
pub(crate) fn output_within(command: Command, limit: Duration) -> Output {
    let _turn = turn();
    let child = start(command);
    let group = -child.id().cast_signed();
    let (send, receive) = mpsc::channel();
    let waiter = thread::spawn(move || send.send(child.wait_with_output()));
    let (output, is_late) = match receive.recv_timeout(limit) {
        Ok(output) => (output, false),
        Err(_) => {
            // SAFETY: - takes no pointers. The child was not waited for: the number is its own.
            unsafe { libc::kill(group, libc::SIGKILL) };
            (receive.recv().expect("it ends with the child"), true)
        }
    };
    waiter.join().expect("it only waits").expect("its output is received");
    let mut output = output.expect("a child can be waited for");
    if is_late {
        output.stderr.extend(format!("\nkilled after {limit:?}: it hangs\n").bytes());
    }
    output
}

/// Starts a process that ends with the calling thread, if not before.
pub(crate) fn start(mut command: Command) -> Child {
    // SAFETY: - between fork and exec: a system call without pointers.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        })
    };
    command.process_group(0).spawn().expect("the test's own file can be run")
}
