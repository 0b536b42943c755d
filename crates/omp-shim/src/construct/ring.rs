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
//! Their turn goes from chunk to chunk ([`engine::turn`](::engine::turn)): with equal chunks and
//! two or four members each word is written by one of them and polled by another.
//!
//! # Orderings
//! C1 Acquire: the slot's cleared state, from C5 Release. C2 Release with C3 Acquire: the plan. C4
//! AcqRel: the member that clears the slot does so after all others stopped looking at it.

use crate::construct::Doacross;
use crate::schedule::{Kind, Schedule, Space};
use ::engine::turn::OrderedTurn;
use platform::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use platform::sync::{CachePadded, HandCell};
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
    /// That of a slot that is free.
    pub(crate) const NONE: Self =
        Self { space: Space::EMPTY, schedule: Schedule::DEFAULT, ordered: false };

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
pub(crate) struct ConstructData {
    /// Memory that the construct asked for, zeroed; freed with the construct.
    pub(crate) memory: Vec<u64>,
    /// The first member's task reductions.
    pub(crate) reductions: *mut usize,
    /// Cross-iteration dependences.
    pub(crate) doacross: Option<Doacross>,
}

impl ConstructData {
    const fn new() -> Self {
        Self { memory: Vec::new(), reductions: ptr::null_mut(), doacross: None }
    }

    #[inline]
    fn clear(&mut self) {
        if self.doacross.is_some() || !self.memory.is_empty() || !self.reductions.is_null() {
            *self = Self::new();
        }
    }
}

/// The words of the turn in a loop with ordered regions.
#[derive(Debug, Default)]
struct Turns([CachePadded<OrderedTurn>; TURNS]);

/// Words of [`Turns`].
const TURNS: usize = 4;

impl Turns {
    /// The word of the chunk that begins with iteration `start`, where chunks have `chunk`
    /// iterations (0: other sizes). That of the next chunk is another one.
    #[inline]
    fn of(&self, start: u64, chunk: u64) -> &OrderedTurn {
        &self.0[(start >> chunk.max(1).ilog2()) as usize % TURNS]
    }

    /// The first iteration's turn. By the member that lays the loop out.
    fn reset(&self) {
        self.0.iter().for_each(|turn| turn.reset(0));
    }
}

/// What members write on demand. In one line, which a member has when it leaves: it has just seen
/// that nothing is left to take. Beside the plan, which all of them have read, `left` would take a
/// line of its own from all others.
#[derive(Debug, Default)]
struct Dealing {
    /// First iteration that no member took yet.
    next: AtomicU64,
    /// Members that have left.
    left: AtomicU32,
}

/// One slot of the ring.
#[derive(Debug)]
pub(crate) struct Construct {
    state: CachePadded<AtomicU64>,
    plan: HandCell<Plan>,
    shared: HandCell<ConstructData>,
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
            shared: HandCell::new(ConstructData::new()),
            dealing: CachePadded::default(),
            turns: Turns::default(),
        }
    }

    /// Looks at construct `number`, and claims it where no member has come to it yet.
    #[inline]
    pub(crate) fn look(&self, number: u64) -> Encounter {
        // ORDERING: Acquire (C3) - pairs with C2.
        let seen = self.state.load(Acquire);
        if seen == state(number, READY) {
            return Encounter::Ready;
        }
        let is_claimed = seen == state(number, FREE)
            // ORDERING: Acquire (C1) - pairs with C5; a failure is looked at again.
            && self.state.compare_exchange(seen, state(number, CLAIMED), Acquire, Relaxed).is_ok();
        if is_claimed { Encounter::Claimed } else { Encounter::NotYet }
    }

    /// Lays the construct out. By the member that claimed it, or while no region runs.
    #[inline]
    pub(crate) fn lay_out(&self, plan: Plan, share: impl FnOnce(&mut ConstructData)) {
        // ORDERING: Relaxed - published by C2 or by the fork.
        self.dealing.next.store(0, Relaxed);
        if plan.ordered {
            self.turns.reset();
        }
        // SAFETY: - the caller claimed the construct (or no region runs): no other thread looks at
        // it.
        unsafe { self.plan.with_mut(|place| *place = plan) };
        // SAFETY: - as above.
        unsafe { self.shared.with_mut(|shared| share(&mut *shared)) };
    }

    /// Construct `number` is laid out: the other members may come in.
    #[inline]
    pub(crate) fn publish(&self, number: u64) {
        // ORDERING: Release (C2) - pairs with C3.
        self.state.store(state(number, READY), Release);
    }

    /// Construct `number` is laid out, and its region about to start.
    #[inline]
    pub(crate) fn publish_ahead(&self, number: u64) {
        // ORDERING: Relaxed - the fork publishes it.
        self.state.store(state(number, READY), Relaxed);
    }

    /// How the loop is to be run. By a member that found the construct ready and has not left it.
    #[inline]
    pub(crate) fn plan(&self) -> Plan {
        // SAFETY: - the construct is ready: no thread writes the plan before this member leaves.
        unsafe { self.plan.with(|plan| *plan) }
    }

    /// The first iteration that no member took yet.
    #[inline]
    pub(crate) fn next(&self) -> &AtomicU64 {
        &self.dealing.next
    }

    /// One of `size` members leaves construct `number`; true for the last one, which has made the
    /// slot free for a later construct.
    #[inline]
    pub(crate) fn leave(&self, number: u64, size: u32) -> bool {
        // ORDERING: AcqRel (C4) - the last one sees that all others are done with the construct.
        if size > 1 && self.dealing.left.fetch_add(1, AcqRel) + 1 < size {
            return false;
        }
        // SAFETY: - all members have left (C4): no other thread looks at the construct before C5.
        unsafe { self.shared.with_mut(|shared| (*shared).clear()) };
        // ORDERING: Relaxed - published by C5.
        self.dealing.left.store(0, Relaxed);
        // ORDERING: Release (C5) - pairs with C1.
        self.state.store(state(number + RING, FREE), Release);
        true
    }

    /// Where the turn of the chunk is that begins with iteration `start`; chunks have `chunk`
    /// iterations (0: other sizes).
    #[inline]
    pub(crate) fn turn(&self, start: u64, chunk: u64) -> &OrderedTurn {
        self.turns.of(start, chunk)
    }

    /// What the members share; fixed by the claimer.
    pub(crate) fn shared(&self) -> &ConstructData {
        // SAFETY: - between C3 and C4 no thread writes.
        unsafe { self.shared.with(|shared| &*shared) }
    }
}

/// What a member finds that comes to a construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encounter {
    /// It is laid out.
    Ready,
    /// The member is the first one, and lays it out.
    Claimed,
    /// Another member lays it out, or the slot is still that of an older construct.
    NotYet,
}

/// See the module head.
#[derive(Debug)]
pub(crate) struct ConstructRing([Construct; RING as usize]);

impl ConstructRing {
    /// Makes a ring at `place` whose next construct is number 0: one construct after the other,
    /// since all of them are too much for a small stack.
    ///
    /// # Safety
    /// - `place` is valid for writes and aligned; what is there is not dropped.
    pub(crate) unsafe fn init(place: *mut Self) {
        // SAFETY: - as told to this; a `ConstructRing` is nothing but the array.
        let constructs = unsafe { &raw mut (*place).0 }.cast::<Construct>();
        for number in 0..RING {
            // SAFETY: - an element of the array.
            unsafe { constructs.add(number as usize).write(Construct::new(number)) };
        }
    }

    /// The slot of construct `number`.
    #[inline]
    pub(crate) fn slot(&self, number: u64) -> &Construct {
        &self.0[(number % RING) as usize]
    }

    /// Starts again at number 0. Between regions only.
    pub(crate) fn reset(&self) {
        for (number, construct) in (0..).zip(&self.0) {
            // SAFETY: - between regions no thread looks at the ring.
            unsafe { construct.shared.with_mut(|shared| *shared = ConstructData::new()) };
            // ORDERING: Relaxed - the next fork publishes it.
            construct.dealing.left.store(0, Relaxed);
            construct.state.store(state(number, FREE), Relaxed);
        }
    }
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

    /// A turn that was passed on in the loop before, in the same slot of the ring, is no member's
    /// in the next loop.
    #[test]
    fn a_loop_begins_with_the_turn_of_its_first_iteration_alone() {
        let turns = Turns::default();
        (0..9).for_each(|start| turns.of(start, 1).pass_on(start));
        turns.reset();
        let has_turn = |start: &u64| turns.of(*start, 1).is_at(*start);
        assert_eq!((0..9).filter(has_turn).collect::<Vec<_>>(), [0]);
    }
}
