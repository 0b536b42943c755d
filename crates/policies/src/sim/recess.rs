//! A master that waits at a fork until its program's turn comes, as the engine's masters do
//! (`engine::thread::recess`).
//!
//! # Rule
//! Outside its turn a region has one thread, and keeps it when the turn comes. So a master waits
//! for the turn where the region would end later if it began now: when alone it takes longer than
//! the time until the turn and the region in the turn together. It waits for at most a quantum
//! beyond the time that the policy announced, and never longer than the region would take alone.
//! One that waited in vain does not wait again before it has had its turn.

use crate::snapshot::Nanos;

/// See the module head.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recess {
    /// When the turn comes, as announced. None: the program has it, or there are no turns.
    pub(super) comes: Option<Nanos>,
    until: Option<Nanos>,
    in_vain: bool,
}

/// How long a region takes, in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Outside the turn.
    pub(super) alone: f64,
    /// In the turn.
    pub(super) in_turn: f64,
}

impl Recess {
    /// The program has processors of its own.
    pub(super) fn has_turn(&mut self) {
        (self.until, self.in_vain) = (None, false);
    }

    /// A region is about to begin outside the turn.
    pub(super) fn at_fork(&mut self, now: Nanos, quantum: Nanos, times: Times) {
        if self.until.is_some_and(|until| until <= now) {
            (self.until, self.in_vain) = (None, true);
        }
        let Some(comes) = self.comes.filter(|_| self.until.is_none() && !self.in_vain) else {
            return;
        };
        // The casts saturate.
        let wait = comes.saturating_sub(now);
        if times.alone > wait as f64 + times.in_turn {
            let most = (now + wait).saturating_add(quantum);
            self.until = Some(most.min(now.saturating_add(times.alone as Nanos)));
        }
    }

    /// Whether it waits, and until when at most.
    pub(super) fn until(&self) -> Option<Nanos> {
        self.until
    }

    /// Whether the next fork may have to wait.
    pub(super) fn may_begin(&self) -> bool {
        self.comes.is_some() && !self.in_vain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: Nanos = 100;

    fn out(comes: Nanos) -> Recess {
        Recess { comes: Some(comes), ..Recess::default() }
    }

    #[test]
    fn a_region_that_ends_before_the_turn_is_not_kept_waiting() {
        let mut recess = out(500);
        recess.at_fork(0, QUANTUM, Times { alone: 509.0, in_turn: 10.0 });
        assert_eq!(recess.until(), None);
        recess.at_fork(0, QUANTUM, Times { alone: 511.0, in_turn: 10.0 });
        assert_eq!(recess.until(), Some(511), "no longer than it would take alone");
    }

    #[test]
    fn a_wait_ends_a_quantum_after_the_announced_time_and_is_the_last_before_the_turn() {
        let times = Times { alone: 9000.0, in_turn: 10.0 };
        let mut recess = out(500);
        recess.at_fork(0, QUANTUM, times);
        assert_eq!(recess.until(), Some(600));
        recess.comes = Some(5000);
        recess.at_fork(599, QUANTUM, times);
        assert_eq!(recess.until(), Some(600), "another announcement makes it no longer");
        recess.at_fork(600, QUANTUM, times);
        assert_eq!((recess.until(), recess.may_begin()), (None, false));
        recess.has_turn();
        recess.at_fork(700, QUANTUM, times);
        assert_eq!(recess.until(), Some(5100));
    }
}
