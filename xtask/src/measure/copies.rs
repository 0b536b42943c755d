//! Copies under measurement: started together, timed one by one, stopped at a cap, and never left
//! running.
//!
//! # Invariants
//! I1  Every process that is started here is reaped here: at its end, at the cap, or when [`Group`]
//!     is dropped.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::household::check_interrupt;
use super::process::{Usage, kill, pidfd, reap, start_bound_to_us};

/// One copy's end.
pub(crate) struct Finish {
    /// Which of the commands that were started together, from 0.
    pub(crate) index: usize,
    /// From its start to its end, or to the cap.
    pub(crate) turnaround: Duration,
    /// Processor time of all its threads, user and system.
    pub(crate) cpu: Duration,
    /// How often its threads gave their processor up, and lost it.
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
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
        let (pid, _) = start_bound_to_us(command)?;
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
        let (status, Usage { cpu, voluntary, involuntary }) = reap(self.pid)?;
        let status = if capped { None } else { Some(status) };
        let output = read_back(&mut self.output)?;
        let errors = read_back(&mut self.errors)?;
        let Copy { index, pid, .. } = self;
        Ok(Finish { index, turnaround, cpu, voluntary, involuntary, status, output, errors, pid })
    }
}

pub(super) fn read_back(file: &mut File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .context("cannot read back what a copy wrote")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
    fn what_waits_again_and_again_gave_its_processor_up_as_often() {
        let script = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); sleep 0.001; done";
        let often = run_copies(1, Duration::from_secs(60), || shell(script)).unwrap();
        let once = run_copies(1, Duration::from_secs(60), || shell("exit 0")).unwrap();
        // Each of forty children sleeps.
        assert!(often[0].voluntary >= 40, "{}", often[0].voluntary);
        assert!(once[0].voluntary + 20 < often[0].voluntary, "{}", once[0].voluntary);
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
}
