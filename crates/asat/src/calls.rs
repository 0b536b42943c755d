//! How many calls go by between two readings of the clock: a reading takes longer than all else
//! that a call does while nothing is due.
//!
//! # Protocol
//! 1. A call that finds calls left takes one off. It was a load and a store: threads that call at
//!    the same time may take off one for both, and the clock is read a call later.
//! 2. A call that finds none reads the clock, and sets as many as came in [`LOOK_US`] at the pace
//!    of the last ones, at most [`MOST`]. Calls that are farther apart read it each time, so that a
//!    program that becomes slow is not looked at only after many slow calls.
//!
//! # Orderings
//! Relaxed throughout: numbers on their own. What is decided by them is only when a clock is read.

use platform::clock::Ticks;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Readings of the clock are so far apart where calls come often, in microseconds.
const LOOK_US: u64 = 1000;
/// The most calls that go by.
const MOST: u32 = 16;

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    left: AtomicU32,
    counted: AtomicU32,
    /// Ticks at the last reading; 0: none.
    read: AtomicU64,
}

impl Calls {
    /// A call; true when it is to read the clock.
    #[inline]
    pub(crate) fn is_reading_due(&self) -> bool {
        // ORDERING: Relaxed - see the module head.
        let left = self.left.load(Relaxed);
        if left > 0 {
            self.left.store(left - 1, Relaxed);
            return false;
        }
        self.pace();
        true
    }

    fn pace(&self) {
        let (now, look) = (Ticks::now().raw(), Ticks::about_us(LOOK_US));
        // ORDERING: Relaxed - see the module head.
        let last = self.read.swap(now, Relaxed);
        let passed = (last != 0).then(|| now.saturating_sub(last));
        let next = calls_until_reading(passed, self.counted.load(Relaxed), look);
        self.counted.store(next, Relaxed);
        self.left.store(next - 1, Relaxed);
    }
}

/// The next reading is that many calls away when the last `calls` took `passed` ticks, and
/// readings are to be `look` apart. `None`: there was no reading before.
fn calls_until_reading(passed: Option<u64>, calls: u32, look: u64) -> u32 {
    let Some(passed) = passed else { return 1 };
    let each = (passed / u64::from(calls.max(1))).max(1);
    // At most 16.
    (look / each).clamp(1, u64::from(MOST)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_come_often_are_counted_and_slow_ones_read_the_clock() {
        assert_eq!(calls_until_reading(None, 0, 1000), 1);
        assert_eq!(calls_until_reading(Some(16), 16, 1000), MOST);
        assert_eq!(calls_until_reading(Some(3200), 16, 1000), 5);
        assert_eq!(calls_until_reading(Some(1001), 1, 1000), 1);
        assert_eq!(calls_until_reading(Some(0), 0, 0), 1);
    }

    #[test]
    fn no_more_than_sixteen_calls_go_by_without_a_reading() {
        let calls = Calls::default();
        assert!(calls.is_reading_due());
        let (mut without, mut readings) = (0, 0);
        for _ in 0..10_000 {
            if calls.is_reading_due() {
                (without, readings) = (0, readings + 1);
            } else {
                without += 1;
            }
            assert!(without < MOST);
        }
        assert!(readings >= 10_000 / MOST);
    }
}
