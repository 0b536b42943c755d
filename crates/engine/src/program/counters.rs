//! Counters of what the engine does: a block for each thread, which that thread alone writes,
//! summed on demand.
//!
//! # Orderings
//! All relaxed: each word is a number on its own, with one writer at a time. A block changes its
//! writer when a thread ends, under the list's lock.

use crate::program::statistics::{SIZES, Statistics};
use platform::clock::Ticks;
use platform::lock::Mutex;
use platform::sync::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{MutexGuard, PoisonError};

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, more: u64) {
        // ORDERING: Relaxed - see the module head; no read-modify-write, since no other thread
        // writes.
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    fn get(&self) -> u64 {
        // ORDERING: Relaxed - see the module head.
        self.0.load(Relaxed)
    }
}

/// One thread's block.
#[derive(Debug, Default)]
pub struct Counters {
    regions: [Count; SIZES],
    waits: Count,
    waited_ticks: Count,
    parks: Count,
    wakes: Count,
    steals: Count,
    hand_overs: Count,
    lost_members: Count,
}

impl Counters {
    /// The thread forked a region of `size` threads, at least 2. Cost: three instructions and a few
    /// for the size.
    #[inline]
    pub(crate) fn forked(&self, size: u32) {
        self.regions[Statistics::class_of(size)].add(1);
    }

    /// The thread waited for `ticks`, spinning, asleep or both.
    pub(crate) fn waited(&self, ticks: u64) {
        self.waits.add(1);
        self.waited_ticks.add(ticks);
    }

    /// The thread goes to sleep in the kernel.
    pub(crate) fn parked(&self) {
        self.parks.add(1);
    }

    /// The thread wakes a worker that may be asleep.
    pub(crate) fn woke(&self) {
        self.wakes.add(1);
    }

    /// The thread gave its processor to the one that it waited for.
    pub(crate) fn handed_over(&self) {
        self.hand_overs.add(1);
    }

    /// A member of the thread's team had no processor while the thread waited for it.
    pub(crate) fn lost_member(&self) {
        self.lost_members.add(1);
    }

    /// The thread took work that was queued for another one.
    pub fn stole(&self) {
        self.steals.add(1);
    }
}

/// The blocks of a process.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Never freed: a thread that sums reads them at any time.
    all: Vec<&'static Counters>,
    /// Of threads that ended. Their numbers stay in the sum.
    unused: Vec<&'static Counters>,
}

impl Blocks {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        // Nothing that runs under this lock can panic halfway.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block for the calling thread.
    pub(crate) fn take(&self) -> &'static Counters {
        let mut lists = self.lists();
        lists.unused.pop().unwrap_or_else(|| {
            let block: &'static CachePadded<Counters> = Box::leak(Box::default());
            lists.all.push(block);
            block
        })
    }

    /// Gives the block of a thread that ends back.
    pub(crate) fn give_back(&self, block: &'static Counters) {
        self.lists().unused.push(block);
    }

    /// The sums.
    pub(crate) fn sum(&self) -> Statistics {
        let mut sum = Statistics::default();
        for block in &self.lists().all {
            for (sum, own) in sum.regions.iter_mut().zip(&block.regions) {
                *sum += own.get();
            }
            sum.waits += block.waits.get();
            sum.waited += Ticks::duration(block.waited_ticks.get());
            sum.parks += block.parks.get();
            sum.wakes += block.wakes.get();
            sum.steals += block.steals.get();
            sum.hand_overs += block.hand_overs.get();
            sum.lost_members += block.lost_members.get();
        }
        sum
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_what_ended_threads_counted() {
        let blocks = Blocks::default();
        let first = blocks.take();
        first.forked(2);
        first.forked(16);
        first.parked();
        let second = blocks.take();
        second.forked(2);
        second.woke();
        blocks.give_back(first);
        let third = blocks.take();
        assert!(std::ptr::eq(first, third), "blocks are used again");
        third.stole();
        third.forked(3);
        let sum = blocks.sum();
        assert_eq!(sum.regions[..4], [2, 1, 0, 1]);
        assert_eq!((sum.parks, sum.wakes, sum.steals), (1, 1, 1));
    }
}
