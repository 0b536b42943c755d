//! The seam of the scheduler's model (`model`): where others run between two of its steps, and the
//! faults that are planted there to see that the model finds them. A manager has nothing of it.

/// What the scheduler does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A doorbell is cleared, after the request was read.
    Clear,
    /// A death is noted, and the processors are given out with the next event, and not in this
    /// pass.
    LateDecision,
    /// A program gets its areas before its first grant is in them.
    EarlyWelcome,
    /// Sleepers are woken before the grant is published.
    EarlyWake,
    /// A program that rang too often is never listened to again.
    Deaf,
}

#[cfg(test)]
pub(super) use super::model::{has, others_run};

/// Programs and the API thread may run here.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn others_run() {}

/// Whether this fault is planted.
#[cfg(not(test))]
#[inline(always)]
pub(super) const fn has(_fault: Fault) -> bool {
    false
}
