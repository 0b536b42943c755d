//! How often a thread waits in a team that has more threads than the program has processors: what
//! the manager is told of it.
//!
//! All threads of a program tell it in one line of the arena. A thread does so once in [`PAUSE`] at
//! most, so that teams of hundreds of threads do not wait for that line.

use platform::clock::Ticks;
use std::cell::Cell;

/// Microseconds.
const PAUSE: u64 = 1_000;

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
        let count = self.count.get().wrapping_add(1);
        let is_due = self.told.get().is_none_or(|told| now.wrapping_sub(told) >= pause);
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
    fn all_turns_are_told_and_seldom() {
        let turns = Turns::default();
        let told: Vec<u32> = (0..100).filter_map(|now| turns.add_at(now, 10)).collect();
        assert_eq!(told, [vec![1], vec![10; 9]].concat());
        assert_eq!(turns.add_at(1_000, 10), Some(10), "nothing is lost");
        assert_eq!(turns.add_at(2_000, 10), Some(1));
    }
}
