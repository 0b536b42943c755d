//! What a member has completed for others and not told them yet: see [`crate::tasking`].

use super::{Task, TaskGroup};
use std::cell::Cell;
use std::ptr;

/// Children that are told together, at most.
const MOST: u32 = 16;

/// See the module head. The member's own.
pub(crate) struct Tally {
    ends: Cell<Ends>,
}

/// Children of one parent, counted by one group, that are complete.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// The parent.
    pub(crate) parent: *const Task,
    /// The group, or null.
    pub(crate) group: *const TaskGroup,
    /// How many.
    pub(crate) count: u32,
    /// How many of them are gone: each had a reference to the parent.
    pub(crate) gone: u32,
}

impl Tally {
    /// Nothing to tell.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            ends: Cell::new(Ends { parent: ptr::null(), group: ptr::null(), count: 0, gone: 0 }),
        }
    }

    /// True when there is something to tell, and to another parent or group than these.
    #[inline]
    pub(crate) fn is_about_others(&self, parent: *const Task, group: *const TaskGroup) -> bool {
        let ends = self.ends.get();
        ends.count > 0 && (ends.parent != parent || ends.group != group)
    }

    /// What there is to tell; then there is nothing more.
    #[inline]
    pub(crate) fn take(&self) -> Option<Ends> {
        let ends = self.ends.get();
        if ends.count == 0 {
            return None;
        }
        self.ends.set(Ends { count: 0, gone: 0, ..ends });
        Some(ends)
    }

    /// One more child of `parent`, counted by `group`, is complete. True when it is time to tell.
    #[inline]
    pub(crate) fn add(&self, parent: *const Task, group: *const TaskGroup, is_gone: bool) -> bool {
        let before = self.ends.get();
        let (count, gone) = (before.count + 1, before.gone + u32::from(is_gone));
        self.ends.set(Ends { parent, group, count, gone });
        count >= MOST
    }
}
