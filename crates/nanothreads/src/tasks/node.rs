//! A node of the tree of nano-threads: what children report to, and where their creator waits.
//!
//! Each nano-thread has one for its children; a group of tasks and the body of a scope have one,
//! too. A child holds a share of its parent's [`Inputs`] until it is finished, which is when its
//! body and all its own children are. So the number that a waiting creator needs is always in its
//! own counter (F8), and nothing is counted for the whole team. A member that ends many children of
//! one node gives their shares up together ([`held`](super::held)).
//!
//! # What touches what
//! `inputs`, `cancelled`, `panic`: any thread that holds a share. `phase`: written by the
//! owner's thread before it gives its share up; read by the last one. `waiter`, `signalled`,
//! `credits`: the home's thread only. `link`: the inbox.
//!
//! # Invariants
//! I1  A thread that holds no share does not touch a node: it may be on the stack of a waiting
//!     nano-thread.
//! I2  The last one touches it only until it has woken the waiter.

use crate::tasks::descriptor::NanoPtr;
use crate::tasks::inputs::Inputs;
use crate::tasks::ready::inbox::Item;
use engine::panics::{Payload, discard};
use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32,
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
    /// The member on whose thread the owner runs; set when it starts.
    home: AtomicU32,
    /// Descendants that have not started are not to be started any more.
    cancelled: AtomicBool,
    /// The payload of the first child that panicked, in a box of its own.
    panic: AtomicPtr<Payload>,
    /// The node that this one belongs to; null for the body of a scope.
    pub(crate) up: *const Node,
    /// The nano-thread that was switched away from to wait here. `None`: the wait watches
    /// `signalled`.
    waiter: Cell<Option<NanoPtr>>,
    signalled: Cell<bool>,
    /// Shares that the owner holds for children to come, beside its own.
    credits: Cell<u8>,
    link: HandCell<*const Node>,
}

// SAFETY: - `link` is never handed out to anything but the inbox, which is why this is its only
// user.
unsafe impl Item for Node {
    fn link(&self) -> &HandCell<*const Self> {
        &self.link
    }
}

impl Node {
    /// A node below `up` whose owner has not started.
    pub(crate) fn new(up: *const Node) -> Self {
        Self {
            inputs: Inputs::new(),
            phase: AtomicU8::new(Phase::New as u8),
            home: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            panic: AtomicPtr::new(ptr::null_mut()),
            up,
            waiter: Cell::new(None),
            signalled: Cell::new(false),
            credits: Cell::new(0),
            link: HandCell::new(ptr::null()),
        }
    }

    /// A node below `up` whose owner runs on member `home` now.
    pub(crate) fn running(up: *const Node, home: u32) -> Self {
        let node = Self::new(up);
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
    /// others, and returns when the node is signalled: to `waiter`, or, without one, by
    /// [`Self::is_signalled`].
    #[inline]
    pub(crate) fn await_children(
        &self,
        waiter: impl FnOnce() -> Option<NanoPtr>,
        leave: impl FnOnce(Option<NanoPtr>),
    ) {
        if self.inputs.is_only(self.own_shares()) {
            return;
        }
        let waiter = waiter();
        self.waiter.set(waiter);
        self.signalled.set(false);
        self.set_phase(Phase::Waiting);
        // F8: the creator is its children's successor; it gives up its own share of its counter.
        if !self.inputs.release(self.own_shares()) {
            leave(waiter);
        }
        // The counter fell to zero: the owner runs again.
        self.credits.set(0);
        self.set_phase(Phase::Running);
        self.inputs.restore();
    }

    /// The wait is over. On the home's thread: returns the nano-thread to be resumed, if it was
    /// switched away from.
    pub(crate) fn signal(&self) -> Option<NanoPtr> {
        let waiter = self.waiter.take();
        self.signalled.set(waiter.is_none());
        waiter
    }

    /// On the home's thread.
    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.get()
    }

    /// Keeps a payload for the joiner at this node; the first one wins. One exchange: a child that
    /// is forked meanwhile finds a whole payload, or none.
    #[cold]
    pub(crate) fn keep_panic(&self, payload: Payload) {
        let kept = Box::into_raw(Box::new(payload));
        // ORDERING: Release - pairs with `take_panic`; the share that the caller holds is given up
        // after this. Relaxed: nothing is read.
        if self.panic.compare_exchange(ptr::null_mut(), kept, Release, Relaxed).is_err() {
            // SAFETY: - made above, and not given away.
            discard(*unsafe { Box::from_raw(kept) });
        }
    }

    /// The payload of the first child that panicked. By the owner, or by the thread that finishes
    /// the nano-thread.
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        // ORDERING: Acquire - pairs with `keep_panic`.
        let kept = self.panic.load(Acquire);
        if kept.is_null() {
            return None;
        }
        // ORDERING: Relaxed - only the owner takes, and a payload that is there is not replaced.
        self.panic.store(ptr::null_mut(), Relaxed);
        // SAFETY: - made by `keep_panic`, and taken once.
        Some(*unsafe { Box::from_raw(kept) })
    }

    /// Asks all descendants not to start.
    pub(crate) fn cancel(&self) {
        // ORDERING: Relaxed - a request; a thread that must see it at once has to be told by other
        // means.
        self.cancelled.store(true, Relaxed);
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
            if this.cancelled.load(Relaxed) {
                return true;
            }
            node = this.up;
        }
        false
    }
}
