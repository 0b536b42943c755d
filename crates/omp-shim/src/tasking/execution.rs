//! How a task runs (T3), and what its event has to do with its end.

use super::completion::{complete, complete_untold, tell_before};
use super::included::resume;
use crate::frame::Frame;
use crate::task::{BODY_DONE, DISCARDED, Explicit, FULFILLED, TaskGroup, TaskRef};
use crate::team::Team;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Runs a task's body (T3) and completes it unless its event is still to come.
pub(super) fn execute(frame: &Frame, task: &Explicit) {
    if run(frame, task) {
        complete(frame.team(), Some(frame.id), false, task);
    }
}

/// As [`execute`], for a thread that has nothing else to do: what its end means for parent, group
/// and team is told later, together with that of others ([`Tally`](crate::task::Tally)).
pub(super) fn execute_helping(frame: &Frame, task: &Explicit) {
    tell_before(frame, task);
    if run(frame, task) {
        if task.detached {
            complete(frame.team(), Some(frame.id), false, task);
        } else {
            complete_untold(frame, task);
        }
    }
}

/// Runs a task's body (T3), unless its group is cancelled and there are no objects that only the
/// body destroys; true when the task is to be completed now: no event is to come.
fn run(frame: &Frame, task: &Explicit) -> bool {
    // SAFETY: - the group counts this task, so it is still open.
    if !task.has_objects && is_cancelled(frame.team(), unsafe { task.counted_by.as_ref() }) {
        // ORDERING: AcqRel - as below.
        if task.detached && task.event.fetch_or(DISCARDED, AcqRel) & FULFILLED == 0 {
            std::mem::forget(TaskRef::new(task));
        }
        return true;
    }
    if frame.size > 1 {
        engine::between_pieces();
    }
    let before = frame.swap_task(&raw const task.task);
    // SAFETY: - the compiled code's body with its argument block, once.
    unsafe { (task.body)(task.data) };
    resume(frame, before);
    task.task.drop_table();
    // ORDERING: AcqRel - either this thread or the fulfilling one sees both bits, and completes the
    // task.
    !task.detached || task.event.fetch_or(BODY_DONE, AcqRel) & FULFILLED != 0
}

/// `omp_fulfill_event`: may come from any thread of the process.
///
/// # Safety
/// - `handle` is the event handle of a task whose event was not fulfilled yet.
pub(crate) unsafe fn fulfill(handle: *mut c_void, frame: &Frame) {
    // SAFETY: - caller's contract: the task waits for this call.
    let task = unsafe { &*handle.cast::<Explicit>() };
    // ORDERING: AcqRel - see `execute`.
    if task.event.fetch_or(FULFILLED, AcqRel) & (BODY_DONE | DISCARDED) == BODY_DONE {
        // SAFETY: - the team that the task was made in, whose region does not end before its
        // tasks are complete.
        let team = unsafe { &*task.team.cast::<Team>() };
        let id = ptr::eq(team, frame.team()).then_some(frame.id);
        complete(team, id, true, task);
    }
}

/// True when no more tasks of `group`, or none of the team, are to begin.
pub(super) fn is_cancelled(team: &Team, group: Option<&TaskGroup>) -> bool {
    // ORDERING: Relaxed - a hint, checked at scheduling points.
    team.cancelled.load(Relaxed) || group.is_some_and(TaskGroup::is_cancelled)
}
