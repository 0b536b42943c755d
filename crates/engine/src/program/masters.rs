//! The outermost masters of the program: how many there are, what they hold, and what they want.

use crate::protocols::shares::{Share, Shares};
use platform::affinity;
use platform::lock::Mutex;
use platform::sync::CachePadded;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, PoisonError};

/// See the module head.
pub(crate) struct Masters {
    /// Alive.
    count: AtomicUsize,
    /// What each of several holds. On lines of its own: all of them write there.
    shares: CachePadded<Shares>,
    /// Sum of what they could use.
    wanted: AtomicUsize,
    /// See [`Masters::changing_seats`].
    seats: Mutex<()>,
}

impl Masters {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            shares: CachePadded::new(Shares::new()),
            wanted: AtomicUsize::new(0),
            seats: Mutex::new(()),
        }
    }

    /// Counts a new one, the calling thread.
    pub(crate) fn enroll(&self) -> Arc<Share> {
        let share = self.shares.enroll(Some(affinity::current_tid()));
        // ORDERING: Relaxed - a number on its own, here and in `dismiss`, `are_one` and `count`.
        self.count.fetch_add(1, Relaxed);
        share
    }

    /// Uncounts one that ended.
    pub(crate) fn dismiss(&self, share: &Arc<Share>) {
        self.count.fetch_sub(1, Relaxed);
        self.shares.dismiss(share);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// True when one thread at most forks outermost regions: then nothing has to be counted.
    #[inline]
    pub(crate) fn are_one(&self) -> bool {
        self.count.load(Relaxed) <= 1
    }

    /// How several share what there is.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Changes what one could use from `before` to `now`. Returns the sum (D6).
    pub(crate) fn want(&self, before: usize, now: usize) -> usize {
        let change = now.wrapping_sub(before);
        // ORDERING: Relaxed - a number on its own; the request carries it.
        self.wanted.fetch_add(change, Relaxed).wrapping_add(change)
    }

    /// Seats change hands one at a time: two masters that gave the same seat away at once would
    /// leave it with both.
    pub(crate) fn changing_seats(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
