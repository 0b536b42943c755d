//! Counts of what tasks did, for each thread in a line of its own.

use crate::harness::sample::Measure;
use platform::sync::CachePadded;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

const THREADS: usize = 64;

static COUNTS: [CachePadded<AtomicU64>; THREADS] =
    [const { CachePadded::new(AtomicU64::new(0)) }; THREADS];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Counts one on the calling thread.
pub(super) fn tick() {
    let mut own = OWN.get();
    if own == usize::MAX {
        // ORDERING: Relaxed - numbers only have to differ.
        own = NEXT.fetch_add(1, Relaxed);
        OWN.set(own);
    }
    let count = &COUNTS[own];
    // ORDERING: Relaxed - the thread's own; read when all is joined.
    count.store(count.load(Relaxed) + 1, Relaxed);
}

/// All counts.
fn look() -> Vec<u64> {
    // ORDERING: Relaxed - read when all is joined.
    COUNTS.iter().map(|count| count.load(Relaxed)).collect()
}

/// Says whether `each` were counted in each call.
pub(super) fn counted(each: u64) -> impl FnOnce(u64) -> Result<(), String> {
    move |calls| match look().iter().sum::<u64>() {
        sum if sum == calls * each => Ok(()),
        sum => Err(format!("{calls} calls of {each} counted {sum}")),
    }
}

/// Measures by `measure`; a last extra is the share in percent of all threads but the busiest.
pub(super) fn with_share(measure: Measure) -> Measure {
    Box::new(move |subject| {
        let before = look();
        let mut values = measure(subject);
        let done: Vec<u64> =
            look().iter().zip(before).map(|(after, before)| after - before).collect();
        let (sum, most) = (done.iter().sum::<u64>(), done.iter().max().copied().unwrap_or(0));
        values.push(100.0 * (sum - most) as f64 / sum as f64);
        values
    })
}
