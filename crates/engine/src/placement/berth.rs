//! The berth of a worker: the thread that wakes it puts it on a processor, until it runs; a thread
//! that binds it, and the worker while it makes children, keep such threads out.
//!
//! A sleeper may leave its bed by itself ([`sleeper`](crate::protocols::sleeper)). A waker may come
//! late, or for nothing, since another one was first. So the worker may be running when it is put,
//! and must not be left there: it would share that processor with the threads there although others
//! are idle, what it creates would inherit it, and a bound worker would lose its place.
//!
//! # Protocol
//! One word, `state`, and whether the worker is `bound`.
//! - The waker: P1 `FREE`, `FREED` or `PUT` -> `PUTTING`, or else does nothing; P2 when `bound`: ->
//!   `FREE`; P3 puts the worker; P4 `PUTTING` -> `PUT`. When P4 finds `RAN`: P5 it frees the
//!   worker, -> `FREED`. It then wakes the worker. If that was awake: R1 `PUT` -> `PUTTING`, or
//!   else does nothing; R2 as P2; R3 as P5.
//! - The worker before it runs work: S1 `PUT` -> `SETTLING`; S2 frees itself unless `bound`; S3 ->
//!   `FREE`. When it finds `PUTTING`: -> `RAN`, and leaves the rest to P5. `FREED` -> `FREE`.
//! - The binder: B1 writes `bound`; B2 waits until the state is none of `PUTTING`, `RAN` and
//!   `SETTLING`; B3 binds the worker. The unbinder: B2, B3, B1. Several may do so at once: the last
//!   one has the last word ([`following`](crate::placement::following)).
//! - The creator does P3 and P4 of a worker that no other thread can supply or bind yet, which is
//!   born in `PUTTING`.
//! - A thread that wants the worker elsewhere while it runs puts it there and frees it at once
//!   ([`Berth::pass_by`]): P1, P2, P3 and P5.
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
//!
//! # Races
//! *It runs while it is put.* A is at P3; the worker leaves its bed, finds `PUTTING` at S1, says
//! `RAN` and runs. A puts it on its home, and finds `RAN` at P4: it frees the worker. The worker
//! makes a child in between: it waits at H1 for P5.
//!
//! *It is put while it runs.* A read that the worker sleeps, and is held up; the worker left its
//! bed and settled, and runs. A puts it, and finds it awake when it wakes it: A frees the worker
//! (R1). The worker makes a child in between: it finds `PUT` at H1. It made one before: A finds
//! `HELD` at P1. An exchange of the worker's says whether it was awake (`sleeper`, V1 and W5): if
//! V1 was first, S1 finds what P4 stored.
//!
//! *It is bound while it is put.* Either B2 sees `PUTTING` and waits, or P2 sees `bound`: each
//! writes, fences, and reads. The same holds for S1 and S2, R1 and R2.
//!
//! *It is unbound while it makes a child.* `bound` falls after B3: a worker that finds it down has
//! the mask of the program.
//!
//! *A handler of a signal on the worker's own thread, during S2.* It finds `SETTLING` at H1, which
//! no other thread will end: it does S2 itself, and a binder goes on waiting.
//!
//! *A child of `vfork`.* It shares the word, and was born with whatever mask the worker had; since
//! the worker sleeps, the state says for as long as the child lives that this may be a home
//! ([`Berth::was_put`]). That is what `FREED` is for.
//!
//! # Orderings
//! `state`: AcqRel exchanges and Acquire loads pair with each other: a thread that sees that
//! another one is done sees what that did to the mask. The fences of P2, S2 and B2 pair with each
//! other; B1 of a binder is Relaxed, ordered by them. B1 of an unbinder is Release, and pairs with
//! the Acquire loads of `bound`.

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

/// A wait yields this many times, and then sleeps between two looks.
const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_micros(50);
/// A wait ends with the first look after this time.
pub(crate) const LONGEST: Duration = Duration::from_millis(10);

/// See the module head. Rarely written.
#[derive(Debug)]
pub(crate) struct Berth {
    state: AtomicU32,
    bound: AtomicBool,
}

/// The worker while no thread puts it; see [`Berth::hold`].
#[derive(Debug)]
#[must_use = "the worker may be put again when this is dropped"]
pub(crate) struct Held<'a> {
    berth: &'a Berth,
    /// Else an outer one holds it.
    is_mine: bool,
}

impl Berth {
    /// Of a worker that its creator is about to put somewhere ([`Berth::put_first`],
    /// [`Berth::free_first`]).
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(PUTTING), bound: AtomicBool::new(false) }
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

    /// H1 and H2, on the worker: no thread puts it until the answer is dropped. `free` gives it the
    /// mask of the program, if it is where it was put. Makes system calls only, and may be called
    /// in handlers of signals.
    pub(crate) fn hold(&self, free: impl Fn()) -> Held<'_> {
        let held = |is_mine| Held { berth: self, is_mine };
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

impl Default for Berth {
    fn default() -> Self {
        Self::new()
    }
}

impl Held<'_> {
    /// For a thread that becomes another program: the worker is not put any more. Should the exec
    /// fail, that ends when it next runs work.
    pub(crate) fn for_good(mut self) {
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

#[cfg(all(test, loom))]
mod model;
