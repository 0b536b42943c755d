//! `equip`: equal shares of the processors.
//!
//! # Decisions
//! - Minima and weights play no part: shares are equal.
//! - What an application does not take of its share stays unallocated at a decision. The first
//!   release in mid-quantum hands it out through the work-list, together with what was released.
//! - More applications than processors: with `master_always` all masters share all processors
//!   evenly, in turn; without it the first P in order of arrival have one each and the others wait
//!   until one of them leaves.

use crate::crowd;
use crate::decision::{Allocation, Decision};
use crate::policy::Policy;
use crate::snapshot::Snapshot;

/// Every application may have floor(P / n) processors. Without state; O(n).
#[derive(Debug, Clone, Default)]
pub struct Equip(());

impl Equip {
    /// Its name in the registry.
    pub const NAME: &'static str = "equip";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "equal shares; what an application does not take of its share is lent out";

    /// The policy. It has no parameters.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl Policy for Equip {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn is_timeless(&self) -> bool {
        true
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let allocations = if snapshot.is_crowded() {
            crowd::one_each(snapshot, 0..snapshot.apps.len())
        } else {
            // At least 1, because there are not more applications than processors. No application:
            // no division.
            let share = snapshot.processors.checked_div(snapshot.apps.len() as u32).unwrap_or(0);
            snapshot
                .apps
                .iter()
                .map(|app| Allocation::own(app.id, app.wants().min(share)))
                .collect()
        };
        Decision::everybody_waits(snapshot, allocations)
    }
}
