//! Waiting for tasks, and running some meanwhile (I3 of [`crate::task`]).

use super::completion::tell;
use super::execution::{execute, execute_helping};
use crate::frame::Frame;
use crate::task::{Dependence, Explicit, Task, depend};
use std::ptr::NonNull;

/// Waits for the children of the current task.
pub(crate) fn wait_for_children(frame: &Frame) {
    let task = frame.task();
    if task.has_children() {
        wait_running(frame, || !task.has_children());
    }
}

/// Waits until all earlier children that `dependences` name are complete.
pub(crate) fn wait_for_predecessors(frame: &Frame, dependences: &[Dependence]) {
    let task = frame.task();
    if task.has_no_table() {
        return;
    }
    let mut predecessors = depend::predecessors(task.table(), dependences);
    wait_running(frame, || {
        predecessors.retain(|predecessor| !predecessor.node.is_finished());
        predecessors.is_empty()
    });
}

/// Runs descendants of the current task until `done` (I3).
pub(super) fn wait_running(frame: &Frame, mut done: impl FnMut() -> bool) {
    let current = frame.task();
    let mut unrelated = 0;
    engine::wait(&frame.team().wait, || {
        loop {
            if done() {
                return true;
            }
            if !run_descendant_sparing(frame, current, &mut unrelated) {
                return false;
            }
        }
    });
}

fn run_descendant(frame: &Frame, ancestor: &Task) -> bool {
    run_descendant_sparing(frame, ancestor, &mut 0)
}

/// Runs one descendant of `ancestor`, if one is to be found. `unrelated` counts the other tasks
/// that were taken from other members' queues in vain.
fn run_descendant_sparing(frame: &Frame, ancestor: &Task, unrelated: &mut u32) -> bool {
    let wanted = |task: NonNull<Explicit>| {
        // SAFETY: - a queued task is alive until it is run, and the caller took it out of its
        // queue.
        unsafe { task.as_ref() }.task.descends_from(ancestor)
    };
    match frame.team().tasks.take_if(frame.id, frame.size, wanted, unrelated) {
        Some(task) => {
            // SAFETY: - taken out of the queue: this thread alone runs it.
            execute(frame, unsafe { task.as_ref() });
            true
        }
        None => false,
    }
}

/// Runs the tasks that the member has queued itself, and has still got.
pub(crate) fn run_own(frame: &Frame) {
    while let Some(task) = frame.team().tasks.take_own(frame.id) {
        // SAFETY: - taken out of the queue: this thread alone runs it.
        execute(frame, unsafe { task.as_ref() });
    }
}

/// Runs one task of the team, if there is one; also true when one stands alone that was left to its
/// creator for now: the caller must not sleep before it has looked again. For barriers.
#[inline]
pub(crate) fn run_any(frame: &Frame) -> bool {
    let tasks = &frame.team().tasks;
    if tasks.are_unused() {
        return false;
    }
    let vain = frame.vain_looks.get();
    match tasks.take(frame.id, frame.size, vain >= EAGER) {
        Some(task) => {
            frame.vain_looks.set(0);
            // SAFETY: - taken out of the queue: this thread alone runs it.
            execute_helping(frame, unsafe { task.as_ref() });
            true
        }
        // Others may wait for what is kept; and there may be more tasks after that.
        None if tell(frame) => true,
        // The counts are in lines that members that create tasks write: looked at only now.
        None if tasks.all_complete(frame.size) => false,
        None => {
            // Each look at another member's queue takes a line from the member that fills it: look
            // less and less often, but never skip a look, since the caller may be about to sleep.
            frame.vain_looks.set((vain + 1).min(MOST_PAUSES.ilog2()));
            (0..1 << vain).for_each(|_| platform::sync::pause());
            vain < EAGER && tasks.has_any(frame.id, frame.size)
        }
    }
}

/// Pauses between two looks for a task at a barrier, at most: about 0.3 us.
const MOST_PAUSES: u32 = 8;

/// Vain looks after which a member takes even a task that stands alone.
const EAGER: u32 = 3;

/// Runs one task at a `taskyield`: a descendant of the current one.
pub(crate) fn yield_now(frame: &Frame) {
    let team = frame.team();
    if !team.tasks.all_complete(frame.size)
        && !run_descendant(frame, frame.task())
        && team.tasks.keeps_any(frame.id)
    {
        // What was looked at was in no queue meanwhile: a member that looked then sleeps, and this
        // task may be waiting for just that.
        team.stir();
    }
}

/// Runs tasks until none of the team is left.
pub(crate) fn finish_all(frame: &Frame) {
    frame.implicit().drop_table();
    let team = frame.team();
    if !team.tasks.all_complete(frame.size) {
        engine::wait(&team.wait, || {
            while run_any(frame) {}
            team.tasks.all_complete(frame.size)
        });
    }
}
