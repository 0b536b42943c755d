//! How a task begins (T1): it is queued, or run at once where it must not or need not wait.

use super::execution::{execute, is_cancelled};
use super::help::help;
use super::included::run_included;
use super::memory::allocate;
use super::wait::{wait_for_predecessors, wait_running};
use crate::frame::Frame;
use crate::task::{Dependence, Explicit, TaskRef, TaskRequest, depend};
use std::ptr::NonNull;

/// Creates a task, and runs it at once where it must not or need not wait.
pub(crate) fn create(frame: &Frame, request: &TaskRequest<'_>) {
    let team = frame.team();
    let parent = frame.task();
    if is_cancelled(team, parent.group()) {
        return;
    }
    let included = !request.deferrable || parent.is_final();
    if included && !request.dependences.is_empty() {
        wait_for_predecessors(frame, request.dependences);
    }
    if request.event.is_some() {
        create_detached(frame, request, included);
    } else if included {
        run_included(frame, request);
    } else if frame.size == 1 || team.tasks.is_full(&frame.task_room, frame.size) {
        create_in_full_team(frame, request);
    } else {
        let task = allocate(frame, request);
        submit(frame, task, request.dependences);
    }
}

/// Runs a task at once although it may be deferred, because there are enough. Waits for its
/// predecessors, too, so that a chain does not grow without end; unless one of them may wait for an
/// event that the creator itself will fulfill.
fn create_in_full_team(frame: &Frame, request: &TaskRequest<'_>) {
    if !is_ready(frame, request.dependences) {
        if frame.team().tasks.awaits_events() {
            let task = allocate(frame, request);
            return submit(frame, task, request.dependences);
        }
        wait_for_predecessors(frame, request.dependences);
    }
    run_included(frame, request);
}

/// Queues a task, now or (by its last predecessor) later.
fn submit(frame: &Frame, task: &Explicit, dependences: &[Dependence]) {
    let team = frame.team();
    if dependences.is_empty() || depend::register(frame.task().table(), task, dependences) {
        team.tasks.push(frame.id, NonNull::from(task));
        if frame.size > 1 {
            team.call_back(help);
        }
        team.stir();
    }
}

/// Creates a task that is complete only when its event is fulfilled; the creator of an included one
/// waits for that.
fn create_detached(frame: &Frame, request: &TaskRequest<'_>, included: bool) {
    frame.team().tasks.count_detached();
    let task = allocate(frame, request);
    if included {
        let kept = TaskRef::new(task);
        execute(frame, task);
        wait_running(frame, || kept.node.is_finished());
    } else {
        submit(frame, task, request.dependences);
    }
}

/// True when nothing that is not done comes before a child with these dependences.
fn is_ready(frame: &Frame, dependences: &[Dependence]) -> bool {
    let task = frame.task();
    dependences.is_empty() || task.has_no_table() || depend::is_ready(task.table(), dependences)
}
