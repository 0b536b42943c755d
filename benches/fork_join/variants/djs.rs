//! The distributed join structure as published (F6): each worker writes its own join sequence
//! number, four to a line; the master holds the last value of each (PJV) and waits until the number
//! is greater, looking at both ends at once.

use super::wait_for;
use platform::sync::HandCell;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

/// Sequence numbers to a line.
const TO_A_LINE: usize = 4;

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; TO_A_LINE]);

/// DJS and PJV of one master.
pub(crate) struct Join {
    djs: Box<[Line]>,
    /// The master's alone.
    pjv: HandCell<Box<[u64]>>,
}

// SAFETY: - `pjv` is touched by the master alone (`join` is called by one thread: `Pool` is not
// shared).
unsafe impl Sync for Join {}

impl Join {
    pub(crate) fn new(workers: usize) -> Self {
        let djs = (0..workers.div_ceil(TO_A_LINE)).map(|_| Line::default()).collect();
        Self { djs, pjv: HandCell::new(vec![0; workers].into()) }
    }

    fn number(&self, worker: usize) -> &AtomicU64 {
        &self.djs[(worker - 1) / TO_A_LINE].0[(worker - 1) % TO_A_LINE]
    }

    /// `number`: the worker's descriptors before this one.
    pub(crate) fn arrive(&self, worker: usize, number: u64) {
        // ORDERING: Release - pairs with the Acquire in `join`.
        self.number(worker).store(number + 1, Release);
    }

    /// Waits until every worker's number is greater than the one last seen.
    pub(crate) fn join(&self) {
        let look = |pjv: &mut [u64], worker: usize| {
            // ORDERING: Acquire - pairs with the Release in `arrive`.
            let now = self.number(worker).load(Acquire);
            let arrived = now.wrapping_sub(pjv[worker - 1]).cast_signed() > 0;
            if arrived {
                pjv[worker - 1] = now;
            }
            arrived
        };
        // SAFETY: - the master alone.
        let pjv = unsafe { self.pjv.with_mut(|pjv| &mut *pjv) };
        let (mut low, mut high) = (1, pjv.len());
        wait_for(|| {
            if low <= high && look(pjv, low) {
                low += 1;
            }
            if low <= high && look(pjv, high) {
                high -= 1;
            }
            (low > high).then_some(())
        });
    }
}
