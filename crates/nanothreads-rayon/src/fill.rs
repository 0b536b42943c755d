//! Collects items into a vector, each written by its member to the place where it will stand.
//!
//! # Invariants
//! F1  Pieces cover the items without a gap or an overlap: piece by piece, a vector's spare places
//!     belong to one writer.
//! F2  The vector's length changes only when every place up to it was written: what an iterator
//!     that yields too few items, or panics, has written is dropped where it stands.

use crate::pieces::{Merged, PlacedWork, in_placed_pieces};
use rayon::iter::IndexedParallelIterator;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, forget};

/// Appends the items of `iterator` to `items`.
pub(crate) fn append<I: IndexedParallelIterator>(iterator: I, items: &mut Vec<I::Item>) {
    let length = iterator.len();
    items.reserve(length);
    let spare = &mut items.spare_capacity_mut()[..length];
    let places = Places { first: spare.as_mut_ptr(), length, borrowed: PhantomData };
    let written = in_placed_pieces(iterator, &places);
    let count: usize = written.iter().map(|piece| piece.count).sum();
    assert_eq!(count, length, "an indexed iterator yields as many items as it has");
    written.into_iter().for_each(forget);
    // SAFETY: - F1, F2: all pieces are full, and together they are the `length` places after the
    // last item.
    unsafe { items.set_len(items.len() + length) };
}

/// The places to be written.
struct Places<'a, T> {
    first: *mut MaybeUninit<T>,
    length: usize,
    borrowed: PhantomData<&'a mut [MaybeUninit<T>]>,
}

// SAFETY: - each place is written by the thread that runs the piece which it belongs to (F1): items
// move to other threads.
unsafe impl<T: Send> Sync for Places<'_, T> {}

impl<'a, T: Send> PlacedWork<T> for Places<'a, T> {
    type Output = Written<'a, T>;

    fn run_at(
        &self,
        begin: usize,
        length: usize,
        items: impl Iterator<Item = T>,
    ) -> Written<'a, T> {
        assert!(begin + length <= self.length, "pieces lie within the items");
        // SAFETY: - in bounds, by the line above.
        let first = unsafe { self.first.add(begin) };
        let mut written = Written { first, count: 0, borrowed: PhantomData };
        // Not more than there is room for, also when the iterator claims more.
        for item in items.take(length) {
            // SAFETY: - below `length`: within the piece, which this call alone writes (F1).
            let place = unsafe { &mut *written.first.add(written.count) };
            place.write(item);
            written.count += 1;
        }
        written
    }

    fn merge(&self, left: Written<'a, T>, right: Written<'a, T>) -> Merged<Written<'a, T>> {
        // What an iterator left empty stays between them.
        if left.first.wrapping_add(left.count) != right.first {
            return Merged::Apart(left, right);
        }
        let (first, count) = (left.first, left.count + right.count);
        forget((left, right));
        Merged::One(Written { first, count, borrowed: PhantomData })
    }
}

/// Items that stand in their places already; dropped with it.
struct Written<'a, T> {
    first: *mut MaybeUninit<T>,
    count: usize,
    borrowed: PhantomData<&'a mut [MaybeUninit<T>]>,
}

// SAFETY: - the only owner of its items, which may move to other threads.
unsafe impl<T: Send> Send for Written<'_, T> {}

impl<T> Drop for Written<'_, T> {
    fn drop(&mut self) {
        // SAFETY: - the first `count` places of the piece were written, and nothing else drops them
        // (F2).
        unsafe {
            std::ptr::slice_from_raw_parts_mut(self.first.cast::<T>(), self.count).drop_in_place()
        };
    }
}
