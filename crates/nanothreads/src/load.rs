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
//! For [`KEEP`] microseconds after the last evidence of any thread:
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

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Ticks until which the last evidence holds; 0 when there is none.
    until: AtomicU64,
}

impl Load {
    /// Notes that a thread just had no processor.
    pub(crate) fn note(&self) {
        // ORDERING: Relaxed throughout - a hint that publishes nothing.
        self.until.store(Ticks::now().raw().saturating_add(Ticks::about_us(KEEP)).max(1), Relaxed);
    }

    /// True when the program's processors are used by others as well, as far as was seen lately.
    #[inline]
    pub(crate) fn is_seen(&self) -> bool {
        let until = self.until.load(Relaxed);
        until != 0 && self.still_holds(until)
    }

    #[cold]
    fn still_holds(&self, until: u64) -> bool {
        if Ticks::now().raw() < until {
            return true;
        }
        // Fails when newer evidence came meanwhile.
        self.until.compare_exchange(until, 0, Relaxed, Relaxed).is_err()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
