//! Two real programs on the engine, and a real manager: an idle processor of one becomes the
//! other's, by the manager or, in a domain, without it (M6), and how long that takes.
//!
//! A program is this test binary run again. With fewer than three processors no program can have
//! one to spare: each has its master's, which it may not give away.
//! `cargo xtask vm smp --test hand_over` runs this on eight.
#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

mod manager;

use nanothreads::Team;
use platform::affinity::CpuSet;
use platform::clock::monotonic_ns;
use platform::process::{self, Pid};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine; on an emulated one as `cargo xtask vm` says, which
/// builds for it.
const PATIENCE: Duration = Duration::from_secs(seconds(option_env!("NANOS_TEST_PATIENCE")));
/// Set in programs.
const IS_PROGRAM: &str = "NANOS_HAND_OVER_PROGRAM";
/// Hand-overs that are timed.
const ROUNDS: usize = 20;

const fn seconds(said: Option<&str>) -> u64 {
    let Some(said) = said else { return 20 };
    match u64::from_str_radix(said, 10) {
        Ok(seconds) => seconds,
        Err(_) => panic!("NANOS_TEST_PATIENCE is a number of seconds"),
    }
}

/// Looks until something is there.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// What the master of a program does: nothing, regions of a moment, or one region in which all
/// members have something to do until it is to do something else.
const RESTS: u32 = 0;
const WORKS: u32 = 1;
const HOLDS: u32 = 2;

struct Work {
    task: AtomicU32,
    /// The size of its last region, and since when that is so.
    size: AtomicUsize,
    since_ns: AtomicU64,
    /// Regions that have begun.
    regions: AtomicU64,
    /// Its last region has ended.
    rests: AtomicBool,
}

static WORK: Work = Work {
    task: AtomicU32::new(RESTS),
    size: AtomicUsize::new(0),
    since_ns: AtomicU64::new(0),
    regions: AtomicU64::new(0),
    rests: AtomicBool::new(false),
};

impl Work {
    /// The life of the master: regions of as many threads as there are processors for.
    fn go_on(&self) -> ! {
        loop {
            let task = self.task.load(Acquire);
            if task == RESTS {
                self.rests.store(true, Release);
                thread::park();
                continue;
            }
            Team::available().run(|member| {
                let size = member.size();
                if member.id() == 0 {
                    if size != self.size.load(Relaxed) {
                        self.since_ns.store(monotonic_ns(), Relaxed);
                        self.size.store(size, Release);
                    }
                    self.regions.fetch_add(1, Release);
                }
                if task == WORKS {
                    (0..1_000).for_each(|_| std::hint::spin_loop());
                }
                while task == HOLDS && self.task.load(Relaxed) == HOLDS {
                    std::hint::spin_loop();
                }
            });
        }
    }

    fn begin(&self, task: u32, master: &thread::Thread) {
        self.rests.store(false, Relaxed);
        self.task.store(task, Release);
        master.unpark();
    }

    /// The size of a region that begins after this call, or of the last one of a program that
    /// begins none.
    fn size_now(&self, regions: u64) -> u64 {
        let before = self.regions.load(Acquire);
        eventually("a region begins", || {
            let is_new = self.regions.load(Acquire) >= before + regions;
            is_new.then(|| self.size.load(Acquire) as u64)
        })
    }
}

/// The program's side of [`Program`]; does nothing in the test process itself.
#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    if std::env::var_os(IS_PROGRAM).is_none() {
        return;
    }
    let master = thread::spawn(|| WORK.go_on());
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let answer = match line.as_str() {
            "work" => {
                WORK.begin(WORKS, master.thread());
                0
            }
            // The region that is out, or one that begins now, is not of this task.
            "hold" => {
                WORK.begin(HOLDS, master.thread());
                WORK.size_now(1);
                WORK.size.load(Acquire) as u64
            }
            "rest" => {
                let told = monotonic_ns();
                WORK.task.store(RESTS, Release);
                eventually("it rests", || WORK.rests.load(Acquire).then_some(told))
            }
            // Of a region that begins after this; the one that begins next may have its size
            // already.
            "size" => WORK.size_now(2),
            "since" => WORK.since_ns.load(Relaxed),
            other => panic!("unknown command {other}"),
        };
        // Past the capture of the test harness.
        let mut out = std::io::stdout().lock();
        writeln!(out, "> {answer}").unwrap();
        out.flush().unwrap();
    }
}

/// A program in a process of its own.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(manager: &Manager) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--ignored",
            "--exact",
            "acts_as_a_program",
            "--nocapture",
            "--test-threads=1",
        ]);
        command.env(IS_PROGRAM, "1").env("NANOS_CPUMGR", manager.socket());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { child, input, output };
        program.ask("work");
        program
    }

    fn ask(&mut self, command: &str) -> u64 {
        writeln!(self.input, "{command}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the program ended instead of answering {command}"
            );
            // The test harness of the program prints lines of its own.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim_end().parse().unwrap();
            }
        }
    }

    /// When its regions came to have `size` threads; `None`: not within `time`.
    fn grows_to(&mut self, size: u64, time: Duration) -> Option<u64> {
        let begin = Instant::now();
        while self.ask("size") != size {
            if begin.elapsed() > time {
                return None;
            }
        }
        Some(self.ask("since"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

/// A manager of three processors.
struct Manager {
    program: PathBuf,
    options: Vec<String>,
    folder: tempfile::TempDir,
    child: Child,
}

impl Manager {
    /// `None`, with a printed reason, where two programs cannot be shown with it.
    fn start(is_domain: bool) -> Option<Self> {
        let (mask, program) = manager::found()?;
        let cpus: CpuSet = mask.iter().take(3).collect();
        let mut options = vec!["--cpus".to_owned(), cpus.to_string()];
        options.extend(["--quantum", "10s"].map(String::from));
        options.extend(is_domain.then(|| "--domain".to_owned()));
        let folder = tempfile::tempdir().unwrap();
        let child = Self::spawn(&program, &options, &folder);
        Some(Self { program, options, folder, child })
    }

    fn spawn(program: &PathBuf, options: &[String], folder: &tempfile::TempDir) -> Child {
        let socket = folder.path().join("app.sock");
        let mut command = Command::new(program);
        command.arg("daemon").arg("--socket").arg(&socket).args(options);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        eventually("the manager answers", || {
            let mut status = Command::new(program);
            let status = status
                .arg("status")
                .arg("--socket")
                .arg(&socket)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            status.status().unwrap().success().then_some(())
        });
        child
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("app.sock")
    }

    /// The manager dies, and another one comes.
    fn is_followed_by_another(&mut self) {
        self.end();
        self.child = Self::spawn(&self.program, &self.options, &self.folder);
    }

    fn end(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Anything that it is asked makes it write down what was passed.
    fn wakes_up(&self) {
        let mut status = Command::new(&self.program);
        let status = status.arg("status").arg("--socket").arg(self.socket()).stdout(Stdio::null());
        assert!(status.status().unwrap().success());
    }

    fn signal(&self, signal: i32) {
        let pidfd = process::pidfd_open(Pid(self.child.id().cast_signed())).unwrap();
        process::pidfd_send_signal(&pidfd, signal).unwrap();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end();
    }
}

/// A manager and two programs that work, alone on the machine.
struct Stage {
    manager: Manager,
    programs: [Program; 2],
}

fn on_stage(is_domain: bool, test: impl FnOnce(&mut Stage)) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(manager) = Manager::start(is_domain) else { return };
    let programs = [Program::start(&manager), Program::start(&manager)];
    test(&mut Stage { manager, programs });
}

impl Stage {
    /// Lets the program that has two of the three processors hold them, and the manager write that
    /// down. Its index.
    fn settle(&mut self) -> usize {
        eventually("one has two processors, the other one", || {
            let giver = (0..2).find(|index| self.programs[*index].ask("size") == 2)?;
            let [held, other] =
                [self.programs[giver].ask("hold"), self.programs[1 - giver].ask("size")];
            self.manager.wakes_up();
            if (held, other, self.programs[1 - giver].ask("size")) == (2, 1, 1) {
                return Some(giver);
            }
            self.programs[giver].ask("work");
            None
        })
    }

    /// The program that holds two processors rests. Nanoseconds until the other one has them;
    /// `None`: not within `time`. Both work then.
    fn hand_over(&mut self, giver: usize, time: Duration) -> Option<u64> {
        let rests = self.programs[giver].ask("rest");
        let came = self.programs[1 - giver].grows_to(2, time);
        self.programs[giver].ask("work");
        Some(came?.saturating_sub(rests))
    }

    /// The same while the manager is stopped.
    fn hand_over_alone(&mut self, time: Duration) -> Option<u64> {
        let giver = self.settle();
        self.manager.signal(libc::SIGSTOP);
        let before = self.programs[1 - giver].ask("size");
        let came = self.hand_over(giver, time);
        self.manager.signal(libc::SIGCONT);
        came.filter(|_| before == 1)
    }

    /// Tried until it succeeds: programs join a domain in their own time.
    fn passes_alone(&mut self) {
        let mut tries = 0;
        eventually("a processor is passed while the manager is stopped", || {
            tries += 1;
            self.hand_over_alone(Duration::from_millis(500))
        });
        println!("measured: passed while the manager was stopped, at try {tries}");
    }
}

#[test]
fn an_idle_processor_passes_to_another_program_while_the_manager_is_stopped() {
    on_stage(true, |stage| {
        for _ in 0..3 {
            stage.passes_alone();
        }
    });
}

#[test]
fn programs_that_another_manager_took_in_pass_processors_again() {
    on_stage(true, |stage| {
        stage.passes_alone();
        stage.manager.is_followed_by_another();
        stage.passes_alone();
    });
}

#[test]
fn where_there_is_no_domain_nothing_is_passed_while_the_manager_is_stopped() {
    on_stage(false, |stage| {
        for _ in 0..3 {
            assert_eq!(stage.hand_over_alone(Duration::from_millis(300)), None);
        }
        stage.settle();
    });
}

/// Prints the times, which say something on a machine that nothing else uses; and each processor
/// comes.
#[test]
fn hand_overs_in_a_domain_and_by_the_manager() {
    for is_domain in [true, false] {
        on_stage(is_domain, |stage| {
            let mut time = || {
                let giver = stage.settle();
                stage.hand_over(giver, PATIENCE).expect("the other one has them")
            };
            let mut times: Vec<u64> = (0..ROUNDS).map(|_| time()).collect();
            times.sort_unstable();
            let at = |part: usize| {
                Duration::from_nanos(times[(times.len() * part / 100).min(times.len() - 1)])
            };
            let how = if is_domain { "in a domain" } else { "by the manager" };
            println!(
                "measured: told to rest to the other program's larger region, {how:15} p50 {:.1?} \
                 p99 {:.1?} least {:.1?} n {ROUNDS}",
                at(50),
                at(99),
                at(0)
            );
        });
    }
}
