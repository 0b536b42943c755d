//! `fair`: equal parts of the processors by weight, whatever is asked for.
//!
//! # Rule
//! Max-min: each application has what it wants, as far as that is not more than its part; parts are
//! in proportion to weights, and what an application leaves of its part is shared by the others in
//! the same way. To ask for more than that part gains nothing, to ask for less than it costs
//! nothing. Every application has 1 at least and, in order of arrival while processors last, its
//! minimum; both are inside the proportion. Every processor that some application can use is used.
//!
//! # Decisions
//! - More applications than processors: as under `dss`.

use crate::crowd;
use crate::decision::{Allocation, Decision};
use crate::dss;
use crate::policy::Policy;
use crate::snapshot::Snapshot;

/// Equal parts by weight. Without state; O(n log n).
#[derive(Debug, Clone, Default)]
pub struct Fair(());

impl Fair {
    /// Its name in the registry.
    pub const NAME: &'static str = "fair";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str = "equal parts by weight, whatever is asked for (max-min)";

    /// The policy. It has no parameters.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl Policy for Fair {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn is_timeless(&self) -> bool {
        true
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        if snapshot.is_crowded() {
            let all = crowd::one_each(snapshot, 0..snapshot.apps.len());
            return Decision::everybody_waits(snapshot, all);
        }
        let parts = dss::divide_by(snapshot.apps, snapshot.processors, |_| 1);
        let own = |(app, part): (&crate::AppView, u32)| Allocation::own(app.id, part);
        let allocations = snapshot.apps.iter().zip(parts).map(own).collect();
        Decision::everybody_waits(snapshot, allocations)
    }
}
