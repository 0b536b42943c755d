//! The published ways to fork and join, which the benches compare with, do what they say.

#[path = "../benches/fork_join/variants/mod.rs"]
mod variants;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use variants::{NAMES, Pool};

/// Regions of each pool: some rounds of the rings.
const REGIONS: u64 = 40;

/// # Safety
/// - `counts` points to a live `Vec<AtomicU64>` with a place for each thread.
unsafe fn count(counts: *const (), id: usize) {
    // SAFETY: - caller's contract.
    let counts = unsafe { &*counts.cast::<Vec<AtomicU64>>() };
    counts[id].fetch_add(1, Relaxed);
}

#[test]
fn every_thread_runs_every_region_once_before_the_join_returns() {
    for name in NAMES {
        for threads in [1, 2, 3, 4, 5, 8, 17, 64] {
            let counts: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
            let mut pool = Pool::new(name, threads, |_| ()).expect("one of the names");
            for region in 1..=REGIONS {
                // SAFETY: - `count` gets what it wants, which outlives the region, and does not
                // unwind.
                unsafe { pool.region(count, (&raw const counts).cast()) };
                assert!(
                    counts.iter().all(|count| count.load(Relaxed) == region),
                    "{name}, {threads} threads"
                );
            }
        }
    }
}

#[test]
fn an_unknown_name_makes_no_pool() {
    assert!(Pool::new("lwd2", 2, |_| ()).is_none());
}
