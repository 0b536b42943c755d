//! The call that a member of a region makes at most once, and that the region's master ends.
//!
//! # Protocol
//! 1. The master says that work is being supplied ([`Summons::begin`]), supplies it, and says that
//!    all of it is (R6).
//! 2. A member makes a call (R2, a compare-and-swap: the first one is the region's) and waits until
//!    all work is supplied (R7). After that it may offer the call to members: each of them finds
//!    its own part.
//! 3. The master and other threads look for the call (R3).
//! 4. When all members have arrived the master says that the region is over (R4); those that answer
//!    the call see that (R5) and leave. When the last of them has left the master takes the call
//!    back, and the next region may have one.
//!
//! # Races
//! *A member that has no part yet.* A (master) writes line 1 of 39, and the last one much later. B
//! (worker 1) begins, and calls worker 39, whose line is empty. Without R6 and R7 worker 39 would
//! help until the region is over, which its own part would keep it from being.
//!
//! *A look from before.* A (worker 39) has looked at its line and found nothing; B (master) writes
//! the line, and a member calls; A finds the offer. The caller had seen the line written (R6, R7),
//! and A sees that by the offer: it looks at its line once more.
//!
//! # Orderings
//! R2 Release with R3 Acquire: the call's content. R2 Acquire of a failed exchange is for a caller
//! that finds another's call. R6 Release with R7 Acquire: the lines. R4 and R5 carry no data: what
//! the region wrote is ordered by the arrivals, and what helpers wrote by the ends of their offers.

use platform::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};
use platform::sync::thread;
use std::ptr::{self, NonNull};

/// See the module head. Belongs to one master.
#[derive(Debug)]
pub(crate) struct Summons<C> {
    /// The call of the current region; null: none.
    called: AtomicPtr<C>,
    is_over: AtomicBool,
    /// All members have their work. Writer: the master.
    is_supplied: AtomicBool,
}

impl<C> Summons<C> {
    /// For a master that has no region open.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            called: AtomicPtr::new(ptr::null_mut()),
            is_over: AtomicBool::new(false),
            is_supplied: AtomicBool::new(false),
        }
    }

    /// For a master that has no region open.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            called: AtomicPtr::new(ptr::null_mut()),
            is_over: AtomicBool::new(false),
            is_supplied: AtomicBool::new(false),
        }
    }

    /// A region's work is about to be supplied. By the master, as the next two.
    #[inline]
    pub(crate) fn begin(&self) {
        // ORDERING: Relaxed - members see it with their work.
        self.is_supplied.store(false, Relaxed);
    }

    /// All members have their work.
    #[inline]
    pub(crate) fn supplied(&self) {
        // ORDERING: Release (R6) - the lines; pairs with R7.
        self.is_supplied.store(true, Release);
    }

    /// True when this region has a call. Between the join and [`Self::forget`] it says so for sure.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        // ORDERING: Relaxed - one call is enough, and R2 decides; or the join came before.
        !self.called.load(Relaxed).is_null()
    }

    /// The region's call.
    #[inline]
    pub(crate) fn call(&self) -> Option<NonNull<C>> {
        // ORDERING: Acquire (R3) - pairs with R2.
        NonNull::new(self.called.load(Acquire))
    }

    /// Makes `call` the region's, and returns when all members have their work. By a member, in its
    /// part.
    ///
    /// # Errors
    /// `call`: the region has one.
    pub(crate) fn make(&self, call: Box<C>) -> Result<NonNull<C>, Box<C>> {
        let call = Box::into_raw(call);
        // ORDERING: Release (R2) - the call; pairs with R3.
        if self.called.compare_exchange(ptr::null_mut(), call, Release, Relaxed).is_err() {
            // SAFETY: - made above, and shown to no other thread.
            return Err(unsafe { Box::from_raw(call) });
        }
        // The master is writing the lines of others, unless it was preempted there.
        // ORDERING: Acquire (R7) - pairs with R6: a member that hears of the call finds its line
        // written.
        while !self.is_supplied.load(Acquire) {
            thread::yield_now();
        }
        // SAFETY: - a box is never null.
        Ok(unsafe { NonNull::new_unchecked(call) })
    }

    /// All members have arrived: those that answer shall leave. By the master.
    pub(crate) fn end(&self) {
        // ORDERING: Relaxed (R4) - carries no data.
        self.is_over.store(true, Relaxed);
    }

    /// True when those that answer shall leave.
    pub(crate) fn is_over(&self) -> bool {
        // ORDERING: Relaxed (R5) - carries no data.
        self.is_over.load(Relaxed)
    }

    /// The call, which no thread answers any more; or none: this is a child, which has no members.
    /// By the master.
    pub(crate) fn forget(&self) -> Option<NonNull<C>> {
        // ORDERING: Relaxed - between regions; the join came before.
        self.is_over.store(false, Relaxed);
        let called = self.called.load(Relaxed);
        self.called.store(ptr::null_mut(), Relaxed);
        NonNull::new(called)
    }
}

#[cfg(all(test, loom))]
mod model;
