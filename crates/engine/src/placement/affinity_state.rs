//! The affinity state of a worker: what puts it on a processor, in which order, and which has the
//! last word. The thread that wakes it puts it on its home, until it runs (a hint). Threads that
//! bind it, for the grant of a manager or the program's own wish, and the worker while it makes
//! children, keep such threads out. Of two that bind it, the grant has the last word.
//!
//! A sleeper may wake by itself ([`sleeper`](crate::protocols::sleeper)). A waker may come
//! late, or for nothing, since another one was first. So the worker may be running when it is put,
//! and must not be left there: it would share that processor with the threads there although others
//! are idle, what it creates would inherit it, and a bound worker would lose its place.
//!
//! # Protocol
//! Three words: `state`, which says what puts or frees the worker just now; whether it is `bound`;
//! and `follows`, the epoch of the grant by which it was put in its place, or that its place is
//! unknown, which is no epoch.
//! - The waker: P1 `FREE`, `FREED` or `PUT` -> `PUTTING`, or else does nothing; P2 when `bound`: ->
//!   `FREE`; P3 puts the worker; P4 `PUTTING` -> `PUT`. When P4 finds `RAN`: P5 it frees the
//!   worker, -> `FREED`. It then wakes the worker. If that was awake: R1 `PUT` -> `PUTTING`, or
//!   else does nothing; R2 as P2; R3 as P5.
//! - The worker before it runs work: S1 `PUT` -> `SETTLING`; S2 frees itself unless `bound`; S3 ->
//!   `FREE`. When it finds `PUTTING`: -> `RAN`, and leaves the rest to P5. `FREED` -> `FREE`.
//! - The binder: B1 writes `bound`; B2 waits until the state is none of `PUTTING`, `RAN` and
//!   `SETTLING`; B3 binds the worker. The unbinder: B2, B3, B1. Several may do so at once: the last
//!   one has the last word.
//! - The worker at a safe point, or its master while it sleeps, follows a grant: F1 compares the
//!   grant's epoch with `follows`; when it is another one: F2 stores the new one; F3 reads where
//!   that puts the worker, and binds it there, or unbinds it (B1 to B3).
//! - Any other thread: G1 binds or unbinds the worker (B1 to B3); G2 stores in `follows` that the
//!   place is unknown, so that the worker looks once more. A helper, which takes a worker that was
//!   squeezed onto its own processor, does so if it is the first one in this epoch: a swap of
//!   `helped` (two that first read it and then wrote it would both give their processor away for
//!   one worker, and another squeezed one would go without).
//! - The creator does P3 and P4 of a worker that no other thread can supply or bind yet, which is
//!   born in `PUTTING`.
//! - A thread that wants the worker elsewhere while it runs puts it there and frees it at once
//!   ([`AffinityState::pass_by`]): P1, P2, P3 and P5.
//! - The worker that makes children: H1 waits until no thread puts it, and settles (S1 to S3) if it
//!   was put; H2 -> `HELD`; makes them; H3 `HELD` -> `FREE`.
//!
//! Both waits are for system calls of another thread, and end after [`LONGEST`]: that thread may
//! have no processor (the waiter has a higher priority), may have been stopped by a debugger, may
//! not exist in a child of `fork`, or may wait for the waiter, a handler of a signal, by a lock of
//! the allocator. Then the worker may be put where it should not be, as without the wait.
//!
//! # Invariants
//! - E-I1 Between H2 and H3 no thread puts the worker.
//! - E-I2 A worker that is not bound has the program's mask, or what the program bound it to by
//!   itself, when the state is `FREE` or `FREED`.
//! - E-I3 A worker that was bound before the last B3 is where B3 put it.
//! - E-I4 When all are done, the worker is where the grant in force puts it, or its next F1 says
//!   that it follows another one.
//!
//! # Races
//! *It runs while it is put.* A is at P3; the worker wakes, finds `PUTTING` at S1, says `RAN` and
//! runs. A puts it on its home, and finds `RAN` at P4: it frees the worker. The worker
//! makes a child in between: it waits at H1 for P5.
//!
//! *It is put while it runs.* A read that the worker sleeps, and is held up; the worker woke
//! and settled, and runs. A puts it, and finds it awake when it wakes it: A frees the worker
//! (R1). The worker makes a child in between: it finds `PUT` at H1. It made one before: A finds
//! `HELD` at P1. An exchange of the worker's says whether it was awake (`sleeper`, V1 and W5): if
//! V1 was first, S1 finds what P4 stored.
//!
//! *It is bound while it is put.* Either B2 sees `PUTTING` and waits, or P2 sees `bound`: each
//! writes, fences, and reads. The same holds for S1 and S2, R1 and R2.
//!
//! *It follows a grant while it is released.* A (the worker) stores epoch 4 (F2) and is about to
//! bind itself; B (a thread that saw the manager die) unbinds it (G1) and stores (G2); A binds
//! itself to what 4 said (F3). A's next F1 finds that its place is unknown, and A goes to its place
//! once more. With G2 before G1, A could do F1 to F3 in between: B would have the last word on the
//! place, and A on the epoch. And if G2 stored [`NO_GRANT`], A would stay where 4 said when the
//! manager died.
//!
//! *A grant while it follows one.* A stores 4, the manager publishes 5, A reads 5's place. The next
//! F1 compares 4 with 5, and A goes to the same place again.
//!
//! *It is unbound while it makes a child.* `bound` falls after B3: a worker that finds it down has
//! the mask of the program.
//!
//! *A handler of a signal on the worker's own thread, during S2.* It finds `SETTLING` at H1, which
//! no other thread will end: it does S2 itself, and a binder goes on waiting.
//!
//! *A child of `vfork`.* It shares the word, and was born with whatever mask the worker had; since
//! the worker sleeps, the state says for as long as the child lives that this may be a home
//! ([`AffinityState::was_put`]). That is what `FREED` is for.
//!
//! # Orderings
//! `state`: AcqRel exchanges and Acquire loads pair with each other: a thread that sees that
//! another one is done sees what that did to the mask. The fences of P2, S2 and B2 pair with each
//! other; B1 of a binder is Relaxed, ordered by them. B1 of an unbinder is Release, and pairs with
//! the Acquire loads of `bound`. F2 and G2 are AcqRel exchanges that pair with each other: where
//! F2 comes after G2, B1 of F3 comes after that of G1. (With plain stores the worker could be
//! where the grant put it, follow that grant, and be taken for unbound for ever.) F1 and `helped`:
//! Relaxed; the kernel binds a thread under a lock of that thread, so that the second thread to
//! bind it sees what the first one stored before.

use platform::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use platform::sync::{pause, thread};
use std::time::{Duration, Instant};

/// The worker has the mask of the program, or is bound.
const FREE: u32 = 0;
/// A thread puts it on its home.
const PUTTING: u32 = 1;
/// It was put there, and frees itself when it runs.
const PUT: u32 = 2;
/// It runs, and a thread puts it at the same time.
const RAN: u32 = 3;
/// The thread that put it while it ran has freed it.
const FREED: u32 = 4;
/// It frees itself.
const SETTLING: u32 = 5;
/// It makes children.
const HELD: u32 = 6;

/// The epoch of a program without a manager.
pub(crate) const NO_GRANT: u32 = 0;
/// The worker's place is unknown. No epoch: those of grants are odd.
const UNKNOWN: u32 = 2;

/// A wait yields this many times, and then sleeps between two looks.
const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_micros(50);
/// A wait ends with the first look after this time.
pub(crate) const LONGEST: Duration = Duration::from_millis(10);

/// See the module head. Rarely written.
#[derive(Debug)]
pub(crate) struct AffinityState {
    state: AtomicU32,
    bound: AtomicBool,
    follows: AtomicU32,
    helped: AtomicU32,
}

/// The worker while no thread puts it; see [`AffinityState::hold`].
#[derive(Debug)]
#[must_use = "the worker may be put again when this is dropped"]
pub(crate) struct AffinityHold<'a> {
    affinity: &'a AffinityState,
    /// Else an outer one holds it.
    is_mine: bool,
}

impl AffinityState {
    /// Of a worker that its creator is about to put somewhere ([`AffinityState::put_first`],
    /// [`AffinityState::free_first`]).
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU32::new(PUTTING),
            bound: AtomicBool::new(false),
            follows: AtomicU32::new(UNKNOWN),
            helped: AtomicU32::new(NO_GRANT),
        }
    }

    /// P3 and P4 of the creator, before another thread can supply or bind the worker. `put` puts it
    /// on its home.
    pub(crate) fn put_first(&self, put: impl FnOnce()) {
        put();
        self.change_to(PUT);
    }

    /// The same of one that has no home. `free` gives it the mask of the program, instead of that
    /// of its creator.
    pub(crate) fn free_first(&self, free: impl FnOnce()) {
        free();
        self.change_to(FREED);
    }

    /// P1 to P5. `put` puts the worker on its home; `free` gives it the mask of the program, if it
    ///    is still there.
    pub(crate) fn put(&self, put: impl FnOnce(), free: impl FnOnce()) {
        if self.begin_put([FREE, PUT, FREED]) {
            put();
            if !self.exchange(PUTTING, PUT) {
                free();
                self.change_to(FREED);
            }
        }
    }

    /// R1 to R3. `free` as above.
    pub(crate) fn take_back(&self, free: impl FnOnce()) {
        if self.begin_put([PUT]) {
            free();
            self.change_to(FREED);
        }
    }

    /// P1 to P5 at once: `pass` puts the worker somewhere and gives it the mask of the program
    ///    again.
    pub(crate) fn pass_by(&self, pass: impl FnOnce()) {
        if self.begin_put([FREE, PUT, FREED]) {
            pass();
            self.change_to(FREED);
        }
    }

    /// P1 and P2, R1 and R2: whether to go on.
    fn begin_put<const N: usize>(&self, from: [u32; N]) -> bool {
        if !from.into_iter().any(|state| self.exchange(state, PUTTING)) {
            return false;
        }
        // ORDERING: SeqCst fence (P2) - pairs with that of B2.
        fence(SeqCst);
        let is_bound = self.is_bound();
        if is_bound {
            self.change_to(FREE);
        }
        !is_bound
    }

    /// S1 to S3, on the worker. `free` gives it the mask of the program. Cost: one load of a line
    ///    that is rarely written.
    #[inline]
    pub(crate) fn settle(&self, free: impl FnOnce()) {
        // ORDERING: Acquire - pairs with P4.
        if self.state.load(Acquire) != FREE {
            self.settle_now(free);
        }
    }

    #[cold]
    fn settle_now(&self, free: impl FnOnce()) {
        // A failed exec left it held.
        let is_over = [(PUTTING, RAN), (FREED, FREE), (HELD, FREE)]
            .into_iter()
            .any(|(from, to)| self.exchange(from, to));
        if !is_over && self.exchange(PUT, SETTLING) {
            self.free_unless_bound(free);
            self.change_to(FREE);
        }
    }

    /// S2.
    fn free_unless_bound(&self, free: impl FnOnce()) {
        // ORDERING: SeqCst fence (S2) - pairs with that of B2.
        fence(SeqCst);
        if !self.is_bound() {
            free();
        }
    }

    /// B1 to B3. `go` binds the worker.
    pub(crate) fn bind(&self, go: impl FnOnce()) {
        // ORDERING: Relaxed (B1) - ordered by the fence.
        self.bound.store(true, Relaxed);
        // ORDERING: SeqCst fence (B2) - pairs with those of P2 and S2.
        fence(SeqCst);
        self.wait_while(|state| matches!(state, PUTTING | RAN | SETTLING));
        go();
    }

    /// B2, B3 and B1. `go` gives the worker the mask of the program.
    pub(crate) fn unbind(&self, go: impl FnOnce()) {
        // A bound worker is not put; but one that began to be put before that may still be, if a
        // wait was too long.
        self.wait_while(|state| matches!(state, PUTTING | RAN | SETTLING));
        go();
        // ORDERING: Release - a thread that sees that makes children with the mask of the program.
        self.bound.store(false, Release);
    }

    /// F1: true when the worker was put where the grant of `epoch` puts it. Cost: a load of a line
    ///     that is rarely written.
    #[inline]
    pub(crate) fn follows(&self, epoch: u32) -> bool {
        // ORDERING: Relaxed - see the module head.
        self.follows.load(Relaxed) == epoch
    }

    /// F2 and F3. `go` reads the grant, and binds or unbinds the worker.
    pub(crate) fn follow(&self, epoch: u32, go: impl FnOnce()) {
        // ORDERING: AcqRel (F2) - pairs with G2.
        self.follows.swap(epoch, AcqRel);
        go();
    }

    /// G1 and G2. `go` binds or unbinds the worker.
    pub(crate) fn put_elsewhere(&self, go: impl FnOnce()) {
        go();
        // ORDERING: AcqRel (G2) - pairs with F2.
        self.follows.swap(UNKNOWN, AcqRel);
    }

    /// The same, by the first helper in `epoch`; false for the others.
    pub(crate) fn help(&self, epoch: u32, go: impl FnOnce()) -> bool {
        // ORDERING: Relaxed - the swap alone decides.
        let is_first = self.helped.swap(epoch, Relaxed) != epoch;
        if is_first {
            self.put_elsewhere(go);
        }
        is_first
    }

    /// H1 and H2, on the worker: no thread puts it until the answer is dropped. `free` gives it the
    /// mask of the program, if it is where it was put. Makes system calls only, and may be called
    /// in handlers of signals.
    pub(crate) fn hold(&self, free: impl Fn()) -> AffinityHold<'_> {
        let held = |is_mine| AffinityHold { affinity: self, is_mine };
        loop {
            match self.wait_while(|state| matches!(state, PUTTING | RAN)) {
                HELD => return held(false),
                // Its own, under a handler of a signal; or of a thread that does not go on.
                SETTLING | PUTTING | RAN => {
                    self.free_unless_bound(&free);
                    return held(false);
                }
                PUT => self.settle_now(&free),
                state if self.exchange(state, HELD) => return held(true),
                _ => {}
            }
            // Settled, or another thread was faster.
            pause();
        }
    }

    /// The state when it is not so any more, or after [`LONGEST`].
    fn wait_while(&self, is_so: impl Fn(u32) -> bool) -> u32 {
        let mut yields = 0;
        let mut since = None;
        loop {
            // ORDERING: Acquire - pairs with the ends of P2, P4, P5 and S3.
            let state = self.state.load(Acquire);
            if !is_so(state) {
                return state;
            }
            // In a model there is no time, and some thread always goes on.
            if cfg!(loom) || yields < YIELDS {
                yields += 1;
                thread::yield_now();
            } else if since.get_or_insert_with(Instant::now).elapsed() < LONGEST {
                std::thread::sleep(NAP);
            } else {
                return state;
            }
        }
    }

    /// True when a manager's grant, or the program's wish, bound it.
    #[inline]
    pub(crate) fn is_bound(&self) -> bool {
        // ORDERING: Acquire - pairs with B1 of an unbinder; else a hint, or ordered by a fence.
        self.bound.load(Acquire)
    }

    /// True when the worker, if it is not bound, is on its home until it runs.
    pub(crate) fn is_put(&self) -> bool {
        // ORDERING: Acquire - pairs with P4.
        self.state.load(Acquire) == PUT
    }

    /// True when the worker was put since it last ran work, and may have been there since then.
    pub(crate) fn was_put(&self) -> bool {
        // ORDERING: Acquire - pairs with P4.
        !matches!(self.state.load(Acquire), FREE | HELD)
    }

    fn exchange(&self, from: u32, to: u32) -> bool {
        // ORDERING: AcqRel - see the module head.
        self.state.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    fn change_to(&self, state: u32) {
        // ORDERING: AcqRel - see the module head.
        self.state.swap(state, AcqRel);
    }
}

impl Default for AffinityState {
    fn default() -> Self {
        Self::new()
    }
}

impl AffinityHold<'_> {
    /// For a thread that becomes another program: the worker is not put any more. Should the exec
    /// fail, that ends when it next runs work.
    pub(crate) fn for_good(mut self) {
        self.is_mine = false;
    }
}

impl Drop for AffinityHold<'_> {
    fn drop(&mut self) {
        if self.is_mine {
            // H3.
            self.affinity.exchange(HELD, FREE);
        }
    }
}

#[cfg(all(test, loom))]
mod model;
