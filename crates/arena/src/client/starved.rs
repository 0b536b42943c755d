//! Whether a manager whose heartbeat stands still is hung, or only waits for a processor.
//!
//! On a machine with many more threads than processors, or in a group of threads that has used its
//! share, the manager may wait for longer than the silence that counts (seen: 0.7 s among 16 hogs).
//! It is not hung then, and a program that left it would make it worse (D5). The kernel
//! knows: a thread that is runnable and whose processor time stands still has not had a processor.
//! One that runs and gives no sign of life is in an endless loop; one that sleeps or is stopped
//! does nothing about its timers.

use std::os::fd::AsFd;

use platform::file;
use platform::process::{Pid, peer_credentials};

/// Looks in a row for which waiting for a processor is an excuse; afterwards a program does without
/// such a manager.
const EXCUSES: u32 = 30;

/// The manager's main thread, as the kernel shows it.
#[derive(Debug)]
pub(super) struct Starvation {
    manager: Option<Pid>,
    used: Option<u64>,
    excuses: u32,
}

impl Starvation {
    /// Of the manager at the other end of a socket. One that the kernel does not name has no
    /// excuse.
    pub(super) fn of(socket: Option<impl AsFd>) -> Self {
        let manager = socket.and_then(|socket| peer_credentials(socket).ok()).map(|it| it.pid);
        Self { manager, used: None, excuses: 0 }
    }

    /// To be called at each look at which the heartbeat stood still: it only waited for a processor
    /// since the last one.
    pub(super) fn is_starved(&mut self) -> bool {
        let Some((state, used)) = self.manager.and_then(look) else {
            return false;
        };
        let stood_still = self.used.replace(used) == Some(used);
        self.excuses += 1;
        state == b'R' && stood_still && self.excuses <= EXCUSES
    }

    /// The heartbeat moved.
    pub(super) fn is_well(&mut self) {
        (self.used, self.excuses) = (None, 0);
    }
}

/// The state of a process's main thread and its processor time in ns.
fn look(pid: Pid) -> Option<(u8, u64)> {
    let used = file::text(format!("/proc/{pid}/task/{pid}/schedstat")).ok()?;
    let used = used.split(' ').next()?.parse().ok()?;
    let stat = file::read(format!("/proc/{pid}/task/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    Some((*stat.get(after + 2)?, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pid: u32) -> Starvation {
        Starvation { manager: Some(Pid(pid.cast_signed())), used: None, excuses: 0 }
    }

    #[test]
    fn a_thread_that_sleeps_or_runs_or_is_not_there_has_no_excuse() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut starvation = of(sleeper.id());
        while look(Pid(sleeper.id().cast_signed())).is_some_and(|(state, _)| state != b'S') {
            std::thread::yield_now();
        }
        assert!(!starvation.is_starved() && !starvation.is_starved(), "it sleeps");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!starvation.is_starved(), "it is gone");
        assert!(!of(i32::MAX.cast_unsigned()).is_starved());
        assert!(!Starvation::of(None::<std::os::fd::OwnedFd>).is_starved());
    }

    #[test]
    fn no_thread_is_excused_for_ever() {
        // A thread that only waits for a processor needs more threads than processors: the count is
        // what is tested.
        let mut starvation = of(std::process::id());
        starvation.excuses = EXCUSES;
        assert!(!starvation.is_starved() && !starvation.is_starved());
        starvation.is_well();
        assert_eq!(starvation.excuses, 0);
    }
}
