//! How many tasks of a region were created and completed, and whether all are.
//!
//! # Protocol
//! Each member counts in a line of its own. A member that creates a task counts it before any
//! thread can run it. A thread that completes a task counts that last (T1), after all tasks that it
//! created. A thread that asks whether all are complete sums the completions first (T2), and the
//! creations after that.
//!
//! The thread that completed a task had seen its creation, and created its children before: so each
//! completion that is seen makes its task's creation, and its children's, visible to the second
//! sum. Equal sums mean equal sets, with no unseen descendant. In the other order a child could be
//! created, and its parent completed, between the two sums: they would be equal, and the child
//! still to run.
//!
//! # Orderings
//! T1 Release with T2 Acquire: creations, as told above, and what the tasks did.

use platform::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{self, Acquire, Relaxed, Release},
};
use platform::sync::{CachePadded, HandCell};

/// What one member created and completed in this region. Writer: the member.
#[derive(Debug, Default)]
struct MemberCounts {
    created: AtomicU64,
    completed: AtomicU64,
}

/// Adds to a counter that only the caller writes. In models by one access: loom looks for others'
/// accesses before the last one alone, which would be the writer's own load.
#[inline]
#[cfg_attr(loom, track_caller)]
fn add(counter: &AtomicU64, count: u64, ordering: Ordering) {
    #[cfg(loom)]
    counter.fetch_add(count, ordering);
    // ORDERING: Relaxed - the caller's own; the store has the caller's ordering.
    #[cfg(not(loom))]
    counter.store(counter.load(Relaxed) + count, ordering);
}

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct TaskCounts {
    members: HandCell<Vec<CachePadded<MemberCounts>>>,
    /// Tasks completed by threads that are not of the team.
    completed_elsewhere: AtomicU64,
    /// A task was created since `take_note`.
    noted: AtomicBool,
}

// SAFETY: - the list of members changes between regions only (`make_room`); all else are atomics.
unsafe impl Sync for TaskCounts {}

impl TaskCounts {
    /// Makes room for `members`.
    ///
    /// # Safety
    /// - Between regions: no other thread looks at the counts.
    pub(crate) unsafe fn make_room(&self, members: usize) {
        // SAFETY: - caller's contract.
        unsafe {
            self.members.with_mut(|list| {
                let list = &mut *list;
                list.resize_with(members.max(list.len()), CachePadded::default);
            });
        }
    }

    fn member(&self, id: u32) -> &MemberCounts {
        // SAFETY: - the list does not change during a region.
        unsafe { self.members.with(|list| &(&*list)[id as usize]) }
    }

    /// Member `id` creates a task. `first` runs before the first one that any member knows of.
    pub(crate) fn created(&self, id: u32, first: impl FnOnce()) {
        let created = &self.member(id).created;
        // ORDERING: Relaxed - one writer; shown by T1 of the thread that completes the task or its
        // parent.
        add(created, 1, Relaxed);
        // ORDERING: Relaxed - a member sees its own, and others' after a barrier.
        if !self.noted.load(Relaxed) {
            first();
            self.noted.store(true, Relaxed);
        }
    }

    /// Member `id` (or a thread that is none) completes `count` tasks: the last thing that touches
    /// their region.
    pub(crate) fn complete(&self, id: Option<u32>, count: u32) {
        let count = u64::from(count);
        match id {
            Some(id) => {
                let completed = &self.member(id).completed;
                // ORDERING: Release (T1) - pairs with T2. One writer.
                add(completed, count, Release);
            }
            None => {
                // ORDERING: Release (T1 elsewhere) - pairs with T2.
                self.completed_elsewhere.fetch_add(count, Release);
            }
        }
    }

    /// True when no task was created in this region.
    #[inline]
    pub(crate) fn are_unused(&self) -> bool {
        // ORDERING: Relaxed - see `created`.
        !self.noted.load(Relaxed)
    }

    /// True when every task is complete that was created by what the caller has seen the end of:
    /// its own code, and that of all members which have arrived at its barrier.
    #[inline]
    pub(crate) fn all_complete(&self, size: u32) -> bool {
        self.are_unused() || self.sums_agree(size)
    }

    fn sums_agree(&self, size: u32) -> bool {
        let (completed, created) = self.sums(size);
        completed == created
    }

    /// Tasks completed, then tasks created, in this order.
    pub(crate) fn sums(&self, size: u32) -> (u64, u64) {
        let completed = self.sum_completed(size);
        (completed, self.sum_created(size))
    }

    fn sum_completed(&self, size: u32) -> u64 {
        // ORDERING: Acquire (T2) - what the tasks did and created; pairs with T1.
        let members: u64 = (0..size).map(|id| self.member(id).completed.load(Acquire)).sum();
        // ORDERING: Acquire (T2 elsewhere) - likewise.
        members + self.completed_elsewhere.load(Acquire)
    }

    fn sum_created(&self, size: u32) -> u64 {
        // ORDERING: Relaxed - ordered after T2.
        (0..size).map(|id| self.member(id).created.load(Relaxed)).sum()
    }

    /// True when a task was created since the last call: counts from 0 again.
    ///
    /// # Safety
    /// - Between regions: no other thread looks at the counts.
    pub(crate) unsafe fn take_note(&self) -> bool {
        // ORDERING: Relaxed - after the join, before the next fork.
        let noted = self.noted.load(Relaxed);
        if noted {
            self.noted.store(false, Relaxed);
            self.completed_elsewhere.store(0, Relaxed);
            // SAFETY: - caller's contract.
            let members = unsafe { self.members.with(|list| &*list) };
            for member in members {
                member.created.store(0, Relaxed);
                member.completed.store(0, Relaxed);
            }
        }
        noted
    }
}
