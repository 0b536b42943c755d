//! `equip`: equal shares of the processors.
//!
//! # Decisions
//! - Weights play no part. Minima do: an application whose minimum is more than the equal share
//!   has its minimum, in order of arrival while processors last, and the others share alike what
//!   that leaves.
//! - What an application does not take of its share stays unallocated at a decision. The first
//!   release in mid-quantum hands it out through the work-list, together with what was released.
//! - More applications than processors: with `master_always` all masters share all processors
//!   evenly, in turn; without it the first P in order of arrival have one each and the others wait
//!   until one of them leaves.

use crate::crowd;
use crate::decision::{Allocation, Decision};
use crate::dss;
use crate::policy::Policy;
use crate::snapshot::{AppView, Snapshot};

/// Every application may have floor(P / n) processors. Without state; O(n) without minima.
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
            let floors = dss::floors(snapshot.apps, snapshot.processors);
            let share = equal_share(snapshot.processors, &floors);
            let own = |(app, floor): (&AppView, u32)| {
                Allocation::own(app.id, app.wants().min(share.max(floor)))
            };
            snapshot.apps.iter().zip(floors).map(own).collect()
        };
        Decision::everybody_waits(snapshot, allocations)
    }
}

/// What those may have whose floors are not more: at least 1, because there are not more
/// applications than processors. Floors together are no more than these.
fn equal_share(processors: u32, floors: &[u32]) -> u32 {
    let mut share = u32::MAX;
    loop {
        let above = floors.iter().filter(|floor| **floor > share);
        let (number, sum) = above.fold((0, 0), |(number, sum), floor| (number + 1, sum + floor));
        // All of them above it: no application has the share.
        let next = (processors - sum).checked_div(floors.len() as u32 - number).unwrap_or(0);
        // It only falls: one that is above the share has more than the share of what there is.
        if next >= share || number as usize == floors.len() {
            return share;
        }
        share = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_above_the_equal_share_leave_less_to_the_others() {
        assert_eq!(equal_share(8, &[1, 1, 1]), 2);
        assert_eq!(equal_share(8, &[5, 1, 1]), 1);
        assert_eq!(equal_share(16, &[6, 5, 1]), 5);
        assert_eq!(equal_share(16, &[9, 4, 1]), 3);
        // The second one is above the share only because of the first one.
        assert_eq!(equal_share(8, &[4, 2, 1]), 2);
        assert_eq!(equal_share(9, &[5, 2, 1]), 2);
        assert_eq!(equal_share(4, &[4]), 4);
    }
}
