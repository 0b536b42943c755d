//! Whether a master inside a region is one of several *now* whose teams have threads beyond what is
//! lent to them: where those threads sit depends on it
//! ([`Home::beyond`](crate::placement::home::Home::beyond)).
//!
//! # Protocol
//! 1. A master that gets its first such threads enrolls with the lender.
//! 2. When a region with such threads opens or closes, the master shows it to the others: two
//!    stores to a line of its own.
//! 3. At some of these regions it looks what the others show, at both ends: theirs were open
//!    together with its own if one is open at either end, or opened in between. A master that is
//!    together with others looks at each [`APART`]-th region, and, once it finds itself alone, at
//!    each; after [`ENOUGH`] such looks in a row it counts as alone.
//!
//! Masters of one region around that nest one after the other are not together. Regions without
//! such threads cost nothing; a master that has no others enrolled beside it looks at one word,
//! which no thread writes.
//!
//! Each master decides by itself, and one may decide some regions later than the other. That costs
//! speed in these, nothing else.

use crate::protocols::lending::{Activity, Lender, Others};
use std::sync::Arc;

/// A look costs a miss for each of the others, and a lock.
const APART: u32 = 8;
/// A master that lost its processor for one region is not alone.
const ENOUGH: u32 = 3;

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Beyond {
    /// Enrolled with the lender of the group's generation.
    own: Option<Arc<Activity>>,
    is_together: bool,
    is_open: bool,
    /// What the others showed when the open region began, if it is one to look at.
    before: Option<Others>,
    /// Regions until the next look.
    until_look: u32,
    /// Looks in a row that found no other master.
    alone: u32,
}

impl Beyond {
    /// Step 1.
    pub(crate) fn enroll<T: Copy>(&mut self, lender: &Lender<T>) {
        if self.own.is_none() {
            let own = lender.enroll();
            self.is_together = lender.others(&own).is_some_and(|others| others.is_open());
            self.own = Some(own);
        }
    }

    pub(crate) fn is_enrolled(&self) -> bool {
        self.own.is_some()
    }

    /// True where other masters have such threads at the same time.
    pub(crate) fn is_together(&self) -> bool {
        self.is_together
    }

    /// A region with such threads is open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Such a region is about to begin.
    pub(crate) fn open<T: Copy>(&mut self, lender: &Lender<T>) {
        let Some(own) = &self.own else { return };
        own.change();
        self.is_open = true;
        self.before = match self.until_look.checked_sub(1) {
            None => lender.others(own),
            Some(left) => {
                self.until_look = left;
                None
            }
        };
    }

    /// It is joined. True when the answer of [`Beyond::is_together`] changed.
    pub(crate) fn close<T: Copy>(&mut self, lender: &Lender<T>) -> bool {
        let Some(own) = self.own.as_ref().filter(|_| self.is_open) else { return false };
        own.change();
        self.is_open = false;
        let Some(before) = self.before.take() else { return false };
        let Some(after) = lender.others(own) else { return false };
        if before.is_open() || after.is_open() || before != after {
            (self.alone, self.until_look) = (0, APART - 1);
            return !std::mem::replace(&mut self.is_together, true);
        }
        self.alone = (self.alone + 1).min(ENOUGH);
        self.alone == ENOUGH && std::mem::take(&mut self.is_together)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Master<'a>(&'a Lender<u32>, Beyond);

    impl<'a> Master<'a> {
        fn of(lender: &'a Lender<u32>) -> Self {
            let mut beyond = Beyond::default();
            beyond.enroll(lender);
            Self(lender, beyond)
        }

        fn open(&mut self) {
            self.1.open(self.0);
        }

        fn close(&mut self) -> bool {
            self.1.close(self.0)
        }

        fn alone(&mut self) -> bool {
            self.open();
            self.close()
        }
    }

    /// Regions after which a master that was together with others knows that it is not any more.
    const SOON: u32 = APART + ENOUGH;

    #[test]
    fn masters_whose_regions_are_open_at_once_are_together_until_one_nests_alone() {
        let lender = Lender::new();
        let (mut one, mut other) = (Master::of(&lender), Master::of(&lender));
        for round in 0..3 {
            for _ in 0..2 * SOON {
                // Either may be first, at either end, or inside the other's.
                one.open();
                other.open();
                if round == 1 {
                    other.close();
                    one.close();
                } else {
                    one.close();
                    other.close();
                }
            }
            assert!(one.1.is_together() && other.1.is_together());
            let changes = (0..SOON).filter(|_| one.alone()).count();
            assert_eq!(changes, 1);
            assert!(!one.1.is_together());
        }
    }

    #[test]
    fn masters_that_nest_one_after_the_other_are_never_together() {
        let lender = Lender::new();
        let (mut one, mut other) = (Master::of(&lender), Master::of(&lender));
        for _ in 0..3 * SOON {
            assert!(!one.alone() && !other.alone());
        }
        assert!(!one.1.is_together() && !other.1.is_together());
    }

    #[test]
    fn a_few_regions_alone_do_not_part_masters() {
        let lender = Lender::new();
        let (mut one, mut other) = (Master::of(&lender), Master::of(&lender));
        for _ in 0..3 {
            one.open();
            other.alone();
            one.close();
            assert!(one.1.is_together());
            // All but the last look that it would take.
            (1..SOON - 1).for_each(|_| assert!(!one.alone()));
        }
        assert!(one.alone() && !one.1.is_together());
    }

    #[test]
    fn a_master_that_enrolls_while_another_one_is_open_is_together_with_it_at_once_and_none_with_those_that_left()
     {
        let lender = Lender::new();
        let mut one = Master::of(&lender);
        assert!(!one.1.is_together());
        one.open();
        let other = Master::of(&lender);
        assert!(other.1.is_together());
        drop(other);
        one.close();
        for _ in 0..100 {
            drop(Master::of(&lender));
        }
        assert_eq!(lender.masters(), 2, "only the one that is there, and the one that came last");
    }
}
