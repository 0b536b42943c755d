//! The counter of a nano-thread: what must still happen before it goes on.
//!
//! # Protocol (F8)
//! One counter serves three purposes, one after the other, because all of them mean "the thread
//! that brings it to zero moves the nano-thread on":
//! 1. Before the start: one share for the creation, one for each unfinished predecessor. Zero: it
//!    is ready.
//! 2. While it runs: one share of its own, one for each unfinished child. A creator adds a share to
//!    its *own* counter and thereby becomes the successor of the new thread. When it waits for its
//!    children it gives its own share up; zero: it goes on, and takes its share again.
//! 3. After its end: its own share is given up. Zero: it is finished, and its successors lose one
//!    dependence each.
//!
//! # Invariants
//! I1  A thread that adds a share holds one: a counter whose last share was given up changes only
//!     by `restore`.
//! I2  `restore` is called only by the thread to which `release` said that it was the last: no
//!     other thread holds a share then.
//!
//! # Orderings
//! `release` is a Release (what the holder of the share did) and an Acquire (the last one sees what
//! all others did). Adding and releasing are read-modify-writes, so between two plain stores each
//! release stays visible to the last one.
//!
//! The near forms load, and store plainly (`restore` does, too); `is_only` carries these:
//! A1  A thread that holds `own` shares and reads `own` reads the last write: by I1 any other share
//!     keeps the counter above it until it is released. So its Acquire sees every release since the
//!     last store, as a `release` of the last share would have.
//! A2  A plain store ends the releases before it as something to read from. The thread that stores
//!     has acquired them (A1, or a `release` that was the last), and passes them on with its own
//!     share: it is the last one itself, or the last one reads its `release` or a later one.

use platform::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// See the module head.
#[derive(Debug)]
pub(crate) struct Inputs(AtomicUsize);

impl Inputs {
    /// A counter with one share, which the caller holds.
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(1))
    }

    /// Adds `count` shares; the caller holds another one (I1). Cost: one atomic add.
    #[inline]
    pub(crate) fn add(&self, count: usize) {
        // ORDERING: Relaxed - publishes nothing; the shares themselves are handed on by other
        // means.
        self.0.fetch_add(count, Relaxed);
    }

    /// Gives `count` shares up; true for the last one, which has to move the nano-thread on. Cost:
    /// one atomic subtraction.
    #[inline]
    #[must_use = "the thread that gives up the last share has to move the nano-thread on"]
    pub(crate) fn release(&self, count: usize) -> bool {
        // ORDERING: AcqRel (release) - pairs with itself: see the module head.
        self.0.fetch_sub(count, AcqRel) == count
    }

    /// As [`Self::release`], for a counter that was changed here last, most likely. Cost: one load
    /// when no other thread holds a share, for then no thread changes the counter any more; it does
    /// not fall to zero in that case.
    #[inline]
    #[must_use = "the thread that gives up the last share has to move the nano-thread on"]
    pub(crate) fn release_near(&self, count: usize) -> bool {
        self.is_only(count) || self.release(count)
    }

    /// As [`Self::add`], by the owner of the counter, which holds `own` shares. Cost: a load and a
    /// store when no other thread holds one.
    #[inline]
    pub(crate) fn add_near(&self, own: usize, count: usize) {
        if self.is_only(own) {
            // ORDERING: Relaxed - no other thread holds a share, and so none writes; what was
            // released is acquired (A2).
            self.0.store(own + count, Relaxed);
        } else {
            self.add(count);
        }
    }

    /// Makes the counter whose last share was given up hold one share again (I2).
    #[inline]
    pub(crate) fn restore(&self) {
        // ORDERING: Relaxed - no other thread looks at the counter now (I2); what was released is
        // acquired (A2).
        self.0.store(1, Relaxed);
    }

    /// True when the caller's `count` shares are the only ones: nothing is left to wait for.
    #[inline]
    pub(crate) fn is_only(&self, count: usize) -> bool {
        // ORDERING: Acquire (is_only) - may stand for the wait, and for a `release` of the last
        // share (A1); pairs with `release`.
        self.0.load(Acquire) == count
    }
}

impl Default for Inputs {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_share_moves_the_nano_thread_on() {
        let inputs = Inputs::new();
        inputs.add(1);
        inputs.add(3);
        assert!(!inputs.is_only(1));
        assert!(!inputs.release(1));
        assert!(!inputs.release(2));
        assert!(inputs.is_only(2));
        assert!(inputs.release(2));
        inputs.restore();
        assert!(inputs.release(1));
    }

    #[test]
    fn the_near_forms_count_alike() {
        let inputs = Inputs::new();
        inputs.add_near(1, 4);
        assert!(!inputs.release_near(3));
        inputs.add_near(1, 2);
        assert!(inputs.is_only(4));
        assert!(inputs.release_near(4));
        inputs.restore();
        assert!(inputs.is_only(1));
        assert!(inputs.release_near(1));
    }
}
