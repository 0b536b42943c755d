//! Sorting: blocks by the standard library's sort, merged in parallel ([`join`]).
//!
//! # How
//! `sort_into` sorts a part of the slice into itself or into the same part of a buffer: its halves
//! go into the other one of the two, and are merged from there. A long merge is divided: the middle
//! of the longer run, and the place that this element has in the other one.
//!
//! # Panics
//! Comparisons may panic. Then each part has all its elements, in any order, at the place where
//! they were to be sorted to, before the panic goes on: `sort_into` and `merge` say so, and so in
//! the end does the slice. (As the standard library's sort.) The child of a process that is forked
//! in a comparison lacks what another thread has at that time: it is ended (`both`).

use crate::join;
use engine::panics::discard;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

/// Parts that are sorted by one thread.
const ALONE: usize = 4096;
/// Elements that are merged by one thread.
const MERGED_ALONE: usize = 8192;

/// Sorts `slice` on all processors that the program has now. Equal elements keep their order.
///
/// ```
/// let mut numbers: Vec<u64> = (0..100_000).map(|i| i * 7919 % 100_003).collect();
/// nanothreads::par_sort(&mut numbers);
/// assert!(numbers.is_sorted());
/// ```
/// Cost: a buffer as long as the slice, unless that is short.
///
/// # Panics
/// With the payload of a comparison; the slice then has all its elements, in any order. It may
/// panic where the order is none, as [`slice::sort`].
pub fn par_sort<T: Ord + Send>(slice: &mut [T]) {
    par_sort_by(slice, T::cmp);
}

/// [`par_sort`] by a comparison.
///
/// # Panics
/// As [`par_sort`].
pub fn par_sort_by<T: Send, F: Fn(&T, &T) -> Ordering + Sync>(slice: &mut [T], compare: F) {
    sort(slice, &compare, &|part: &mut [T]| part.sort_by(&compare));
}

/// [`par_sort`] by a key, which is asked for at each comparison.
///
/// ```
/// let mut words = ["three", "one", "eleven", "two"];
/// nanothreads::par_sort_by_key(&mut words, |word| word.len());
/// assert_eq!(words, ["one", "two", "three", "eleven"]);
/// ```
///
/// # Panics
/// As [`par_sort`].
pub fn par_sort_by_key<T: Send, K: Ord, F: Fn(&T) -> K + Sync>(slice: &mut [T], key: F) {
    par_sort_by(slice, |a, b| key(a).cmp(&key(b)));
}

/// [`par_sort`] without the promise for equal elements: faster where they are many or small.
///
/// # Panics
/// As [`par_sort`].
pub fn par_sort_unstable<T: Ord + Send>(slice: &mut [T]) {
    par_sort_unstable_by(slice, T::cmp);
}

/// [`par_sort_unstable`] by a comparison.
///
/// # Panics
/// As [`par_sort`].
pub fn par_sort_unstable_by<T: Send, F: Fn(&T, &T) -> Ordering + Sync>(
    slice: &mut [T],
    compare: F,
) {
    sort(slice, &compare, &|part: &mut [T]| part.sort_unstable_by(&compare));
}

/// [`par_sort_unstable`] by a key, which is asked for at each comparison.
///
/// # Panics
/// As [`par_sort`].
pub fn par_sort_unstable_by_key<T: Send, K: Ord, F: Fn(&T) -> K + Sync>(slice: &mut [T], key: F) {
    par_sort_unstable_by(slice, |a, b| key(a).cmp(&key(b)));
}

/// How to compare, and how one thread sorts.
struct Sorter<'a, F, S> {
    compare: &'a F,
    alone: &'a S,
}

impl<F, S> Clone for Sorter<'_, F, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F, S> Copy for Sorter<'_, F, S> {}

fn sort<T, F, S>(slice: &mut [T], compare: &F, alone: &S)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
    S: Fn(&mut [T]) + Sync,
{
    // Elements without a size are all equal to what can be seen of them.
    if slice.len() <= ALONE || size_of::<T>() == 0 {
        return alone(slice);
    }
    let mut buffer: Vec<T> = Vec::with_capacity(slice.len());
    let part = Part {
        own: slice.as_mut_ptr(),
        other: buffer.spare_capacity_mut().as_mut_ptr().cast(),
        length: slice.len(),
    };
    // SAFETY: - the slice and a buffer of the same length, both borrowed until it returns.
    unsafe { sort_into(part, Target::Own, Sorter { compare, alone }) };
}

/// A part of the slice, and the same part of the buffer.
struct Part<T> {
    own: *mut T,
    other: *mut T,
    length: usize,
}

// SAFETY: - parts that are used at the same time are disjoint; what is in them moves to the thread
//           that has the part, and back.
unsafe impl<T: Send> Send for Part<T> {}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<T> {}

impl<T> Part<T> {
    /// # Safety
    /// - `at` is at most its length.
    unsafe fn split(self, at: usize) -> (Self, Self) {
        // SAFETY: - in bounds (caller's contract).
        let (own, other) = unsafe { (self.own.add(at), self.other.add(at)) };
        (Self { length: at, ..self }, Self { own, other, length: self.length - at })
    }
}

/// Where the sorted elements go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Own,
    Other,
}

impl Target {
    fn opposite(self) -> Self {
        match self {
            Self::Own => Self::Other,
            Self::Other => Self::Own,
        }
    }
}

/// Copies elements when it is dropped.
struct CopyOnDrop<T> {
    from: *const T,
    to: *mut T,
    length: usize,
}

impl<T> Drop for CopyOnDrop<T> {
    fn drop(&mut self) {
        // SAFETY: - the maker's promise: `length` elements at `from`, room at `to`, disjoint.
        unsafe { ptr::copy_nonoverlapping(self.from, self.to, self.length) };
    }
}

/// Sorts the elements in `part.own` into the target. Also where a comparison panics they are all in
/// the target afterwards.
///
/// # Safety
/// - The part's memory is the caller's alone; its elements are in `own`.
unsafe fn sort_into<T, F, S>(part: Part<T>, target: Target, sorter: Sorter<'_, F, S>)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
    S: Fn(&mut [T]) + Sync,
{
    let Part { own, other, length } = part;
    if length <= ALONE {
        let copy = CopyOnDrop { from: own, to: other, length };
        // SAFETY: - caller's contract.
        (sorter.alone)(unsafe { std::slice::from_raw_parts_mut(own, length) });
        match target {
            Target::Own => std::mem::forget(copy),
            Target::Other => drop(copy),
        }
        return;
    }
    // SAFETY: - in bounds.
    let (low, high) = unsafe { part.split(length / 2) };
    let (from, to) = match target {
        Target::Own => (other, own),
        Target::Other => (own, other),
    };
    // Where a half panics both are where they were to go: the opposite of the target.
    let copy = CopyOnDrop { from, to, length };
    let opposite = target.opposite();
    both(
        move || {
            let low = low;
            // SAFETY: - disjoint halves.
            unsafe { sort_into(low, opposite, sorter) };
        },
        move || {
            let high = high;
            // SAFETY: - as above.
            unsafe { sort_into(high, opposite, sorter) };
        },
    );
    std::mem::forget(copy);
    let middle = length / 2;
    // SAFETY: - two sorted runs in `from`, and room for both in `to`.
    unsafe {
        let runs = Runs { low: from, lows: middle, high: from.add(middle), highs: length - middle };
        merge(runs, to, sorter.compare);
    }
}

/// Both halves, also where the first one panics: a half that was left out would not have put its
/// elements where they belong. A child that was forked in a comparison does not get the half that
/// a thread of its parent has: its copy of the elements has places without one, so it ends here.
fn both(a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
    let halves = catch_unwind(AssertUnwindSafe(|| {
        join(
            // Elements are whole wherever a comparison panics.
            || catch_unwind(AssertUnwindSafe(a)),
            || catch_unwind(AssertUnwindSafe(b)),
        )
    }));
    // The halves themselves do not unwind.
    let Ok((a, b)) = halves else {
        engine::forked::end_child(
            "this process was forked in a comparison of a sort of which another thread had a part, \
             and that part exists in the parent only; a forked child must end, or exec, before it \
             leaves the sort that it was forked in",
        )
    };
    match (a, b) {
        (Ok(()), Ok(())) => {}
        (Err(payload), other) => {
            discard(other.err());
            resume_unwind(payload);
        }
        (Ok(()), Err(payload)) => resume_unwind(payload),
    }
}

/// Two sorted runs.
struct Runs<T> {
    low: *mut T,
    lows: usize,
    high: *mut T,
    highs: usize,
}

// SAFETY: - as `Part`.
unsafe impl<T: Send> Send for Runs<T> {}

/// Room for elements.
struct Room<T>(*mut T);

// SAFETY: - as `Part`.
unsafe impl<T: Send> Send for Room<T> {}

/// Merges two runs; of equal elements those of the low run come first. Also where a comparison
/// panics all elements are in `to` afterwards.
///
/// # Safety
/// - The runs and the room are the caller's alone, and disjoint; `to` has room for both.
unsafe fn merge<T, F>(runs: Runs<T>, to: *mut T, compare: &F)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    let Runs { low, lows, high, highs } = runs;
    if lows + highs <= MERGED_ALONE || lows == 0 || highs == 0 {
        // SAFETY: - caller's contract.
        return unsafe { merge_alone(runs, to, compare) };
    }
    // SAFETY: - `to` has room for both.
    let (copy_low, copy_high) = unsafe {
        (
            CopyOnDrop { from: low, to, length: lows },
            CopyOnDrop { from: high, to: to.add(lows), length: highs },
        )
    };
    // SAFETY: - the caller's runs, which nothing changes meanwhile.
    let (low_run, high_run) =
        unsafe { (std::slice::from_raw_parts(low, lows), std::slice::from_raw_parts(high, highs)) };
    let (at_low, at_high) = if lows >= highs {
        let middle = lows / 2;
        // What equals the middle one comes after it.
        let before = |high: &T| compare(high, &low_run[middle]) == Ordering::Less;
        (middle, high_run.partition_point(before))
    } else {
        let middle = highs / 2;
        // What equals the middle one comes before it.
        let before = |low: &T| compare(low, &high_run[middle]) != Ordering::Greater;
        (low_run.partition_point(before), middle)
    };
    std::mem::forget((copy_low, copy_high));
    // SAFETY: - in bounds.
    let (first, second, room) = unsafe {
        (
            Runs { low, lows: at_low, high, highs: at_high },
            Runs {
                low: low.add(at_low),
                lows: lows - at_low,
                high: high.add(at_high),
                highs: highs - at_high,
            },
            Room(to.add(at_low + at_high)),
        )
    };
    let start = Room(to);
    both(
        move || {
            let (runs, room) = (first, start);
            // SAFETY: - disjoint parts of the runs and of the room.
            unsafe { merge(runs, room.0, compare) };
        },
        move || {
            let (runs, room) = (second, room);
            // SAFETY: - as above.
            unsafe { merge(runs, room.0, compare) };
        },
    );
}

/// [`merge`] on one thread.
///
/// # Safety
/// - As `merge`.
unsafe fn merge_alone<T, F: Fn(&T, &T) -> Ordering>(runs: Runs<T>, to: *mut T, compare: &F) {
    /// What is left of both runs goes to the end of the room when it is dropped.
    struct Rest<T> {
        low: *mut T,
        end_low: *mut T,
        high: *mut T,
        end_high: *mut T,
        to: *mut T,
    }
    impl<T> Drop for Rest<T> {
        fn drop(&mut self) {
            // SAFETY: - the caller's runs, of which these are the rests, and room for just so many.
            unsafe {
                let lows = self.end_low.offset_from_unsigned(self.low);
                let highs = self.end_high.offset_from_unsigned(self.high);
                ptr::copy_nonoverlapping(self.low, self.to, lows);
                ptr::copy_nonoverlapping(self.high, self.to.add(lows), highs);
            }
        }
    }
    let Runs { low, lows, high, highs } = runs;
    // SAFETY: - one past the end of each.
    let (end_low, end_high) = unsafe { (low.add(lows), high.add(highs)) };
    let mut rest = Rest { low, end_low, high, end_high, to };
    while rest.low != rest.end_low && rest.high != rest.end_high {
        // SAFETY: - neither is at its end.
        let is_high = unsafe { compare(&*rest.high, &*rest.low) } == Ordering::Less;
        let from = if is_high { &mut rest.high } else { &mut rest.low };
        // SAFETY: - an element that was not copied yet, and its place.
        unsafe {
            ptr::copy_nonoverlapping(*from, rest.to, 1);
            *from = from.add(1);
            rest.to = rest.to.add(1);
        }
    }
}
