//! Memory for plain tasks: what the members free is on their free lists and in the scheduler's
//! store ([`engine::free_list`]); fresh places come in slabs, which the store keeps for the next
//! scope.
//!
//! # Classes
//! A place has room for a descriptor, and for a closure of 0, 16, 32 or 48 bytes beside it. Each
//! class has its own free lists. What is larger, or aligned to more than a descriptor, has an
//! allocation of its own ([`single`](super::descriptor::NanoPtr::single)): a task of that size does
//! enough for that.

use engine::free_list::{self, Batch};
use platform::lock::Mutex;
use std::array;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::PoisonError;

/// Places that move together.
const BATCH: u32 = 64;
/// Slabs that a store keeps for the next scope.
const KEPT: usize = 256;

/// Sizes of places.
pub(crate) const CLASSES: usize = 4;
/// By how many bytes they differ.
const STEP: usize = 16;

/// The class whose places have room for `bytes` beside the descriptor; `None`: it is too large.
pub(super) const fn class_of(bytes: usize) -> Option<usize> {
    let class = bytes.div_ceil(STEP);
    if class < CLASSES { Some(class) } else { None }
}

type FreeList = free_list::FreeList<BATCH, 0>;

/// Free places of one member: a list for each class.
#[derive(Default)]
pub(crate) struct FreeLists([FreeList; CLASSES]);

impl FreeLists {
    /// Their places are gone.
    pub(super) fn forget(&self) {
        for free_list in &self.0 {
            free_list.take_all();
        }
    }
}

/// Slabs of places for a `T` and what is beside it, and batches of free ones, for all members of a
/// scheduler.
pub(crate) struct Store<T> {
    free: [free_list::Store; CLASSES],
    slabs: Mutex<Vec<Slab>>,
    holds: PhantomData<fn() -> T>,
}

/// [`BATCH`] places, in words.
type Slab = Box<[MaybeUninit<usize>]>;

impl<T> Store<T> {
    pub(super) fn new() -> Self {
        const {
            assert!(
                size_of::<T>() >= size_of::<*mut ()>() && align_of::<T>() == align_of::<usize>()
            )
        }
        Self {
            free: array::from_fn(|_| free_list::Store::default()),
            slabs: Mutex::new(Vec::new()),
            holds: PhantomData,
        }
    }

    /// A place of `class`, to be given back. Cost: a few instructions; a lock for [`BATCH`].
    #[inline]
    pub(super) fn take(&self, class: usize, free_lists: &FreeLists) -> *mut T {
        free_lists.0[class].take(|| self.batch(class)).cast()
    }

    /// Takes a place back, for `free_lists` if the caller is a member.
    ///
    /// # Safety
    /// - It was taken from this store, as one of `class`, and what was in it is gone.
    #[inline]
    pub(super) unsafe fn give(&self, class: usize, place: *mut T, free_lists: Option<&FreeLists>) {
        let (place, keep) = (place.cast(), |batch| _ = self.free[class].give(batch, usize::MAX));
        match free_lists {
            // SAFETY: - caller's contract; large and aligned enough (`new`).
            Some(free_lists) => unsafe { free_lists.0[class].give(place, keep) },
            // SAFETY: - as above.
            None => keep(unsafe { Batch::of([place]) }),
        }
    }

    /// Free places of `class`: at least one.
    #[cold]
    fn batch(&self, class: usize) -> Batch {
        self.free[class].take().unwrap_or_else(|| {
            let words = (size_of::<T>() + class * STEP) / size_of::<usize>();
            let mut slabs = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
            slabs.push(Box::new_uninit_slice(words * BATCH as usize));
            // Derived where the box stays: moving it afterwards would invalidate the pointers.
            let slab = slabs.last_mut().expect("pushed just now");
            let places = slab.chunks_exact_mut(words).rev();
            // SAFETY: - fresh memory of ours, large and aligned enough (`new`).
            unsafe { Batch::of(places.map(|place| place.as_mut_ptr().cast())) }
        })
    }

    /// Gives the memory of a large scope back; true when the free lists must forget their places.
    /// All of them are free.
    pub(super) fn trim(&mut self) -> bool {
        let slabs = self.slabs.get_mut().unwrap_or_else(PoisonError::into_inner);
        let large = slabs.len() > KEPT;
        if large {
            self.free = array::from_fn(|_| free_list::Store::default());
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
        let (free_lists, store) = (FreeLists::default(), Store::<[u64; 4]>::new());
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let places: Vec<_> = (0..5 * BATCH).map(|_| store.take(1, &free_lists)).collect();
            assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
            seen.extend(places.iter().copied());
            for place in places {
                // SAFETY: - taken above; plain data.
                unsafe { store.give(1, place, Some(&free_lists)) };
            }
        }
        assert_eq!(seen.len(), 5 * BATCH as usize, "no fresh memory while there are free places");
    }

    #[test]
    fn places_that_end_on_another_free_list_find_their_way_back() {
        let (creator, other, store) =
            (FreeLists::default(), FreeLists::default(), Store::<[u64; 4]>::new());
        for _ in 0..100 * BATCH {
            let place = store.take(1, &creator);
            // SAFETY: - taken just now; plain data.
            unsafe { store.give(1, place, Some(&other)) };
        }
        assert!(
            store.slabs.lock().unwrap().len() < 5,
            "{} slabs",
            store.slabs.lock().unwrap().len()
        );
        // SAFETY: - as above.
        unsafe { store.give(1, store.take(1, &creator), None) };
    }

    #[test]
    fn the_memory_of_a_large_scope_is_given_back() {
        let (free_lists, mut store) = (FreeLists::default(), Store::<[u64; 4]>::new());
        let places: Vec<_> =
            (0..BATCH as usize * (KEPT + 1)).map(|_| store.take(1, &free_lists)).collect();
        for place in places {
            // SAFETY: - taken above; plain data.
            unsafe { store.give(1, place, Some(&free_lists)) };
        }
        assert!(store.trim());
        free_lists.forget();
        assert!(!store.trim());
        assert!(!store.take(1, &free_lists).is_null());
    }
}
