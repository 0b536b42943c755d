//! A process that runs beside a measurement: the manager, a hog.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::process::{kill, pidfd, reap, start_bound_to_us};

/// A long-lived helper process; dropped = asked to leave, then made to.
pub(crate) struct Servant {
    pid: i32,
    reaped: bool,
}

impl Servant {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Servant> {
        let (pid, _) = start_bound_to_us(command.stdin(Stdio::null()))?;
        Ok(Servant { pid, reaped: false })
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

    /// The processor time that it has taken so far, in ticks of the kernel's clock.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = procfs::process::Process::new(self.pid)
            .and_then(|process| process.stat())
            .with_context(|| format!("the processor time of process {}", self.pid))?;
        let ticks = (stat.utime + stat.stime) as f64;
        Ok(Duration::from_secs_f64(ticks / procfs::ticks_per_second() as f64))
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
        reap(self.pid).map(|(_, usage)| usage.cpu)
    }
}

impl Drop for Servant {
    fn drop(&mut self) {
        // The run is over or has failed; what matters is that the process is gone.
        let _ = self.end();
    }
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
    fn a_servant_ends_with_its_holder() {
        let servant = Servant::start(&mut shell("exec sleep 1000")).unwrap();
        let pid = servant.pid;
        drop(servant);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_servant_tells_its_processor_time_while_it_runs() {
        let servant = Servant::start(&mut shell("while :; do :; done")).unwrap();
        let begin = std::time::Instant::now();
        while servant.cpu().unwrap() < Duration::from_millis(20) {
            assert!(begin.elapsed() < Duration::from_secs(60), "it computes and takes no time");
            std::thread::yield_now();
        }
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
