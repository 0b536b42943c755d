//! A thread that waits: what waits cost it lately, what it saw of others meanwhile, and what it
//! does at a safe point.

use crate::contention::{BUDGET, LateYields, Stragglers};
use crate::manager::Sitter;
use crate::manager::source;
use crate::program::counters::Counters;
use crate::waits::turns::Turns;
use platform::clock::Ticks;
use std::cell::Cell;
use std::thread;

/// The most microseconds that adaptive spinning grows to.
pub(crate) const LONG: u64 = 190;
/// The fewest microseconds that adaptive spinning falls to.
pub(crate) const SHORTEST: u64 = 5;

/// See the module head. Touched by its thread alone.
#[derive(Debug)]
pub struct Waiter {
    /// How long spinning paid lately, for the case without a manager: microseconds.
    limit: Cell<u64>,
    /// Those that get what it yields.
    late_yields: LateYields,
    /// Its experience as a master: which of its members really run.
    stragglers: Stragglers,
    /// What it counts.
    counters: Cell<&'static Counters>,
    /// Its waits in teams that take turns.
    turns: Turns,
    /// Where it sits.
    sitter: Sitter,
}

impl Waiter {
    /// A thread that has not waited.
    pub(crate) fn new(counters: &'static Counters) -> Self {
        Self {
            limit: Cell::new(LONG),
            late_yields: LateYields::new(&BUDGET),
            stragglers: Stragglers::new(),
            counters: Cell::new(counters),
            turns: Turns::default(),
            sitter: Sitter::default(),
        }
    }

    /// Microseconds by which spinning paid lately.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.limit.get()
    }

    #[inline]
    pub(crate) fn late_yields(&self) -> &LateYields {
        &self.late_yields
    }

    /// Its experience as a master.
    #[inline]
    pub(crate) fn stragglers(&self) -> &Stragglers {
        &self.stragglers
    }

    /// What it counts for [`statistics`](crate::statistics()).
    #[inline]
    pub(crate) fn counters(&self) -> &'static Counters {
        self.counters.get()
    }

    /// In the child of a fork: it counts in that process.
    pub(crate) fn counts_in(&self, counters: &'static Counters) {
        self.counters.set(counters);
    }

    /// Where it sits.
    #[inline]
    pub(crate) fn sitter(&self) -> &Sitter {
        &self.sitter
    }

    /// A wait of `ticks` is over, which spinning might have covered.
    pub(crate) fn waited(&self, ticks: u64) {
        self.learn(ticks);
        self.counters().waited(ticks);
    }

    /// Learns from a wait of `waited` ticks ([`spin_policy`](crate::waits::spin_policy), Learning).
    pub(crate) fn learn(&self, waited: u64) {
        let limit = self.limit.get();
        self.limit.set(if waited <= Ticks::about_us(LONG) {
            (limit * 2).min(LONG)
        } else {
            (limit / 2).max(SHORTEST)
        });
    }

    /// The thread waits, in a team of `threads` for which there are not enough processors.
    pub(crate) fn note_turn(&self, threads: u32) {
        if let Some(managed) = source::managed_already()
            && let Some(turns) = self.turns.add()
        {
            managed.note_turns(turns, threads);
        }
    }

    /// The thread waits: a safe point ([`safe_point`](crate::regions::safe_point)).
    #[inline]
    pub(crate) fn safe_point(&self) {
        if let Some(managed) = source::managed() {
            managed.at_safe_point(self.sitter.worker());
        }
    }

    /// Hands the processor over to any other thread that wants it, in a team that takes turns. True
    /// when the kernel took the calling thread to another one meanwhile.
    #[inline]
    pub(crate) fn hand_over(&self) -> bool {
        let managed = source::managed_already();
        let sat = managed.is_some_and(|managed| managed.sits(&self.sitter));
        thread::yield_now();
        managed.is_some_and(|managed| managed.sits_down_again(&self.sitter, sat))
    }
}

impl AsRef<Waiter> for Waiter {
    #[inline]
    fn as_ref(&self) -> &Waiter {
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waits_that_spinning_covers_make_it_longer_and_others_shorter_within_bounds() {
        let waiter = Waiter::new(Box::leak(Box::default()));
        let limits = |waited: u64| -> Vec<u64> {
            let steps = (0..7).map(|_| {
                waiter.learn(Ticks::about_us(waited));
                waiter.limit()
            });
            steps.collect()
        };
        assert_eq!(limits(LONG + 1), [95, 47, 23, 11, 5, 5, 5]);
        assert_eq!(limits(LONG), [10, 20, 40, 80, 160, 190, 190]);
    }
}
