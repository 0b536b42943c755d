//! `cpumgr jobserver`: processors as job tokens of GNU make, which follow the grant.
//!
//! # Protocol
//! 1. This process registers as a program that asks for `--jobs` processors, makes a pipe (or a
//!    fifo, which make knows from 4.4 on) with a token for each processor but the first, which is
//!    that of the program itself, names it in `MAKEFLAGS`, and starts the program.
//! 2. As long as the program lives it looks at the grant: a processor more is a token more, a
//!    processor less a token that is taken out as soon as one is there (`tokens`). Jobs that run
//!    are not stopped; all that belongs to the program is bound to the processors that are granted
//!    (`tree`).
//! 3. Tokens that a killed client took with it come back (`tokens`, T2).
//! 4. It ends as the program does: with its code, or 128 and the number of its signal.
//!
//! Without a manager there are as many tokens as processors may be used here.
//!
//! # Not here
//! How many jobs a client starts: that is the client's. `make -jN` makes a jobserver of its own.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use arena::client::{Client, ConnectError, Hello, SOCKET_VARIABLE};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use platform::affinity::{self, CpuSet};
use platform::process::{self, Pid};
use platform::pthread;

use crate::cli::{JobserverArgs, Style};
use crate::error::Error;
use crate::run::{Start, ensure_manager};
use crate::{inherited, preload, socket};

mod tokens;
mod tree;

use tokens::Tokens;
use tree::Tree;

/// How long the manager may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How often the grant is looked at.
const LOOK: u16 = 50;
/// Looks between two looks at the processes.
const SELDOM: u32 = 4;

/// `cpumgr jobserver`. Returns only when the program cannot be started.
///
/// # Errors
/// When there is no such program, or no pipe.
pub fn run(args: &JobserverArgs, warn: impl Fn(&str)) -> Error {
    match serve(args, &warn) {
        Ok(code) => std::process::exit(code),
        Err(error) => error,
    }
}

fn serve(args: &JobserverArgs, warn: &impl Fn(&str)) -> Result<i32, Error> {
    let mask = affinity::affinity(None)?;
    let most = u32::try_from(mask.len()).unwrap_or(u32::MAX).max(1);
    let jobs = args.jobs.unwrap_or(most);
    // Lists, accounts and tables of programs (`[programs.make]`) are by the kernel's name of this
    // process, which stands for its program.
    if let Some(name) = Path::new(&args.command[0]).file_name() {
        pthread::set_name(&name.to_string_lossy());
    }
    let (client, found) = register(args, jobs, most, warn);
    let style = args.style.unwrap_or_else(|| usual_style(&args.command[0]));
    let granted = client.as_ref().map_or(jobs.min(most), |it| it.grant().processors);
    let mut tokens = Tokens::create(style, tokens_of(granted, jobs))?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).stdin(Stdio::inherit());
    // What the program starts is a job of it, and no program of its own.
    command.env(SOCKET_VARIABLE, found.as_deref().unwrap_or(OsStr::new("off")));
    command.env("MAKEFLAGS", tokens.flags(std::env::var_os("MAKEFLAGS").as_deref()));
    command.env("CARGO_MAKEFLAGS", tokens.flags(None));
    inherited::pass_on(&mut command);
    // Jobs whose make was killed stay within reach.
    if let Err(error) = prctl::set_child_subreaper(true) {
        warn(&format!("jobs whose make was killed will not be bound: {error}"));
    }
    // Before the program begins: what ends this process in that moment would leave it alone.
    let signals = hold_signals(&mut command)?;
    let mut child = {
        let _shared = tokens.share()?;
        command.spawn().map_err(|source| Error::Exec {
            program: args.command[0].to_string_lossy().into_owned(),
            source,
        })?
    };
    let followed = follow(&mut child, client.as_ref(), &mut tokens, &signals, jobs, mask);
    let status = match followed {
        Ok(status) => status,
        Err(error) => {
            warn(&format!("{error}; the tokens stay as they are"));
            child.wait().map_err(|source| Error::Io {
                what: "cannot wait for",
                path: Path::new(&args.command[0]).to_owned(),
                source,
            })?
        }
    };
    Ok(code_of(status))
}

/// The connection with a manager, and its socket; without one a warning is enough.
fn register(
    args: &JobserverArgs,
    jobs: u32,
    most: u32,
    warn: &impl Fn(&str),
) -> (Option<Client>, Option<OsString>) {
    let hello = Hello {
        max_processors: jobs.min(most).max(1),
        request: jobs.min(most).max(1),
        fixed_team: false,
        library: "cpumgr jobserver".into(),
        within: None,
        broker: true,
    };
    let connect = || -> Result<Option<(Client, OsString)>, Error> {
        let Some(socket) = socket::to_run(args.socket.as_deref())? else { return Ok(None) };
        socket::refuse_file(&socket)?;
        ensure_manager(&socket, &args.as_run(), Start::Now, warn)?;
        let client = match Client::connect(&socket, &hello, ANSWER) {
            Err(error) if error.may_pass() => Client::expect(&socket, &hello),
            other => other,
        };
        let client = client.map_err(|source: ConnectError| Error::from(source))?;
        Ok(Some((client, socket.into_os_string())))
    };
    match connect() {
        Ok(Some((client, socket))) => (Some(client), Some(socket)),
        Ok(None) => (None, None),
        Err(error) => {
            warn(&format!("{error}; there are {} tokens without a manager", jobs.min(most)));
            (None, None)
        }
    }
}

/// How many tokens stand for a grant: the program has one processor without.
fn tokens_of(granted: u32, jobs: u32) -> u32 {
    granted.clamp(1, jobs.max(1)) - 1
}

/// The form that whatever runs understands: make from 4.4 on, ninja and cargo know fifos; an older
/// make knows pipes alone, and cargo both.
fn usual_style(program: &OsStr) -> Style {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    if name.starts_with("ninja") {
        return Style::Fifo;
    }
    let make = if name.ends_with("make") { program } else { OsStr::new("make") };
    let says = preload::find(Path::new(make))
        .and_then(|path| Command::new(path).arg("--version").env_remove("MAKEFLAGS").output().ok());
    match says.and_then(|output| version(&String::from_utf8_lossy(&output.stdout))) {
        Some(version) if version < (4, 4) => Style::Pipe,
        _ => Style::Fifo,
    }
}

/// `GNU Make 4.3`.
fn version(text: &str) -> Option<(u32, u32)> {
    let text = text.lines().next()?.strip_prefix("GNU Make ")?;
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

fn system(call: &'static str) -> impl Fn(nix::errno::Errno) -> Error {
    move |errno| Error::System(platform::SysError::new(call, errno as i32))
}

/// From now on signals that end a process are read here, to be passed on. `command` becomes a
/// program that gets them as this process did.
fn hold_signals(command: &mut Command) -> Result<SignalFd, Error> {
    let held: SigSet =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT, Signal::SIGHUP].into_iter().collect();
    let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(system("pthread_sigmask"))?;
    let unblock = move || before.thread_set_mask().map_err(std::io::Error::from);
    // SAFETY: - between fork and exec it calls pthread_sigmask alone, which is async-signal-safe,
    //           and allocates nothing.
    unsafe { command.pre_exec(unblock) };
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&held, flags).map_err(system("signalfd"))
}

/// Follows the grant until the program has ended.
fn follow(
    child: &mut Child,
    client: Option<&Client>,
    tokens: &mut Tokens,
    signals: &SignalFd,
    jobs: u32,
    mask: CpuSet,
) -> Result<ExitStatus, Error> {
    let pid = Pid(child.id().cast_signed());
    let ended = process::pidfd_open(pid)?;
    let mut tree = Tree::new(pid.0, mask);
    let mut looks = 0;
    loop {
        if let Some(client) = client.filter(|it| it.is_alive()) {
            let (grant, cpus) = client.grant_with_cpus();
            tokens.aim_at(tokens_of(grant.processors, jobs));
            tree.aim_at(cpus);
        }
        tokens.settle();
        if looks % SELDOM == 0 {
            let held = tree.look();
            tokens.count(held);
        }
        looks = looks.wrapping_add(1);
        let wants = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds: Vec<PollFd<'_>> = vec![wants(ended.as_fd()), wants(signals.as_fd())];
        let taken: Option<BorrowedFd<'_>> = tokens.wants_one();
        fds.extend(taken.map(wants));
        match poll(&mut fds, PollTimeout::from(LOOK)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(system("poll")(errno)),
        }
        while let Ok(Some(signal)) = signals.read_signal() {
            // What the terminal sends, all of its processes get.
            let from_terminal = signal.ssi_code > 0;
            if !from_terminal {
                let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
                // It may have ended.
                let _sent = process::pidfd_send_signal(&ended, number);
            }
        }
        let status = child.try_wait().map_err(|error| {
            Error::System(platform::SysError::new("wait4", error.raw_os_error().unwrap_or(0)))
        })?;
        if let Some(status) = status {
            return Ok(status);
        }
    }
}

/// As a shell says it.
fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_token_less_than_processors_and_never_more_than_it_wants() {
        let all = [(0, 4), (1, 4), (3, 4), (9, 4), (9, 1), (5, 0)];
        assert_eq!(all.map(|(granted, jobs)| tokens_of(granted, jobs)), [0, 0, 2, 3, 0, 0]);
    }

    #[test]
    fn the_version_of_make_is_in_its_first_line() {
        assert_eq!(version("GNU Make 4.3\nBuilt for x86_64"), Some((4, 3)));
        assert_eq!(version("GNU Make 4.4.1\n"), Some((4, 4)));
        assert_eq!((version("bmake 2020"), version("")), (None, None));
        assert_eq!(usual_style(OsStr::new("/usr/bin/ninja")), Style::Fifo);
    }
}
