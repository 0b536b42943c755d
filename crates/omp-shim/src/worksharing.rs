//! Worksharing constructs in flight: a ring, so that members may run ahead of each other past
//! `nowait`.
//!
//! # Protocol
//! Construct number k of a region uses slot k mod [`RING`]. Its `state` goes free(k) -> claimed(k)
//! -> ready(k) -> free(k + RING).
//! 1. The first member that comes claims it (C1), writes the plan, and publishes it (C2).
//! 2. The others see ready(k) (C3) and read the plan.
//! 3. Each member leaves once (C4); the last one clears the slot and frees it for number k + RING
//!    (C5).
//!
//! A member that is a whole ring ahead waits for C5.
//!
//! # Ordered regions
//! Their turn goes from chunk to chunk: whoever has done chunk c writes where the next one begins
//! (O1) into the word that is the next chunk's, and who runs that looks there (O2). Nobody polls a
//! word that it passed on itself; with equal chunks and two or four members each word is written by
//! one of them and polled by another. With one word for all, who has just passed the turn on polls
//! the line that the next one is to write: 150 ns more of an iteration between processors far from
//! each other.
//!
//! # Orderings
//! C1 Acquire: the slot's cleared state, from C5 Release. C2 Release with C3 Acquire: the plan. C4
//! AcqRel: whoever clears the slot does so after all others stopped looking at it. O1 Release with
//! O2 Acquire: what was done in order.

use crate::engine;
use crate::frame::Frame;
use crate::schedule::{
    Kind, Schedule, Space, may_overshoot, static_share, take_dynamic, take_guided,
};
use crate::team::Team;
use platform::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use platform::sync::{CachePadded, HandCell};
use std::ops::Range;
use std::ptr;

/// Constructs that may be in flight; loom explores two.
const RING: u64 = if cfg!(loom) { 2 } else { 8 };

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const READY: u64 = 2;

const fn state(number: u64, phase: u64) -> u64 {
    (number << 2) | phase
}

/// How a loop is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The iterations.
    pub(crate) space: Space,
    /// How they are dealt out.
    pub(crate) schedule: Schedule,
    /// It contains ordered regions.
    pub(crate) ordered: bool,
}

impl Plan {
    const NONE: Self = Self { space: Space::EMPTY, schedule: Schedule::DEFAULT, ordered: false };

    /// A loop without ordered regions.
    pub(crate) fn new(space: Space, schedule: Schedule) -> Self {
        Self { space, schedule, ordered: false }
    }

    /// A loop with ordered regions.
    pub(crate) fn ordered(space: Space, schedule: Schedule) -> Self {
        Self { space, schedule, ordered: true }
    }

    /// `count` sections, numbered from 1.
    pub(crate) fn sections(count: u32) -> Self {
        Self::new(
            Space::unsigned(true, 1, u64::from(count) + 1, 1),
            Schedule::new(Kind::Dynamic, 1),
        )
    }
}

/// What the members of one construct share besides the loop.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Memory that the construct asked for, zeroed; freed with the construct.
    pub(crate) memory: Vec<u64>,
    /// The first member's task reductions.
    pub(crate) reductions: *mut usize,
    /// Cross-iteration dependences.
    pub(crate) doacross: Option<crate::doacross::Doacross>,
}

impl Shared {
    const fn new() -> Self {
        Self { memory: Vec::new(), reductions: ptr::null_mut(), doacross: None }
    }

    fn clear(&mut self) {
        if self.doacross.is_some() || !self.memory.is_empty() || !self.reductions.is_null() {
            *self = Self::new();
        }
    }
}

/// Whose turn it is in a loop with ordered regions: the first iteration whose region is still to
/// come, in the word that is its chunk's, and in no other (module head).
#[derive(Debug, Default)]
struct Turns([CachePadded<AtomicU64>; TURNS]);

/// Words of [`Turns`].
const TURNS: usize = 4;

impl Turns {
    /// The word of the chunk that begins with iteration `start`, where chunks have `chunk`
    /// iterations (0: other sizes). That of the next chunk is another one.
    #[inline]
    fn of(&self, start: u64, chunk: u64) -> &AtomicU64 {
        &self.0[(start >> chunk.max(1).ilog2()) as usize % TURNS]
    }

    /// The first iteration's turn. By whoever lays the loop out.
    fn reset(&self) {
        // ORDERING: Relaxed - published by C2 or by the fork.
        self.0.iter().for_each(|turn| turn.store(0, Relaxed));
    }
}

/// What members write on demand. In one line, which a member has when it leaves: it has just seen
/// that nothing is left to take. Beside the plan, which all of them have read, `left` would take a
/// line of its own from everybody.
#[derive(Debug, Default)]
struct Dealing {
    /// First iteration that nobody took yet.
    next: AtomicU64,
    /// Members that have left.
    left: AtomicU32,
}

/// One slot of the ring.
#[derive(Debug)]
pub(crate) struct Construct {
    state: CachePadded<AtomicU64>,
    plan: HandCell<Plan>,
    shared: HandCell<Shared>,
    dealing: CachePadded<Dealing>,
    turns: Turns,
}

// SAFETY: - `plan` and `shared` are written by the claimer between C1 and C2 and by the last one
//           between C4 and C5, and only read in between.
//         - the raw pointer in `shared` is handed to the compiled code that gave it.
unsafe impl Sync for Construct {}

impl Construct {
    fn new(number: u64) -> Self {
        Self {
            state: CachePadded::new(AtomicU64::new(state(number, FREE))),
            plan: HandCell::new(Plan::NONE),
            shared: HandCell::new(Shared::new()),
            dealing: CachePadded::default(),
            turns: Turns::default(),
        }
    }

    /// What the members share; fixed by the claimer.
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: - between C3 and C4 nobody writes.
        unsafe { self.shared.with(|shared| &*shared) }
    }
}

/// See the module head.
#[derive(Debug)]
pub(crate) struct Ring([Construct; RING as usize]);

impl Ring {
    /// Makes a ring at `place` whose next construct is number 0: one construct after the other,
    /// since all of them are too much for a small stack.
    ///
    /// # Safety
    /// - `place` is valid for writes and aligned; what is there is not dropped.
    pub(crate) unsafe fn init(place: *mut Self) {
        // SAFETY: - as told to this; a `Ring` is nothing but the array.
        let constructs = unsafe { &raw mut (*place).0 }.cast::<Construct>();
        for number in 0..RING {
            // SAFETY: - an element of the array.
            unsafe { constructs.add(number as usize).write(Construct::new(number)) };
        }
    }

    fn slot(&self, number: u64) -> &Construct {
        &self.0[(number % RING) as usize]
    }

    /// Starts again at number 0. Between regions only.
    pub(crate) fn reset(&self) {
        for (number, construct) in (0..).zip(&self.0) {
            // SAFETY: - between regions nobody looks at the ring.
            unsafe { construct.shared.with_mut(|shared| *shared = Shared::new()) };
            // ORDERING: Relaxed - the next fork publishes it.
            construct.dealing.left.store(0, Relaxed);
            construct.state.store(state(number, FREE), Relaxed);
        }
    }
}

/// How far a thread is in its current construct.
#[derive(Debug)]
pub(crate) struct Progress {
    construct: *const Construct,
    number: u64,
    plan: Plan,
    /// Turns taken in a static schedule.
    round: u64,
    /// In a schedule on demand: the thread was told that nothing is left.
    is_used_up: bool,
    /// In a dynamic schedule: chunks are taken without a look whether any is left.
    overshoots: bool,
    /// In the plainest kind of loop on demand: the counter that chunks are taken from, until it is
    /// used up. Else null.
    quick: *const AtomicU64,
    /// The chunk that the thread runs now; empty before the first.
    chunk: Range<u64>,
    /// In a loop with ordered regions: it is not known yet that those of all iterations before
    /// `chunk` are over.
    awaits_turn: bool,
}

impl Progress {
    /// Not in a construct.
    pub(crate) const NONE: Self = Self::of(ptr::null(), 0, Plan::NONE, false);

    const fn of(construct: *const Construct, number: u64, plan: Plan, overshoots: bool) -> Self {
        Self {
            construct,
            number,
            plan,
            round: 0,
            is_used_up: false,
            overshoots,
            quick: ptr::null(),
            chunk: 0..0,
            awaits_turn: false,
        }
    }
}

/// True where the iteration is of the chunk that the thread runs now. (False also where the thread
/// keeps no record of it.)
#[inline]
pub(crate) fn runs(frame: &Frame, iteration: u64) -> bool {
    frame.progress().chunk.contains(&iteration)
}

/// Enters the next construct. The first member there lays it out by `plan` and `share`.
pub(crate) fn enter(frame: &Frame, plan: impl FnOnce() -> Plan, share: impl FnOnce(&mut Shared)) {
    let number = frame.constructs.get();
    frame.constructs.set(number + 1);
    let team = frame.team();
    let construct = team.ring.slot(number);
    if claim(team, construct, number) {
        lay_out(construct, plan(), share);
        // ORDERING: Release (C2) - pairs with C3.
        construct.state.store(state(number, READY), Release);
        team.wait.notify_all();
    }
    join(frame, construct, number);
}

/// Lays out the first construct of a region that is about to start: its members find it ready.
pub(crate) fn lay_out_ahead(team: &Team, plan: Plan) {
    let number = team.constructs();
    let construct = team.ring.slot(number);
    lay_out(construct, plan, |_| {});
    // ORDERING: Relaxed - the fork publishes it.
    construct.state.store(state(number, READY), Relaxed);
    team.set_laid_out();
}

/// Puts a member into the construct that was laid out ahead.
pub(crate) fn join_ahead(frame: &Frame) {
    let number = frame.constructs.get();
    frame.constructs.set(number + 1);
    join(frame, frame.team().ring.slot(number), number);
}

fn join(frame: &Frame, construct: &Construct, number: u64) {
    // SAFETY: - the construct is ready: nobody writes the plan before this member leaves.
    let mut plan = unsafe { construct.plan.with(|plan| *plan) };
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
        progress.quick = &raw const construct.dealing.next;
    }
}

/// Waits until construct `number` is ready (false) or claims it (true).
fn claim(team: &Team, construct: &Construct, number: u64) -> bool {
    let mut claimed = false;
    let mut look = || {
        // ORDERING: Acquire (C3) - pairs with C2.
        let seen = construct.state.load(Acquire);
        if seen == state(number, READY) {
            return true;
        }
        claimed = seen == state(number, FREE)
            // ORDERING: Acquire (C1) - pairs with C5; a failure is looked at again.
            && construct.state.compare_exchange(seen, state(number, CLAIMED), Acquire, Relaxed).is_ok();
        claimed
    };
    if !look() {
        engine::wait(&team.wait, look);
    }
    claimed
}

fn lay_out(construct: &Construct, plan: Plan, share: impl FnOnce(&mut Shared)) {
    // ORDERING: Relaxed - published by C2 or by the fork.
    construct.dealing.next.store(0, Relaxed);
    if plan.ordered {
        construct.turns.reset();
    }
    // SAFETY: - the caller claimed the construct (or no region runs): nobody else looks at it.
    unsafe { construct.plan.with_mut(|place| *place = plan) };
    // SAFETY: - as above.
    unsafe { construct.shared.with_mut(|shared| share(&mut *shared)) };
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
            take_dynamic(&construct.dealing.next, space.trips, schedule.chunk, progress.overshoots)
        }
        Kind::Guided => {
            between_chunks(frame);
            take_guided(&construct.dealing.next, space.trips, schedule.chunk, threads)
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
    // ORDERING: AcqRel (C4) - the last one sees that all others are done with the construct.
    if frame.size > 1 && construct.dealing.left.fetch_add(1, AcqRel) + 1 < frame.size {
        return;
    }
    // SAFETY: - all members have left (C4): nobody else looks at the construct before C5.
    unsafe { construct.shared.with_mut(|shared| (*shared).clear()) };
    // ORDERING: Relaxed - published by C5.
    construct.dealing.left.store(0, Relaxed);
    // ORDERING: Release (C5) - pairs with C1.
    construct.state.store(state(number + RING, FREE), Release);
    frame.team().wait.notify_all();
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
    let turn = construct.turns.of(start, frame.progress().plan.schedule.chunk);
    // ORDERING: Acquire (O2) - what the iterations before did in order; pairs with O1.
    let is_due = || turn.load(Acquire) == start;
    if !is_due() {
        let team = frame.team();
        // ORDERING: Relaxed - a hint; who cancels notifies.
        engine::wait(&team.wait, || is_due() || team.cancelled.load(Relaxed));
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
    // ORDERING: Release (O1) - pairs with O2.
    construct.turns.of(end, progress.plan.schedule.chunk).store(end, Release);
    frame.team().wait.notify_all();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn chunks_that_follow_each_other_pass_the_turn_from_word_to_word() {
        let turns = Turns::default();
        for chunk in 1..100 {
            for number in 0..50 {
                let word = |number| ptr::from_ref(turns.of(number * chunk, chunk));
                assert_ne!(word(number), word(number + 1), "chunk {number} of {chunk} iterations");
            }
        }
    }

    /// A turn that was passed on in the loop before, in the same slot of the ring, is nobody's in
    /// the next loop.
    #[test]
    fn a_loop_begins_with_the_turn_of_its_first_iteration_alone() {
        let turns = Turns::default();
        (0..9).for_each(|start| turns.of(start, 1).store(start, Relaxed));
        turns.reset();
        let has_turn = |start: &u64| turns.of(*start, 1).load(Relaxed) == *start;
        assert_eq!((0..9).filter(has_turn).collect::<Vec<_>>(), [0]);
    }
}
