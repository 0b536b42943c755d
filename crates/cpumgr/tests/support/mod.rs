//! Real managers and real programs for the end-to-end tests.
//!
//! A program is this test binary run again (`acts_as_a_program`): it obeys commands on its standard input and answers
//! on its standard output. Every manager has a socket of its own in a temporary directory, and is gone, with its
//! socket file, when its test ends.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arena::client::{Client, Hello};
use arena::header::VERSION;
use arena::message::{self, Register, ToManager};
use platform::affinity::{CpuId, CpuSet, Tid, affinity, current_tid, set_affinity};
use platform::process::{self, Pid};

mod leaks;
mod reuse;
mod scribble;
mod times;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The manager's program.
pub(crate) const CPUMGR: &str = env!("CARGO_BIN_EXE_cpumgr");

/// Set in programs: the socket to register at.
const PROGRAM_SOCKET: &str = "CPUMGR_TEST_PROGRAM";

/// Names the manager's program where it is not where it was built: in the guest of `cargo xtask vm smp`.
const ELSEWHERE: &str = "CPUMGR_TEST_MANAGER";

/// A command line of ours without the environment's opinions.
pub(crate) fn cpumgr() -> Command {
    let mut command = Command::new(std::env::var_os(ELSEWHERE).unwrap_or_else(|| CPUMGR.into()));
    for variable in ["NANOS_CPUMGR", "NANOS_SHIM_DIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH", "CPUMGR_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Looks until something is so.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processors of this process, or a printed reason why a test cannot run.
pub(crate) fn two_processors() -> Option<String> {
    let mask = platform::affinity::affinity(None).unwrap();
    if mask.len() < 2 {
        println!("skipped: needs two processors, this process may use {mask}");
        return None;
    }
    Some(mask.iter().take(2).collect::<CpuSet>().to_string())
}

/// A manager in the foreground.
pub(crate) struct Manager {
    pub(crate) dir: tempfile::TempDir,
    child: Child,
    leaks: leaks::Check,
}

impl Manager {
    /// Starts one with further options and waits until it answers.
    pub(crate) fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let leaks = leaks::Check::begin(dir.path());
        let mut manager = Self { child: spawn(dir.path(), options), dir, leaks };
        manager.wait_until_it_answers();
        manager
    }

    /// Starts another one in place of one that ended.
    pub(crate) fn start_again(&mut self, options: &[&str]) {
        self.child = spawn(self.dir.path(), options);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&mut self) {
        let socket = self.socket();
        eventually("the manager answers", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the manager ended with {status}: {}", self.log());
            }
            cpumgr::status::Report::ask(&socket).ok()
        });
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("app.sock")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn status(&self) -> cpumgr::status::Report {
        cpumgr::status::Report::ask(&self.socket()).unwrap()
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pidfd = process::pidfd_open(Pid(self.child.id().cast_signed())).unwrap();
        process::pidfd_send_signal(&pidfd, signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the manager ends", || self.child.try_wait().unwrap())
    }

    pub(crate) fn program(&self, request: u32, max: u32) -> Program {
        Program::start(&self.socket(), request, max)
    }
}

fn spawn(dir: &Path, options: &[&str]) -> Child {
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let mut command = cpumgr();
    command.arg("daemon").arg("--socket").arg(dir.join("app.sock")).args(options);
    if !options.contains(&"--strangers") {
        // Whatever else runs on the machine of the tests.
        command.args(["--strangers", "ignore"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

impl Drop for Manager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the manager's log:\n{}", self.log());
        }
        // Whatever the test did, the process is gone after this, by SIGKILL if need be.
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
        if !std::thread::panicking() {
            self.leaks.end();
        }
    }
}

/// What a program says about its grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) processors: u32,
    pub(crate) dedicated: bool,
    pub(crate) shared: bool,
    pub(crate) epoch: u32,
    pub(crate) cpus: CpuSet,
    pub(crate) alive: bool,
}

/// A registered program in a process of its own.
pub(crate) struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(socket: &Path, request: u32, max: u32) -> Self {
        let program = Self::launch(Self::command(socket), request, max);
        program.unwrap_or_else(|error| panic!("the program did not register: {error}"))
    }

    /// The command line of a program; `cpumgr run` can be put in front.
    pub(crate) fn command(socket: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(Self::arguments()).env(PROGRAM_SOCKET, socket);
        command
    }

    pub(crate) fn arguments() -> [&'static str; 4] {
        ["--exact", "acts_as_a_program", "--nocapture", "--test-threads=1"]
    }

    pub(crate) fn launch(mut command: Command, request: u32, max: u32) -> Result<Self, String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut child = spawned.unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, input, output };
        let answer = program.ask(&format!("register {request} {max}"));
        if answer == "registered" { Ok(program) } else { Err(answer) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pidfd = process::pidfd_open(Pid(self.child.id().cast_signed())).unwrap();
        process::pidfd_send_signal(&pidfd, signal).unwrap();
    }

    /// A process that has not registered.
    pub(crate) fn unregistered(socket: &Path) -> Self {
        Self::of(Self::command(socket))
    }

    /// One that a command starts, with whatever it is to know.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Sends commands of which it dies.
    pub(crate) fn dies_of(mut self, commands: &[&str]) -> ExitStatus {
        for command in commands {
            // The pipe breaks when it is dead already.
            if writeln!(self.input, "{command}").is_err() {
                break;
            }
        }
        eventually("it dies", || self.child.try_wait().unwrap())
    }

    /// Sends a command and returns its answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the program ended instead of answering {command}");
            // The test harness of the program prints lines of its own.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn seen(&mut self) -> Seen {
        let answer = self.ask("grant");
        let words: Vec<&str> = answer.split(' ').collect();
        Seen {
            processors: words[0].parse().unwrap(),
            dedicated: words[1] == "true",
            shared: words[2] == "true",
            epoch: words[3].parse().unwrap(),
            alive: words[4] == "true",
            cpus: words.get(5).map_or_else(CpuSet::new, |list| CpuSet::parse_list(list).unwrap()),
        }
    }

    /// Looks at the grant until it is as wanted.
    pub(crate) fn until(&mut self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        eventually(what, || Some(self.seen()).filter(|seen| wanted(seen)))
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends by itself with this code.
    pub(crate) fn exit(mut self, code: i32) -> ExitStatus {
        writeln!(self.input, "exit {code}").unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

/// The step, as an index of `arena::hook::ALL`, at which this process is killed.
static DIES_AT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(u32::MAX);

/// The spinners of a program.
fn tids() -> std::sync::MutexGuard<'static, Vec<Tid>> {
    static TIDS: std::sync::Mutex<Vec<Tid>> = std::sync::Mutex::new(Vec::new());
    TIDS.lock().unwrap()
}

/// The program's side of [`Program`]; does nothing in the test process itself.
pub(crate) fn act_as_a_program() {
    let Some(socket) = std::env::var_os(PROGRAM_SOCKET) else {
        return;
    };
    let socket = if socket.is_empty() { std::env::var_os("NANOS_CPUMGR").unwrap() } else { socket };
    let mut client: Option<Arc<Client>> = None;
    let mut sleeper = None;
    let mut domain: Option<arena::domain::Domain> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u32>().unwrap();
        let answer = match words[0] {
            "register" => {
                let hello = Hello {
                    max_processors: number(2),
                    request: number(1),
                    fixed_team: false,
                    library: "test\x1b[31m".into(),
                    within: None,
                };
                match Client::connect(Path::new(&socket), &hello, PATIENCE) {
                    Ok(connected) => {
                        connected.publish_vp(0, current_tid());
                        client = Some(Arc::new(connected));
                        "registered".into()
                    }
                    Err(error) => error.to_string(),
                }
            }
            "grant" => {
                let client = client.as_ref().unwrap();
                let (grant, cpus) = client.grant_with_cpus();
                let (processors, dedicated, shared, epoch) =
                    (grant.processors, grant.dedicated, grant.shared, grant.epoch);
                format!("{processors} {dedicated} {shared} {epoch} {} {cpus}", client.is_alive())
            }
            "request" => {
                client.as_ref().unwrap().request(number(1));
                "asked".into()
            }
            // Virtual processors 1..N that spin on the processors they have now and follow no request.
            "spinners" => {
                let tied = Arc::clone(client.as_ref().unwrap());
                for index in 1..number(1) as usize {
                    let tied = Arc::clone(&tied);
                    let (said, hear) = std::sync::mpsc::channel();
                    std::thread::spawn(move || {
                        let cpus = tied.vp(index).0.map_or_else(|| tied.cpus(), CpuSet::single);
                        if !cpus.is_empty() {
                            set_affinity(None, &cpus).unwrap();
                        }
                        tied.publish_vp(index, current_tid());
                        tids().push(current_tid());
                        drop(tied);
                        said.send(()).unwrap();
                        loop {
                            std::hint::spin_loop();
                        }
                    });
                    hear.recv().unwrap();
                }
                "spinning".into()
            }
            // Says that a thread of somebody else is its virtual processor.
            "publish" => {
                client.as_ref().unwrap().publish_vp(number(1) as usize, Tid(number(2).cast_signed()));
                "published".into()
            }
            // The masks of the initial thread and of the spinners.
            "masks" => {
                let own = Tid(std::process::id().cast_signed());
                let masks = std::iter::once(own).chain(tids().clone());
                masks.map(|tid| affinity(Some(tid)).unwrap().to_string()).collect::<Vec<_>>().join(" ")
            }
            // Binds spinner I as a program does that follows.
            "bind" => {
                let cpus = CpuSet::parse_list(words[2]).unwrap();
                let bound = set_affinity(Some(tids()[number(1) as usize - 1]), &cpus);
                if bound.is_ok() { "bound".into() } else { "refused".into() }
            }
            "notice" => {
                let client = client.as_ref().unwrap();
                format!("{} {} {:?}", client.asked(), client.preempted(), client.vp(1).1)
            }
            "wanted" => client.as_ref().unwrap().is_wanted().to_string(),
            "release" => {
                client.as_ref().unwrap().release(CpuId(number(1)));
                "released".into()
            }
            "resume" => {
                client.as_ref().unwrap().resume();
                "resumed".into()
            }
            // Reports times in ns: on P processors, and on one.
            "report" => {
                let time = |index: usize| Duration::from_nanos(number(index).into());
                client.as_ref().unwrap().report(number(1), time(2), 1, time(3));
                "reported".into()
            }
            // From now on the process is killed at this step.
            "die-at" => {
                DIES_AT.store(number(1), std::sync::atomic::Ordering::Relaxed);
                arena::hook::set(|step| {
                    let at = DIES_AT.load(std::sync::atomic::Ordering::Relaxed) as usize;
                    if arena::hook::ALL[at] == step {
                        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
                    }
                });
                "going to die".into()
            }
            // Times from a request to a virtual processor that sleeps for it and runs, in ns.
            "time-requests" => times::requests(client.as_ref().unwrap(), number(1)),
            // The time at which a sleeping virtual processor ran with N processors.
            "time-wake" => times::wake(client.as_ref().unwrap(), number(1)),
            // The time from a smaller grant to the end of virtual processor 1 on the processor that was taken.
            "time-squeeze" => times::squeeze(client.as_ref().unwrap()),
            "registrations" => client.as_ref().unwrap().registrations().to_string(),
            // A second virtual processor that sleeps until there are two processors.
            "park" => {
                let tied = Arc::clone(client.as_ref().unwrap());
                let (said, hear) = std::sync::mpsc::channel();
                sleeper = Some(std::thread::spawn(move || {
                    tied.publish_vp(1, current_tid());
                    let mut said = Some(said);
                    let granted = tied.park(1, || {
                        if let Some(said) = said.take() {
                            said.send(()).unwrap();
                        }
                        tied.grant().processors > 1
                    });
                    if granted { format!("with {}", tied.grant().processors) } else { "without a manager".into() }
                }));
                hear.recv().unwrap();
                "parked".into()
            }
            "unparked" => format!("unparked {}", sleeper.take().unwrap().join().unwrap()),
            // Asks for 1, 2, 1, 2, ... as fast as it can.
            "flood" => {
                let begin = Instant::now();
                let mut rings = 0_u64;
                while begin.elapsed() < Duration::from_millis(u64::from(number(1))) {
                    client.as_ref().unwrap().request(1 + rings as u32 % 2);
                    rings += 1;
                }
                format!("flooded {rings}")
            }
            "join" => match arena::domain::Domain::join(Path::new(&socket), PATIENCE) {
                Ok(joined) => {
                    domain = Some(joined);
                    "joined".into()
                }
                Err(error) => error.to_string(),
            },
            // Passes processor N to whoever of the domain wants one.
            "pass" => client.as_ref().unwrap().pass(domain.as_ref().unwrap(), CpuId(number(1))).to_string(),
            "taken" => domain.as_ref().unwrap().take().map_or("none".into(), |cpu| cpu.0.to_string()),
            // Waits for a processor, and says when it ran.
            "time-taken" => {
                let domain = domain.as_ref().unwrap();
                while domain.wait(Duration::from_secs(1)).is_none() {}
                platform::clock::monotonic_ns().to_string()
            }
            // The time of a pass.
            "time-pass" => {
                let (client, domain) = (client.as_ref().unwrap(), domain.as_ref().unwrap());
                loop {
                    let begin = platform::clock::monotonic_ns();
                    if client.pass(domain, CpuId(number(1))) {
                        break begin.to_string();
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            // How often the manager was seen dead or silent in so many milliseconds, by a look in each.
            "misses" => {
                let (client, begin) = (client.as_ref().unwrap(), Instant::now());
                let mut misses = 0_u64;
                while begin.elapsed() < Duration::from_millis(u64::from(number(1))) {
                    misses += u64::from(!client.is_alive());
                    std::thread::sleep(Duration::from_millis(1));
                }
                format!("missed {misses}")
            }
            // Registers, then writes random bytes into its area and rings, both as fast as it can, for ever.
            "scribble" => {
                scribble::begin(Path::new(&socket));
                "scribbling".into()
            }
            // Spins on this many threads, for ever.
            "hogs" => {
                for _ in 0..number(1) {
                    std::thread::spawn(|| {
                        loop {
                            std::hint::spin_loop();
                        }
                    });
                }
                "hogging".into()
            }
            // Closes every descriptor and opens others, with or without further requests.
            "reuse" => reuse::reuse(words[1], Arc::into_inner(client.take().unwrap()).unwrap()),
            "reuse-quietly" => reuse::reuse_quietly(words[1], Arc::into_inner(client.take().unwrap()).unwrap()),
            "leave" => {
                client = None;
                "left".into()
            }
            // Registers and ends without waiting for the answer.
            "register-and-die" => {
                let socket = connection(Path::new(&socket));
                platform::fdpass::send(&socket, &register_packet(VERSION), &[]).unwrap();
                std::process::exit(0);
            }
            // The name that the kernel has for this process.
            "name" => {
                std::fs::write("/proc/self/comm", "a\x1b[2Jb").unwrap();
                "named".into()
            }
            "called" => {
                std::fs::write("/proc/self/comm", words[1]).unwrap();
                "called".into()
            }
            "exit" => std::process::exit(words[1].parse().unwrap()),
            other => panic!("unknown command {other}"),
        };
        // Past the capture of the test harness.
        let mut out = std::io::stdout().lock();
        writeln!(out, "> {answer}").unwrap();
        out.flush().unwrap();
    }
}

/// The processes whose command line names a path.
pub(crate) fn processes_of(path: &Path) -> Vec<i32> {
    let needle = path.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(" daemon ") && line.contains(needle)
    })
    .collect()
}

/// Ends the managers that `cpumgr run` started in a directory, and sees that they are gone.
pub(crate) struct EndManagers<'a>(pub(crate) &'a Path);

impl Drop for EndManagers<'_> {
    fn drop(&mut self) {
        for pid in processes_of(self.0) {
            let Ok(pidfd) = process::pidfd_open(Pid(pid)) else {
                continue;
            };
            if process::pidfd_send_signal(&pidfd, nix::libc::SIGTERM).is_ok() {
                eventually("a manager obeys SIGTERM", || process::has_ended(&pidfd).unwrap().then_some(()));
            }
        }
        assert!(processes_of(self.0).is_empty(), "a manager survives its test");
    }
}

/// What a finished command said on standard error.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A registration as a packet.
pub(crate) fn register_packet(layout: u32) -> Vec<u8> {
    let register = Register {
        layout,
        max_processors: 2,
        request: 2,
        fixed_team: false,
        library: "raw".into(),
        held: None,
        within: None,
    };
    message::encode(&ToManager::Register(register)).unwrap()
}

/// A bare connection to a manager.
pub(crate) fn connection(socket: &Path) -> OwnedFd {
    platform::fdpass::connect(socket, PATIENCE).unwrap()
}
