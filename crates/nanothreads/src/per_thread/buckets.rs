//! Places of threads: each thread's own, found by its number, made when the thread first needs it.
//!
//! # What touches what
//! A place: the thread that has its number ([`Local::number`](engine::local::Local::number)), or
//! the thread that has all of them to itself. `buckets`: any thread; each is made once, by the
//! first that needs it. There is no lock, which another thread might hold when the process forks.

use engine::local::local;
use platform::sync::CachePadded;
use std::cell::{OnceCell, RefCell};
use std::mem;
use std::panic::UnwindSafe;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};

/// A pointer's worth for each number; the value is apart, in memory near its thread.
type ThreadEntry<T> = OnceCell<Box<CachePadded<RefCell<T>>>>;

/// Places of the first bucket; each further one has twice as many.
const FIRST: usize = 32;
const BUCKETS: usize = (usize::BITS - FIRST.ilog2()) as usize;

/// See the module head. `T: Send`, for its values move between threads.
pub(super) struct Buckets<T: Send> {
    buckets: [AtomicPtr<ThreadEntry<T>>; BUCKETS],
}

// What the pointers point to is owned, as if it stood here.
impl<T: Send + UnwindSafe> UnwindSafe for Buckets<T> {}

/// The bucket of `number`, and its place there.
#[inline]
fn find(number: usize) -> (usize, usize) {
    let number = number + FIRST;
    let bucket = (number.ilog2() - FIRST.ilog2()) as usize;
    (bucket, number - (FIRST << bucket))
}

/// The places of bucket `bucket`.
fn places<T>(bucket: usize, first: *mut ThreadEntry<T>) -> *mut [ThreadEntry<T>] {
    ptr::slice_from_raw_parts_mut(first, FIRST << bucket)
}

/// True unless a thread of the parent was using the value when this process was forked: then it may
/// be half written.
fn is_whole<T>(value: &RefCell<T>) -> bool {
    value.try_borrow_mut().is_ok()
}

impl<T: Send> Buckets<T> {
    pub(super) const fn new() -> Self {
        Self { buckets: [const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS] }
    }

    /// The calling thread's value, if it has one.
    #[inline]
    pub(super) fn own(&self) -> Option<&RefCell<T>> {
        let (bucket, index) = find(local().number());
        // ORDERING: Acquire - pairs with the Release in `make`.
        let first = self.buckets[bucket].load(Acquire);
        if first.is_null() {
            return None;
        }
        // SAFETY: - `find`: the bucket has such a place, which lives as long as `self`.
        //         - only the thread with this number comes here, and the reference stays on it
        //           (`RefCell` is not `Sync`). Its next owner gets the number when this thread has
        //           ended, and sees what it did.
        let place = unsafe { &*first.add(index) };
        place.get().map(|value| &***value)
    }

    /// Makes `value` the calling thread's, unless it has one.
    #[cold]
    pub(super) fn keep(&self, value: T) -> &RefCell<T> {
        let (bucket, index) = find(local().number());
        // ORDERING: Acquire - pairs with the Release in `make`.
        let first = self.buckets[bucket].load(Acquire);
        let first = if first.is_null() { self.make(bucket) } else { first };
        // SAFETY: - as in `own`.
        let place = unsafe { &*first.add(index) };
        place.get_or_init(|| Box::new(CachePadded::new(RefCell::new(value))))
    }

    fn make(&self, bucket: usize) -> *mut ThreadEntry<T> {
        let fresh: Box<[ThreadEntry<T>]> = (0..FIRST << bucket).map(|_| OnceCell::new()).collect();
        let fresh = Box::into_raw(fresh).cast::<ThreadEntry<T>>();
        // ORDERING: AcqRel/Acquire - publishes the fresh places, or sees those of the thread that
        // won.
        match self.buckets[bucket].compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
            Ok(_) => fresh,
            Err(winner) => {
                // SAFETY: - made above, of this length, and not published.
                drop(unsafe { Box::from_raw(places(bucket, fresh)) });
                winner
            }
        }
    }

    /// All whole values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let buckets = self.buckets.iter_mut().enumerate();
        let buckets = buckets.filter_map(|(bucket, first)| {
            let first = *first.get_mut();
            // SAFETY: - made by `make`, of this length; `self` is borrowed exclusively for as long
            // as the reference.
            (!first.is_null()).then(|| unsafe { &mut *places(bucket, first) })
        });
        buckets.flatten().filter_map(|place| {
            let value = place.get_mut()?;
            is_whole(value).then(|| value.get_mut())
        })
    }

    /// Takes all whole values out.
    pub(super) fn take(&mut self) -> Vec<T> {
        let mut values = Vec::new();
        for (bucket, first) in self.buckets.iter_mut().enumerate() {
            let first = mem::replace(first.get_mut(), ptr::null_mut());
            if first.is_null() {
                continue;
            }
            // SAFETY: - made by `make`, of this length, and in the bucket until now.
            let places = unsafe { Box::from_raw(places(bucket, first)) };
            for value in places.into_iter().filter_map(OnceCell::into_inner) {
                if is_whole(&value) {
                    values.push(CachePadded::into_inner(*value).into_inner());
                } else {
                    mem::forget(value);
                }
            }
        }
        values
    }
}

impl<T: Send> Drop for Buckets<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_and_no_two_have_the_same() {
        let mut next = (0, 0);
        for number in 0..10 * FIRST {
            assert_eq!(find(number), next, "{number}");
            next.1 += 1;
            if next.1 == FIRST << next.0 {
                next = (next.0 + 1, 0);
            }
        }
        assert!(find(usize::MAX - FIRST).0 < BUCKETS);
    }
}
