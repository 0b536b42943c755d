//! What a master lends to the masters inside its region: the virtual processors that its current team does not use.
//!
//! # Protocol
//! 1. `lend` (the lender, no region of it open): voids what was lent before by a new number, puts the rest on the list (G1).
//! 2. `borrow` (a member that forks, while the lender's region is open): takes up to an equal share off the list (G2),
//!    and keeps it for its next forks, beside the number (`generation`) under which it was lent (G3).
//!    Members that are masters of more than that, of threads without a processor, count themselves: where those sit depends on it
//!    (`placement.rs`, `Home::beyond`).
//! 3. A member that finds another number than the one it keeps (G3) forgets what it borrowed under the old one.
//! 4. A member notes how many processors the lender's region could use with all that it forks inside (G4): the lender asks for
//!    more at a later fork, and has more to lend.
//!
//! # Invariants
//! G-I1  A virtual processor is in the reach of one master at a time: the lender lends only what its own team does not
//!       use, each entry of the list is taken once, and the lender takes back (1) only when all inner regions are joined.
//!
//! # Orderings
//! | access | order | other end |
//! |---|---|---|
//! | G1 `generation`, `surplus` store | Relaxed: before the fork whose supply (Release) the members see (Acquire) | G2, G3 |
//! | G4 `wanted` | Relaxed: a number on its own; who misses it finds it at the fork after the next | the lender's look |
//! | list | under the lock | |
//! A taken-back virtual processor's last region is joined by its borrower before the borrower arrives at the lender's
//! join: the lender may supply it at once.
//!
//! # Papers
//! P1 section 3.1.1 (F4: groups; any processor supplies any other).

use crate::engine_state::new_generation;
use platform::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use platform::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

/// See the module head. `T` is what is lent.
#[derive(Debug)]
pub struct Lender<T> {
    lending: Mutex<Lending<T>>,
    /// Number of the current lending; another number voids all that was lent.
    generation: AtomicU64,
    /// What may be lent now: lets a member that finds 0 go on without the lock.
    surplus: AtomicU32,
    /// Masters inside the lender's region that have more than what is lent now.
    masters: AtomicU32,
    /// The most that a member noted since the lender took the note.
    wanted: AtomicUsize,
}

#[derive(Debug)]
struct Lending<T> {
    /// What the lender's current team does not use, not lent yet.
    free: Vec<T>,
    /// What one member may take: an equal share.
    share: usize,
}

impl<T: Copy> Default for Lender<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Lender<T> {
    /// One that lends nothing.
    pub fn new() -> Self {
        Self {
            lending: Mutex::new(Lending { free: Vec::new(), share: 0 }),
            generation: AtomicU64::new(new_generation()),
            surplus: AtomicU32::new(0),
            masters: AtomicU32::new(0),
            wanted: AtomicUsize::new(0),
        }
    }

    /// Step 4. Cost when it is nothing new: a load.
    #[inline]
    pub fn note_wanted(&self, processors: usize) {
        // ORDERING: Relaxed, both (G4) - see the module head.
        if self.wanted.load(Relaxed) < processors {
            self.wanted.fetch_max(processors, Relaxed);
        }
    }

    /// The most that members noted since [`Lender::take_wanted`]. Cost: a load.
    #[inline]
    pub fn wanted(&self) -> usize {
        // ORDERING: Relaxed (G4) - see the module head.
        self.wanted.load(Relaxed)
    }

    /// The same, and begins anew.
    pub fn take_wanted(&self) -> usize {
        // ORDERING: Relaxed (G4) - see the module head.
        self.wanted.swap(0, Relaxed)
    }

    fn lending(&self) -> MutexGuard<'_, Lending<T>> {
        // The list is whole at every point where a panic could leave it.
        self.lending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_surplus(&self, lending: &Lending<T>) {
        // ORDERING: Relaxed - a hint; the lock decides. See the module head.
        self.surplus.store(u32::try_from(lending.free.len()).unwrap_or(u32::MAX), Relaxed);
    }

    /// Step 1: lends `spare`, of which each of `members` may take an equal share, and takes back all that was lent. The
    /// caller is the lender, and all regions inside its last one are joined. Cost: an uncontended lock.
    pub fn lend(&self, spare: &[T], members: usize) {
        let mut lending = self.lending();
        lending.free.clear();
        lending.free.extend_from_slice(spare);
        lending.share = spare.len().div_ceil(members.max(1));
        // ORDERING: Relaxed - as G1.
        self.masters.store(0, Relaxed);
        // ORDERING: Relaxed (G1) - read by members of the region whose slots are supplied after this.
        self.generation.store(new_generation(), Relaxed);
        self.publish_surplus(&lending);
    }

    /// Step 2: up to `wanted`, for a member that borrowed `has` already, at most the equal share in all; neighbours, in
    /// order. Cost when nothing is left: one load.
    pub fn borrow(&self, wanted: usize, has: usize) -> Vec<T> {
        // ORDERING: Relaxed (G2) - a hint; the lock decides.
        if self.surplus.load(Relaxed) == 0 {
            return Vec::new();
        }
        let mut lending = self.lending();
        let count = wanted.min(lending.share.saturating_sub(has)).min(lending.free.len());
        let group = lending.free.drain(..count).collect();
        self.publish_surplus(&lending);
        group
    }

    /// Counts a member that is the master of more than what it could borrow; returns how many are counted.
    pub fn count_master(&self) -> u32 {
        // ORDERING: Relaxed - a number on its own, for placement.
        self.masters.fetch_add(1, Relaxed) + 1
    }

    /// How many are counted since things were lent last. Cost: one load, of the line of the number.
    #[inline]
    pub fn masters(&self) -> u32 {
        // ORDERING: Relaxed - as above.
        self.masters.load(Relaxed)
    }

    /// Step 3: the number under which things are lent now. Cost: one load.
    #[inline]
    pub fn generation(&self) -> u64 {
        // ORDERING: Relaxed (G3) - written before the slot of the region that the caller is in was supplied.
        self.generation.load(Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn members_borrow_neighbours_up_to_an_equal_share_until_nothing_is_left() {
        let lender = Lender::new();
        assert!(lender.borrow(5, 0).is_empty());
        lender.lend(&[1, 2, 3, 4, 5], 2);
        assert_eq!(lender.borrow(2, 0), [1, 2]);
        assert_eq!(lender.borrow(2, 2), [3]);
        assert!(lender.borrow(9, 3).is_empty(), "the other two are another member's");
        assert_eq!(lender.borrow(9, 0), [4, 5]);
        assert!(lender.borrow(1, 0).is_empty());
    }

    #[test]
    fn what_is_lent_anew_has_another_number() {
        let lender = Lender::new();
        lender.lend(&[1], 1);
        let before = lender.generation();
        assert_eq!(lender.borrow(1, 0), [1]);
        lender.lend(&[1, 2], 1);
        assert_ne!(lender.generation(), before);
        assert_eq!(lender.borrow(2, 0), [1, 2]);
    }
}
