//! Processes under measurement: started together, timed one by one, stopped at a cap, and never
//! left running.
//!
//! # Invariants
//! I1  Every process that is started here is reaped here: at its end, at the cap, or when [`Group`]
//!     is dropped.
//! I2  Should this program be killed, the kernel kills what it started (parent-death signal).
//! I3  A process that those processes start and leave running becomes our child (subreaper), and
//!     [`Household`] ends it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Set by the signal handler; read between waits.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// One copy's end.
pub(crate) struct Finish {
    /// Which of the commands that were started together, from 0.
    pub(crate) index: usize,
    /// From its start to its end, or to the cap.
    pub(crate) turnaround: Duration,
    /// Processor time of all its threads, user and system.
    pub(crate) cpu: Duration,
    /// How it ended; `None`: killed at the cap.
    pub(crate) status: Option<ExitStatus>,
    /// What it wrote to its standard output.
    pub(crate) output: String,
    /// What it wrote to its standard error.
    pub(crate) errors: String,
    /// Its process number.
    pub(crate) pid: i32,
}

struct Copy {
    index: usize,
    pid: i32,
    handle: OwnedFd,
    started: Instant,
    output: File,
    errors: File,
}

/// Copies of a program that run now.
struct Group {
    running: Vec<Copy>,
}

impl Drop for Group {
    fn drop(&mut self) {
        for copy in &self.running {
            kill(copy.pid);
            // The result is not needed: the run has failed already or was given up.
            let _ = reap(copy.pid);
        }
    }
}

/// Starts `copies` of what `command` makes and waits for all, at most until `cap`; then the rest is
/// killed.
pub(crate) fn run_copies(
    copies: usize,
    cap: Duration,
    mut command: impl FnMut() -> Command,
) -> anyhow::Result<Vec<Finish>> {
    run_together(cap, (0..copies).map(|_| command()).collect())
}

/// Starts these commands and waits for all, at most until `cap`; then the rest is killed. In the
/// order in which they ended.
pub(crate) fn run_together(
    cap: Duration,
    mut commands: Vec<Command>,
) -> anyhow::Result<Vec<Finish>> {
    let begin = Instant::now();
    let mut group = Group { running: Vec::with_capacity(commands.len()) };
    for (index, command) in commands.iter_mut().enumerate() {
        group.running.push(Copy::start(index, command)?);
    }
    let mut finished = Vec::with_capacity(commands.len());
    while !group.running.is_empty() {
        check_interrupt()?;
        let left = cap.saturating_sub(begin.elapsed());
        if left.is_zero() {
            break;
        }
        for index in group.ended(left.min(Duration::from_millis(250)))?.into_iter().rev() {
            let turnaround = group.running[index].started.elapsed();
            finished.push(group.running.remove(index).finish(turnaround, false)?);
        }
    }
    while let Some(copy) = group.running.pop() {
        kill(copy.pid);
        let turnaround = copy.started.elapsed();
        finished.push(copy.finish(turnaround, true)?);
    }
    // The signal may have ended the copies, too, before we looked: that is no result of theirs.
    check_interrupt()?;
    Ok(finished)
}

impl Group {
    /// The places of the copies that have ended, in ascending order; empty when none did in `wait`
    /// or a signal came.
    fn ended(&self, wait: Duration) -> anyhow::Result<Vec<usize>> {
        let mut polled: Vec<libc::pollfd> = self
            .running
            .iter()
            .map(|copy| libc::pollfd {
                fd: copy.handle.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        // Rounded up: a wait of less than a millisecond must not turn into polling.
        let milliseconds = i32::try_from(wait.as_millis() + 1).unwrap_or(i32::MAX);
        // SAFETY: `polled` is a live array of exactly that many entries, and the descriptors are
        // open: `self` owns them.
        let ready =
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
        if ready < 0 {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error).context("poll on the running copies");
            }
            return Ok(Vec::new());
        }
        Ok((0..polled.len()).filter(|&index| polled[index].revents != 0).collect())
    }
}

impl Copy {
    fn start(index: usize, command: &mut Command) -> anyhow::Result<Copy> {
        // Files and not pipes: a copy that writes much must not block on a reader that waits for
        // its end.
        let output = tempfile::tempfile().context("cannot make a temporary file")?;
        let errors = tempfile::tempfile().context("cannot make a temporary file")?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("cannot share a temporary file")?)
            .stderr(errors.try_clone().context("cannot share a temporary file")?);
        let started = Instant::now();
        let pid = start_bound_to_us(command)?;
        let handle = match pidfd(pid) {
            Ok(handle) => handle,
            Err(error) => {
                kill(pid);
                // The first error is the one to report.
                let _ = reap(pid);
                return Err(error).context("pidfd_open (Linux 5.3 or later is needed)");
            }
        };
        Ok(Copy { index, pid, handle, started, output, errors })
    }

    fn finish(mut self, turnaround: Duration, capped: bool) -> anyhow::Result<Finish> {
        let (status, cpu) = reap(self.pid)?;
        let status = if capped { None } else { Some(status) };
        let output = read_back(&mut self.output)?;
        let errors = read_back(&mut self.errors)?;
        Ok(Finish { index: self.index, turnaround, cpu, status, output, errors, pid: self.pid })
    }
}

fn read_back(file: &mut File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .context("cannot read back what a copy wrote")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A long-lived helper process; dropped = asked to leave, then made to.
pub(crate) struct Servant {
    pid: i32,
    reaped: bool,
}

impl Servant {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Servant> {
        Ok(Servant { pid: start_bound_to_us(command.stdin(Stdio::null()))?, reaped: false })
    }

    /// How it ended, when it has.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let mut status = 0;
        // SAFETY: the status is a live integer; the process is an unreaped child of ours (`reaped`
        // is false until here).
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) };
        match pid {
            0 => Ok(None),
            pid if pid == self.pid => {
                self.reaped = true;
                Ok(Some(ExitStatus::from_raw(status)))
            }
            _ => Err(std::io::Error::last_os_error()).context("waitpid"),
        }
    }

    /// Asks it to leave (SIGTERM), waits at most two seconds, kills it otherwise. Returns its
    /// processor time.
    pub(crate) fn stop(mut self) -> anyhow::Result<Duration> {
        self.end()
    }

    /// Ends it without asking (SIGKILL).
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.reaped, true) {
            kill(self.pid);
            reap(self.pid)?;
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<Duration> {
        if std::mem::replace(&mut self.reaped, true) {
            return Ok(Duration::ZERO);
        }
        // SAFETY: the process is our child and not yet reaped, so the number is still its own.
        unsafe { libc::kill(self.pid, libc::SIGTERM) };
        if let Ok(handle) = pidfd(self.pid) {
            let mut polled =
                libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live entry with a descriptor that `handle` keeps open.
            unsafe { libc::poll(&raw mut polled, 1, 2000) };
        }
        kill(self.pid);
        reap(self.pid).map(|(_, cpu)| cpu)
    }
}

impl Drop for Servant {
    fn drop(&mut self) {
        // The run is over or has failed; what matters is that the process is gone.
        let _ = self.end();
    }
}

/// Makes this process the parent of all processes that its children leave running, and the receiver
/// of the signals that end a run.
pub(crate) struct Household;

impl Household {
    /// Takes over; from here on SIGINT, SIGTERM and SIGHUP make [`run_copies`] and
    /// [`check_interrupt`] fail.
    pub(crate) fn take_over() -> anyhow::Result<Household> {
        // SAFETY: this option takes one number and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
            return Err(std::io::Error::last_os_error()).context("prctl(PR_SET_CHILD_SUBREAPER)");
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: all zero is a valid sigaction: default handler, empty mask, no flags (so
            // waits are interrupted).
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction =
                note_interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // SAFETY: the action is initialised, and its handler only stores to an atomic.
            if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
                return Err(std::io::Error::last_os_error()).context("sigaction");
            }
        }
        Ok(Household)
    }
}

impl Drop for Household {
    fn drop(&mut self) {
        // What a child had started becomes our child when that child dies, so look again until none
        // is left.
        for _ in 0..100 {
            let heirs = children();
            if heirs.is_empty() {
                break;
            }
            for pid in heirs {
                kill(pid);
                // A child that cannot be waited for shows up again in the next round.
                let _ = reap(pid);
            }
        }
    }
}

extern "C" fn note_interrupt(_signal: libc::c_int) {
    // Relaxed: a flag that is looked at again and again; nothing else travels with it.
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether a signal has asked this program to end.
pub(crate) fn is_interrupted() -> bool {
    // Relaxed: see `note_interrupt`.
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails once a signal has asked this program to end.
pub(crate) fn check_interrupt() -> anyhow::Result<()> {
    if is_interrupted() {
        bail!("interrupted by a signal; every process that was started has been ended");
    }
    Ok(())
}

/// Now, on the clock of the manager's trace.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

fn start_bound_to_us(command: &mut Command) -> anyhow::Result<i32> {
    let parent = std::process::id();
    let name: OsString = command.get_program().to_owned();
    // SAFETY: between fork and exec only two plain system calls are made; nothing is allocated and
    // no lock is taken.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // We may have died before the line above: then the signal will not come.
            if libc::getppid().cast_unsigned() != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
    let child = command.spawn().with_context(|| format!("cannot start {}", name.display()))?;
    // The handle is dropped on purpose: `wait4` below reaps the process and reports its processor
    // time as well.
    i32::try_from(child.id()).context("a process number beyond the kernel's range")
}

fn pidfd(pid: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: takes two numbers; the process is an unreaped child, so the number is its own.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn kill(pid: i32) {
    // SAFETY: takes two numbers; callers pass an unreaped child, so the number is its own. It may
    // have ended already.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

fn reap(pid: i32) -> anyhow::Result<(ExitStatus, Duration)> {
    loop {
        let mut status = 0;
        // SAFETY: all zero is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both results are live and of the right type; the process is a child of ours.
        let result = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if result == pid {
            let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
            return Ok((ExitStatus::from_raw(status), cpu));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error).with_context(|| format!("wait4 for process {pid}"));
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
        + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// All processes whose parent is this one.
fn children() -> Vec<i32> {
    let us = std::process::id().cast_signed();
    let stats = procfs::process::all_processes()
        .into_iter()
        .flatten()
        .filter_map(|process| process.ok()?.stat().ok());
    stats.filter(|stat| stat.ppid == us).map(|stat| stat.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn copies_report_status_output_and_processor_time() {
        let script =
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; echo oops >&2; exit 3";
        let finished = run_copies(2, Duration::from_secs(60), || shell(script)).unwrap();
        assert_eq!(finished.len(), 2);
        for finish in finished {
            assert_eq!(finish.status.and_then(|status| status.code()), Some(3));
            assert_eq!((finish.output.as_str(), finish.errors.as_str()), ("done\n", "oops\n"));
            assert!(finish.cpu > Duration::ZERO && finish.turnaround > Duration::ZERO);
        }
    }

    #[test]
    fn a_copy_beyond_the_cap_is_killed_and_says_so() {
        let finished =
            run_copies(2, Duration::from_millis(50), || shell("exec sleep 1000")).unwrap();
        assert_eq!(finished.len(), 2);
        for finish in finished {
            assert!(finish.status.is_none());
            assert!(finish.turnaround < Duration::from_secs(100));
            assert!(!std::path::Path::new(&format!("/proc/{}", finish.pid)).exists());
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let result = run_copies(1, Duration::from_secs(1), || Command::new("/nowhere/program"));
        let message = format!("{:#}", result.err().unwrap());
        assert!(message.contains("cannot start /nowhere/program"), "{message}");
    }

    #[test]
    fn a_servant_ends_with_its_holder() {
        let servant = Servant::start(&mut shell("exec sleep 1000")).unwrap();
        let pid = servant.pid;
        drop(servant);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_servant_that_has_ended_is_noticed() {
        let mut servant = Servant::start(&mut shell("exit 7")).unwrap();
        let status = loop {
            if let Some(status) = servant.ended().unwrap() {
                break status;
            }
            std::thread::yield_now();
        };
        assert_eq!(status.code(), Some(7));
        assert_eq!(servant.stop().unwrap(), Duration::ZERO);
    }
}
