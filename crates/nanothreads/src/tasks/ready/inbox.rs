//! The inbox of a member: started nano-threads that others made ready. Only their home may resume
//! them.
//!
//! # Protocol
//! 1. `push` (any thread): writes the item's link, then swings `head` to it (B1).
//! 2. `drain` (the owner): one look at `head`; if there is anything, swaps it for null (B2) and
//!    walks the chain.
//!
//! # Invariants
//! I1  An item is in at most one inbox, once: the thread that brought its counter to zero pushes it
//!     (`Inputs`).
//! I2  After B1 the pusher does not touch the item again: the owner may have moved it on.
//!
//! # Orderings
//! B1 Release with B2 Acquire: the owner sees the link, and what the pusher did. The whole chain is
//! taken at once, so an item that comes back meanwhile (ABA) cannot confuse a walk.

use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};
use std::ptr;

/// Things that can lie in an inbox.
///
/// # Safety
/// - `link` returns the same cell each time, which nothing but the inbox uses.
pub(crate) unsafe trait Item: Sized {
    /// The item's link.
    fn link(&self) -> &HandCell<*const Self>;
}

/// See the module head.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    head: AtomicPtr<T>,
}

impl<T: Item> Inbox<T> {
    /// An empty inbox.
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Puts `item` in. Lock-free; any thread. The caller then notifies the owner's wait point.
    ///
    /// # Safety
    /// - `item` is live until it is drained, and in no inbox (I1). After the call it may be gone
    ///   (I2).
    pub(crate) unsafe fn push(&self, item: *const T) {
        // ORDERING: Relaxed - the exchange below decides.
        let mut head = self.head.load(Relaxed);
        loop {
            // SAFETY: - the item is live (caller's contract), and its link is ours until B1.
            let link = unsafe { (*item).link() };
            // SAFETY: - as above.
            unsafe { link.with_mut(|next| *next = head) };
            // ORDERING: Release (B1) - pairs with B2.
            match self.head.compare_exchange_weak(head, item.cast_mut(), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Calls `take` with each item, newest first; false when there was none. Cost when empty: one
    /// load of a line in the own cache.
    ///
    /// # Safety
    /// - The caller is the owner.
    #[inline]
    pub(crate) unsafe fn drain(&self, mut take: impl FnMut(*const T)) -> bool {
        // ORDERING: Relaxed - a hint; the swap reads again.
        if self.head.load(Relaxed).is_null() {
            return false;
        }
        // ORDERING: Acquire (B2) - pairs with B1.
        let mut item = self.head.swap(ptr::null_mut(), Acquire).cast_const();
        while !item.is_null() {
            // SAFETY: - drained items are ours, and live until `take` moves them on.
            let link = unsafe { (*item).link() };
            // SAFETY: - as above.
            let next = unsafe { link.with(|next| *next) };
            take(item);
            item = next;
        }
        true
    }
}

impl<T: Item> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}
