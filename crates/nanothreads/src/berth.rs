//! The berth of a virtual processor (VP): whoever wakes it puts it softly on a processor, until it runs; whoever binds it, and
//! the VP while it makes children, keep those out.
//!
//! A sleeper may leave its bed by itself (`sleeper`), and who wakes it may do so late, or for nothing, since another one was
//! first. So the VP may be running when it is put, and must not be left there: what it creates would inherit that one
//! processor, and a bound VP would lose its place.
//!
//! # Protocol
//! One word, `state`, and whether the VP is `bound`.
//! Who wakes it: P1 `FREE`, `FREED` or `PUT` -> `PUTTING`, or else does nothing; P2 when `bound`: back to `FREE`; P3
//! puts the VP; P4 `PUTTING` -> `PUT`. When P4 finds `RAN`: P5 it frees the VP -> `FREED`.
//! The VP before it runs work: S1 `PUT` -> `SETTLING`; S2 frees itself unless `bound`; S3 -> `FREE`. When it finds
//! `PUTTING` -> `RAN`, and leaves the rest to P5. `FREED` -> `FREE`.
//! Who binds or unbinds it: B1 writes `bound`; B2 waits until the state is none of `PUTTING`, `RAN` and `SETTLING`; B3
//! binds. Several may do so at once: the last one has the last word (`following`).
//! The VP that makes children: H1 waits until nobody puts it, and then -> `HELD`; H2 takes what mask it likes,
//! where it was put or is bound; H3 `HELD` -> `FREE`.
//!
//! # Invariants
//! E-I1  Between H1 and H3 nobody puts the VP.
//! E-I2  A VP that is not bound has the program's mask when the state is `FREE` or `FREED`.
//! E-I3  A VP that was bound before the last B3 is where B3 put it.
//!
//! # Races
//! *It runs before it is put.* A is at P3; the VP leaves its bed, finds `PUTTING`, says `RAN` and runs. A puts it on its
//! home, and finds `RAN` at P4: it frees the VP. The VP makes a child in between: it waits at H1 for P5.
//! *It is put while it runs.* A read that it sleeps, and is held up; the VP ran, settled, and makes a child: `HELD`, A does
//! nothing. Or A was first: H1 finds `PUT`, and the VP frees itself.
//! *It is bound while it is put.* Either B2 sees `PUTTING` and waits, or P2 sees `bound`: each writes, fences, and reads.
//! The same for S1 and S2.
//! *A handler of a signal on the VP's own thread, amid S2.* It finds `SETTLING` at H1, which nobody else will end: it takes it
//! as `PUT`. S3 is an exchange, and fails if that is over.
//! *A child of `vfork`.* It shares the word, and was born with whatever mask the VP had; since the VP sleeps, a state that is not
//! `FREE` says for as long as the child lives that this may be a home ([`Berth::was_put`]). That is what `FREED` is for.
//!
//! # Orderings
//! `state`: AcqRel exchanges, Release stores and Acquire loads pair with each other: who sees that somebody is done sees what it
//! did to the mask. The fences of P2, S2 and B2 pair with each other. `bound`: Relaxed, ordered by those, else a hint.

use platform::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use platform::sync::thread;

/// The VP has the mask of the program, or is bound.
const FREE: u32 = 0;
/// Somebody puts it on its home.
const PUTTING: u32 = 1;
/// It was put there, and frees itself when it runs.
const PUT: u32 = 2;
/// It runs, and somebody puts it at the same time.
const RAN: u32 = 3;
/// Who put it while it ran has freed it.
const FREED: u32 = 6;
/// It frees itself.
const SETTLING: u32 = 4;
/// It makes children.
const HELD: u32 = 5;

/// See the module head. Rarely written.
#[derive(Debug)]
pub struct Berth {
    state: AtomicU32,
    bound: AtomicBool,
}

/// The VP while nobody puts it; see [`Berth::hold`].
#[derive(Debug)]
#[must_use = "the VP is put again when this is dropped"]
pub struct Held<'a> {
    berth: &'a Berth,
    is_mine: bool,
    was_put: bool,
}

impl Berth {
    /// Of a VP that its creator puts somewhere ([`Berth::first`]), and that may run before that.
    #[must_use]
    pub fn new() -> Self {
        Self { state: AtomicU32::new(PUTTING), bound: AtomicBool::new(false) }
    }

    /// P3 to P5 of the creator. `put` is its home, if it has one, or else the mask of the program.
    pub fn first(&self, put: impl FnOnce(), free: impl FnOnce()) {
        put();
        self.end_put(free);
    }

    /// P1 to P5. `put` puts the VP on its home; `free` gives it the mask of the program.
    pub fn put(&self, put: impl FnOnce(), free: impl FnOnce()) {
        if ![FREE, PUT, FREED].into_iter().any(|state| self.exchange(state, PUTTING)) {
            return;
        }
        // ORDERING: SeqCst fence (P2) - pairs with that of B2.
        fence(SeqCst);
        if self.is_bound() {
            // Nothing was done to it: B2 may go on.
            self.store(FREE);
            return;
        }
        put();
        self.end_put(free);
    }

    /// P4 and P5.
    fn end_put(&self, free: impl FnOnce()) {
        if !self.exchange(PUTTING, PUT) {
            free();
            self.store(FREED);
        }
    }

    /// S1 to S3, on the VP. Cost: one load of a line that is rarely written.
    #[inline]
    pub fn settle(&self, free: impl FnOnce()) {
        // ORDERING: Acquire - pairs with P4.
        if self.state.load(Acquire) != FREE {
            self.settle_now(free);
        }
    }

    #[cold]
    fn settle_now(&self, free: impl FnOnce()) {
        // A failed exec left it held.
        let is_over =
            [(PUTTING, RAN), (FREED, FREE), (HELD, FREE)].into_iter().any(|(from, to)| self.exchange(from, to));
        if is_over || !self.exchange(PUT, SETTLING) {
            return;
        }
        // ORDERING: SeqCst fence (S2) - pairs with that of B2.
        fence(SeqCst);
        if !self.is_bound() {
            free();
        }
        // Else a handler of a signal was here.
        self.exchange(SETTLING, FREE);
    }

    /// B1 to B3. `go` binds the VP, or unbinds it.
    pub fn bind(&self, bound: bool, go: impl FnOnce()) {
        // ORDERING: Relaxed (B1) - ordered by the fence.
        self.bound.store(bound, Relaxed);
        // ORDERING: SeqCst fence (B2) - pairs with those of P2 and S2.
        fence(SeqCst);
        // ORDERING: Acquire - pairs with the ends of P5 and S3.
        while matches!(self.state.load(Acquire), PUTTING | RAN | SETTLING) {
            thread::yield_now();
        }
        go();
    }

    /// H1, on the VP: nobody puts it until the answer is dropped. Makes no call but to yield, and may be called in handlers of
    /// signals.
    pub fn hold(&self) -> Held<'_> {
        let held = |is_mine, was_put| Held { berth: self, is_mine, was_put };
        loop {
            // ORDERING: Acquire - pairs with P5.
            match self.state.load(Acquire) {
                HELD => return held(false, false),
                PUTTING | RAN => thread::yield_now(),
                state if self.exchange(state, HELD) => return held(true, matches!(state, PUT | SETTLING)),
                _ => {}
            }
        }
    }

    /// True when a manager's grant, or the program's wish, bound it.
    #[inline]
    pub fn is_bound(&self) -> bool {
        // ORDERING: Relaxed - a hint, or ordered by a fence.
        self.bound.load(Relaxed)
    }

    /// True when the VP, if it is not bound, is on its home until it runs.
    pub fn is_put(&self) -> bool {
        // ORDERING: Acquire - pairs with P4.
        self.state.load(Acquire) == PUT
    }

    /// True when the VP was put since it last ran work, or before that and it was not noticed in time.
    pub fn was_put(&self) -> bool {
        // ORDERING: Acquire - pairs with P4.
        self.state.load(Acquire) != FREE
    }

    fn exchange(&self, from: u32, to: u32) -> bool {
        // ORDERING: AcqRel - see the module head.
        self.state.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    fn store(&self, state: u32) {
        // ORDERING: Release - see the module head.
        self.state.store(state, Release);
    }
}

impl Default for Berth {
    fn default() -> Self {
        Self::new()
    }
}

impl Held<'_> {
    /// True when the VP may be on its home: it frees itself before it makes a child.
    #[must_use]
    pub fn was_put(&self) -> bool {
        self.was_put
    }

    /// For who becomes another program: nobody puts the VP any more. Should the exec fail, it settles when it next runs work.
    pub fn for_good(mut self) {
        self.is_mine = false;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_mine {
            // H3.
            self.berth.exchange(HELD, FREE);
        }
    }
}
