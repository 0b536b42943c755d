//! The second half of a join while others may take it: a closure and the place for its result, on
//! the joiner's stack.
//!
//! # Protocol
//! `state`: open -> its runner (a thief; written after it got the half from the deque, or by
//! claiming the half of an outermost join) -> done (H1). The joiner that gets its half back from
//! the deque never looks at `state`.
//!
//! # Invariants
//! I1  The closure is taken once: by the member to which the deque, or `claim`, gave the half.
//! I2  After H1 the thief does not touch the half: the joiner may have returned.
//!
//! Models: `join/model.rs`.
//!
//! # Orderings
//! H1 Release with the joiner's Acquire (H2): the result. A runner's name is a hint where to steal
//! back: Release, so that a joiner that sees it sees the runner's tag.

use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Not taken, as far as the joiner knows.
const OPEN: u64 = 0;
/// It was run.
const DONE: u64 = u64::MAX;

/// A member at a piece of work: where what belongs to that work can be stolen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runner {
    /// Its number.
    pub member: u32,
    /// The piece of work; not 0.
    pub tag: u32,
}

impl Runner {
    pub(super) const fn pack(self) -> u64 {
        ((self.member as u64) << 32) | self.tag as u64
    }
}

/// What the joiner knows of a half that it did not get back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No member has said that it has the half.
    Open,
    /// This one runs it.
    Runs(Runner),
    /// It was run.
    Done,
}

/// What a deque holds: the part of a [`Half`] that does not depend on its types.
#[derive(Debug)]
pub(crate) struct Frame {
    state: AtomicU64,
    /// The member that waits for it.
    joiner: u32,
    run: unsafe fn(*const Frame),
}

impl Frame {
    /// What the joiner sees; after [`State::Done`] it may take the result.
    pub(crate) fn state(&self) -> State {
        // ORDERING: Acquire (H2) - pairs with H1, and with the runner's name.
        match self.state.load(Acquire) {
            OPEN => State::Open,
            DONE => State::Done,
            runner => State::Runs(Runner {
                member: u32::try_from(runner >> 32).expect("the high half"),
                tag: u32::try_from(runner & u64::from(u32::MAX)).expect("the low half"),
            }),
        }
    }

    /// Says which member runs it. By the thief.
    pub(crate) fn begin(&self, runner: Runner) {
        // ORDERING: Release - pairs with H2: the joiner that sees the name sees the tag.
        self.state.store(runner.pack(), Release);
    }

    /// Takes a half that is in no deque, to run it as `runner`; false when another one was faster.
    pub(crate) fn claim(&self, runner: Runner) -> bool {
        self.take(runner.pack())
    }

    /// Takes a half that is in no deque back. By the joiner.
    pub(crate) fn claim_back(&self) -> bool {
        self.take(DONE)
    }

    fn take(&self, next: u64) -> bool {
        // ORDERING: Relaxed - a look before the exchange takes the line. Then Release, as in
        // `begin`; the closure itself was published by the fork of the region.
        self.state.load(Relaxed) == OPEN
            && self.state.compare_exchange(OPEN, next, Release, Relaxed).is_ok()
    }

    /// Runs `frame`'s closure, keeps what it returns or its panic, and says that it is done.
    /// Returns the member that waits.
    ///
    /// # Safety
    /// - `frame` is that of a live half, which the caller stole or claimed (I1).
    pub(crate) unsafe fn run(frame: *const Self) -> u32 {
        // SAFETY: - caller's contract.
        let joiner = unsafe { Self::call(frame) };
        // ORDERING: Release (H1) - pairs with H2.
        // SAFETY: - not done yet: the joiner waits.
        unsafe { &*frame }.state.store(DONE, Release);
        joiner
    }

    /// `claim` that looks and then writes, for the model that shows what the exchange is for.
    #[cfg(all(test, loom))]
    pub(crate) fn claim_by_look(&self, runner: Runner) -> bool {
        // ORDERING: Acquire - the planted bug: another one may have it before the store.
        let open = self.state.load(Acquire) == OPEN;
        if open {
            self.begin(runner);
        }
        open
    }

    /// # Safety
    /// - As `run`.
    unsafe fn call(frame: *const Self) -> u32 {
        // SAFETY: - caller's contract; read before H1 (I2).
        let (run, joiner) = unsafe { ((*frame).run, (*frame).joiner) };
        // SAFETY: - `run` belongs to the half that the frame is the first field of (`Half::new`).
        unsafe { run(frame) };
        joiner
    }
}

/// See the module head. It is never dropped as a whole: what is left in it when the joiner gives up
/// belongs to others (fork).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Half<F, R> {
    frame: Frame,
    closure: HandCell<Option<F>>,
    result: HandCell<Option<thread::Result<R>>>,
}

// SAFETY: - `closure` and `result` are touched by the one that took the half (I1), then, after H1,
//           by the joiner: they move between threads, hence `Send`, and are never looked at by two.
unsafe impl<F: Send, R: Send> Sync for Half<F, R> {}

impl<F: FnOnce() -> R, R> Half<F, R> {
    /// An open one of member `joiner`.
    pub(crate) fn new(closure: F, joiner: u32) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self {
            frame: Frame { state: AtomicU64::new(OPEN), joiner, run: run::<F, R> },
            closure: HandCell::new(Some(closure)),
            result: HandCell::new(None),
        })
    }

    /// The part that deques hold. It stands for the whole half.
    pub(crate) fn frame(&self) -> *const Frame {
        std::ptr::from_ref(self).cast()
    }

    /// The closure.
    ///
    /// # Safety
    /// - The caller is the joiner, and got the half back (I1).
    pub(crate) unsafe fn take(&self) -> F {
        // SAFETY: - caller's contract: no other thread touches the closure.
        unsafe { taken(&self.closure) }.expect("a half is taken once")
    }

    /// What the closure returned, or its panic.
    ///
    /// # Safety
    /// - The caller is the joiner, and saw that the half is done.
    pub(crate) unsafe fn result(&self) -> thread::Result<R> {
        // SAFETY: - caller's contract: the runner does not touch it any more (I2).
        unsafe { taken(&self.result) }.expect("the runner leaves a result before H1")
    }
}

/// # Safety
/// - `frame` is the first field of a live `Half<F, R>`, which the caller took.
unsafe fn run<F: FnOnce() -> R, R>(frame: *const Frame) {
    let half = frame.cast::<Half<F, R>>();
    // SAFETY: - caller's contract: `half` is live and its closure the caller's (I1).
    let closure = unsafe { taken(&(*half).closure) }.expect("a half is taken once");
    // The joiner gets the panic before it sees what the closure captured.
    let result = catch_unwind(AssertUnwindSafe(closure));
    // SAFETY: - as above; the joiner reads it after H1.
    let cell = unsafe { &(*half).result };
    // SAFETY: - as above. What was there is nothing, which needs no drop.
    unsafe { cell.with_mut(|place| place.write(Some(result))) };
}

/// What is in `cell`, which is empty then.
///
/// # Safety
/// - No other thread touches the cell.
#[inline]
unsafe fn taken<T>(cell: &HandCell<Option<T>>) -> Option<T> {
    // SAFETY: - caller's contract; the cell's value is live.
    unsafe { cell.with_mut(|value| (*value).take()) }
}
