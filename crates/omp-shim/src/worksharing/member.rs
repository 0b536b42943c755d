//! What a member does in a worksharing construct: it comes in, takes its share of the loop, and
//! leaves. The protocol between members is that of [`crate::construct`].

use crate::construct::{Construct, ConstructData, Encounter, Plan, Progress};
use crate::engine;
use crate::frame::Frame;
use crate::schedule::{Kind, may_overshoot, static_share, take_dynamic, take_guided};
use crate::team::Team;
use platform::sync::atomic::Ordering::Relaxed;
use std::ptr;

/// True where the iteration is of the chunk that the thread runs now. (False also where the thread
/// keeps no record of it.)
#[inline]
pub(crate) fn runs(frame: &Frame, iteration: u64) -> bool {
    frame.progress().chunk.contains(&iteration)
}

/// Enters the next construct. The first member there lays it out by `plan` and `share`.
pub(crate) fn enter(
    frame: &Frame,
    plan: impl FnOnce() -> Plan,
    share: impl FnOnce(&mut ConstructData),
) {
    let number = frame.constructs.get();
    frame.constructs.set(number + 1);
    let team = frame.team();
    let construct = team.ring.slot(number);
    if claim(team, construct, number) {
        construct.lay_out(plan(), share);
        construct.publish(number);
        team.wait.notify_all();
    }
    join(frame, construct, number);
}

/// Lays out the first construct of a region that is about to start: its members find it ready.
pub(crate) fn lay_out_ahead(team: &Team, plan: Plan) {
    let number = team.constructs();
    let construct = team.ring.slot(number);
    construct.lay_out(plan, |_| {});
    construct.publish_ahead(number);
    team.set_laid_out();
}

/// Puts a member into the construct that was laid out ahead.
pub(crate) fn join_ahead(frame: &Frame) {
    let number = frame.constructs.get();
    frame.constructs.set(number + 1);
    join(frame, frame.team().ring.slot(number), number);
}

fn join(frame: &Frame, construct: &Construct, number: u64) {
    let mut plan = construct.plan();
    let schedule = &mut plan.schedule;
    let mut overshoots = false;
    if matches!(schedule.kind, Kind::Dynamic | Kind::Guided) {
        schedule.chunk = schedule.chunk.max(1);
        overshoots = may_overshoot(plan.space.trips, schedule.chunk, frame.size.into());
    }
    let is_quick = overshoots
        && plan.schedule.kind == Kind::Dynamic
        && !plan.ordered
        && (frame.size == 1 || !engine::is_to_follow());
    let progress = frame.progress();
    *progress = Progress::of(ptr::from_ref(construct), number, plan, overshoots);
    if is_quick {
        progress.quick = ptr::from_ref(construct.next());
    }
}

/// Waits until construct `number` is ready (false) or claims it (true).
fn claim(team: &Team, construct: &Construct, number: u64) -> bool {
    let mut seen = construct.look(number);
    if seen == Encounter::NotYet {
        engine::wait(&team.wait, || {
            seen = construct.look(number);
            seen != Encounter::NotYet
        });
    }
    seen == Encounter::Claimed
}

/// The construct that the thread is in, if any.
pub(crate) fn current(frame: &Frame) -> Option<&Construct> {
    // SAFETY: - null or a slot of the frame's team, which outlives the frame.
    unsafe { frame.progress().construct.as_ref() }
}

/// Takes the thread's next chunk; half-open bounds of the loop variable.
///
/// Few instructions in the case of most loops: while the line of the counter is on its way the
/// processor goes on, into the chunk that it will most likely get, as far as it can look ahead.
#[inline(always)]
pub(crate) fn next(frame: &Frame) -> Option<(u64, u64)> {
    let progress = frame.progress();
    // SAFETY: - null, or in a slot of the frame's team, which outlives the frame.
    let Some(counter) = (unsafe { progress.quick.as_ref() }) else { return next_by_plan(frame) };
    let Plan { space, schedule, .. } = &progress.plan;
    let Some(chunk) = take_dynamic(counter, space.trips, schedule.chunk, true) else {
        progress.quick = ptr::null();
        progress.is_used_up = true;
        return None;
    };
    Some(space.bounds(&chunk))
}

#[inline(never)]
fn next_by_plan(frame: &Frame) -> Option<(u64, u64)> {
    let construct = current(frame)?;
    if frame.progress().plan.ordered {
        pass_order_on(frame, construct);
    }
    let progress = frame.progress();
    let threads = u64::from(frame.size);
    let Plan { space, schedule, .. } = progress.plan;
    let chunk = match schedule.kind {
        Kind::Static | Kind::Auto => {
            let round = progress.round;
            progress.round += 1;
            static_share(space.trips, schedule.chunk, threads, u64::from(frame.id), round)
        }
        Kind::Dynamic | Kind::Guided if progress.is_used_up => None,
        Kind::Dynamic => {
            between_chunks(frame);
            take_dynamic(construct.next(), space.trips, schedule.chunk, progress.overshoots)
        }
        Kind::Guided => {
            between_chunks(frame);
            take_guided(construct.next(), space.trips, schedule.chunk, threads)
        }
    };
    match chunk {
        Some(chunk) => {
            let bounds = space.bounds(&chunk);
            progress.chunk = chunk;
            progress.awaits_turn = progress.plan.ordered && frame.size > 1;
            Some(bounds)
        }
        None => {
            progress.chunk = 0..0;
            progress.is_used_up = true;
            None
        }
    }
}

/// The thread has done its last chunk of a loop that is dealt out, and has not taken the next one:
/// there it follows what a manager granted meanwhile. Where it has a fixed share the compiler's
/// code takes it at once, most often without a call.
#[inline]
fn between_chunks(frame: &Frame) {
    if frame.size > 1 {
        engine::between_pieces();
    }
}

/// Leaves the current construct.
pub(crate) fn leave(frame: &Frame) {
    let Some(construct) = current(frame) else { return };
    if frame.progress().plan.ordered {
        pass_order_on(frame, construct);
    }
    let number = frame.progress().number;
    frame.progress().construct = ptr::null();
    if construct.leave(number, frame.size) {
        frame.team().wait.notify_all();
    }
}

/// Waits until the ordered regions of all iterations before the thread's chunk are over.
#[inline]
pub(crate) fn wait_for_turn(frame: &Frame) {
    if frame.progress().awaits_turn {
        await_turn(frame);
    }
}

#[inline(never)]
fn await_turn(frame: &Frame) {
    frame.progress().awaits_turn = false;
    let Some(construct) = current(frame) else { return };
    let start = frame.progress().chunk.start;
    let turn = construct.turn(start, frame.progress().plan.schedule.chunk);
    if !turn.is_at(start) {
        let team = frame.team();
        // ORDERING: Relaxed - a hint; the member that cancels notifies.
        engine::wait(&team.wait, || turn.is_at(start) || team.cancelled.load(Relaxed));
    }
}

/// The thread's chunk is done: the next iterations may go.
fn pass_order_on(frame: &Frame, construct: &Construct) {
    if frame.progress().chunk.is_empty() {
        return;
    }
    wait_for_turn(frame);
    let progress = frame.progress();
    let end = progress.chunk.end;
    progress.chunk = 0..0;
    construct.turn(end, progress.plan.schedule.chunk).pass_on(end);
    frame.team().wait.notify_all();
}
