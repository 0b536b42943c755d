//! Task groups: what `taskgroup` waits for and cancels, and what reductions over tasks hang on.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// A task group: taskgroup construct, or the group around a reduction over tasks.
#[derive(Debug)]
pub(crate) struct TaskGroup {
    /// The group around this one, or null.
    pub(crate) outer: *const TaskGroup,
    /// Tasks of the group that are not complete.
    pending: AtomicU32,
    cancelled: AtomicBool,
    /// The reduction data that compiled code registered.
    pub(crate) reductions: Cell<*mut usize>,
    /// The group belongs to a worksharing construct or region, not to a taskgroup: cancellation
    /// looks through it.
    pub(crate) of_construct: Cell<bool>,
}

impl TaskGroup {
    /// One more task.
    pub(crate) fn count_created(&self) {
        // ORDERING: Relaxed - queues and tables publish the task; the count only has to be up
        // before that.
        self.pending.fetch_add(1, Relaxed);
    }

    /// `count` tasks less; true when none is left. The group may be gone when this returns.
    pub(crate) fn count_complete(&self, count: u32) -> bool {
        // ORDERING: Release - pairs with `is_done`.
        self.pending.fetch_sub(count, Release) == count
    }

    /// True when no task of it is left.
    pub(crate) fn is_done(&self) -> bool {
        // ORDERING: Acquire - pairs with `count_complete`.
        self.pending.load(Acquire) == 0
    }

    /// Cancels the tasks of the group that have not started.
    pub(crate) fn cancel(&self) {
        // ORDERING: Relaxed - a hint, checked at scheduling points.
        self.cancelled.store(true, Relaxed);
    }

    /// True after `cancel`, here or in the group that a construct's group hides.
    pub(crate) fn is_cancelled(&self) -> bool {
        // ORDERING: Relaxed - a hint.
        self.cancelled.load(Relaxed)
            || (self.of_construct.get() && self.outer().is_some_and(TaskGroup::is_cancelled))
    }

    /// The group around this one.
    pub(crate) fn outer(&self) -> Option<&TaskGroup> {
        // SAFETY: - null or a group that closes after this one.
        unsafe { self.outer.as_ref() }
    }
}

/// A group inside `outer`.
pub(crate) fn new_group(outer: *const TaskGroup) -> Box<TaskGroup> {
    Box::new(TaskGroup {
        outer,
        pending: AtomicU32::new(0),
        cancelled: AtomicBool::new(false),
        // SAFETY: - null or a group that is open around the new one.
        reductions: Cell::new(
            unsafe { outer.as_ref() }.map_or(ptr::null_mut(), |outer| outer.reductions.get()),
        ),
        of_construct: Cell::new(false),
    })
}
