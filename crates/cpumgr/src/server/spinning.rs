//! Programs that are managed by their threads' masks and whose threads run all the time: bound to
//! fewer processors than there are such threads they may wait for each other by spinning, each for
//! a whole turn of the kernel's, and be many times slower.
//!
//! # Rule
//! A program that is to be attached by itself is left alone as long as more of its threads run than
//! it would get processors, and is let go when it comes to have fewer. It is then a stranger to the
//! programs (`foreign`), and is looked at again. A program that was attached by a client's word, or
//! whose user said that it is to have at most so few (`run --max`), is held, with a warning in the
//! log.
//!
//! Which threads run: [`watch`](super::watch).

use platform::process::Pid;

use super::Server;
use super::bounds::LAST_LOOK;
use super::connection::Look;
use super::watch::WINDOW;
use crate::threads::Threads;

impl Server {
    /// Whether an announced process that has several threads may be attached by itself now. When it
    /// may not, that is said once, and it is looked at again.
    pub(super) fn may_be_attached(&mut self, serial: u64, now: u64) -> bool {
        let part = self.ledger.part_of_newcomer() as usize;
        let Some(connection) = self.connections.get_mut(&serial) else { return false };
        let watch = self.watches.entry(serial).or_default();
        let uid = connection.peer.uid;
        let most = connection.bounds.1.map_or(usize::MAX, |most| most as usize);
        let running = Threads::of(connection.peer.pid, &connection.pidfd)
            .map(|threads| watch.running(self.kernel.as_ref(), &threads, now));
        // A list of the threads, too, is a system call.
        self.looks.charge(uid, self.kernel.work() + 1, now);
        let Ok(Some(running)) = running else {
            // A first look: the window ends soon.
            if let Some(look) = &mut connection.look {
                look.at = now + WINDOW;
            }
            return false;
        };
        // Left alone, more would run than its user said.
        if running > part && running <= most {
            if self.alone.insert(serial) {
                let pid = connection.peer.pid.0;
                tracing::warn!(
                    pid,
                    running,
                    processors = part,
                    "a program that does not speak is left alone: more of its threads run all the \
                     time than it would get processors, and they may wait for each other by \
                     spinning"
                );
            }
            return false;
        }
        self.watches.remove(&serial);
        self.alone.remove(&serial);
        true
    }

    /// A process that was attached by itself has fewer processors than threads that run: it is let
    /// go, and looked at again.
    pub(super) fn leave_alone(&mut self, serial: u64, running: usize, now: u64) {
        let Some((pid, processors)) =
            self.attached.get(&serial).map(|it| (it.pid, it.processors()))
        else {
            return;
        };
        self.let_go(serial);
        // Logged after the masks are restored: a reader of this line finds the threads free.
        tracing::warn!(
            pid = pid.0,
            running,
            processors,
            "a program that does not speak is left alone from now on: more of its threads run all \
             the time than it has processors, and they may wait for each other by spinning"
        );
        let announced = self.connections.values_mut().find(|it| it.is_silent(pid));
        if let Some(connection) = announced {
            self.alone.insert(connection.serial);
            connection.look = Some(Look { at: now + LAST_LOOK, pause: LAST_LOOK });
        }
        self.stirred = true;
    }

    /// Forgets what is known of announced processes that are none any more.
    pub(super) fn forget_watches(&mut self, serial: u64) {
        self.watches.remove(&serial);
        self.alone.remove(&serial);
    }
}

/// Says that a process which a client attached has fewer processors than threads that run.
pub(super) fn warn(pid: Pid, running: usize, processors: usize) {
    tracing::warn!(
        pid = pid.0,
        running,
        processors,
        "more threads of an attached program run all the time than it has processors: if they wait \
         for each other by spinning it is many times slower than without a manager; `cpumgr \
         detach` lets it go"
    );
}
