//! Evidence that others use the program's processors, for all threads of the process (D16).
//!
//! # Evidence
//! A *hole*: a thread that only spins finds that [`HOLE`](super::HOLE) microseconds passed between
//! two looks. It had no processor meanwhile: another program's thread had it, or the hypervisor, or
//! the quota of its cgroup was used up. A hole costs nothing to find, cannot be confused with a
//! partner that has much to do, and comes within one time slice of the other program.
//!
//! A *lost member* ([`Stragglers`](super::Stragglers)): a master waited long, and the kernel says
//! that the member waited for a processor meanwhile. That is a hole in the time of a thread that
//! works instead of spinning.
//!
//! A *full machine*: a thread waits for one that is ready on the same processor, and the kernel has
//! more threads that are ready than processors. Then none is idle, and the kernel parts the two
//! only by chance. Where several programs have machines of their own made of one (cpusets), a
//! machine may be full elsewhere, or have room elsewhere: the first makes waits shorter, the second
//! longer.
//!
//! A *throttled period*: a control group's `nr_throttled` has grown. Its processors are used up all
//! at once, so that spinning takes time from the program itself. Looked at with the quota
//! ([`crate::sizer`]).

use super::LOAD;
use super::evidence::Evidence;
use platform::clock::Ticks;
use platform::load;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Load {
    evidence: Evidence,
    /// How often there was some.
    notes: AtomicU64,
}

impl Load {
    /// Notes that a thread just had no processor.
    pub(crate) fn note(&self) {
        // ORDERING: Relaxed - a number on its own.
        self.notes.fetch_add(1, Relaxed);
        self.evidence.note(Ticks::now().raw(), &LOAD);
    }

    /// Notes it where the machine has more threads that are ready than processors. Called by a
    /// thread that found the one that it waits for on its own processor. Cost: some 10 us.
    #[cold]
    pub(crate) fn note_if_full(&self) {
        let is_full = || Some(load::runnable()? as usize > load::online()?);
        if is_full() == Some(true) {
            self.note();
        }
    }

    /// How often a thread had no processor, as far as was seen.
    pub(crate) fn notes(&self) -> u64 {
        // ORDERING: Relaxed - as above.
        self.notes.load(Relaxed)
    }

    /// True when the program's processors are used by others as well, as far as was seen lately.
    #[inline]
    pub(crate) fn is_seen(&self) -> bool {
        self.evidence.holds(|| Ticks::now().raw())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn others_that_come_back_are_seen_for_longer_and_those_that_stay_away_are_forgotten() {
        Ticks::per_us();
        let evidence = Evidence::new();
        let mut now = Ticks::about_us(1000);
        let mut note = |after: u64| {
            evidence.note(now, &LOAD);
            now = evidence.end() + Ticks::about_us(after);
            evidence.length() / 1000
        };
        assert_eq!([(); 6].map(|()| note(99_000)), [100, 200, 400, 800, 800, 800]);
        note(101_000);
        assert_eq!(note(0), 100);
    }

    #[test]
    fn evidence_holds_for_a_while_and_not_for_ever() {
        // Measured before the first use: the unit must not change in between.
        Ticks::per_us();
        let load = Load::default();
        assert!(!load.is_seen());
        // Before the evidence, which counts from a later moment on.
        let before = Ticks::now();
        load.note();
        while load.is_seen() {
            std::thread::yield_now();
        }
        assert!(before.elapsed_ticks() >= Ticks::about_us(LOAD.first));
    }
}
