//! `cpumgr submit`: waits for its turn and becomes the program, or stays beside it as its parent.
//!
//! # Protocol
//! 1. Without further wishes this process submits itself and becomes the program (`run`).
//! 2. For `--wait`, `--time-limit` and `--array` it starts itself once more for each program
//!    (stage 2): that process submits itself and becomes the program. Its end of a pipe says its
//!    number, and closes when it becomes the program: from then on the time limit counts.
//! 3. When a program has ended its parent tells the manager how, before it waits for it: until then
//!    the process keeps its number. Then it ends with the same code.
//! 4. `--background`: it starts itself as a process of its own session (stage 1), which does 2 and
//!    3, and returns when it hears the number.
//!
//! # Not here
//! Processes that the program starts: a time limit, and signals that the parent passes on, are for
//! the program itself.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arena::client::Connection;
use arena::message::ToManager;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid as UnixPid;
use platform::process::{self, Pid};

use crate::cli::SubmitArgs;
use crate::error::{Error, FAILED};
use crate::output::print;
use crate::run::{Start, Turn, run};
use crate::{duration, socket};

/// How long a program has between SIGTERM and SIGKILL.
const MERCY: Duration = Duration::from_secs(10);
/// Parts of an array that wait or run at a time: a user has some hundred places.
const AT_ONCE: usize = 64;
/// How long the manager's answer may take.
const ANSWER: Duration = Duration::from_secs(2);
/// What words of an array's program stand for its number.
const INDEX: &str = "{index}";

/// `cpumgr submit`. Returns its error, or, after the end of what it started, ends the process.
pub(crate) fn submit(mut args: SubmitArgs, warn: impl Fn(&str)) -> Error {
    let done = |code: i32| std::process::exit(code);
    if args.stage == 0 && args.background {
        return match in_background(&args) {
            Ok(()) => done(0),
            Err(error) => error,
        };
    }
    let is_parent =
        args.wait || args.background || args.time_limit.is_some() || args.array.is_some();
    if args.stage < 2 && is_parent {
        return match parent(&args, &warn) {
            Ok(code) => done(code),
            Err(error) => error,
        };
    }
    if let Some(index) = args.index {
        for word in &mut args.run.command {
            if let Some(text) = word.to_str().filter(|text| text.contains(INDEX)) {
                *word = text.replace(INDEX, &index.to_string()).into();
            }
        }
    }
    let turn = Turn::new(args.after, args.deadline, args.stage == 2, args.tell.and_then(own))
        .as_job(args.time_limit, args.procs);
    run(&args.run, Start::InTurn(&turn), warn)
}

/// The descriptor of this number that the parent left for us; closed when we become another
/// program.
fn own(number: i32) -> Option<OwnedFd> {
    if number <= 2 {
        return None;
    }
    // SAFETY: - the parent, which is this program, opened it for us and named it; nothing else here
    // uses that number. Of a number that is not open the next call says so.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    match fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
        Ok(_) => Some(fd),
        Err(_) => {
            // It is no descriptor: nothing is to be closed.
            std::mem::forget(fd);
            None
        }
    }
}

/// This program with the same words, as another stage.
fn again(stage: u8) -> Result<Command, Error> {
    let program = std::env::current_exe().map_err(|source| Error::Io {
        what: "cannot find",
        path: "cpumgr".into(),
        source,
    })?;
    let mut command = Command::new(program);
    // Our options follow the verb: those of the program come last.
    command.arg("submit").args(["--stage", &stage.to_string()]);
    Ok(command)
}

/// What the user said after the verb, without what a stage before this one put in front of it.
fn words() -> impl Iterator<Item = OsString> {
    let mut words = std::env::args_os().skip(2).peekable();
    while words
        .next_if(|word| ["--stage", "--tell", "--index"].iter().any(|it| word == it))
        .is_some()
    {
        // Its value.
        words.next();
    }
    words
}

fn system(call: &'static str) -> impl Fn(nix::errno::Errno) -> Error {
    move |errno| Error::System(platform::SysError::new(call, errno as i32))
}

/// A pipe of which a child is to have the second end.
fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    let (reads, writes) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(system("pipe2"))?;
    fcntl(&writes, FcntlArg::F_SETFD(FdFlag::empty())).map_err(system("fcntl"))?;
    Ok((reads, writes))
}

fn in_background(args: &SubmitArgs) -> Result<(), Error> {
    let (reads, writes) = pipe()?;
    let cannot = |source| Error::Io { what: "cannot write", path: args.output.clone(), source };
    let output = open_output(&args.output).map_err(cannot)?;
    let errors = output.try_clone().map_err(cannot)?;
    let mut command = again(1)?;
    command.args(["--tell", &writes.as_raw_fd().to_string()]).args(words());
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    let child = command.spawn().map_err(|source| Error::Exec { program: "cpumgr".into(), source });
    drop(child?);
    drop(writes);
    let mut said = String::new();
    // Ends when it was told, or its process ended.
    let read = File::from(reads).read_to_string(&mut said);
    match (read, said.trim().parse::<u64>()) {
        (Ok(_), Ok(id)) => print(&format!("{id}\n")),
        _ => Err(Error::Apart {
            message: format!("it was not submitted; {} says why", args.output.display()),
            code: FAILED,
        }),
    }
}

/// Where a program in the background writes; a FIFO without a reader is an error, not a wait.
fn open_output(path: &Path) -> std::io::Result<File> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let output =
        OpenOptions::new().append(true).create(true).custom_flags(flags).open(path).map_err(
            |error| match error.raw_os_error() {
                Some(libc::ENXIO) => std::io::Error::other("it is a FIFO that no process reads"),
                _ => error,
            },
        )?;
    // The program waits for a slow reader as usual.
    fcntl(&output, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
    Ok(output)
}

/// A process that submits itself and becomes the program.
struct Part {
    child: Child,
    pidfd: OwnedFd,
    index: Option<u64>,
    /// Open until it becomes the program.
    tell: Option<File>,
    /// When it did.
    began: Option<Instant>,
    /// When it was told to end.
    warned: Option<Instant>,
    /// It has ended, and the manager is told how.
    told: Option<Told>,
}

/// Tells the manager how a program ended. While it does not answer, the others are looked after.
struct Told {
    /// `None`: there is no manager, and so no submission that waits for that.
    connection: Option<Connection>,
    until: Instant,
}

impl Told {
    fn begin(named: Option<&Path>, pid: i32, code: i32) -> Self {
        let connect = || {
            let socket = socket::to_run(named).ok()??;
            let connection = Connection::open(&socket, ANSWER).ok()?;
            connection.send(&ToManager::Outcome { pid, code }).ok()?;
            Some(connection)
        };
        Self { connection: connect(), until: Instant::now() + ANSWER }
    }

    /// It knows, refused (the program was never in its queue), or had its time.
    fn is_over(&self) -> bool {
        let hears = |connection: &Connection| !has_something(connection);
        !self.connection.as_ref().is_some_and(hears) || self.until <= Instant::now()
    }
}

impl Part {
    /// `blocked` are the signals that the parent has blocked: the program gets them as usual.
    fn start(index: Option<u64>, blocked: SigSet) -> Result<Self, Error> {
        let (reads, writes) = pipe()?;
        let mut command = again(2)?;
        command.args(["--tell", &writes.as_raw_fd().to_string()]);
        if let Some(index) = index {
            command.args(["--index", &index.to_string()]);
            command.env("CPUMGR_ARRAY_INDEX", index.to_string());
        }
        command.args(words());
        let unblock = move || blocked.thread_unblock().map_err(std::io::Error::from);
        // SAFETY: - between fork and exec it calls pthread_sigmask alone, which is
        // async-signal-safe, and allocates nothing.
        unsafe { command.pre_exec(unblock) };
        let child = command.spawn();
        let child = child.map_err(|source| Error::Exec { program: "cpumgr".into(), source })?;
        let pidfd = process::pidfd_open(Pid(child.id().cast_signed()))?;
        let tell = Some(File::from(reads));
        Ok(Self { child, pidfd, index, tell, began: None, warned: None, told: None })
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// What it says of itself: its number; nothing more when it becomes the program.
    fn hear(&mut self) -> Option<String> {
        let mut said = [0; 64];
        let read = self.tell.as_mut()?.read(&mut said).unwrap_or(0);
        if read == 0 {
            (self.tell, self.began) = (None, Some(Instant::now()));
            return None;
        }
        Some(String::from_utf8_lossy(&said[..read]).into_owned())
    }

    /// When something is to be done about its time limit, or its end.
    fn due(&self, limit: Option<Duration>) -> Option<Instant> {
        if let Some(told) = &self.told {
            return Some(told.until);
        }
        let over = self.began? + limit?;
        Some(self.warned.map_or(over, |warned| warned + MERCY))
    }

    fn end(&mut self, limit: Option<Duration>, warn: &impl Fn(&str)) {
        let shown = limit.map(duration::show).unwrap_or_default();
        let signal = match self.warned {
            None => Signal::SIGTERM,
            Some(_) => Signal::SIGKILL,
        };
        if self.warned.is_none() {
            warn(&format!(
                "process {} has run for {shown} (--time-limit): it is ended",
                self.pid()
            ));
        }
        self.warned = Some(Instant::now());
        // It may have ended.
        let _sent = process::pidfd_send_signal(&self.pidfd, signal as i32);
    }

    /// Its exit code, if it has ended and the manager was told so; it is not waited for yet.
    fn ended(&mut self, named: Option<&Path>) -> Result<Option<i32>, Error> {
        let Some(code) = self.code()? else { return Ok(None) };
        let pid = self.pid();
        let told = self.told.get_or_insert_with(|| Told::begin(named, pid, code));
        Ok(told.is_over().then_some(code))
    }

    fn code(&self) -> Result<Option<i32>, Error> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        let status = waitid(Id::Pid(UnixPid::from_raw(self.pid())), flags);
        Ok(match status.map_err(system("waitid"))? {
            WaitStatus::Exited(_, code) => Some(code),
            WaitStatus::Signaled(_, signal, _) => Some(128 + signal as i32),
            _ => None,
        })
    }
}

/// Starts the parts and waits for all of them; the code to end with.
fn parent(args: &SubmitArgs, warn: &impl Fn(&str)) -> Result<i32, Error> {
    let mut tell = args.tell.and_then(own).map(File::from);
    let mut numbers: Box<dyn Iterator<Item = Option<u64>>> = match args.array {
        Some(array) => Box::new(array.numbers().map(Some)),
        None => Box::new(std::iter::once(None)),
    };
    // Blocked from the first part to the end: a signal that comes in between waits for the next
    // look, and never ends this process without its parts.
    let wanted: SigSet =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT, Signal::SIGHUP].into_iter().collect();
    wanted.thread_block().map_err(system("pthread_sigmask"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&wanted, flags).map_err(system("signalfd"))?;
    let mut parts: Vec<Part> = Vec::new();
    parts.extend(numbers.next().map(|index| Part::start(index, wanted)).transpose()?);
    let (mut count, mut failed, mut is_over) = (0_u64, Vec::new(), false);
    let mut last = 0;
    loop {
        while parts.len() < AT_ONCE && !is_over {
            let Some(index) = numbers.next() else { break };
            parts.push(Part::start(index, wanted)?);
        }
        if parts.is_empty() {
            break;
        }
        wait(&parts, &signals, args.time_limit)?;
        while let Ok(Some(signal)) = signals.read_signal() {
            is_over = true;
            // What the terminal sends, all of its processes get.
            let from_terminal = signal.ssi_code > 0;
            let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
            for part in parts.iter().filter(|_| !from_terminal) {
                // It may have ended.
                let _sent = process::pidfd_send_signal(&part.pidfd, number);
            }
        }
        let mut left = Vec::new();
        for mut part in parts {
            if part.tell.as_ref().is_some_and(has_something)
                && let Some(said) = part.hear()
                && let Some(mut tell) = tell.take()
            {
                // The one that asked may have gone.
                let _told = std::io::Write::write_all(&mut tell, said.as_bytes());
            }
            let is_due = part.due(args.time_limit).is_some_and(|due| due <= Instant::now());
            if is_due && part.told.is_none() {
                part.end(args.time_limit, warn);
            }
            let Some(code) = part.ended(args.run.socket.as_deref())? else {
                left.push(part);
                continue;
            };
            (count, last) = (count + 1, code);
            if code != 0 {
                failed.extend(part.index);
            }
            part.child.wait().map_err(|source| Error::Io {
                what: "cannot wait for",
                path: args.run.command[0].clone().into(),
                source,
            })?;
        }
        parts = left;
    }
    if args.array.is_none() {
        return Ok(last);
    }
    if failed.is_empty() {
        return Ok(0);
    }
    let names: Vec<String> = failed.iter().take(20).map(u64::to_string).collect();
    let more = if failed.len() > names.len() { ", ..." } else { "" };
    warn(&format!("{} of {count} did not end with 0: {}{more}", failed.len(), names.join(", ")));
    Ok(i32::from(FAILED))
}

fn has_something(tell: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(tell.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Until a part says something or ends, the manager answers, a signal comes, or a time is over.
fn wait(parts: &[Part], signals: &SignalFd, limit: Option<Duration>) -> Result<(), Error> {
    let wants = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut fds = vec![wants(signals.as_fd())];
    for part in parts {
        // That of one that has ended is always readable.
        let connection = part.told.as_ref().and_then(|told| told.connection.as_ref());
        fds.push(wants(connection.map_or(part.pidfd.as_fd(), AsFd::as_fd)));
        fds.extend(part.tell.as_ref().map(|tell| wants(tell.as_fd())));
    }
    let due = parts.iter().filter_map(|part| part.due(limit)).min();
    let timeout = due.map_or(PollTimeout::NONE, |due| {
        let left = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left.min(Duration::from_secs(3600))).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(system("poll")(errno)),
    }
}
