//! Memory for the descriptors of plain tasks: taken and given back by the member's thread without a
//! lock.
//!
//! Each member has a shelf of free places. Tasks often end on another member than the one that
//! created them, so a shelf that grows too long puts a batch into the scheduler's store, where
//! empty shelves look before they take fresh memory.
//!
//! # What touches what
//! [`Shelf`]: its member's thread. [`Store`]: any member, under its lock, once for [`BATCH`] tasks.

use platform::lock::Mutex;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{MutexGuard, PoisonError};

/// Places that move together.
const BATCH: usize = 64;
/// Slabs that a store keeps for the next scope.
const KEPT: usize = 256;

/// A free place: its first word is a link.
struct Free {
    next: *mut Free,
}

/// Free places of one member.
pub(crate) struct Shelf {
    first: Cell<*mut Free>,
    count: Cell<usize>,
}

/// Slabs of `T`, and batches of free places, for all members of a scheduler.
pub(crate) struct Store<T>(Mutex<Stock<T>>);

struct Stock<T> {
    slabs: Vec<Box<[MaybeUninit<T>]>>,
    batches: Vec<(*mut Free, usize)>,
}

// SAFETY: - the pointers are places of the slabs, which nothing uses while they are free.
unsafe impl<T: Send> Send for Stock<T> {}

impl Shelf {
    pub(super) const fn new() -> Self {
        Self { first: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }

    /// A place for a `T`, to be given back to a shelf or to the store. Cost: a few instructions; a
    /// lock for [`BATCH`].
    #[inline]
    pub(super) fn take<T>(&self, store: &Store<T>) -> *mut T {
        let mut first = self.first.get();
        if first.is_null() {
            let (batch, count) = store.batch();
            self.count.set(count);
            first = batch;
        }
        // SAFETY: - a free place of the store's, which is ours.
        self.first.set(unsafe { (*first).next });
        self.count.set(self.count.get() - 1);
        first.cast()
    }

    /// Gives a place back.
    ///
    /// # Safety
    /// - It was taken from this store, and what was in it is gone.
    #[inline]
    pub(super) unsafe fn give<T>(&self, place: *mut T, store: &Store<T>) {
        let free = place.cast::<Free>();
        // SAFETY: - the caller's; large and aligned enough (`Store::new`).
        unsafe { free.write(Free { next: self.first.get() }) };
        self.first.set(free);
        self.count.set(self.count.get() + 1);
        if self.count.get() == 2 * BATCH {
            self.tidy(store);
        }
    }

    /// Moves the older half to the store.
    #[cold]
    fn tidy<T>(&self, store: &Store<T>) {
        let mut last = self.first.get();
        for _ in 1..BATCH {
            // SAFETY: - the list has twice as many places.
            last = unsafe { (*last).next };
        }
        // SAFETY: - as above.
        let rest = unsafe { std::mem::replace(&mut (*last).next, ptr::null_mut()) };
        self.count.set(BATCH);
        store.stock().batches.push((rest, BATCH));
    }

    /// Forgets all places: their store is emptied.
    pub(super) fn forget(&self) {
        self.first.set(ptr::null_mut());
        self.count.set(0);
    }
}

impl<T> Store<T> {
    pub(super) fn new() -> Self {
        const { assert!(size_of::<T>() >= size_of::<Free>() && align_of::<T>() >= align_of::<Free>()) }
        Self(Mutex::new(Stock { slabs: Vec::new(), batches: Vec::new() }))
    }

    fn stock(&self) -> MutexGuard<'_, Stock<T>> {
        // Nothing that runs under the lock panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Free places, linked: at least one.
    #[cold]
    fn batch(&self) -> (*mut Free, usize) {
        let mut stock = self.stock();
        if let Some(batch) = stock.batches.pop() {
            return batch;
        }
        let slab = Box::<[T]>::new_uninit_slice(BATCH);
        stock.slabs.push(slab);
        let slab = stock.slabs.last_mut().expect("pushed just now");
        let mut first = ptr::null_mut();
        for place in slab.iter_mut().rev() {
            let free = place.as_mut_ptr().cast::<Free>();
            // SAFETY: - fresh memory of ours, large and aligned enough (`new`).
            unsafe { free.write(Free { next: first }) };
            first = free;
        }
        (first, BATCH)
    }

    /// Gives a place back without a shelf.
    ///
    /// # Safety
    /// - It was taken from this store, and what was in it is gone.
    pub(super) unsafe fn give(&self, place: *mut T) {
        let free = place.cast::<Free>();
        // SAFETY: - caller's contract.
        unsafe { free.write(Free { next: ptr::null_mut() }) };
        self.stock().batches.push((free, 1));
    }

    /// Gives the memory of a large scope back; true when the shelves must forget their places. All
    /// of them are free.
    pub(super) fn trim(&mut self) -> bool {
        let stock = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let large = stock.slabs.len() > KEPT;
        if large {
            stock.batches.clear();
            stock.slabs.clear();
        }
        large
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn places_that_are_taken_are_all_different_and_come_again_when_given_back() {
        let (shelf, store) = (Shelf::new(), Store::<[u64; 4]>::new());
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let places: Vec<_> = (0..5 * BATCH).map(|_| shelf.take(&store)).collect();
            assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
            seen.extend(places.iter().copied());
            for place in places {
                // SAFETY: - taken above; plain data.
                unsafe { shelf.give(place, &store) };
            }
        }
        assert_eq!(seen.len(), 5 * BATCH, "no fresh memory while there are free places");
    }

    #[test]
    fn places_that_end_on_another_shelf_find_their_way_back() {
        let (creator, other, store) = (Shelf::new(), Shelf::new(), Store::<[u64; 4]>::new());
        for _ in 0..100 * BATCH {
            let place = creator.take(&store);
            // SAFETY: - taken just now; plain data.
            unsafe { other.give(place, &store) };
        }
        assert!(store.stock().slabs.len() < 5, "{} slabs", store.stock().slabs.len());
        // SAFETY: - as above.
        unsafe { store.give(creator.take(&store)) };
    }

    #[test]
    fn the_memory_of_a_large_scope_is_given_back() {
        let (shelf, mut store) = (Shelf::new(), Store::<[u64; 4]>::new());
        let places: Vec<_> = (0..BATCH * (KEPT + 1)).map(|_| shelf.take(&store)).collect();
        for place in places {
            // SAFETY: - taken above; plain data.
            unsafe { shelf.give(place, &store) };
        }
        assert!(store.trim());
        shelf.forget();
        assert!(!store.trim());
        assert!(!shelf.take(&store).is_null());
    }
}
