//! A node of the tree of nano-threads: what children report to, and where their creator waits.
//!
//! Each nano-thread has one for its children; a group of tasks and the body of a scope have one,
//! too. A child holds a share of its parent's [`Inputs`] until it is finished, which is when its
//! body and all its own children are. So the number that a waiting creator needs is always in its
//! own counter (F8), and nothing is counted for the whole team. A member that ends many children of
//! one node gives their shares up together ([`held`](super::held)).
//!
//! # What touches what
//! `inputs`, `flags`, `panic`: any thread that holds a share. `phase`: written by the owner's
//! thread before it gives its share up; read by the last one. `home`: the creator, then, at the
//! start, the home's thread; read by threads that hold a share of a started owner. `place`: the
//! creator, then the owner's thread while the owner runs; read by the last one if the owner waits,
//! and by the home's thread while it is suspended. `credits`, `pause`: the home's thread. Of a
//! [`TaskWait`], `link`: the inbox; the rest: the home's thread.
//!
//! # Memory
//! What waits in a queue has a node, so a node has only what other threads may look for at any
//! time. What is needed while the owner does not run is on the stack that it will go on on, in its
//! [`TaskWait`]; what is needed until it starts stands in the place of what is not known before.
//! Bytes: `inputs`, `panic`, `up`, `place` 8 each; `home` 4; `phase`, `flags`, `credits`, `pause` 1
//! each.
//!
//! # Invariants
//! I1  A thread that holds no share does not touch a node: it may be on the stack of a waiting
//!     nano-thread.
//! I2  The last one touches it, and the wait, only until it has woken the waiter.
//! I3  In the phase `New`, `place` is a number, in later ones a wait. In the phase `Waiting` that
//!     is the owner's, which lasts until the last one has signalled it. A nano-thread that waits
//!     at another node, or yields, is in the phase `Running`: its wait is the one that it is
//!     suspended in, which lasts until it is resumed, and only its home's thread looks at it.

use crate::tasks::descriptor::NanoPtr;
use crate::tasks::fiber::Fiber;
use crate::tasks::inputs::Inputs;
use crate::tasks::ready::inbox::Item;
use engine::panics::{Payload, discard};
use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::cell::Cell;
use std::ptr;

/// Shares that an owner takes at once for its children.
const CREDITS: u8 = 64;

/// What the last share of a node's inputs means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Not started: the nano-thread is ready.
    New,
    /// The owner runs and holds a share: it cannot be the last.
    Running,
    /// The owner waits for its children: it goes on.
    Waiting,
    /// The body has ended: the nano-thread is finished.
    Ended,
}

/// See the module head.
pub(crate) struct Node {
    pub(crate) inputs: Inputs,
    phase: AtomicU8,
    /// [`CANCELLED`], [`DESCRIBED`], [`TARGET`], and from [`MEMORY`] on what memory it is in.
    flags: AtomicU8,
    /// Shares that the owner holds for children to come, beside its own.
    credits: Cell<u8>,
    /// Why the owner does not run, once it has started.
    pub(crate) pause: Cell<Pause>,
    /// The member on whose thread the owner runs; until it starts, the one that created it.
    home: AtomicU32,
    /// The payload of the first child that panicked, in a box of its own. Of a described owner:
    /// its description, which has that word.
    panic: AtomicPtr<()>,
    /// The node that this one belongs to; null for the body of a scope.
    pub(crate) up: *const Node,
    place: HandCell<Place>,
}

/// What is known of where an owner stands: the phase says which of the two it is.
#[derive(Clone, Copy)]
union Place {
    /// Until it starts: which of its creator's it is, for the report of an overflow.
    number: u64,
    /// From then on: its last wait.
    wait: *const TaskWait,
}

/// Descendants that have not started are not to be started any more.
const CANCELLED: u8 = 1;
/// The owner has a description. Does not change.
const DESCRIBED: u8 = 2;
/// It has a target (`target`). Set by the owner.
const TARGET: u8 = 4;
/// The first bit of the number that says what memory the node is in. Its bits do not change.
const MEMORY: u32 = 3;

/// The word of a description that is a plain node's own.
pub(crate) type PanicWord = AtomicPtr<()>;

/// Why a started nano-thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Pause {
    /// It waits, or it runs.
    Waits,
    /// Its wait is over.
    Due,
    /// It lets others go first.
    Yields,
}

/// A nano-thread that is to be switched away from, and the fiber on whose stack it is.
#[derive(Clone, Copy)]
pub(crate) struct Waiter {
    pub(crate) nano: NanoPtr,
    pub(crate) fiber: *const Fiber,
}

/// What is known of an owner that does not run, on the stack that it will go on on.
pub(crate) struct TaskWait {
    /// What was switched away from. `None`: the wait watches `signalled`.
    waiter: Option<Waiter>,
    signalled: Cell<bool>,
    link: HandCell<*const TaskWait>,
}

// SAFETY: - `link` is never handed out to anything but the inbox, which is why this is its only
// user.
unsafe impl Item for TaskWait {
    fn link(&self) -> &HandCell<*const Self> {
        &self.link
    }
}

impl TaskWait {
    fn new(waiter: Option<Waiter>) -> Self {
        Self { waiter, signalled: Cell::new(false), link: HandCell::new(ptr::null()) }
    }

    /// Switches away from `waiter`, which lets others go first, until it is resumed.
    ///
    /// # Safety
    /// - It runs now, and the caller is on its stack.
    pub(crate) unsafe fn of_yield(waiter: Waiter) {
        let wait = Self::new(Some(waiter));
        // SAFETY: - caller's contract: it runs.
        unsafe { waiter.nano.get() }.node.set_wait(&raw const wait);
        // SAFETY: - caller's contract.
        unsafe { (*waiter.fiber).suspend() };
    }

    /// What was switched away from, if anything is.
    pub(crate) fn waiter(&self) -> Option<Waiter> {
        self.waiter
    }

    /// The wait is over. On the home's thread: returns the nano-thread to be resumed, if it was
    /// switched away from.
    pub(crate) fn signal(&self) -> Option<NanoPtr> {
        self.signalled.set(true);
        self.waiter.map(|waiter| waiter.nano)
    }

    /// On the home's thread.
    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.get()
    }
}

impl Node {
    /// A node below `up` whose owner was created by `creator`, as its `number`th, and has not
    /// started. `memory`: what [`Self::memory`] returns.
    #[inline]
    pub(crate) fn new(up: *const Node, creator: u32, number: u64, memory: u8) -> Self {
        Self {
            inputs: Inputs::new(),
            phase: AtomicU8::new(Phase::New as u8),
            flags: AtomicU8::new(memory << MEMORY),
            credits: Cell::new(0),
            pause: Cell::new(Pause::Waits),
            home: AtomicU32::new(creator),
            panic: AtomicPtr::new(ptr::null_mut()),
            up,
            place: HandCell::new(Place { number }),
        }
    }

    /// The same, for an owner whose description is at `description`.
    ///
    /// # Safety
    /// - The description begins with its [`PanicWord`], and lasts as long as the node.
    pub(crate) unsafe fn described(self, description: *mut ()) -> Self {
        // ORDERING: Relaxed - not shared yet; what shares it publishes it.
        self.flags.fetch_or(DESCRIBED, Relaxed);
        Self { panic: AtomicPtr::new(description), ..self }
    }

    /// A node below `up` whose owner runs on member `home` now.
    pub(crate) fn running(up: *const Node, home: u32) -> Self {
        let node = Self::new(up, home, 0, 0);
        node.start(home);
        node
    }

    /// The owner starts, on member `home`.
    pub(crate) fn start(&self, home: u32) {
        // ORDERING: Relaxed - read by the threads that get a share later, or by the last one;
        // `inputs` orders both.
        self.home.store(home, Relaxed);
        self.set_phase(Phase::Running);
    }

    /// The member that created the owner, and which of its own that is. By the thread that is about
    /// to start it.
    #[inline]
    pub(crate) fn origin(&self) -> (u32, u64) {
        debug_assert!(self.phase() == Phase::New, "a started one has a home and waits");
        // SAFETY: - written before it was queued; I3.
        (self.home(), unsafe { self.place.with(|place| (*place).number) })
    }

    /// By the owner's thread, while the owner runs.
    fn set_wait(&self, wait: *const TaskWait) {
        // SAFETY: - in the phase `Running` no other thread looks at it (I3).
        unsafe { self.place.with_mut(|place| *place = Place { wait }) };
    }

    pub(crate) fn home(&self) -> u32 {
        // ORDERING: Relaxed - see `start`.
        self.home.load(Relaxed)
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        // ORDERING: Relaxed - see `set_phase`.
        match self.phase.load(Relaxed) {
            0 => Phase::New,
            1 => Phase::Running,
            2 => Phase::Waiting,
            _ => Phase::Ended,
        }
    }

    /// By the owner's thread, before it gives its share up.
    pub(crate) fn set_phase(&self, phase: Phase) {
        // ORDERING: Relaxed - the release of the share publishes it to the last one.
        self.phase.store(phase as u8, Relaxed);
    }

    /// A share for a new child. By the owner's thread, while it runs. Takes many at a time: the
    /// counter is on a line that children on other processors write.
    #[inline]
    pub(crate) fn share_for_child(&self) {
        let credits = self.credits.get();
        if credits == 0 {
            self.inputs.add_near(1, CREDITS.into());
            self.credits.set(CREDITS - 1);
        } else {
            self.credits.set(credits - 1);
        }
    }

    /// The shares that the owner holds: to be given up together.
    pub(crate) fn own_shares(&self) -> usize {
        1 + usize::from(self.credits.get())
    }

    /// Waits for the children that the owner has created. By the owner's thread; `waiter` says
    /// which nano-thread it is, if that is to be switched away from. `leave` gives the processor to
    /// others, and returns when the wait is signalled: to its waiter, or, without one, by
    /// [`TaskWait::is_signalled`].
    #[inline]
    pub(crate) fn await_children(
        &self,
        waiter: impl FnOnce() -> Option<Waiter>,
        leave: impl FnOnce(&TaskWait),
    ) {
        if self.inputs.is_only(self.own_shares()) {
            return;
        }
        let wait = TaskWait::new(waiter());
        if let Some(waiter) = wait.waiter {
            // Where its home finds it; the node may be that of a group.
            // SAFETY: - it is the caller.
            unsafe { waiter.nano.get() }.node.set_wait(&raw const wait);
        }
        self.set_wait(&raw const wait);
        self.set_phase(Phase::Waiting);
        // F8: the creator is its children's successor; it gives up its own share of its counter.
        if !self.inputs.release(self.own_shares()) {
            leave(&wait);
        }
        // The counter fell to zero: the owner runs again.
        self.credits.set(0);
        self.set_phase(Phase::Running);
        self.inputs.restore();
    }

    /// The wait of the owner. In the phase `Waiting`, by the thread that had the last share; of a
    /// nano-thread that is suspended, by its home.
    ///
    /// # Safety
    /// - It is one of these.
    pub(crate) unsafe fn wait(&self) -> *const TaskWait {
        // SAFETY: - I3; the release of the owner's share publishes it to the last one.
        unsafe { self.place.with(|place| (*place).wait) }
    }

    /// What memory the node is in, as it was created with.
    #[inline]
    pub(crate) fn memory(&self) -> u8 {
        // ORDERING: Relaxed - these bits are not written after the creation.
        self.flags.load(Relaxed) >> MEMORY
    }

    /// The owner's description, if it has one.
    #[inline]
    pub(crate) fn description(&self) -> Option<*mut ()> {
        // ORDERING: Relaxed - this bit, and with it the pointer, is not written after the creation.
        let is_described = self.flags.load(Relaxed) & DESCRIBED != 0;
        // ORDERING: Relaxed - as above.
        is_described.then(|| self.panic.load(Relaxed))
    }

    #[inline]
    fn panic_word(&self) -> &PanicWord {
        match self.description() {
            // SAFETY: - `described`.
            Some(description) => unsafe { &*description.cast_const().cast() },
            None => &self.panic,
        }
    }

    /// Keeps a payload for the joiner at this node; the first one wins. One exchange: a child that
    /// is forked meanwhile finds a whole payload, or none.
    #[cold]
    pub(crate) fn keep_panic(&self, payload: Payload) {
        let kept = Box::into_raw(Box::new(payload));
        let word = self.panic_word();
        // ORDERING: Release - pairs with `take_panic`; the share that the caller holds is given up
        // after this. Relaxed: nothing is read.
        if word.compare_exchange(ptr::null_mut(), kept.cast(), Release, Relaxed).is_err() {
            // SAFETY: - made above, and not given away.
            discard(*unsafe { Box::from_raw(kept) });
        }
    }

    /// The payload of the first child that panicked. By the owner, or by the thread that finishes
    /// the nano-thread.
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        let word = self.panic_word();
        // ORDERING: Acquire - pairs with `keep_panic`.
        let kept = word.load(Acquire);
        if kept.is_null() {
            return None;
        }
        // ORDERING: Relaxed - only the owner takes, and a payload that is there is not replaced.
        word.store(ptr::null_mut(), Relaxed);
        // SAFETY: - made by `keep_panic`, and taken once.
        Some(*unsafe { Box::from_raw(kept.cast::<Payload>()) })
    }

    /// It has a target from now on. By the owner, while it runs.
    pub(super) fn mark_as_target(&self) {
        // ORDERING: Relaxed - the release of the owner's share publishes it to the thread that ends
        // the node.
        self.flags.fetch_or(TARGET, Relaxed);
    }

    /// Whether it has a target. By the thread that ends it.
    #[inline]
    pub(super) fn is_target(&self) -> bool {
        // ORDERING: Relaxed - see `mark_as_target`.
        self.flags.load(Relaxed) & TARGET != 0
    }

    /// Asks all descendants not to start.
    pub(crate) fn cancel(&self) {
        // ORDERING: Relaxed - a request; a thread that must see it at once has to be told by other
        // means.
        self.flags.fetch_or(CANCELLED, Relaxed);
    }

    /// True when this node or one above it is cancelled. Cost: one load for each level.
    ///
    /// # Safety
    /// - The caller holds a share of this node, or is its owner: so all nodes above are live.
    pub(crate) unsafe fn is_cancelled(&self) -> bool {
        let mut node: *const Node = self;
        while !node.is_null() {
            // SAFETY: - caller's contract: a node holds a share of the node above it.
            let this = unsafe { &*node };
            // ORDERING: Relaxed - see `cancel`.
            if this.flags.load(Relaxed) & CANCELLED != 0 {
                return true;
            }
            node = this.up;
        }
        false
    }
}
