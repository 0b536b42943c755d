//! Forking elsewhere for a while: for what runs on top of a stack without belonging to it.
//!
//! A nano-thread that waits inside `Team::install` keeps its stack, and other nano-threads of its
//! scope run on top of it. They are no part of what was installed: they fork with what the scope's
//! member has. They do so deeper than the caller, whose groups stay as they are, in a group that is
//! given the same workers: no region of this thread is open then, so it is their only master all
//! the time (L1).

use super::state::Local;
use crate::protocols::custody::NOWHERE;
use crate::thread::head::Head;
use crate::workers::worker::Worker;

/// Where a thread forks: see [`Local::go_to`].
#[derive(Clone, Copy, Debug)]
pub struct ForkContext {
    /// Regions around.
    level: u32,
    depth: usize,
    /// It is a root there.
    is_root: bool,
    head: *const Head<'static>,
}

/// A thread that forks elsewhere for a while.
pub struct Visit<'a> {
    local: &'a Local,
    /// Where it was.
    depth: usize,
    /// What stood there.
    root: usize,
    head: *const Head<'static>,
}

impl Drop for Visit<'_> {
    #[cold]
    fn drop(&mut self) {
        self.local.give_to_group(&[]);
        self.local.custody.close(self.depth);
        self.local.custody.swap_root(self.root);
        self.local.head.set(self.head);
        self.local.take_members_back();
    }
}

impl Local {
    /// Where the thread forks now.
    pub fn place(&self) -> ForkContext {
        let (depth, head) = (self.custody.depth(), self.head.get());
        let is_root = self.is_outermost_at(depth) || self.custody.is_root_at(depth);
        ForkContext { level: self.membership.get().level, depth, is_root, head }
    }

    /// For what runs on top of the caller's stack without being a part of what the caller does: as
    /// long as the visit lasts, the thread forks as it would at `base`, where it was further down
    /// the stack. `None` where the thread is at `base` already, and where it has opened regions
    /// since, whose members are at work.
    #[inline]
    pub fn go_to(&self, base: ForkContext) -> Option<Visit<'_>> {
        if self.custody.depth() == base.depth { None } else { self.visit(base) }
    }

    #[cold]
    fn visit(&self, base: ForkContext) -> Option<Visit<'_>> {
        if self.membership.get().level != base.level || self.asks() {
            return None;
        }
        // Its own since what is open on the stack now was opened.
        let workers = self.with_group_at(base.depth, |group| {
            if base.is_root { group.members.clone() } else { Vec::new() }
        });
        let depth = self.custody.open();
        // A master that is no root there borrows what its root does not use.
        let root = self.custody.swap_root(if base.is_root { depth + 1 } else { NOWHERE });
        let head = self.head.replace(base.head);
        self.give_to_group(&workers);
        Some(Visit { local: self, depth, root, head })
    }

    /// The group of the current depth has `workers`, and those of its own.
    pub(super) fn give_to_group(&self, workers: &[&'static Worker]) {
        self.with_group(|group| {
            // What the root lent to an earlier region here is given up, until the root lends anew.
            group.members.splice(..group.lent, workers.iter().copied());
            group.lent = workers.len();
            group.generation = 0;
            group.had_other_masters();
        });
    }
}
