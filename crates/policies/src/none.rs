//! `none`: no policy. Each application has what it asks for and nothing is bound, as without a
//! manager.
//!
//! The baseline of experiments: the operating system shares out the processors. The decision is
//! [`unbound`](crate::Decision::unbound), and only a manager or simulator that offers that can run
//! it ([`Needs`]).

use crate::decision::{Allocation, Decision};
use crate::policy::{Needs, Policy};
use crate::snapshot::Snapshot;

/// Binds nothing. Without state; O(n).
#[derive(Debug, Clone, Default)]
pub struct NoPolicy(());

impl NoPolicy {
    /// Its name in the registry.
    pub const NAME: &'static str = "none";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "every program has what it asks for and nothing is bound: the operating system alone";

    /// The policy. It has no parameters.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl Policy for NoPolicy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn needs(&self) -> Needs {
        Needs { unbound: true, ..Needs::NOTHING }
    }

    fn is_timeless(&self) -> bool {
        true
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let allocations =
            snapshot.apps.iter().map(|app| Allocation::own(app.id, app.wants())).collect();
        let mut decision = Decision::new(snapshot, allocations, Vec::new());
        decision.unbound = true;
        decision
    }
}
