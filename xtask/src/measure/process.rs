//! Processes of ours: started so that they cannot outlive this program, and reaped with the
//! processor time that they took.

use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::Context;

/// Starts a process that the kernel kills when this program dies. The number, and its pipes where
/// the command has some.
pub(super) fn start_bound_to_us(command: &mut Command) -> anyhow::Result<(i32, Child)> {
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
    // Nothing waits on this handle: `wait4` below reaps the process and reports its processor time
    // as well.
    let pid = i32::try_from(child.id()).context("a process number beyond the kernel's range")?;
    Ok((pid, child))
}

pub(super) fn pidfd(pid: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: takes two numbers; the process is an unreaped child, so the number is its own.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

pub(super) fn kill(pid: i32) {
    // SAFETY: takes two numbers; callers pass an unreaped child, so the number is its own. It may
    // have ended already.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// What a process used in its life, with the children that it reaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Processor time of all its threads, user and system.
    pub(super) cpu: Duration,
    /// How often a thread gave its processor up to wait: it slept, and was woken.
    pub(super) voluntary: u64,
    /// How often a thread lost its processor while it would have gone on.
    pub(super) involuntary: u64,
}

pub(super) fn reap(pid: i32) -> anyhow::Result<(ExitStatus, Usage)> {
    loop {
        let mut status = 0;
        // SAFETY: all zero is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both results are live and of the right type; the process is a child of ours.
        let result = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if result == pid {
            let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
            let [voluntary, involuntary] = [usage.ru_nvcsw, usage.ru_nivcsw]
                .map(|switches| u64::try_from(switches).unwrap_or(0));
            return Ok((ExitStatus::from_raw(status), Usage { cpu, voluntary, involuntary }));
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
pub(super) fn children() -> Vec<i32> {
    let us = std::process::id().cast_signed();
    let stats = procfs::process::all_processes()
        .into_iter()
        .flatten()
        .filter_map(|process| process.ok()?.stat().ok());
    stats.filter(|stat| stat.ppid == us).map(|stat| stat.pid).collect()
}

/// Now, on the clock of the manager's trace.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
