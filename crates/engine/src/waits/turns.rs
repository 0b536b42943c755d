//! How often a thread waits in a team that has more threads than the program has processors: what
//! the manager is told of it.
//!
//! All threads of a program tell it in one line of the arena. A thread does so once in [`PAUSE`] at
//! most, so that teams of hundreds of threads do not wait for that line. What was not told within
//! [`OLD`] says nothing about now, and is never told.

use platform::clock::Ticks;
use std::cell::Cell;

/// Microseconds.
const PAUSE: u64 = 1_000;
/// A number of pauses.
const OLD: u64 = 10;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Turns {
    count: Cell<u32>,
    /// When they were told, in ticks.
    told: Cell<Option<u64>>,
}

impl Turns {
    /// One more: the number to be told now, if it is time to. Cost: a look at the clock.
    #[inline]
    pub(super) fn add(&self) -> Option<u32> {
        self.add_at(Ticks::now().raw(), Ticks::about_us(PAUSE))
    }

    fn add_at(&self, now: u64, pause: u64) -> Option<u32> {
        let age = self.told.get().map_or(u64::MAX, |told| now.wrapping_sub(told));
        let count = if age < OLD * pause { self.count.get().wrapping_add(1) } else { 1 };
        let is_due = age >= pause;
        if is_due {
            self.told.set(Some(now));
        }
        self.count.set(if is_due { 0 } else { count });
        is_due.then_some(count)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn turns_are_told_together() {
        let turns = Turns::default();
        let told: Vec<u32> = (0..100).filter_map(|now| turns.add_at(now, 10)).collect();
        assert_eq!(told, [vec![1], vec![10; 9]].concat());
    }

    #[test]
    fn what_is_old_is_not_told() {
        let turns = Turns::default();
        assert_eq!((0..5).filter_map(|now| turns.add_at(now, 10)).sum::<u32>(), 1);
        assert_eq!(turns.add_at(99, 10), Some(5), "of this while");
        assert_eq!((100..105).filter_map(|now| turns.add_at(now, 10)).sum::<u32>(), 0);
        assert_eq!(turns.add_at(1_000, 10), Some(1));
    }
}
