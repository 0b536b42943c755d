//! How far one thread is with what others wait for in its order: blocks of a pipeline, iterations
//! of a doacross loop, vectors of a chunk of OpenMP's.
//!
//! # Protocol
//! Each thread, or each chunk, has a number of its own: how much of it is done.
//! 1. `finish_up_to` (that thread): writes a higher number: P1.
//! 2. `has_finished` (those that wait): sees it: P2.
//!
//! # Orderings
//! P1 Release with P2 Acquire: what was done before is seen by those that waited. One writer at a
//! time for each number, no read-modify-write.
//!
//! # Not here
//! Where threads wait, and what wakes them after P1; on which line a number stands.

use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// See the module head.
#[derive(Debug, Default)]
pub struct Stage(AtomicU64);

impl Stage {
    /// P1: so much is done, not less than before. Cost: one store.
    #[inline]
    pub fn finish_up_to(&self, done: u64) {
        // ORDERING: Release (P1) - pairs with P2.
        self.0.store(done, Release);
    }

    /// P1 of the next one.
    #[inline]
    pub fn finish_next(&self) {
        // ORDERING: Relaxed - the thread's own number.
        self.finish_up_to(self.0.load(Relaxed) + 1);
    }

    /// P2: true when so much is done, at least, and what that wrote is visible. Cost: one load.
    #[inline]
    pub fn has_finished(&self, needed: u64) -> bool {
        // ORDERING: Acquire (P2) - pairs with P1.
        self.0.load(Acquire) >= needed
    }
}

#[cfg(all(test, loom))]
mod model;
