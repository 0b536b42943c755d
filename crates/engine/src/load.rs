//! Evidence that others use the program's processors, when no manager says so (D2, D16).
//!
//! # Evidence
//! A *hole*: a thread that only spins finds that [`HOLE`] microseconds passed between two looks. It had no processor
//! meanwhile: another program's thread had it, or the hypervisor, or the quota of its cgroup was used up. A hole costs
//! nothing to find (spinning threads read the clock anyway), cannot be confused with a partner that has much to do, and
//! comes within one time slice of the other program.
//!
//! A *lost member* ([`crate::presence`]): a master waited long, and the kernel says that the member waited for a
//! processor meanwhile. A hole in the time of who works instead of spinning.
//!
//! A *throttled period*: a control group's `nr_throttled` has grown. Its processors are used up all at once, so that
//! spinning takes time from the program itself. Looked at with the quota ([`crate::sizer`]), every 100 ms.
//!
//! # What follows
//! For [`KEEP`] microseconds after the last evidence of any thread, longer where it came back soon the last times ([`next_keep`]):
//! - recoverable regions let the master take back what others have not begun ([`crate::slot`]),
//! - nobody spins longer than [`SHORT`](crate::patience::SHORT).
//!
//! Cost where nothing was seen: one load of a line that nobody writes.

use platform::clock::Ticks;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Microseconds between two looks of a spinning thread that only a lost processor explains: interrupts are shorter, time
/// slices longer.
pub(crate) const HOLE: u64 = 500;
/// Microseconds that evidence holds. Longer than the time slices of some programs that take turns; short enough that a
/// program is fast again in the moment after the other one ended.
const KEEP: u64 = 100_000;
/// The most microseconds. Threads that sleep more see others less: each time that they believe to be alone again costs them time
/// slices.
const MOST: u64 = 8 * KEEP;

/// Evidence was not seen to have ended.
const HOLDS: u64 = 1;

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Ticks until which the last evidence holds or held, without their lowest bit, which is [`HOLDS`]; 0 when there was none.
    until: AtomicU64,
    /// Microseconds for which the last evidence holds.
    keep: AtomicU64,
}

/// What the evidence before has come to when there is new one.
#[derive(Clone, Copy)]
enum Before {
    Holds,
    /// It ended less than [`KEEP`] ago: what comes back so soon had not gone.
    JustEnded,
    /// It ended longer ago, or there was none.
    Gone,
}

/// Microseconds for which new evidence holds, when the last one held for `keep`.
fn next_keep(keep: u64, before: Before) -> u64 {
    match before {
        Before::Holds => keep,
        Before::JustEnded => keep.saturating_mul(2).min(MOST),
        Before::Gone => KEEP,
    }
}

impl Load {
    /// Notes that a thread just had no processor.
    pub(crate) fn note(&self) {
        // ORDERING: Relaxed throughout - hints that publish nothing. Of threads that note at once the last one's holds, which may have
        // seen the other one's `keep`: then it holds twice as long, at most [`MOST`].
        let (now, last) = (Ticks::now().raw(), self.until.load(Relaxed) & !HOLDS);
        let before = match now.checked_sub(last) {
            None => Before::Holds,
            Some(since) if last != 0 && since < Ticks::about_us(KEEP) => Before::JustEnded,
            Some(_) => Before::Gone,
        };
        let keep = next_keep(self.keep.load(Relaxed), before).max(KEEP);
        self.keep.store(keep, Relaxed);
        self.until.store(now.saturating_add(Ticks::about_us(keep)) | HOLDS, Relaxed);
    }

    /// True when the program's processors are used by others as well, as far as was seen lately.
    #[inline]
    pub(crate) fn is_seen(&self) -> bool {
        let until = self.until.load(Relaxed);
        until & HOLDS != 0 && self.still_holds(until)
    }

    #[cold]
    fn still_holds(&self, until: u64) -> bool {
        if Ticks::now().raw() < until {
            return true;
        }
        // Fails when newer evidence came meanwhile.
        self.until.compare_exchange(until, until & !HOLDS, Relaxed, Relaxed).is_err()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn evidence_that_comes_back_holds_longer_and_what_stays_away_is_forgotten() {
        assert_eq!(next_keep(0, Before::Gone), KEEP);
        assert_eq!(next_keep(KEEP, Before::Holds), KEEP);
        let again = std::iter::successors(Some(KEEP), |keep| Some(next_keep(*keep, Before::JustEnded)));
        assert_eq!(again.take(6).collect::<Vec<_>>(), [1, 2, 4, 8, 8, 8].map(|times| times * KEEP));
        assert_eq!(next_keep(MOST, Before::Holds), MOST);
        assert_eq!(next_keep(MOST, Before::Gone), KEEP);
    }

    #[test]
    fn evidence_holds_for_a_while_and_not_for_ever() {
        let load = Load::default();
        assert!(!load.is_seen());
        load.note();
        let noted = Ticks::now();
        let mut was_seen = false;
        while load.is_seen() {
            was_seen = true;
            std::thread::yield_now();
        }
        assert!(was_seen || noted.elapsed_ticks() >= Ticks::about_us(KEEP));
        assert!(noted.elapsed_ticks() + Ticks::about_us(HOLE) >= Ticks::about_us(KEEP));
    }
}
