//! What a master wants from fork to fork, as far as it says so (D6, M2).
//!
//! # Rule
//! What the next region could use, regions inside included, is what the master wants. A change is
//! said at once: to a manager by system calls, and by a turn of its own on some processor, tens of
//! microseconds in all. Where loops of one chunk stand between larger ones that would be for each
//! loop, hundreds of times in a second. So a master that wants more within [`CALM`] after it wanted
//! less is restless: from then on it says that it wants less no sooner than [`CALM`] later, unless
//! the program has more than that, which others could have at once.

use platform::clock::Ticks;
use std::cell::Cell;

/// Microseconds in which less and then more make a master restless, and for which it is.
const CALM: u64 = 100_000;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    said: Cell<usize>,
    /// When it said that it wants less, in ticks.
    fell: Cell<Option<u64>>,
    /// When it was found to be restless.
    restless: Cell<Option<u64>>,
}

impl Wanted {
    /// The next region could use `processors`, and the program has `granted()`: what was said
    /// before, when a change is to be said. Cost in most cases: a load.
    #[inline]
    pub(super) fn follow(
        &self,
        processors: usize,
        granted: impl FnOnce() -> usize,
    ) -> Option<usize> {
        if self.said.get() == processors {
            return None;
        }
        self.change(processors, granted(), Ticks::now().raw(), Ticks::about_us(CALM))
    }

    #[cold]
    fn change(&self, processors: usize, granted: usize, now: u64, calm: u64) -> Option<usize> {
        let is_recent =
            |then: &Cell<Option<u64>>| then.get().is_some_and(|then| now.wrapping_sub(then) < calm);
        if processors < self.said.get() {
            if is_recent(&self.restless) && granted <= processors {
                return None;
            }
            self.fell.set(Some(now));
        } else if is_recent(&self.fell) {
            self.restless.set(Some(now));
        }
        Some(self.said.replace(processors))
    }

    /// Nothing is wanted any more: what was.
    pub(super) fn end(&self) -> usize {
        self.fell.set(None);
        self.restless.set(None);
        self.said.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What a master says that wants this many processors at these times, in a program that has
    /// one; it is calm after 100.
    fn said(wanted: impl IntoIterator<Item = (u64, usize)>) -> Vec<(u64, usize)> {
        said_with(1, wanted)
    }

    fn said_with(
        granted: usize,
        wanted: impl IntoIterator<Item = (u64, usize)>,
    ) -> Vec<(u64, usize)> {
        let master = Wanted::default();
        let says = |(now, processors): &(u64, usize)| {
            *processors != master.said.get()
                && master.change(*processors, granted, *now, 100).is_some()
        };
        wanted.into_iter().filter(says).collect()
    }

    #[test]
    fn a_restless_master_gives_up_at_once_what_it_has() {
        let restless: Vec<_> = (0..10).map(|now| (now, if now % 2 == 0 { 8 } else { 2 })).collect();
        assert_eq!(said_with(4, restless.clone()), restless);
        assert_eq!(said_with(2, restless).len(), 3);
    }

    #[test]
    fn what_grows_and_shrinks_is_said_at_once() {
        let evolving = [(0, 2), (1, 4), (2, 8), (3, 8), (4, 4), (5, 2), (6, 1)];
        assert_eq!(said(evolving), [(0, 2), (1, 4), (2, 8), (4, 4), (5, 2), (6, 1)]);
    }

    #[test]
    fn less_is_said_at_once_where_more_comes_seldom() {
        let seldom = [(0, 2), (10, 1), (200, 2), (210, 1)];
        assert_eq!(said(seldom), seldom);
    }

    #[test]
    fn what_goes_up_and_down_is_said_a_few_times() {
        let restless = (0..1_000).map(|now| (now, if now % 2 == 0 { 2 } else { 1 }));
        let said = said(restless);
        assert!((10..=22).contains(&said.len()), "{said:?}");
        assert_eq!(said[..3], [(0, 2), (1, 1), (2, 2)], "more is said at once");
    }

    #[test]
    fn a_restless_master_says_at_last_that_it_wants_less() {
        let at_last = [(0, 2), (1, 1), (2, 2), (3, 1), (50, 1), (103, 1), (104, 1)];
        assert_eq!(said(at_last), [(0, 2), (1, 1), (2, 2), (103, 1)]);
    }

    #[test]
    fn what_ends_wants_nothing() {
        let master = Wanted::default();
        assert_eq!(master.change(3, 1, 0, 100), Some(0));
        assert_eq!(master.end(), 3);
        assert_eq!(master.end(), 0);
    }
}
