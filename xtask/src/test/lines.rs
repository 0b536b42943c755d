//! What a program prints, line by line, until it has ended: a process that outlives it and
//! still holds its output is named and ended, where a plain read would wait for that one for ever.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use procfs::process::Process;

/// How long what ends by itself after the program may take.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How often it is asked whether the program has ended.
const LOOK: Duration = Duration::from_millis(200);

/// Hands each line that `child` prints on, and waits for it. Returns the processes, as text, that
/// still held its output `grace` after its end; they are killed.
pub(super) fn each(
    child: &mut Child,
    grace: Duration,
    mut take: impl FnMut(&str),
) -> anyhow::Result<(ExitStatus, Vec<String>)> {
    let output = child.stdout.take().context("no pipe from the program")?;
    let pipe = std::fs::read_link(format!("/proc/self/fd/{}", output.as_fd().as_raw_fd()))
        .context("cannot see the pipe of the program in /proc")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            // There is no listener any more when the lane gave up.
            let failed = line.is_err();
            if sender.send(line).is_err() || failed {
                return;
            }
        }
    });
    let (mut ended, mut left): (Option<Instant>, Vec<String>) = (None, Vec::new());
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                let line = line.context("cannot read what the program prints")?;
                take(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let status = child.try_wait().context("cannot wait for the program")?;
                if status.is_some() && ended.is_none() {
                    ended = Some(Instant::now());
                }
                if ended.is_some_and(|at| at.elapsed() >= grace) {
                    left.extend(kill_holders(&pipe));
                }
            }
        }
    }
    let status = child.wait().context("cannot wait for the program")?;
    Ok((status, left))
}

/// Kills all processes but this one that have `pipe` open, and says which they were.
///
/// Children of this one are left alone: the program has ended, and any other one has what this
/// process had open only until its own program begins.
fn kill_holders(pipe: &std::path::Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    let others = pids.filter(|pid| *pid != own && !is_started_by(own, *pid));
    others.filter_map(|pid| kill_holder(pid, pipe)).collect()
}

/// True for a child of the process `parent`. The first process of all has as children what lost
/// its own parent, too: it is taken to have started none.
fn is_started_by(parent: i32, pid: i32) -> bool {
    let stat = || Process::new(pid)?.stat();
    parent != 1 && stat().is_ok_and(|stat| stat.ppid == parent)
}

fn kill_holder(pid: i32, pipe: &std::path::Path) -> Option<String> {
    // First: the descriptor stays that of the process whose files are looked at below.
    let process = pidfd(pid)?;
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let holds =
        files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|it| it == pipe));
    if !holds {
        return None;
    }
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    // SAFETY: takes a live descriptor, numbers, and no information of our own; the process may have
    // ended already.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        );
    }
    Some(format!("{pid} ({})", command.trim()))
}

fn pidfd(pid: i32) -> Option<OwnedFd> {
    // SAFETY: takes two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0)?;
    // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn run(script: &str, grace: Duration) -> (Vec<String>, Vec<String>) {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        let (status, left) = each(&mut child, grace, |line| said.push(line.to_owned())).unwrap();
        assert!(status.success());
        (said, left)
    }

    #[test]
    fn a_process_that_outlives_a_program_is_named_and_ended() {
        // It would run for ever.
        let (said, left) = run("tail -f /dev/null & echo one; echo two", Duration::ZERO);
        assert_eq!(said, ["one", "two"]);
        assert!(left.iter().any(|left| left.contains("tail -f /dev/null")), "{left:?}");
    }

    #[test]
    fn another_child_of_this_process_that_has_the_pipe_is_left_alone() {
        let mut reader = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        let shown = std::fs::read_link(format!("/proc/self/fd/{}", pipe.as_raw_fd())).unwrap();
        assert_eq!(kill_holders(&shown), [""; 0]);
        drop(pipe);
        assert!(reader.wait().unwrap().success(), "it was killed");
    }

    #[test]
    fn one_that_ends_by_itself_is_waited_for() {
        let (said, left) = run("(sleep 0.3; echo late) & echo early", GRACE);
        assert_eq!((said, left), (vec!["early".to_owned(), "late".to_owned()], Vec::new()));
    }
}
