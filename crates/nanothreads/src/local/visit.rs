//! Forking elsewhere for a while: for what runs on top of a stack without belonging to it.
//!
//! A nano-thread that waits inside [`Team::install`](crate::Team::install) keeps its stack, and other nano-threads of its scope
//! run on top of it. They are no part of what was installed: they fork where the scope stands.

use super::Local;
use crate::groups::Head;

/// Where a thread forks: see [`Local::go_to`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Regions around.
    level: u32,
    depth: usize,
    root_depth: usize,
    head: *const Head<'static>,
}

/// A thread that forks elsewhere for a while.
pub(crate) struct Visit<'a> {
    local: &'a Local,
    /// Where it was.
    from: Place,
    claimed: usize,
}

impl Drop for Visit<'_> {
    #[cold]
    fn drop(&mut self) {
        self.local.take_members_back();
        self.local.settle();
        self.local.set_place(self.from);
        self.local.claimed.set(self.claimed);
        self.local.take_members_back();
    }
}

impl Local {
    /// Where the thread forks now.
    pub(crate) fn place(&self) -> Place {
        let (depth, root_depth, head) = (self.depth.get(), self.root_depth.get(), self.head.get());
        Place { level: self.membership.get().level, depth, root_depth, head }
    }

    fn set_place(&self, place: Place) {
        self.depth.set(place.depth);
        self.root_depth.set(place.root_depth);
        self.head.set(place.head);
    }

    /// For what runs on top of the caller's stack without being a part of what the caller does: as long as the visit lasts,
    /// the thread forks at `base`, where it was further down the stack. `None` where that is where it is; and where it has
    /// opened regions since, whose groups are in use.
    #[inline]
    pub(crate) fn go_to(&self, base: Place) -> Option<Visit<'_>> {
        if self.depth.get() == base.depth { None } else { self.visit(base) }
    }

    #[cold]
    fn visit(&self, base: Place) -> Option<Visit<'_>> {
        let from = self.place();
        if from.level != base.level || self.asks() {
            return None;
        }
        // No region of this thread is open at either depth (same level): both have the same virtual processors, of which this
        // thread is the only master (L1), and look at them again.
        let visit = Visit { local: self, from, claimed: self.claimed.take() };
        self.take_members_back();
        self.set_place(base);
        self.take_members_back();
        Some(visit)
    }
}
