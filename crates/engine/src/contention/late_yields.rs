//! Whether the processor that a waiting thread hands over goes to the thread that it is meant for
//! (D15).
//!
//! In a team larger than its processors a thread that waits yields: the sibling that it waits for
//! stands after it in the kernel's queue, and a switch by a yield costs half of one by a sleep and
//! a wake. Where a stranger runs on the same processor, a yield goes to that one, and not for a
//! moment: this kernel (6.18) takes the rest of its time slice from a thread that yields, so that a
//! region of two threads beside one busy stranger took 1410 us instead of 4 (28 by sleeping: a
//! thread that was woken comes before one that was busy all the time).
//!
//! # Evidence
//! A thread that only yields is ready to run all the time. If it was away for [`HOLE`], and the
//! whole process ran for less than half of that, then a stranger had the processor. After a wait
//! that took as long, the next [`CLOSE`] are compared with the processor time of the process, which
//! takes two system calls. One more such wait among them is evidence; a partner that works for
//! long, or a lone interruption, is none.
//! The kernel adds up all threads of the process for that, and in a team of many threads on a
//! processor every wait takes long: looks cost the process at most one part in [`SHARE`] of the
//! time ([`Budget`]).
//!
//! Before that, one wait in [`TIMED`] is timed: two or three readings of the clock took 0.03 us of
//! a switch of 1.3. A stranger makes every wait long, so that it is found some waits later.
//!
//! # What follows
//! As long as the evidence counts the thread does not yield where it waits, but sleeps at once.
//! Then it tries again, and looks closely at once.
//! On another processor there are others: what was seen is forgotten where the thread moves (a
//! manager takes its program away from the stranger, some 20 ms after they met, or 40).
//! Each thread learns for itself. Not where a manager lets programs take turns on the processor:
//! four copies of a program with teams of exact size, which yield as well, took 2.3 times one
//! thread's time by sleeping, 1.2 to 1.3 by yielding (`cargo xtask real`, `hist`). A team beside a
//! program with one thread would gain: two programs of the same manager are not told apart here.
//!
//! Cost where nothing was seen: a few instructions of the thread's own memory.
//!
//! # Papers
//! None: the papers' machine was dedicated.

use super::evidence::Evidence;
use super::{CLOSE, DEAR, HOLE, SHARE, TIMED, YIELDS};
use platform::affinity::{CpuId, current_cpu};
use platform::clock::{Ticks, process_ns};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When threads of the process may look closely again.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Ticks until which what was spent is not yet worth more.
    until: AtomicU64,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self { until: AtomicU64::new(0) }
    }

    fn allows(&self, now: Ticks) -> bool {
        // ORDERING: Relaxed here and below - what is lost of two threads' costs is a hint's.
        now.raw() >= self.until.load(Relaxed)
    }

    /// A look began at `begin` and ends at `now`.
    fn spend(&self, begin: Ticks, now: Ticks) {
        let cost = now.since(begin).min(Ticks::about_us(DEAR));
        let from = self.until.load(Relaxed).max(now.raw());
        self.until.store(from.saturating_add(cost.saturating_mul(SHARE)), Relaxed);
    }
}

/// Of the threads of this process.
pub(crate) static BUDGET: Budget = Budget::new();

/// A thread's experience with those that get what it yields.
#[derive(Debug)]
pub(crate) struct LateYields {
    /// Waits that are still to be looked at closely.
    close: Cell<u32>,
    /// Waits that are not timed before the next one that is.
    untimed: Cell<u32>,
    /// They got what was handed over.
    late: Evidence,
    /// Where it was seen.
    seen_on: Cell<CpuId>,
    budget: &'static Budget,
}

/// How a wait by yields is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Not at all.
    Untimed,
    /// From then on, for [`TIMED`] waits.
    Sample(Ticks),
    /// Closely, from then on; the number is the processor time of the process until then, in
    /// nanoseconds.
    Close(Ticks, u64),
}

impl Timing {
    /// The timing of a wait that turns out to be a longer one: from now on if it was not timed.
    /// Also the time since which it runs.
    pub(crate) fn of_longer(self) -> (Self, Ticks) {
        match self {
            Timing::Untimed => {
                let now = Ticks::now();
                (Timing::Sample(now), now)
            }
            Timing::Sample(begin) | Timing::Close(begin, _) => (self, begin),
        }
    }
}

impl LateYields {
    pub(crate) const fn new(budget: &'static Budget) -> Self {
        let (close, untimed) = (Cell::new(0), Cell::new(0));
        Self { close, untimed, late: Evidence::new(), seen_on: Cell::new(CpuId(0)), budget }
    }

    /// True where other processes lately got the processor that was handed over.
    #[inline]
    pub(crate) fn take_turns(&self) -> bool {
        self.late.may_hold() && self.still_take()
    }

    #[cold]
    fn still_take(&self) -> bool {
        let holds = self.late.holds(|| Ticks::now().raw()) && current_cpu() == self.seen_on.get();
        if !holds {
            self.late.forget();
        }
        holds
    }

    /// A wait by yields begins.
    #[inline]
    pub(crate) fn begin(&self) -> Timing {
        if self.close.get() > 0 {
            let begin = Ticks::now();
            return Timing::Close(begin, self.ran(begin));
        }
        match self.untimed.get().checked_sub(1) {
            Some(left) => {
                self.untimed.set(left);
                Timing::Untimed
            }
            None => {
                self.untimed.set(TIMED - 1);
                Timing::Sample(Ticks::now())
            }
        }
    }

    /// As [`LateYields::end`], unless the wait was spent elsewhere than where the next ones will
    /// be: then it says nothing of those.
    #[inline]
    pub(crate) fn end_unless(&self, elsewhere: bool, timing: Timing) -> u64 {
        if elsewhere { 0 } else { self.end(timing) }
    }

    /// The wait is over. Returns how many ticks it took; a short one of those that are timed counts
    /// for the others, too.
    #[inline]
    pub(crate) fn end(&self, timing: Timing) -> u64 {
        match timing {
            Timing::Untimed => 0,
            Timing::Sample(begin) => self.judge(begin.elapsed_ticks()),
            Timing::Close(begin, ran) => {
                let passed = begin.elapsed_ticks();
                self.compare(
                    passed,
                    Ticks::about_us(self.ran(Ticks::now()).saturating_sub(ran) / 1000),
                );
                passed
            }
        }
    }

    /// A wait that was timed, but not closely, took `passed` ticks. A long one alone says nothing
    /// of other programs: it makes close looks due.
    #[inline]
    fn judge(&self, passed: u64) -> u64 {
        if passed < Ticks::about_us(HOLE) {
            return passed * u64::from(TIMED);
        }
        if self.budget.allows(Ticks::now()) {
            self.close.set(CLOSE);
        }
        passed
    }

    /// Nanoseconds for which the process has run. The look begins at `begin`.
    #[cold]
    fn ran(&self, begin: Ticks) -> u64 {
        let ran = process_ns();
        self.budget.spend(begin, Ticks::now());
        ran
    }

    /// A wait that was looked at closely took `passed` ticks, in which the process ran for `ran`.
    #[cold]
    fn compare(&self, passed: u64, ran: u64) {
        if passed >= Ticks::about_us(HOLE) && ran < passed / 2 {
            self.close.set(CLOSE);
            self.late.note(Ticks::now().raw(), &YIELDS);
            self.seen_on.set(current_cpu());
        } else {
            self.close.set(self.close.get().saturating_sub(1));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use platform::affinity::{CpuSet, set_affinity};

    /// With a budget of its own: tests run beside each other.
    fn late_yields() -> LateYields {
        LateYields::new(Box::leak(Box::default()))
    }

    fn long() -> u64 {
        // Measured before the first use: the unit must not change in between.
        Ticks::per_us();
        3 * Ticks::about_us(HOLE)
    }

    fn is_close(timing: Timing) -> bool {
        matches!(timing, Timing::Close(..))
    }

    #[test]
    fn a_wait_that_took_long_is_followed_by_close_looks() {
        let (late_yields, long) = (late_yields(), long());
        late_yields.judge(long / 100);
        assert!(!is_close(late_yields.begin()), "a short one");
        assert_eq!(late_yields.judge(long), long);
        assert!(is_close(late_yields.begin()));
        assert!(!late_yields.take_turns(), "it is not known yet which thread ran");
        for _ in 0..CLOSE {
            assert!(is_close(late_yields.begin()));
            late_yields.compare(long / 100, 0);
        }
        assert!(!is_close(late_yields.begin()), "it was a lone one");
    }

    #[test]
    fn one_wait_in_a_few_is_timed_and_stands_for_all_of_them() {
        let late_yields = late_yields();
        let mut timed = 0;
        for _ in 0..10 * TIMED {
            let timing = late_yields.begin();
            timed += u32::from(timing != Timing::Untimed);
            assert!(timing != Timing::Untimed || late_yields.end(timing) == 0);
        }
        assert_eq!(timed, 10);
        assert_eq!(late_yields.judge(7), 7 * u64::from(TIMED));
    }

    #[test]
    fn a_wait_that_turns_out_to_be_longer_is_timed_from_then_on() {
        let begin = Ticks::now();
        assert!(
            matches!(Timing::Untimed.of_longer(), (Timing::Sample(from), since) if from == since && since >= begin)
        );
        assert_eq!(Timing::Close(begin, 3).of_longer(), (Timing::Close(begin, 3), begin));
    }

    #[test]
    fn looks_cost_a_small_part_of_the_time_however_long_the_waits_are() {
        let (late_yields, long) = (late_yields(), long());
        late_yields.judge(long);
        let begin = Ticks::now();
        for _ in 0..CLOSE {
            let timing = late_yields.begin();
            assert!(is_close(timing));
            late_yields.end(timing);
        }
        // One of them makes more looks due where the thread was away meanwhile.
        late_yields.close.set(0);
        let spent = late_yields.budget.until.load(Relaxed);
        assert!(spent > begin.raw());
        late_yields.judge(long);
        assert!(
            !is_close(late_yields.begin()) || Ticks::now().raw() >= spent,
            "it looks again at once"
        );
        while Ticks::now().raw() < spent {
            std::hint::spin_loop();
        }
        late_yields.judge(long);
        assert!(is_close(late_yields.begin()));
    }

    #[test]
    fn a_thread_that_was_away_during_a_look_did_not_look_for_so_long() {
        long();
        let (budget, begin) = (Budget::new(), Ticks::now());
        while begin.elapsed_ticks() <= 2 * Ticks::about_us(DEAR) {
            std::hint::spin_loop();
        }
        let now = Ticks::now();
        budget.spend(begin, now);
        assert_eq!(budget.until.load(Relaxed) - now.raw(), SHARE * Ticks::about_us(DEAR));
    }

    #[test]
    fn a_partner_that_works_for_long_is_no_stranger() {
        let (late_yields, long) = (late_yields(), long());
        late_yields.close.set(CLOSE);
        for left in (0..CLOSE).rev() {
            late_yields.compare(long, long - 1000);
            assert_eq!(late_yields.close.get(), left);
        }
        assert!(!late_yields.take_turns());
    }

    #[test]
    fn strangers_that_were_met_on_a_processor_are_not_on_another_one() {
        let (late_yields, long) = (late_yields(), long());
        late_yields.compare(long, 0);
        late_yields.seen_on.set(CpuId(u32::MAX));
        assert!(!late_yields.take_turns());
        assert!(is_close(late_yields.begin()), "there may be others here");
    }

    #[test]
    fn a_thread_that_is_away_while_the_process_does_not_run_has_met_strangers_for_a_while() {
        // The evidence is of one processor. The thread is the test's own.
        set_affinity(None, &CpuSet::single(current_cpu())).expect("a thread may stay where it is");
        let (late_yields, long) = (late_yields(), long());
        late_yields.close.set(1);
        // Before the evidence, which counts from a later moment on.
        let before = Ticks::now();
        late_yields.compare(long, long / 100);
        while late_yields.take_turns() {
            std::thread::yield_now();
        }
        assert!(before.elapsed_ticks() >= Ticks::about_us(YIELDS.first));
        // The next wait is the judge of that.
        assert!(is_close(late_yields.begin()));
    }
}
