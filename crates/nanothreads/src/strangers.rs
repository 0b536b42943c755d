//! Whether the processor that a waiting thread hands over goes to whom it is meant for (D15).
//!
//! In a team larger than its processors who waits yields: the sibling that it waits for stands behind it in the kernel's queue, and
//! a switch by a yield costs half of one by a sleep and a wake. Where a stranger runs on the same processor, a yield goes to him,
//! and not for a moment: this kernel (6.18) takes the rest of its time slice from who yields, so that a region of two threads
//! beside one busy stranger took 1410 us instead of 4 (28 by sleeping: who was woken comes before who was busy all the time).
//!
//! # Evidence
//! A thread that only yields is ready to run all the time. If it was away for [`HOLE`], and the whole process ran for less than
//! half of that, then a stranger had the processor. After a wait that took as long, the next [`CLOSE`] are compared with the
//! processor time of the process, which takes two system calls. One more such wait among them is evidence; a partner that works
//! for long, or a lone interruption, is none.
//!
//! # What follows
//! For [`KEEP`] the thread does not yield where it waits, but sleeps at once. Then it tries again, and looks closely at once.
//! Each thread learns for itself. Not where a manager lets programs take turns on the processor: these yield as well, and
//! nobody gains.
//!
//! Cost where nothing was seen: a few instructions of the thread's own memory.
//!
//! # Papers
//! None: the papers' machine was dedicated.

use crate::load::HOLE;
use platform::clock::{Ticks, process_ns};
use std::cell::Cell;

/// Waits that are looked at closely after one that took long.
const CLOSE: u32 = 8;
/// Microseconds that evidence holds.
const KEEP: u64 = 100_000;

/// A thread's experience with those that get what it yields.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Waits that are still to be looked at closely.
    close: Cell<u32>,
    /// Ticks until which the last evidence holds; 0: there is none.
    until: Cell<u64>,
}

impl Strangers {
    pub(crate) const fn new() -> Self {
        Self { close: Cell::new(0), until: Cell::new(0) }
    }

    /// True where they got what was handed over, lately.
    #[inline]
    pub(crate) fn take_turns(&self) -> bool {
        let until = self.until.get();
        until != 0 && self.still_take(until)
    }

    #[cold]
    fn still_take(&self, until: u64) -> bool {
        let holds = Ticks::now().raw() < until;
        if !holds {
            self.until.set(0);
        }
        holds
    }

    /// A wait by yields begins. Returns how long the process has run, where that is looked at.
    #[inline]
    pub(crate) fn begin(&self) -> Option<u64> {
        (self.close.get() > 0).then(process_ns)
    }

    /// It is over, and took so many ticks.
    #[inline]
    pub(crate) fn end(&self, ran: Option<u64>, passed: u64) {
        match ran {
            None if passed < Ticks::about_us(HOLE) => {}
            None => self.close.set(CLOSE),
            Some(ran) => self.compare(passed, Ticks::about_us(process_ns().saturating_sub(ran) / 1000)),
        }
    }

    /// A wait that was looked at closely took `passed` ticks, in which the process ran for `ran`.
    #[cold]
    fn compare(&self, passed: u64, ran: u64) {
        if passed >= Ticks::about_us(HOLE) && ran < passed / 2 {
            self.close.set(CLOSE);
            self.until.set(Ticks::now().raw().saturating_add(Ticks::about_us(KEEP)).max(1));
        } else {
            self.close.set(self.close.get().saturating_sub(1));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn long() -> u64 {
        // Measured before the first use: the unit must not change in between.
        Ticks::per_us();
        3 * Ticks::about_us(HOLE)
    }

    #[test]
    fn a_wait_that_took_long_is_followed_by_close_looks() {
        let (strangers, long) = (Strangers::new(), long());
        strangers.end(strangers.begin(), long / 100);
        assert_eq!(strangers.begin(), None, "a short one");
        strangers.end(None, long);
        assert!(strangers.begin().is_some());
        assert!(!strangers.take_turns(), "nobody knows yet who ran");
        for _ in 0..CLOSE {
            strangers.end(strangers.begin(), long / 100);
        }
        assert_eq!(strangers.begin(), None, "it was a lone one");
    }

    #[test]
    fn a_partner_that_works_for_long_is_no_stranger() {
        let (strangers, long) = (Strangers::new(), long());
        strangers.close.set(CLOSE);
        for left in (0..CLOSE).rev() {
            strangers.compare(long, long - 1000);
            assert_eq!(strangers.close.get(), left);
        }
        assert!(!strangers.take_turns());
    }

    #[test]
    fn who_is_away_while_the_process_does_not_run_has_met_strangers_for_a_while() {
        let (strangers, long) = (Strangers::new(), long());
        strangers.close.set(1);
        strangers.compare(long, long / 100);
        let met = Ticks::now();
        let mut was_seen = false;
        while strangers.take_turns() {
            was_seen = true;
            std::thread::yield_now();
        }
        assert!(was_seen && met.elapsed_ticks() + Ticks::about_us(HOLE) >= Ticks::about_us(KEEP));
        // The next wait is the judge of that.
        assert!(strangers.begin().is_some());
    }
}
