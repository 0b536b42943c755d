//! Which member of a region runs a `single`: the first one that comes to it.
//!
//! # Protocol
//! All members come to the same singles in the same order, and each counts for itself those that it
//! came to. S1: the member whose count is the number of singles begun, and that exchanges this
//! number for the next one, runs the single.
//!
//! # Orderings
//! Relaxed: S1 elects, and orders nothing. What a single writes is seen after a barrier or the
//! join.

use platform::sync::CachePadded;
use platform::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// See the module head. Numbers wrap: no member is 2^32 singles late.
#[derive(Debug, Default)]
pub struct Singles {
    /// Singles begun. Writers: members.
    begun: CachePadded<AtomicU32>,
}

impl Singles {
    /// S1: true for the one member that runs single `number`, where the team has `members`. Cost: a
    /// compare-and-swap on that one, and most often a load on the others.
    #[inline]
    pub fn begin(&self, number: u32, members: usize) -> bool {
        let begun = &self.begun;
        let next = number.wrapping_add(1);
        if members == 1 {
            // ORDERING: Relaxed, also below - see the module head.
            begun.store(next, Relaxed);
            return true;
        }
        // A look brings the line once more for a member that then takes it; where many members do
        // not take it, the look spares the others that number of turns.
        (members == 2 || begun.load(Relaxed) == number)
            && begun.compare_exchange(number, next, Relaxed, Relaxed).is_ok()
    }

    /// The next single is number 0. Between regions; writes only where there was one, so that the
    /// line stays in the members' caches.
    pub fn reset(&self) {
        // ORDERING: Relaxed, both - the next fork publishes it.
        if self.begun.load(Relaxed) != 0 {
            self.begun.store(0, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_after_the_largest() {
        let singles = Singles::default();
        assert!(singles.begin(u32::MAX, 1));
        assert!(!singles.begin(u32::MAX, 3) && singles.begin(0, 3) && !singles.begin(0, 2));
        singles.reset();
        assert!(singles.begin(0, 2));
    }
}

#[cfg(all(test, loom))]
mod model;
