//! The physical limit: one cache line to another processor and back.

use super::place::processor;
use platform::affinity::{CpuSet, set_affinity};
use platform::sync::CachePadded;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use std::thread;
use std::time::Instant;

const TRIPS: u64 = 4000;
const BATCHES: u64 = 5;

/// Median time of a round trip between the first two processors of the mask, in nanoseconds.
///
/// Runs on threads of its own, so that the caller's binding stays.
pub(crate) fn nanoseconds() -> f64 {
    let (here, there) = (processor(0), processor(1));
    assert!(here != there, "a round trip needs two processors in the affinity mask");
    let line = CachePadded::new(AtomicU64::new(0));
    let mut batches: Vec<f64> = thread::scope(|s| {
        s.spawn(|| {
            set_affinity(None, &CpuSet::single(there)).expect("bind the echo");
            for trip in 0..TRIPS * BATCHES {
                while line.load(Acquire) != 2 * trip + 1 {
                    std::hint::spin_loop();
                }
                line.store(2 * trip + 2, Release);
            }
        });
        let measure = s.spawn(|| {
            set_affinity(None, &CpuSet::single(here)).expect("bind the measuring thread");
            let mut trip = 0;
            (0..BATCHES)
                .map(|_| {
                    let start = Instant::now();
                    for _ in 0..TRIPS {
                        line.store(2 * trip + 1, Release);
                        while line.load(Acquire) != 2 * trip + 2 {
                            std::hint::spin_loop();
                        }
                        trip += 1;
                    }
                    start.elapsed().as_secs_f64() * 1e9 / TRIPS as f64
                })
                .collect()
        });
        measure.join().expect("the measuring thread")
    });
    super::median(&mut batches)
}
