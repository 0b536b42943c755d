//! The list of those that wait for a nano-thread to finish.
//!
//! # Protocol
//! 1. `push` (the thread that creates a successor): writes the link's `next`, then swings `head` to
//!    it (P1), unless `head` is closed: then the predecessor is finished already and there is
//!    nothing to wait for.
//! 2. `close` (the predecessor, once): swaps `head` for the closed mark (P2) and gets every link
//!    that was pushed.
//!
//! # Invariants
//! I1  A link is pushed at most once, and belongs to the closer from P1 on. So a pusher counts its
//!     dependence *before* it pushes: the closer may release the successor at once.
//! I2  Each pushed link is taken by the one `close`, none twice.
//!
//! # Orderings
//! P1 Release with P2 Acquire: the closer sees the link whole. P2 Release with the Acquire of
//! `push` and `is_closed`: a thread that finds the list closed sees what the predecessor did.
//!
//! # Where links live
//! Inline in the *successor*, the first few; the others in boxes. A successor cannot go away before
//! all its predecessors have taken their links out, so inline ones need no count of references.

use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Release},
};
use std::ptr;

/// One dependence: an element of the predecessor's list.
#[derive(Debug)]
pub(crate) struct Link<T> {
    /// Writer: the pusher before P1, the closer after P2.
    next: HandCell<*mut Link<T>>,
    target: T,
    /// The link is a `Box` of its own, which the closer frees.
    boxed: bool,
}

impl<T> Link<T> {
    /// A link to `target` that its owner keeps in place until `close` has passed it.
    pub(crate) fn inline(target: T) -> Self {
        Self { next: HandCell::new(ptr::null_mut()), target, boxed: false }
    }

    /// A link to `target` that frees itself.
    pub(crate) fn boxed(target: T) -> *mut Self {
        Box::into_raw(Box::new(Self { next: HandCell::new(ptr::null_mut()), target, boxed: true }))
    }

    /// Frees a link that was not pushed, if it is a box.
    ///
    /// # Safety
    /// - `link` is live and was not pushed.
    pub(crate) unsafe fn discard(link: *mut Self) {
        // SAFETY: - caller's contract.
        if unsafe { (*link).boxed } {
            // SAFETY: - made by `boxed`, and nothing else has it.
            drop(unsafe { Box::from_raw(link) });
        }
    }
}

/// See the module head.
#[derive(Debug)]
pub(crate) struct Successors<T> {
    head: AtomicPtr<Link<T>>,
}

fn closed_mark<T>() -> *mut Link<T> {
    ptr::without_provenance_mut(1)
}

impl<T: Copy> Successors<T> {
    /// An open list without successors.
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds a successor; false when the list is closed. Lock-free; any thread.
    ///
    /// # Safety
    /// - `link` is live, out of reach of other threads, and stays in place until `close` has passed
    ///   it.
    pub(crate) unsafe fn push(&self, link: *mut Link<T>) -> bool {
        // ORDERING: Acquire - a thread that finds the list closed sees what the predecessor did
        // (P2).
        let mut head = self.head.load(Acquire);
        while head != closed_mark() {
            // SAFETY: - the link is ours until P1.
            let cell = unsafe { &(*link).next };
            // SAFETY: - as above.
            unsafe { cell.with_mut(|next| *next = head) };
            // ORDERING: Release (P1) - pairs with P2; Acquire on failure as for the load above.
            match self.head.compare_exchange_weak(head, link, Release, Acquire) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
        false
    }

    /// Closes the list and calls `take` with each successor, oldest first. Once.
    pub(crate) fn close(&self, mut take: impl FnMut(T)) {
        // ORDERING: AcqRel (P2) - pairs with P1 and with the threads that find the list closed.
        let mut newest = self.head.swap(closed_mark(), AcqRel);
        debug_assert!(newest != closed_mark(), "a nano-thread finishes once");
        let mut oldest = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: - I1: pushed links are ours.
            let cell = unsafe { &(*newest).next };
            // SAFETY: - as above.
            let older = unsafe { cell.with_mut(|next| std::mem::replace(&mut *next, oldest)) };
            (oldest, newest) = (newest, older);
        }
        while !oldest.is_null() {
            let link = oldest;
            // SAFETY: - I1; read before `take`, which may free the successor and an inline link
            // with it.
            let cell = unsafe { &(*link).next };
            // SAFETY: - as above.
            oldest = unsafe { cell.with(|next| *next) };
            // SAFETY: - as above.
            let target = unsafe { (*link).target };
            // SAFETY: - the link is out of the list: out of reach of other threads.
            unsafe { Link::discard(link) };
            take(target);
        }
    }

    /// True when the predecessor is finished; what it did is visible then.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: Acquire (P3) - pairs with P2.
        self.head.load(Acquire) == closed_mark()
    }
}

impl<T: Copy> Default for Successors<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn successors_come_out_once_and_in_order() {
        let list = Successors::new();
        let mut inline = [Link::inline(0), Link::inline(1)];
        for link in &mut inline {
            // SAFETY: - the array outlives the list's close below.
            assert!(unsafe { list.push(link) });
        }
        for number in 2..5 {
            // SAFETY: - fresh boxes.
            assert!(unsafe { list.push(Link::boxed(number)) });
        }
        let mut seen = Vec::new();
        list.close(|number| seen.push(number));
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_closed_list_takes_no_waiter() {
        let list = Successors::new();
        list.close(|_: u32| panic!("empty"));
        assert!(list.is_closed());
        let late = Link::boxed(7);
        // SAFETY: - a fresh box, discarded because it was not pushed.
        unsafe {
            assert!(!list.push(late));
            Link::discard(late);
        }
    }
}
