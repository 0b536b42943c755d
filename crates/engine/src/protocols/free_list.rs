//! Memory for tasks: free places of one size, which a member's own thread takes and gives back
//! without a lock.
//!
//! Tasks often end on another member than the one that created them. An allocator then takes the
//! creator's lock for each. Here the member that frees a place keeps it. A free list that grows too
//! long puts a batch of places at once into a store, where empty free lists look before they ask
//! for fresh memory.
//!
//! # What touches what
//! [`FreeList`]: its member's thread. [`Store`]: any thread, under its lock, once for a batch.
//!
//! # Not here
//! Where fresh places come from, and when they go: the scheduler of each front end says that.

use platform::lock::Mutex;
use std::cell::Cell;
use std::ptr;
use std::sync::{MutexGuard, PoisonError};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A free place: its first word is a link.
struct Free {
    next: *mut Free,
}

/// Free places that belong to its holder; iterating takes them out.
#[derive(Debug)]
pub struct Batch {
    first: *mut Free,
    count: u32,
}

// SAFETY: - free places, which belong to the thread that holds the batch.
unsafe impl Send for Batch {}

impl Batch {
    /// A batch of these places, the last one first.
    ///
    /// # Safety
    /// - Each is memory that nothing uses, valid until it is taken out for good, and large and
    ///   aligned enough for a pointer.
    pub unsafe fn of(places: impl IntoIterator<Item = *mut u8>) -> Self {
        let mut batch = Self { first: ptr::null_mut(), count: 0 };
        for place in places {
            let free = place.cast::<Free>();
            // SAFETY: - caller's contract.
            unsafe { free.write(Free { next: batch.first }) };
            batch = Self { first: free, count: batch.count + 1 };
        }
        batch
    }
}

impl Iterator for Batch {
    type Item = *mut u8;

    fn next(&mut self) -> Option<*mut u8> {
        let first = self.first;
        // SAFETY: - null or a free place of this batch.
        self.first = unsafe { first.as_ref() }?.next;
        self.count -= 1;
        Some(first.cast())
    }
}

/// Free places of one member: fewer than twice `BATCH`. When it hands out one it starts to fetch
/// the first `FETCHED` bytes of the next one, which another member's cache most likely has.
#[derive(Debug)]
pub struct FreeList<const BATCH: u32, const FETCHED: usize> {
    first: Cell<*mut Free>,
    count: Cell<u32>,
}

impl<const BATCH: u32, const FETCHED: usize> Default for FreeList<BATCH, FETCHED> {
    fn default() -> Self {
        Self { first: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }
}

impl<const BATCH: u32, const FETCHED: usize> FreeList<BATCH, FETCHED> {
    /// A place. `more` is asked where the list is empty, and brings one at least. Cost: a few
    /// instructions beside that.
    #[inline]
    pub fn take(&self, more: impl FnOnce() -> Batch) -> *mut u8 {
        let mut first = self.first.get();
        if first.is_null() {
            let batch = more();
            self.count.set(batch.count);
            first = batch.first;
        }
        // SAFETY: - a free place, of this list or of the batch, which has one.
        let next = unsafe { (*first).next };
        fetch::<FETCHED>(next);
        self.first.set(next);
        self.count.set(self.count.get() - 1);
        first.cast()
    }

    /// Takes a place back. `keep` gets a batch where the list grew too long: the places that were
    /// freed last, which the member that takes them next finds in a cache.
    ///
    /// # Safety
    /// - As for [`Batch::of`].
    #[inline]
    pub unsafe fn give(&self, place: *mut u8, keep: impl FnOnce(Batch)) {
        let free = place.cast::<Free>();
        // SAFETY: - caller's contract.
        unsafe { free.write(Free { next: self.first.get() }) };
        self.first.set(free);
        self.count.set(self.count.get() + 1);
        if self.count.get() >= 2 * BATCH {
            keep(self.shed());
        }
    }

    #[cold]
    fn shed(&self) -> Batch {
        let first = self.first.get();
        let mut last = first;
        for _ in 1..BATCH {
            // SAFETY: - the list has more places than a batch.
            last = unsafe { (*last).next };
        }
        // SAFETY: - as above.
        self.first.set(unsafe { std::mem::replace(&mut (*last).next, ptr::null_mut()) });
        self.count.set(self.count.get() - BATCH);
        Batch { first, count: BATCH }
    }

    /// All that the list has.
    pub fn take_all(&self) -> Batch {
        Batch { first: self.first.replace(ptr::null_mut()), count: self.count.replace(0) }
    }
}

/// Batches for all members of a team.
#[derive(Debug, Default)]
pub struct Store(Mutex<Vec<Batch>>);

impl Store {
    fn batches(&self) -> MutexGuard<'_, Vec<Batch>> {
        // Nothing that runs under the lock panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch, if there is one.
    pub fn take(&self) -> Option<Batch> {
        self.batches().pop()
    }

    /// Keeps `batch`, unless there are `most` already: then it comes back.
    pub fn give(&self, batch: Batch, most: usize) -> Option<Batch> {
        let mut batches = self.batches();
        if batches.len() >= most {
            return Some(batch);
        }
        batches.push(batch);
        None
    }
}

/// Starts to fetch a place (or nothing, for null) that is soon written.
#[inline(always)]
fn fetch<const BYTES: usize>(place: *mut Free) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..BYTES).step_by(LINE) {
        // SAFETY: - a hint: it faults at no address and changes nothing that a program sees.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) place.wrapping_byte_add(line), options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const BATCH: u32 = 8;
    type Small = FreeList<BATCH, 64>;

    /// Fresh places, in a slab that outlives the test.
    fn fresh() -> Batch {
        let slab = Box::leak(Box::new([[0_u64; 2]; BATCH as usize]));
        // SAFETY: - leaked, used by nothing else, and larger than a pointer.
        unsafe { Batch::of(slab.iter_mut().map(|place| ptr::from_mut(place).cast())) }
    }

    #[test]
    fn places_of_one_shelf_come_to_another_and_none_is_held_twice() {
        let store = Store::default();
        let (creator, thief) = (Small::default(), Small::default());
        let mut known = HashSet::new();
        for round in 0..50 {
            let taken: Vec<_> =
                (0..100).map(|_| creator.take(|| store.take().unwrap_or_else(fresh))).collect();
            let distinct: HashSet<_> = taken.iter().copied().collect();
            assert_eq!(distinct.len(), taken.len(), "a place was given to two");
            // Until both free_lists have their fill.
            assert!(round < 20 || distinct.is_subset(&known), "round {round} took fresh memory");
            known.extend(distinct);
            for place in taken {
                // SAFETY: - taken above, and not used.
                unsafe { thief.give(place, |batch| assert!(store.give(batch, 99).is_none())) };
                assert!(thief.count.get() < 2 * BATCH);
            }
        }
    }

    #[test]
    fn a_store_keeps_no_more_than_it_is_told_and_a_batch_has_its_places() {
        let store = Store::default();
        assert!(store.give(fresh(), 1).is_none());
        let back = store.give(fresh(), 1).expect("there is one already");
        assert_eq!(back.count, BATCH);
        assert_eq!(back.collect::<HashSet<_>>().len(), BATCH as usize);
        assert_eq!((store.take().is_some(), store.take().is_some()), (true, false));
    }

    #[test]
    fn a_shelf_that_is_emptied_has_nothing_and_gives_all() {
        let free_list = Small::default();
        let place = free_list.take(fresh);
        let rest: HashSet<_> = free_list.take_all().collect();
        assert_eq!((rest.len(), rest.contains(&place)), (BATCH as usize - 1, false));
        assert_eq!(free_list.take_all().count(), 0);
        assert!(!rest.contains(&free_list.take(fresh)));
    }
}
