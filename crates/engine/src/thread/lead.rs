//! Leading an explicit group: for a while, a thread is the root of workers that the master around
//! gave it.

use super::group::WorkerGroup;
use super::state::{Local, Pin};
use crate::process::Born;
use crate::thread::head::Head;
use crate::workers::worker::Worker;
use platform::message::say;
use std::ptr;

impl Local {
    /// Tells the group of the current depth that others were masters of its members.
    pub fn take_members_back(&self) {
        self.with_group(WorkerGroup::had_other_masters);
    }

    /// Leads an explicit group until what is returned is dropped: what the calling thread forks
    /// meanwhile gets `workers`, and no others unless a team's size must be exact. The caller's
    /// place at this depth is its own.
    ///
    /// # Safety
    /// - `workers` are in no other master's reach until the leading has ended (L1), and joined.
    /// - `head` says what the group may use, and what it points to outlives the leading.
    /// - What is returned is dropped, on this thread, before anything that the caller began earlier
    ///   on it ends.
    pub unsafe fn lead(&self, head: &Head<'_>, workers: &[&'static Worker]) -> Led<'_> {
        self.give_to_group(workers);
        Led {
            own: ptr::from_ref(head).cast(),
            local: self,
            born: Born::now(),
            depth: self.custody.depth(),
            head: self.head.replace(ptr::from_ref(head).cast()),
            root_depth: self.custody.swap_root(self.custody.depth()),
            _pin: self.pin(),
        }
    }
}

/// The leading of an explicit group, which ends when this is dropped.
#[must_use = "the leading ends when this is dropped"]
pub struct Led<'a> {
    local: &'a Local,
    born: Born,
    depth: usize,
    own: *const Head<'static>,
    /// What was there before.
    head: *const Head<'static>,
    root_depth: usize,
    /// Released last.
    _pin: Pin<'a>,
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let Self { local, .. } = *self;
        if self.born.is_parents() {
            // The body forked, and this is the child: what was led is the parent's (D13), and what
            // was led around it, too.
            return;
        }
        let is_last = ptr::eq(local.head.get(), self.own) && local.custody.depth() == self.depth;
        local.head.set(self.head);
        local.custody.swap_root(self.root_depth);
        if !is_last {
            // Going on would let two masters use the same workers.
            say(format_args!(
                "nanos: a group or Team::install ended before one that began inside it on the same \
                 thread"
            ));
            std::process::abort();
        }
        local.give_to_group(&[]);
    }
}
