//! A manager that belongs to no terminal.
//!
//! # Protocol
//! 1. The starter runs itself again with `--detached`, standard output a pipe, standard error the
//!    log.
//! 2. The detached process begins a session of its own, becomes the manager, and says `ready` on
//!    the pipe, or what went wrong; then it lets go of the pipe.
//! 3. The starter ends with the pipe's answer. The manager is then no child of its starter: a
//!    program that `run` becomes never finds it among its own children.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};

use super::Options;
use crate::cli::{IdleExit, Level, Strangers, Threads};
use crate::error::{Error, FAILED};
use crate::history::Keep;
use crate::instance::{beside, prepare_directory};
use crate::kernel::Linux;
use crate::masks;
use crate::own_file;
use crate::patience::patience;
use crate::server::Settings;
use crate::service::passed::{self, Listener};

/// What the detached manager says when it answers.
const READY: &str = "ready\n";
/// What a manager that serves all programs keeps of its starter's environment: where to find
/// things, what it logs, and what the tools of its developers set.
const KEPT: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CPUMGR_LOG",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "NANOS_FAULT",
    "ASAN_OPTIONS",
    "TSAN_OPTIONS",
    "LLVM_PROFILE_FILE",
];
/// How long a program may take to say its version. The scheduler waits for it, once, before it
/// begins anew: shorter than the silence for which programs take it for hung.
const VERSION_TIME: Duration = Duration::from_millis(500);
/// How long a service manager may take to give a manager a scope, in milliseconds.
const SCOPE_TIME: u16 = 1000;
/// A log longer than this is put aside when the next manager starts.
const MAX_LOG: u64 = 1 << 20;

/// Starts a detached manager and waits until it answers.
///
/// # Errors
/// [`Error::Start`] with its own words and exit code, or what kept it from being started.
pub fn start(options: &Options) -> Result<(), Error> {
    prepare_directory(&options.socket)?;
    let (log_path, log) = open_log(&options.socket)?;
    let exe = own_program()?;
    keep_descriptors_from_children();
    // One that serves all programs afterwards does not end with its starter's session, nor live in
    // its control group.
    let scope = options.widen.then(systemd_run).flatten();
    let mut outcome = None;
    if let Some(systemd_run) = scope {
        let mut command = Command::new(systemd_run);
        command.args(["--user", "--scope", "--quiet", "--collect", "--"]).arg(&exe);
        // Without a word and without success it was no manager that ended: it is started without.
        outcome = launch(command, options, &log, Some(&exe))
            .ok()
            .filter(|(said, status)| status.is_none() || !said.trim().is_empty());
    }
    let outcome = match outcome {
        Some(outcome) => Ok(outcome),
        None => launch(Command::new(&exe), options, &log, None),
    };
    let (said, status) =
        outcome.map_err(|source| Error::Io { what: "cannot start", path: exe, source })?;
    let Some(status) = status else { return Ok(()) };
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .filter(|code| *code != 0)
        .unwrap_or(FAILED);
    let message = if said.trim().is_empty() {
        format!("it ended with {status}")
    } else {
        said.trim().to_owned()
    };
    Err(Error::Start { message, code, log: log_path })
}

/// Runs `command`, which becomes the manager; its words, and how it ended if it is not ready. One
/// that is to become `program` has [`SCOPE_TIME`] for that.
fn launch(
    mut command: Command,
    options: &Options,
    log: &File,
    program: Option<&Path>,
) -> io::Result<(String, Option<ExitStatus>)> {
    command.arg("daemon").arg("--detached").args(arguments(options));
    if options.widen {
        command
            .env_clear()
            .envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(log.try_clone()?))
        .current_dir("/");
    let mut child = command.spawn()?;
    let mut said = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        if program.is_some_and(|program| !becomes(child.id(), program, &pipe)) {
            child.kill()?;
            return child.wait().map(|status| (said, Some(status)));
        }
        pipe.read_to_string(&mut said)?;
    }
    if said == READY {
        return Ok((said, None));
    }
    child.wait().map(|status| (said, Some(status)))
}

/// Whether a process said something, ended, or became `program`, within [`SCOPE_TIME`].
fn becomes(pid: u32, program: &Path, pipe: &impl AsFd) -> bool {
    let number = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let mut heard = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    // An error (a signal) counts as silence: the manager is started without a scope.
    if poll(&mut heard, SCOPE_TIME).is_ok_and(|count| count > 0) {
        return true;
    }
    let own = number(program);
    own.is_some() && number(Path::new(&format!("/proc/{pid}/exe"))) == own
}

/// `systemd-run`, where this user has a service manager that starts a scope: a control group of its
/// own, next to that of the session.
fn systemd_run() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)?;
    let is_own =
        fs::metadata(&runtime).is_ok_and(|data| data.uid() == nix::unistd::geteuid().as_raw());
    let speaks = ["systemd/private", "bus"].iter().any(|name| runtime.join(name).exists());
    if !is_own || !speaks {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join("systemd-run"))
        .find(|program| program.is_file())
}

/// [`start`] in a process of its own, so that the manager does not become a child of this one.
///
/// # Errors
/// As `start`.
pub fn start_apart(options: &Options) -> Result<(), Error> {
    let exe = own_program()?;
    let mut command = Command::new(&exe);
    command.arg("daemon").arg("--background").args(arguments(options));
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|source| Error::Io { what: "cannot start", path: exe, source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let message = said.trim().trim_start_matches("cpumgr: ");
    let message = if message.is_empty() {
        format!("its starter ended with {}", output.status)
    } else {
        message.into()
    };
    let code = output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED);
    Err(Error::Apart { message, code })
}

/// The detached side: leaves the starter's session. To be called before the manager is made.
///
/// # Errors
/// When this process leads a process group: it was not started by [`start`].
pub fn detach() -> Result<(), Error> {
    match nix::unistd::setsid() {
        Ok(_) => Ok(()),
        Err(errno) => Err(platform::SysError::new("setsid", errno as i32).into()),
    }
}

/// The detached side: tells the starter, and lets go of its pipe.
pub fn say_ready() {
    say(READY);
}

/// The detached side: tells the starter what went wrong.
pub fn say_failed(error: &Error) {
    say(&error.to_string());
}

fn say(text: &str) {
    // A starter that was killed meanwhile does not hear it; the manager is there all the same.
    let _heard = nix::unistd::write(io::stdout(), text.as_bytes());
    match File::open("/dev/null").map(nix::unistd::dup2_stdout) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the starter's pipe stays open"),
        Err(error) => tracing::warn!(%error, "the starter's pipe stays open"),
    }
}

fn arguments(options: &Options) -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<std::ffi::OsString> = Vec::new();
    let mut push = |name: &str, value: std::ffi::OsString| arguments.extend([name.into(), value]);
    push("--socket", options.socket.clone().into());
    if let Some(policy) = &options.policy {
        push("--policy", policy.into());
    }
    for (name, time) in [("--quantum", options.quantum), ("--grace", options.grace)] {
        if let Some(time) = time {
            push(name, format!("{}ns", time.as_nanos()).into());
        }
    }
    if let Some(level) = options.level {
        push("--mpl", level.number().map_or("any".into(), |level| level.to_string().into()));
    }
    if let Some(share) = options.fair_share {
        push("--fair-share", share.to_string().into());
    }
    if let Some(smt) = options.smt {
        push("--smt", if smt == Threads::Pack { "pack" } else { "spread" }.into());
    }
    if let Some(strangers) = options.strangers {
        push("--strangers", if strangers == Strangers::Ignore { "ignore" } else { "leave" }.into());
    }
    if let Some(config) = &options.config {
        push("--config", config.clone().into());
    }
    if let Some(cpus) = &options.cpus {
        push("--cpus", cpus.to_string().into());
    }
    if let Some(idle) = options.idle_exit {
        let idle = match idle {
            IdleExit::Never => "never".into(),
            IdleExit::After(time) => format!("{}ns", time.as_nanos()),
        };
        push("--idle-exit", idle.into());
    }
    if let Some(trace) = &options.trace {
        push("--trace", trace.clone().into());
    }
    if let Some(size) = options.trace_size {
        push("--trace-size", size.to_string().into());
    }
    match &options.history {
        Some(Keep::On) => push("--history", "on".into()),
        Some(Keep::Off) => push("--history", "off".into()),
        Some(Keep::In(path)) => push("--history", path.clone().into()),
        None => {}
    }
    if let Some(listen) = options.listen {
        push("--listen", listen.to_string().into());
    }
    if let Some(group) = &options.fence {
        push("--fence", group.clone().into());
    }
    if options.system {
        arguments.push("--system".into());
    }
    if options.domain {
        arguments.push("--domain".into());
    }
    if options.widen {
        arguments.push("--widen".into());
    }
    if options.continues {
        arguments.push("--continues".into());
    }
    if let Some(starter) = options.starter {
        arguments.extend(["--starter".into(), starter.to_string().into()]);
    }
    if let Some(given) = &options.given {
        arguments.extend(["--given".into(), given.into()]);
    }
    for (key, value) in &options.parameters {
        arguments.extend(["--parameter".into(), format!("{key}={value}").into()]);
    }
    arguments
}

/// This process becomes the next manager, with `settings` and the same listener, so that no client
/// is refused meanwhile. Returns only when that fails. Its number, its log and its place in a
/// service stay what they are; the program may be a newer one.
pub(super) fn begin_anew(options: &Options, settings: Settings, listener: Listener) -> Error {
    let Settings { policy, parameters, quantum, grace, level } = settings;
    let options = Options {
        policy: Some(policy),
        parameters,
        quantum: Some(quantum),
        grace: Some(grace),
        level: Some(level.map_or(Level::Any, Level::AtMost)),
        continues: options.trace.is_some(),
        given: Some(options.given_on()),
        ..options.clone()
    };
    let error = match own_program() {
        Ok(path) => {
            tracing::info!(program = %path.display(), "the manager begins anew");
            let mut command = Command::new(&path);
            command.arg("daemon").args(arguments(&options));
            let passed = passed::pass_on(&mut command, Some(listener)).map_err(Error::from);
            let exec = |()| Error::Io { what: "cannot start", path, source: command.exec() };
            passed.map_or_else(|error| error, exec)
        }
        Err(error) => error,
    };
    // What was attached was left bound, for the one that does not come.
    masks::let_go(&options.socket, &Linux);
    error
}

/// Whether the program that [`begin_anew`] would become is there and runs: says its version within
/// [`VERSION_TIME`].
///
/// # Errors
/// Why not, for people.
pub(crate) fn can_begin_anew() -> Result<(), String> {
    let path = own_program().map_err(|error| error.to_string())?;
    runs(&path, patience(VERSION_TIME)).map_err(|why| {
        format!("{} cannot be started ({why}), so this manager goes on as it is", path.display())
    })
}

fn runs(path: &Path, time: Duration) -> Result<(), String> {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("with --version it ended with {status}")),
            Ok(None) if begin.elapsed() < time => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => {
                // It may end at this moment; it is waited for in both cases.
                let _killed: io::Result<()> = child.kill();
                let _ended: io::Result<ExitStatus> = child.wait();
                return Err(format!("it did not say its version within {time:?}"));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn open_log(socket: &Path) -> Result<(PathBuf, File), Error> {
    let path = beside(socket, ".log");
    if fs::metadata(&path).is_ok_and(|data| data.len() > MAX_LOG) {
        // Without success the log grows on: that is no reason not to start.
        let _renamed: io::Result<()> = fs::rename(&path, beside(socket, ".log.old"));
    }
    match own_file::open(&path, OFlag::O_WRONLY | OFlag::O_APPEND, own_file::OWN) {
        Ok(file) => Ok((path, file)),
        Err(source) => Err(Error::Io { what: "cannot open the log", path, source }),
    }
}

/// The running program's file.
///
/// # Errors
/// Without /proc.
pub fn own_program() -> Result<PathBuf, Error> {
    let own = std::env::current_exe();
    let own = own.map_err(|source| Error::Io {
        what: "cannot find",
        path: "this program".into(),
        source,
    })?;
    // A newer one may stand where this one stood: the kernel says so at the end of its name.
    let replaced = own.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(replaced.filter(|path| path.is_file() && !own.exists()).unwrap_or(own))
}

/// Marks every descriptor but the standard ones as not to be inherited: a manager that outlives its
/// starter must not hold the starter's pipes open, or a process that waits for their end waits for
/// the manager.
fn keep_descriptors_from_children() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<RawFd> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for number in numbers {
        // SAFETY: - the descriptor is only asked and marked; when it was closed meanwhile (the one
        //           of the directory listing) the kernel says EBADF. No other thread runs that
        //           could reuse the number.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        // EBADF, see above.
        let _marked = fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
        debug_assert_eq!(fd.as_raw_fd(), number);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_program_that_is_not_there_fails_or_hangs_is_not_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let long = Duration::from_secs(20);
        let of = |name: &str, text: &str, mode: u32, time: Duration| {
            let path = dir.path().join(name);
            // By another process: a file that this one had open for writing while another test's
            // thread forked cannot be run until that child becomes its program (ETXTBSY).
            let mut writer = std::process::Command::new("sh");
            writer.args(["-c", "printf %s \"$1\" > \"$2\"", "sh", text]).arg(&path);
            assert!(writer.status().unwrap().success());
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            runs(&path, time)
        };
        assert_eq!(of("good", "#!/bin/sh\nexit 0\n", 0o755, long), Ok(()));
        assert!(of("bad", "#!/bin/sh\nexit 3\n", 0o755, long).unwrap_err().contains('3'));
        assert!(of("data", "#!/bin/sh\n", 0o644, long).is_err());
        let hangs = of("hangs", "#!/bin/sh\nexec sleep 1000\n", 0o755, VERSION_TIME);
        assert!(hangs.unwrap_err().contains("within"));
        assert!(runs(&dir.path().join("nothing"), long).is_err());
    }

    #[test]
    fn a_manager_in_the_background_has_the_options_of_its_starter() {
        let words = [
            "cpumgr",
            "daemon",
            "--background",
            "--policy",
            "equip",
            "--quantum",
            "50ms",
            "--grace",
            "900ns",
            "--mpl",
        ];
        let words = [
            &words[..],
            &[
                "3",
                "--fair-share",
                "48h",
                "--smt",
                "pack",
                "--cpus",
                "0-1",
                "--idle-exit",
                "9s",
                "--trace",
                "/t",
                "--fence",
                "/f",
                "--strangers",
                "ignore",
                "--listen",
                "9477",
            ],
        ]
        .concat();
        let of = |words: Vec<std::ffi::OsString>| {
            let Command::Daemon(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("not daemon")
            };
            Options::of(&args, Path::new("/s")).unwrap()
        };
        let options = of(words.iter().map(Into::into).collect());
        let passed =
            ["cpumgr".into(), "daemon".into()].into_iter().chain(arguments(&options)).collect();
        assert_eq!(format!("{:?}", of(passed)), format!("{options:?}"));
    }
}
