//! Memory for the descriptors of plain tasks: what the members free is on their free lists and in
//! the scheduler's store ([`engine::free_list`]); fresh places come in slabs, which the store keeps
//! for the next scope.

use engine::free_list::{self, Batch};
use platform::lock::Mutex;
use std::mem::MaybeUninit;
use std::sync::PoisonError;

/// Places that move together.
const BATCH: u32 = 64;
/// Slabs that a store keeps for the next scope.
const KEPT: usize = 256;

/// Free places of one member.
pub(crate) type FreeList = free_list::FreeList<BATCH, 0>;

/// Slabs of `T`, and batches of free places, for all members of a scheduler.
pub(crate) struct Store<T> {
    free: free_list::Store,
    slabs: Mutex<Vec<Slab<T>>>,
}

/// Places for [`BATCH`] values.
type Slab<T> = Box<[MaybeUninit<T>]>;

impl<T> Store<T> {
    pub(super) fn new() -> Self {
        const {
            assert!(
                size_of::<T>() >= size_of::<*mut ()>() && align_of::<T>() >= align_of::<*mut ()>()
            )
        }
        Self { free: free_list::Store::default(), slabs: Mutex::new(Vec::new()) }
    }

    /// A place of `free_list`, to be given back. Cost: a few instructions; a lock for [`BATCH`].
    #[inline]
    pub(super) fn take(&self, free_list: &FreeList) -> *mut T {
        free_list.take(|| self.batch()).cast()
    }

    /// Takes a place back, for `free_list` if the caller is a member.
    ///
    /// # Safety
    /// - It was taken from this store, and what was in it is gone.
    #[inline]
    pub(super) unsafe fn give(&self, place: *mut T, free_list: Option<&FreeList>) {
        let (place, keep) = (place.cast(), |batch| _ = self.free.give(batch, usize::MAX));
        match free_list {
            // SAFETY: - caller's contract; large and aligned enough (`new`).
            Some(free_list) => unsafe { free_list.give(place, keep) },
            // SAFETY: - as above.
            None => keep(unsafe { Batch::of([place]) }),
        }
    }

    /// Free places: at least one.
    #[cold]
    fn batch(&self) -> Batch {
        self.free.take().unwrap_or_else(|| {
            let mut slab: Slab<T> = Box::new_uninit_slice(BATCH as usize);
            let places = slab.iter_mut().rev().map(|place| place.as_mut_ptr().cast());
            // SAFETY: - fresh memory of ours, large and aligned enough (`new`).
            let batch = unsafe { Batch::of(places) };
            self.slabs.lock().unwrap_or_else(PoisonError::into_inner).push(slab);
            batch
        })
    }

    /// Gives the memory of a large scope back; true when the free lists must forget their places.
    /// All of them are free.
    pub(super) fn trim(&mut self) -> bool {
        let slabs = self.slabs.get_mut().unwrap_or_else(PoisonError::into_inner);
        let large = slabs.len() > KEPT;
        if large {
            self.free = free_list::Store::default();
            slabs.clear();
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
        let (free_list, store) = (FreeList::default(), Store::<[u64; 4]>::new());
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let places: Vec<_> = (0..5 * BATCH).map(|_| store.take(&free_list)).collect();
            assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
            seen.extend(places.iter().copied());
            for place in places {
                // SAFETY: - taken above; plain data.
                unsafe { store.give(place, Some(&free_list)) };
            }
        }
        assert_eq!(seen.len(), 5 * BATCH as usize, "no fresh memory while there are free places");
    }

    #[test]
    fn places_that_end_on_another_free_list_find_their_way_back() {
        let (creator, other, store) =
            (FreeList::default(), FreeList::default(), Store::<[u64; 4]>::new());
        for _ in 0..100 * BATCH {
            let place = store.take(&creator);
            // SAFETY: - taken just now; plain data.
            unsafe { store.give(place, Some(&other)) };
        }
        assert!(
            store.slabs.lock().unwrap().len() < 5,
            "{} slabs",
            store.slabs.lock().unwrap().len()
        );
        // SAFETY: - as above.
        unsafe { store.give(store.take(&creator), None) };
    }

    #[test]
    fn the_memory_of_a_large_scope_is_given_back() {
        let (free_list, mut store) = (FreeList::default(), Store::<[u64; 4]>::new());
        let places: Vec<_> =
            (0..BATCH as usize * (KEPT + 1)).map(|_| store.take(&free_list)).collect();
        for place in places {
            // SAFETY: - taken above; plain data.
            unsafe { store.give(place, Some(&free_list)) };
        }
        assert!(store.trim());
        free_list.take_all();
        assert!(!store.trim());
        assert!(!store.take(&free_list).is_null());
    }
}
