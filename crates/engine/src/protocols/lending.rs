//! What a master lends to the masters inside its region: the workers that its current team does not
//! use.
//!
//! # Protocol
//! 1. `lend` (the lender, no region of it open): voids what was lent before by a new number, puts
//!    the rest on the list (G1).
//! 2. `borrow` (a member that forks, while the lender's region is open): takes up to an equal share
//!    off the list (G2), and keeps it for its next forks, beside the number (`generation`) under
//!    which it was lent (G3). Members that are masters of more than that, of threads without a
//!    processor, enroll, and show each other when their regions are open: where those threads sit
//!    depends on it (`placement/beyond.rs`).
//! 3. A member that finds another number than the one it keeps (G3) forgets what it borrowed under
//!    the old one.
//! 4. A member notes how many processors the lender's region could use with all that it forks
//!    inside (G4): the lender asks for more at a later fork, and has more to lend.
//!
//! # Invariants
//! G-I1 A worker is in the reach of one master at a time: the lender lends only what its
//!       own team does not use, each entry of the list is taken once, and the lender takes back (1)
//!       only when all inner regions are joined.
//!
//! # Orderings
//! | access | order | other end |
//! |---|---|---|
//! | G1 `generation`, `surplus` store | Relaxed: before the fork whose supply (Release) the members see (Acquire) | G2, G3 |
//! | G4 `wanted` | Relaxed: a number on its own; a lender that misses it finds it at the fork after the next | the lender's look |
//! | what masters show | Relaxed: numbers on their own; a master that misses one sees it at the end of its region, or some regions later | the others' looks |
//! | lists | under the lock | |
//!
//! A taken-back worker's last region is joined by its borrower before the borrower arrives at the
//! lender's join: the lender may supply it at once.
//!
//! # Papers
//! P1 section 3.1.1 (F4: groups; any processor supplies any other).

use crate::process::new_generation;
use platform::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use platform::sync::{CachePadded, Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};

/// See the module head. `T` is what is lent.
#[derive(Debug)]
pub(crate) struct Lender<T> {
    lending: Mutex<Lending<T>>,
    /// Number of the current lending; another number voids all that was lent.
    generation: AtomicU64,
    /// What may be lent now: lets a member that finds 0 go on without the lock.
    surplus: AtomicU32,
    /// How many masters are enrolled.
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
    /// Masters that have more than what is lent now.
    masters: Vec<Arc<Activity>>,
}

/// What a master that has more than what is lent to it shows the others of its kind: how often a
/// region with that began or ended, odd while one is open. Writer: that master.
#[derive(Debug)]
pub(crate) struct Activity(CachePadded<AtomicU32>);

impl Activity {
    /// A region begins or ends.
    pub(crate) fn change(&self) {
        // ORDERING: Relaxed, both - see the module head.
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// What a master's others showed at a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    open: usize,
    /// Sum of their numbers.
    changes: u32,
}

impl Others {
    /// True when one of them had a region open.
    pub(crate) fn is_open(self) -> bool {
        self.open > 0
    }
}

impl<T: Copy> Default for Lender<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Lender<T> {
    /// One that lends nothing.
    pub(crate) fn new() -> Self {
        Self {
            lending: Mutex::new(Lending { free: Vec::new(), share: 0, masters: Vec::new() }),
            generation: AtomicU64::new(new_generation()),
            surplus: AtomicU32::new(0),
            masters: AtomicU32::new(0),
            wanted: AtomicUsize::new(0),
        }
    }

    /// Step 4. Cost when it is nothing new: a load.
    #[inline]
    pub(crate) fn note_wanted(&self, processors: usize) {
        // ORDERING: Relaxed, both (G4) - see the module head.
        if self.wanted.load(Relaxed) < processors {
            self.wanted.fetch_max(processors, Relaxed);
        }
    }

    /// The most that members noted since [`Lender::take_wanted`]. Cost: a load.
    #[inline]
    pub(crate) fn wanted(&self) -> usize {
        // ORDERING: Relaxed (G4) - see the module head.
        self.wanted.load(Relaxed)
    }

    /// The same, and begins anew.
    pub(crate) fn take_wanted(&self) -> usize {
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

    /// Step 1: lends `spare`, of which each of `members` may take an equal share, and takes back
    /// all that was lent. The caller is the lender, and all regions inside its last one are joined.
    /// Cost: an uncontended lock.
    pub(crate) fn lend(&self, spare: &[T], members: usize) {
        let mut lending = self.lending();
        lending.free.clear();
        lending.free.extend_from_slice(spare);
        lending.share = spare.len().div_ceil(members.max(1));
        lending.masters.clear();
        self.publish_masters(&lending);
        // ORDERING: Relaxed (G1) - read by members of the region whose slots are supplied after
        // this.
        self.generation.store(new_generation(), Relaxed);
        self.publish_surplus(&lending);
    }

    /// Step 2: up to `wanted`, for a member that borrowed `has` already, at most the equal share in
    /// all; neighbours, in order. Cost when nothing is left: one load.
    pub(crate) fn borrow(&self, wanted: usize, has: usize) -> Vec<T> {
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

    /// Enrolls a member that is the master of more than what it could borrow, until it drops what
    /// it gets.
    pub(crate) fn enroll(&self) -> Arc<Activity> {
        let own = Arc::new(Activity(CachePadded::new(AtomicU32::new(0))));
        let mut lending = self.lending();
        lending.masters.retain(|master| Arc::strong_count(master) > 1);
        lending.masters.push(Arc::clone(&own));
        self.publish_masters(&lending);
        own
    }

    fn publish_masters(&self, lending: &Lending<T>) {
        // ORDERING: Relaxed - a hint, for placement.
        self.masters.store(u32::try_from(lending.masters.len()).unwrap_or(u32::MAX), Relaxed);
    }

    /// How many are enrolled, at most; some may have left since the last one came. Cost: one load,
    /// of the line of the number.
    #[inline]
    pub(crate) fn masters(&self) -> u32 {
        // ORDERING: Relaxed - as above.
        self.masters.load(Relaxed)
    }

    /// What the others than `own` show; `None` when another one looks just now. Cost where no other
    /// master is enrolled: one load.
    pub(crate) fn others(&self, own: &Arc<Activity>) -> Option<Others> {
        if self.masters() < 2 {
            return Some(Others::default());
        }
        let lending = self.lending.try_lock().ok()?;
        let mut seen = Others::default();
        for other in lending.masters.iter().filter(|other| !Arc::ptr_eq(other, own)) {
            // ORDERING: Relaxed - see the module head.
            let changes = other.0.load(Relaxed);
            seen.open += usize::from(!changes.is_multiple_of(2));
            seen.changes = seen.changes.wrapping_add(changes);
        }
        Some(seen)
    }

    /// Step 3: the number under which things are lent now. Cost: one load.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        // ORDERING: Relaxed (G3) - written before the slot of the region that the caller is in was
        // supplied.
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

#[cfg(all(test, loom))]
mod model;
