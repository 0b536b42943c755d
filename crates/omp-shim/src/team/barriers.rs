//! The barriers of a team: one for each size that it had, and one that members leave early.

use engine::Barrier;
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// A barrier that members leave early when the region is cancelled.
#[derive(Debug, Default)]
pub(crate) struct CancelBarrier {
    arrived: AtomicU32,
    round: AtomicU32,
}

impl CancelBarrier {
    /// Arrives; `Ok` = the last one, which must call `release`, `Err` = the round to wait for.
    pub(crate) fn arrive(&self, size: u32) -> Result<(), u32> {
        // ORDERING: Relaxed - the round cannot end before this member arrived.
        let round = self.round.load(Relaxed);
        // ORDERING: AcqRel - the last one sees what all did before; pairs with itself.
        let last = self.arrived.fetch_add(1, AcqRel) + 1 == size;
        if last { Ok(()) } else { Err(round) }
    }

    /// Ends the round.
    pub(crate) fn release(&self) {
        // ORDERING: Relaxed - no member arrives before the round changes below.
        self.arrived.store(0, Relaxed);
        // ORDERING: Release - pairs with `is_over`. One writer: the last to arrive.
        self.round.store(self.round.load(Relaxed).wrapping_add(1), Release);
    }

    /// True when `round` is over.
    pub(crate) fn is_over(&self, round: u32) -> bool {
        // ORDERING: Acquire - pairs with `release`.
        self.round.load(Acquire) != round
    }

    pub(super) fn reset(&self) {
        // ORDERING: Relaxed - between regions.
        self.arrived.store(0, Relaxed);
    }
}

/// Barriers by size, so that a team that changes between sizes keeps them.
#[derive(Default)]
pub(super) struct Barriers {
    #[expect(
        clippy::vec_box,
        reason = "a barrier must not move when another is added: `current` points to one"
    )]
    known: UnsafeCell<Vec<Box<Barrier>>>,
    current: Cell<*const Barrier>,
}

impl Barriers {
    /// The selected barrier.
    #[inline]
    pub(super) fn current(&self) -> &Barrier {
        // SAFETY: - selected before the region started; freed only between regions.
        unsafe { &*self.current.get() }
    }

    /// The largest size that was selected; 0 before the first.
    pub(super) fn largest(&self) -> usize {
        // SAFETY: - between regions: only the primary thread looks at the list.
        unsafe { &*self.known.get() }.iter().map(|barrier| barrier.size()).max().unwrap_or(0)
    }

    /// Selects the barrier for `size` members. Between regions only.
    pub(super) fn select(&self, size: usize) {
        let current = self.current.get();
        // SAFETY: - null or one of `known`, which are freed only by `reset`, which clears
        // `current`.
        if !current.is_null() && unsafe { &*current }.size() == size {
            return;
        }
        // SAFETY: - between regions: only the primary thread looks at the list.
        let known = unsafe { &mut *self.known.get() };
        let index = known.iter().position(|barrier| barrier.size() == size).unwrap_or_else(|| {
            known.push(Box::new(Barrier::new(size)));
            known.len() - 1
        });
        self.current.set(&raw const *known[index]);
    }

    /// After a cancelled region members may have passed different numbers of barriers.
    pub(super) fn reset(&self) {
        self.current.set(ptr::null());
        // SAFETY: - between regions: only the primary thread looks at the list.
        unsafe { &mut *self.known.get() }.clear();
    }
}
