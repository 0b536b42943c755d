//! How far each member of a pipeline or of a doacross loop is ([`engine::stage`]), with a place to
//! wait on the same line. Sleeping: [`WaitPoint`]; P1 is its N1.

use engine::stage;
use engine::wait_point::WaitPoint;

/// One member's progress; see the module head.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    finished: stage::Stage,
    waiters: WaitPoint,
}

impl Stage {
    /// By the stage's member alone. Cost when no member sleeps: one store.
    #[inline]
    pub(crate) fn finish_block(&self) {
        self.finished.finish_next();
        self.waiters.notify_all();
    }

    /// By the stage's member alone: `blocks` are finished, not fewer than before.
    #[inline]
    pub(crate) fn finish_up_to(&self, blocks: usize) {
        self.finished.finish_up_to(blocks as u64);
        self.waiters.notify_all();
    }

    /// True when at least `blocks` blocks are finished, and what they wrote is visible. Cost: one
    /// load.
    #[inline]
    pub(crate) fn has_finished(&self, blocks: usize) -> bool {
        self.finished.has_finished(blocks as u64)
    }

    /// Where successors wait.
    pub(crate) fn point(&self) -> &WaitPoint {
        &self.waiters
    }
}
