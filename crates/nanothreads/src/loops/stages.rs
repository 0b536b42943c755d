//! Progress of the members of a pipeline: how many blocks, or iterations, each has finished.
//!
//! # Protocol
//! Each member has one line with the number of blocks that it finished.
//! 1. `finish_block`, `finish_up_to` (the member): writes a higher number: P1.
//! 2. `has_finished` (its successors): sees it: P2.
//!
//! # Orderings
//! P1 Release with P2 Acquire: what the stages before computed is seen by the next one. One writer
//! for each line, no read-modify-write. Sleeping: [`WaitPoint`]; P1 is its N1.

use engine::wait_point::WaitPoint;
use platform::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// One member's progress; see the module head.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    finished: AtomicUsize,
    waiters: WaitPoint,
}

impl Stage {
    /// Step P1, by the stage's member alone. Cost when no member sleeps: one store.
    #[inline]
    pub(crate) fn finish_block(&self) {
        // ORDERING: Relaxed - the member's own number.
        self.finish_up_to(self.finished.load(Relaxed) + 1);
    }

    /// Step P1, by the stage's member alone: `blocks` are finished, not fewer than before.
    #[inline]
    pub(crate) fn finish_up_to(&self, blocks: usize) {
        // ORDERING: Release (P1) - pairs with P2.
        self.finished.store(blocks, Release);
        self.waiters.notify_all();
    }

    /// Step P2: true when at least `blocks` blocks are finished, and what they wrote is visible.
    /// Cost: one load.
    #[inline]
    pub(crate) fn has_finished(&self, blocks: usize) -> bool {
        // ORDERING: Acquire (P2) - pairs with P1.
        self.finished.load(Acquire) >= blocks
    }

    /// Where successors wait.
    pub(crate) fn point(&self) -> &WaitPoint {
        &self.waiters
    }
}
