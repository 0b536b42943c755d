//! Barriers, `single`, critical regions, and cancellation.

use crate::body::ReturnSlot;
use crate::frame::Frame;
use crate::lock::SimpleLock;
use crate::settings::settings;
use crate::task;
use crate::tasking;
use crate::team::Team;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The barrier that returns at `place`: the region's last one need not be waited for by all (see
/// [`crate::body`]).
#[inline]
pub(crate) fn barrier_before(frame: &Frame, place: ReturnSlot) {
    let team = frame.team();
    let may_leave = frame.id != 0
        && frame.returns.is_at(place)
        && team.is_task_free()
        && !has_work(team)
        && !task::were_any();
    if !(may_leave && team.barrier().leave(frame.id as usize)) {
        barrier(frame);
    }
}

/// True when this member knows of something that is to be completed in the next barrier.
#[inline]
fn has_work(team: &Team) -> bool {
    // ORDERING: Relaxed - the member that cancelled sees it, and says so; the others see it by its
    // arrival.
    !team.tasks.are_unused() || team.construct_cancelled.load(Relaxed)
}

/// Waits for all members of the team and for all its tasks, running some meanwhile.
#[inline]
pub(crate) fn barrier(frame: &Frame) {
    let team = frame.team();
    if frame.size == 1 {
        end_construct(frame);
        return tasking::finish_all(frame);
    }
    if !team.tasks.are_unused() {
        // Before the others are waited for: they may be waiting for these.
        tasking::run_own(frame);
    }
    let complete = || {
        // Asked by one member when all have arrived.
        let complete = team.tasks.all_complete(frame.size);
        // ORDERING: Relaxed - published by the barrier's release.
        if complete && team.construct_cancelled.load(Relaxed) {
            team.construct_cancelled.store(false, Relaxed);
        }
        complete
    };
    team.barrier().wait_with(
        frame.id as usize,
        has_work(team),
        || tasking::run_any(frame),
        complete,
    );
}

fn end_construct(frame: &Frame) {
    // ORDERING: Relaxed - a team of one.
    frame.team().construct_cancelled.store(false, Relaxed);
}

/// A barrier that ends early when the region is cancelled; true = it is.
pub(crate) fn cancellable_barrier(frame: &Frame) -> bool {
    let team = frame.team();
    // ORDERING: Acquire - what the cancelling member did before.
    let cancelled = || team.cancelled.load(Acquire);
    if cancelled() {
        return true;
    }
    match team.cancel_barrier.arrive(frame.size) {
        Ok(()) => {
            engine::wait(&team.wait, || {
                while tasking::run_any(frame) {}
                cancelled() || team.tasks.all_complete(frame.size)
            });
            if cancelled() {
                tasking::tell(frame);
                return true;
            }
            // ORDERING: Relaxed - published by the release.
            team.construct_cancelled.store(false, Relaxed);
            team.cancel_barrier.release();
            team.stir();
        }
        Err(round) => engine::wait(&team.wait, || {
            while !team.cancel_barrier.is_over(round) && tasking::run_any(frame) {}
            cancelled() || team.cancel_barrier.is_over(round)
        }),
    }
    // A member that leaves early may have kept something.
    tasking::tell(frame);
    cancelled()
}

/// True for the one member that runs the next `single`.
#[inline]
pub(crate) fn single(frame: &Frame) -> bool {
    let number = frame.singles.get();
    frame.singles.set(number.wrapping_add(1));
    frame.team().singles.begin(number, frame.size as usize)
}

/// Begins `single copyprivate`: null for the member that runs it, else, after it has ended, what it
/// hands round.
pub(crate) fn single_copy_start(frame: &Frame) -> *mut c_void {
    if single(frame) {
        return ptr::null_mut();
    }
    barrier(frame);
    // ORDERING: Acquire - pairs with `single_copy_end`, besides the barrier.
    frame.team().copied.load(Acquire)
}

/// Ends it: hands `data` to the others.
pub(crate) fn single_copy_end(frame: &Frame, data: *mut c_void) {
    // ORDERING: Release - pairs with `single_copy_start`.
    frame.team().copied.store(data, Release);
    barrier(frame);
}

/// The lock of all unnamed critical regions.
pub(crate) static CRITICAL: SimpleLock = SimpleLock::new();
/// The lock of atomic updates that the processor cannot do.
pub(crate) static ATOMIC: SimpleLock = SimpleLock::new();

/// What is cancelled: the bits of `GOMP_cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelKind {
    /// The parallel region.
    Parallel,
    /// A worksharing loop or sections.
    Worksharing,
    /// The innermost task group.
    Taskgroup,
}

/// `cancel`; true = go to the end of the construct.
pub(crate) fn cancel(frame: &Frame, what: CancelKind) -> bool {
    if !settings().environment.cancellation {
        return false;
    }
    let team = frame.team();
    match what {
        // ORDERING: Release - pairs with `is_cancelled`.
        CancelKind::Worksharing => team.construct_cancelled.store(true, Release),
        CancelKind::Taskgroup => {
            if let Some(group) = frame.task().group() {
                // A group that only carries a construct's reductions is not what the program means.
                let mut group = group;
                while let (true, Some(outer)) = (group.of_construct.get(), group.outer()) {
                    group = outer;
                }
                group.cancel();
            }
        }
        CancelKind::Parallel => {
            // ORDERING: Release - pairs with `is_cancelled` and `cancellable_barrier`.
            team.cancelled.store(true, Release);
            team.stir();
        }
    }
    true
}

/// `cancellation point`; true = go to the end of the construct.
pub(crate) fn is_cancelled(frame: &Frame, what: CancelKind) -> bool {
    if !settings().environment.cancellation {
        return false;
    }
    let team = frame.team();
    // ORDERING: Acquire - pairs with `cancel`.
    let region = || team.cancelled.load(Acquire);
    match what {
        CancelKind::Worksharing => team.construct_cancelled.load(Acquire) || region(),
        // Cancelling the region cancels its tasks, too.
        CancelKind::Taskgroup => {
            frame.task().group().is_some_and(task::TaskGroup::is_cancelled) || region()
        }
        CancelKind::Parallel => region(),
    }
}
