//! A process that is told what to do, and answers: over its standard input and output, each answer
//! with a time by which it must come.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::copies::read_back;
use super::household::check_interrupt;
use super::process::{kill, pidfd, reap, start_bound_to_us};

/// How long it is waited before a signal to us is looked for again.
const LOOK: Duration = Duration::from_millis(250);

/// A running process; dropped = killed.
pub(crate) struct Dialogue {
    pid: i32,
    handle: OwnedFd,
    /// `None`: closed.
    input: Option<ChildStdin>,
    output: ChildStdout,
    errors: File,
    /// What it said beyond the last answer.
    heard: Vec<u8>,
    reaped: bool,
}

impl Dialogue {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Dialogue> {
        let errors = tempfile::tempfile().context("cannot make a temporary file")?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone().context("cannot share a temporary file")?);
        let (pid, mut child) = start_bound_to_us(command)?;
        let parts =
            pidfd(pid).context("pidfd_open (Linux 5.3 or later is needed)").and_then(|handle| {
                let output = child.stdout.take().context("no pipe from the process")?;
                Ok((handle, child.stdin.take(), output))
            });
        match parts {
            Ok((handle, input, output)) => {
                Ok(Dialogue { pid, handle, input, output, errors, heard: vec![], reaped: false })
            }
            Err(fault) => {
                kill(pid);
                // The first error is the one to report.
                let _ = reap(pid);
                Err(fault)
            }
        }
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Tells it something; an error where it has ended.
    pub(crate) fn say(&mut self, words: &[u8]) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("its input is closed")?;
        match input.write_all(words).and_then(|()| input.flush()) {
            Ok(()) => Ok(()),
            Err(fault) if fault.kind() == ErrorKind::BrokenPipe => self.ended_early(),
            Err(fault) => Err(fault).context("cannot tell a process what to do"),
        }
    }

    /// What it says up to this byte; `None` when that does not come in time, an error where it has
    /// ended.
    pub(crate) fn hear(&mut self, end: u8, until: Instant) -> anyhow::Result<Option<String>> {
        let mut seen = 0;
        loop {
            if let Some(at) = self.heard[seen..].iter().position(|byte| *byte == end) {
                let rest = self.heard.split_off(seen + at + 1);
                let mut answer = std::mem::replace(&mut self.heard, rest);
                answer.pop();
                return Ok(Some(String::from_utf8_lossy(&answer).into_owned()));
            }
            seen = self.heard.len();
            check_interrupt()?;
            let left = until.saturating_duration_since(Instant::now());
            // What was said in time is heard, also when it is asked for late.
            let [is_said, _] = self.poll(left.min(LOOK), true)?;
            if is_said && !self.listen()? {
                return self.ended_early();
            }
            if !is_said && left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Closes its input and waits for its end; `None` when it did not end in time and was killed.
    pub(crate) fn end(mut self, until: Instant) -> anyhow::Result<Option<(ExitStatus, String)>> {
        self.input = None;
        let mut speaks = true;
        loop {
            check_interrupt()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let [is_said, has_ended] = self.poll(left.min(LOOK), speaks)?;
            if is_said {
                // What is not read would stop it.
                speaks = self.listen()?;
            } else if has_ended {
                let (status, _) = reap(self.pid)?;
                self.reaped = true;
                let mut said = String::from_utf8_lossy(&self.heard).into_owned();
                said.push_str(&read_back(&mut self.errors)?);
                return Ok(Some((status, said)));
            }
        }
    }

    /// Reads what is there; false at the end.
    fn listen(&mut self) -> anyhow::Result<bool> {
        let mut part = [0; 65536];
        let count = self.output.read(&mut part).context("cannot hear a process")?;
        self.heard.extend_from_slice(&part[..count]);
        Ok(count > 0)
    }

    /// Whether it said something (or never will again), and whether it has ended.
    fn poll(&self, wait: Duration, hears: bool) -> anyhow::Result<[bool; 2]> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A negative number is left out.
        let output = if hears { self.output.as_raw_fd() } else { -1 };
        let mut polled = [entry(output), entry(self.handle.as_raw_fd())];
        let milliseconds = i32::try_from(wait.as_millis() + 1).unwrap_or(i32::MAX);
        // SAFETY: two live entries, with descriptors that `self` keeps open.
        if unsafe { libc::poll(polled.as_mut_ptr(), 2, milliseconds) } < 0 {
            let fault = std::io::Error::last_os_error();
            if fault.kind() != ErrorKind::Interrupted {
                return Err(fault).context("poll on a process");
            }
            return Ok([false; 2]);
        }
        Ok(polled.map(|entry| entry.revents != 0))
    }

    /// The error of a process that ended while something was wanted of it.
    fn ended_early<T>(&mut self) -> anyhow::Result<T> {
        // It closed its end, which a process does that ends; one that goes on must not.
        kill(self.pid);
        let (status, _) = reap(self.pid)?;
        self.reaped = true;
        let errors = read_back(&mut self.errors)?;
        bail!("it ended ({status}) before its work was done: {}", errors.trim())
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        if !self.reaped {
            kill(self.pid);
            // The run is over or has failed; what matters is that the process is gone.
            let _ = reap(self.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Dialogue {
        Dialogue::start(Command::new("/bin/sh").args(["-c", script])).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn it_answers_what_it_is_told_and_ends_with_its_input() {
        let mut echo = shell("echo ready; while read line; do echo \"so: $line\"; done; echo bye");
        assert_eq!(echo.hear(b'\n', soon()).unwrap().as_deref(), Some("ready"));
        for word in ["one", "two"] {
            echo.say(format!("{word}\n").as_bytes()).unwrap();
            assert_eq!(echo.hear(b'\n', soon()).unwrap(), Some(format!("so: {word}")));
        }
        let (status, said) = echo.end(soon()).unwrap().unwrap();
        assert!(status.success());
        assert_eq!(said, "bye\n");
    }

    #[test]
    fn answers_that_came_together_are_heard_one_by_one() {
        let mut both = shell("printf 'a\\000b\\000'; read line");
        assert_eq!(both.hear(0, soon()).unwrap().as_deref(), Some("a"));
        assert_eq!(both.hear(0, soon()).unwrap().as_deref(), Some("b"));
    }

    #[test]
    fn what_does_not_come_in_time_is_none_and_the_process_goes_with_its_holder() {
        let mut mute = shell("exec sleep 1000");
        let pid = mute.pid();
        assert_eq!(mute.hear(b'\n', Instant::now() + Duration::from_millis(20)).unwrap(), None);
        drop(mute);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        let stubborn = shell("exec sleep 1000");
        assert!(stubborn.end(Instant::now() + Duration::from_millis(20)).unwrap().is_none());
    }

    #[test]
    fn one_that_ends_early_is_an_error_with_its_last_words() {
        let mut broken = shell("echo oops >&2; exit 3");
        let fault = broken.hear(b'\n', soon()).unwrap_err().to_string();
        assert!(fault.contains("oops"), "{fault}");
    }

    #[test]
    fn one_that_says_much_at_its_end_is_not_stopped_by_it() {
        let long = shell("i=0; while [ $i -lt 30000 ]; do echo 0123456789; i=$((i+1)); done");
        let (status, said) = long.end(soon()).unwrap().unwrap();
        assert!(status.success());
        assert_eq!(said.len(), 330_000);
    }
}
