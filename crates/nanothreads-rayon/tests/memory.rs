//! What pieces of one item take: a program with as many pieces as items has no value for each.

use nanothreads_rayon::OnEngine;
use rayon::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: - the system's allocator does all; the numbers are only counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(USED.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: - caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: - caller's contract.
        unsafe { System.dealloc(place, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that were in use at once during `body`, beside those before.
fn most_bytes<R>(body: impl FnOnce() -> R) -> (usize, R) {
    let before = USED.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = body();
    (MOST.load(Relaxed) - before, result)
}

#[test]
fn pieces_of_one_item_take_no_memory_for_each() {
    const ITEMS: usize = 1_000_000;
    /// Far below a byte for each item.
    const LITTLE: usize = 200_000;
    nanothreads::builder().threads(2).install().expect("nothing was forked before");
    nanothreads::broadcast(|_| ());
    let iter = || (0..ITEMS).into_par_iter().with_max_len(1).on_engine();
    let (bytes, sum) = most_bytes(|| iter().sum::<usize>());
    assert!(sum == ITEMS * (ITEMS - 1) / 2 && bytes < LITTLE, "sum: {bytes}");
    let (bytes, product) = most_bytes(|| iter().reduce(|| 0, usize::max));
    assert!(product == ITEMS - 1 && bytes < LITTLE, "reduce: {bytes}");
    let (bytes, least) = most_bytes(|| iter().min());
    assert!(least == Some(0) && bytes < LITTLE, "min: {bytes}");
    let (bytes, is_so) = most_bytes(|| iter().all(|i| i < ITEMS));
    assert!(is_so && bytes < LITTLE, "all: {bytes}");
    let (bytes, few) = most_bytes(|| iter().filter_map(|i| (i % 1000 == 0).then_some(i)));
    assert!(few.len() == 1000 && bytes < LITTLE, "filter_map: {bytes}");
    let tried = || (0..ITEMS).into_par_iter().with_max_len(1).map(Ok::<_, ()>).on_engine();
    let (bytes, sum) = most_bytes(|| tried().try_reduce(|| 0, |a, b| Ok(a + b)));
    assert!(sum == Ok(ITEMS * (ITEMS - 1) / 2) && bytes < LITTLE, "try_reduce: {bytes}");
    // The vector alone.
    let (bytes, all) = most_bytes(|| iter().collect::<Vec<usize>>());
    assert!(all.into_iter().eq(0..ITEMS) && bytes < 8_000_000 + LITTLE, "collect: {bytes}");
}
