//! Which master has its workers, and how another one takes them from a master that has no region
//! open, without a word of that one.
//!
//! A master keeps its workers for its next region, which then only writes to them. A master that
//! lacks some takes those of an idle one, which may sleep for ever, and so cannot be asked. The
//! owner forks often and the taker comes rarely, so the owner has plain accesses to two words that
//! it needs anyway: how many of its regions are open (`depth`), and at which depth it is a root
//! (`root`, which is 0 outside regions on a thread of the program). The taker pays for both.
//!
//! # Protocol
//! The owner, outside regions, with workers that it has made known to takers:
//! - D1 it writes to `depth` that a region is open; D2 compiler fence; D3 it reads `root`. If that
//!   is not [`LOST`] the workers are its own until D4. Else it undoes D1 by D4 and comes back.
//! - D4 when it is done with the region, and with all that rode home on its workers' lines, it
//!   writes to `depth` that none is open.
//! - *Coming back* is D1, then, under the lock of the list in which the workers stand: it looks
//!   there whether they were taken, forgets them if so, and C1 writes 0 to `root`. It then makes
//!   room for its team as if it were its first.
//!
//! A taker, under that lock:
//! - T1 it changes `root` from 0 to [`LOST`] (a compare-and-swap; it fails inside an explicit
//!   group); T2 heavy fence; T3 it reads `depth`. If that is 0, the workers are the taker's, and it
//!   says so in the list. Else it goes on elsewhere, and leaves `LOST` for the owner to find: that
//!   comes back once for nothing.
//! - A look at `depth` before T1 keeps takers from most masters that are busy.
//!
//! An owner that leads an explicit group, or visits, has another `root` for that time: it swaps the
//! words (L1), and puts back what it found.
//!
//! # Invariants
//! - U-I1 Between a D3 that did not find `LOST`, and D4, no other thread has the workers.
//! - U-I2 After a T3 that found 0 the owner does not use them before it has come back.
//!
//! # Races
//! *A fork and a taker.* A (owner) is between D1 and D3, B (taker) between T1 and T3. By the fences
//! either A sees `LOST`, or B sees the open region, or both: then nothing is taken, and A comes
//! back for nothing.
//!
//! *Results on the lines.* A's region is joined, and its result still stands in a worker's line. B
//! takes the worker and supplies it, over the result. So D4 is after the result was taken, not
//! after the join.
//!
//! *An explicit group.* A has read `root` (0) to keep it, B does T1, A writes the group's depth and
//! later the 0 again, and D4. B sees the depth 0 at T3, and takes the workers; A's next D3 finds 0.
//! With an exchange A has kept `LOST`, and puts that back.
//!
//! *Two takers, or a taker and an owner that comes back.* The lock is between them.
//!
//! # Orderings
//! D1, D3: Relaxed, T1 and T3 ordered by the fence pair. D4 Release with T3 Acquire: what the owner
//! and its workers did comes before what the taker does with them. T1, C1, L1: Relaxed; what was
//! taken is told under the lock.
//!
//! D2 is a compiler fence whatever the kernel can do: where it refuses the barrier nothing is taken
//! ([`membarrier::try_heavy`]).

use platform::membarrier;
use platform::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// No depth at all.
pub(crate) const NOWHERE: usize = usize::MAX;

/// Another master may have taken the workers.
const LOST: usize = usize::MAX - 1;

/// See the module head. Belongs to one master; two words of lines that it writes in each region.
#[derive(Debug)]
pub(crate) struct Custody {
    /// Open regions of more than one thread that the owner is the master of.
    depth: AtomicUsize,
    /// The depth at which it is a root: 0 on threads of the program, [`NOWHERE`] on a worker, until
    /// it leads a group.
    root: AtomicUsize,
}

/// What became of an attempt to take a master's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// They are the taker's.
    Taken,
    /// The owner has a region open, or leads a group.
    Busy,
    /// The kernel has no such barrier.
    Refused,
}

impl Custody {
    /// Of a master that is a root at depth `root`.
    pub(crate) fn new(root: usize) -> Self {
        Self { depth: AtomicUsize::new(0), root: AtomicUsize::new(root) }
    }

    /// How many regions are open. By the owner.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        // ORDERING: Relaxed - the own word.
        self.depth.load(Relaxed)
    }

    /// D1 and D2: another one is. Returns how many were.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        let depth = self.depth();
        // ORDERING: Relaxed (D1) - ordered by the fence.
        self.depth.store(depth + 1, Relaxed);
        // ORDERING: light fence (D2) - pairs with T2.
        membarrier::compiler_only();
        depth
    }

    /// D4: `depth` are open.
    #[inline]
    pub(crate) fn close(&self, depth: usize) {
        // ORDERING: Release (D4) - pairs with T3.
        self.depth.store(depth, Release);
    }

    /// True where the owner is a root at `depth`. D3, for a region that was opened there.
    #[inline]
    pub(crate) fn is_root_at(&self, depth: usize) -> bool {
        // ORDERING: Relaxed (D3) - ordered by the fence.
        self.root.load(Relaxed) == depth
    }

    /// True when the owner has to come back before its next region. D3, as above.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        // ORDERING: Relaxed (D3) - as above.
        self.root.load(Relaxed) == LOST
    }

    /// L1: the owner is a root at `root` for a while. Returns what to swap back.
    pub(crate) fn swap_root(&self, root: usize) -> usize {
        // ORDERING: Relaxed (L1) - a taker changes it from 0 only.
        self.root.swap(root, Relaxed)
    }

    /// C1: the owner, which has a region open, knows what was taken. Under the lock.
    pub(crate) fn come_back(&self) {
        // ORDERING: Relaxed (C1) - the owner's next D3 is its own, and takers have the lock.
        self.root.store(0, Relaxed);
    }

    /// T1 to T3. Under the lock.
    pub(crate) fn take(&self) -> Outcome {
        // ORDERING: Relaxed - a hint.
        if self.depth.load(Relaxed) != 0 {
            return Outcome::Busy;
        }
        // ORDERING: Relaxed (T1) - ordered by the fence.
        if self.root.compare_exchange(0, LOST, Relaxed, Relaxed).is_err() {
            return Outcome::Busy;
        }
        // ORDERING: heavy fence (T2) - pairs with D2.
        if !membarrier::try_heavy() {
            return Outcome::Refused;
        }
        // ORDERING: Acquire (T3) - pairs with D4.
        if self.depth.load(Acquire) == 0 { Outcome::Taken } else { Outcome::Busy }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn workers_are_taken_outside_regions_alone_and_their_owner_finds_out_at_its_next() {
        let custody = Custody::new(0);
        let depth = custody.open();
        assert_eq!(custody.take(), Outcome::Busy, "a region is open");
        assert!(custody.is_root_at(depth) && !custody.is_lost());
        custody.close(depth);
        if custody.take() == Outcome::Refused {
            return platform::skip!("the kernel refuses membarrier: nothing is taken");
        }
        assert_eq!(custody.take(), Outcome::Busy, "once");
        let depth = custody.open();
        assert!(custody.is_lost() && !custody.is_root_at(depth));
        custody.come_back();
        assert!(custody.is_root_at(depth));
        custody.close(depth);
    }

    #[test]
    fn a_taker_leaves_explicit_groups_and_workers_alone() {
        let custody = Custody::new(0);
        assert_eq!(custody.swap_root(1), 0);
        assert_eq!(custody.take(), Outcome::Busy);
        custody.swap_root(0);
        assert_eq!(Custody::new(NOWHERE).take(), Outcome::Busy);
    }
}

#[cfg(all(test, loom))]
mod model;
