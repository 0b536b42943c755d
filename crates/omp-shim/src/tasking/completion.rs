//! The end of tasks (T4): what each one's end means for others, and what is told of it.
//!
//! # Tallies
//! A member that runs children of a task that another member runs would take that task's line from
//! its creator at each end, which takes it back at each creation. So a member that helps at a
//! barrier keeps a [`Tally`](crate::task::Tally): how many children of one parent, counted by one
//! group, it has completed, to be told together. Dependences are told at once: a thread that waits
//! for them alone is not kept waiting.
//!
//! C1  A tally is told before its member runs a task of another parent or group, waits, or leaves
//!     the barrier. So a thread that waits for the parent's children or for the group waits, while
//!     there is a tally, for a task that its member runs.
//! C2  The team's count comes last (I2): a tallied task is one that the team still waits for. Its
//!     parent's memory is kept by the parent's count of children, which the tally is to be
//!     subtracted from (I1). The references of the children that are gone are in the tally as
//!     well; the thread that ends the last child of another one may give that one's back.

use super::memory::{end, let_go, release};
use crate::frame::Frame;
use crate::task::{CHILD, Ends, Explicit, REFERENCE};
use crate::team::Team;

/// Tells what is still to be told, unless all of it is about the parent and the group of `next`
/// (C1).
pub(super) fn tell_before(frame: &Frame, next: &Explicit) {
    if frame.tally.is_about_others(next.task.parent, next.counted_by) {
        tell(frame);
    }
}

/// Tells what is still to be told; true when there was something.
#[inline]
pub(crate) fn tell(frame: &Frame) -> bool {
    let Some(ends) = frame.tally.take() else { return false };
    // SAFETY: - the tally's tasks are complete but for this.
    unsafe { count_off(frame.team(), Some(frame.id), ends, false, false) };
    true
}

/// Completes `task`, to be told later. Its parent and group are those of the tally, if there is
/// one.
pub(super) fn complete_untold(frame: &Frame, task: &Explicit) {
    let team = frame.team();
    let (parent, group, is_watched) = (task.task.parent, task.counted_by, task.node.is_watched());
    let released = release_successors(team, Some(frame.id), task);
    // SAFETY: - its body has run, and its successors know.
    let is_gone = unsafe { end(task) };
    let is_full = frame.tally.add(parent, group, is_gone);
    if released {
        team.stir();
    } else if is_watched {
        team.wait.notify_all();
    }
    if is_full {
        tell(frame);
    }
}

/// Completes a task, and wakes waiting members when there may be something new for them. `id`: the
/// member that calls; none for a thread that is not of the team, or when an event made the task
/// complete.
pub(super) fn complete(team: &Team, id: Option<u32>, by_event: bool, task: &Explicit) {
    // A thread that is not of the team outlives the team's last task in here: the team waits for
    // it before its memory goes.
    let _visit = id.is_none().then(|| team.tasks.visit());
    let is_watched = task.node.is_watched();
    let released = release_successors(team, id.filter(|_| !by_event), task);
    if task.detached {
        team.tasks.count_fulfilled();
    }
    let (parent, group) = (task.task.parent, task.counted_by);
    // SAFETY: - its body has run, its event has come, and its successors know.
    let is_gone = unsafe { end(task) };
    // SAFETY: - the task is complete but for this.
    unsafe {
        count_off(
            team,
            id,
            Ends { parent, group, count: 1, gone: u32::from(is_gone) },
            released,
            is_watched,
        )
    };
}

/// Passes on what waited for `task` alone: to member `id`, or to none. True when there was
/// something.
fn release_successors(team: &Team, id: Option<u32>, task: &Explicit) -> bool {
    let mut released = false;
    task.node.finish(|successor| {
        match id {
            Some(id) => team.tasks.push(id, successor),
            None => team.tasks.push_unowned(successor),
        }
        released = true;
    });
    released
}

/// Counts `ends` off with group, parent and, last, the team. `released`: other tasks have become
/// ready; `news`: a thread may wait for one of these.
///
/// # Safety
/// - The tasks are counted by all three, and those that are gone have not given their reference to
///   the parent back.
unsafe fn count_off(team: &Team, id: Option<u32>, ends: Ends, released: bool, mut news: bool) {
    // SAFETY: - counted by the group, so the group is open until the next line has run.
    if let Some(group) = unsafe { ends.group.as_ref() } {
        news |= group.count_complete(ends.count);
    }
    // One subtraction for the children and the references of those that are gone.
    let share = u64::from(ends.count) * CHILD + u64::from(ends.gone) * REFERENCE;
    // SAFETY: - I1: the parent outlives its children; the references were the children's.
    let (parent_is_gone, before) = unsafe { let_go(ends.parent, share) };
    news |= before.links / CHILD == u64::from(ends.count);
    if parent_is_gone && !before.parent.is_null() {
        // SAFETY: - the parent's own reference to its parent.
        unsafe { release(before.parent) };
    }
    // A member that still has tasks in its queue has not completed the last one.
    let may_be_last = id.is_none_or(|id| team.tasks.has_none(id));
    team.tasks.count_complete(id, ends.count);
    if may_be_last || released {
        team.stir();
    } else if news {
        team.wait.notify_all();
    }
}
