//! `rr`, round robin: one application at a time has the machine, for a quantum.
//!
//! # Decisions
//! - The work-list is empty: what the application does not use, or gives back, idles until its turn
//!   is over. `rr` is the point of comparison for policies that do better.
//! - When the application leaves, the next one has the rest of the quantum.

use crate::decision::Decision;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::ring::Ring;
use crate::snapshot::{Cause, Snapshot};
use crate::turn;

parameters! {
    /// Parameters of `rr`.
    pub struct RoundRobinParameters {
        /// Processors kept for the masters of applications outside their turn, where masters always
        /// run.
        "masters" masters: u32 = 1, 1 => 1024;
    }
}

/// One application per quantum, alone. O(n log n).
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    parameters: RoundRobinParameters,
    ring: Ring,
}

impl RoundRobin {
    /// Its name in the registry.
    pub const NAME: &'static str = "rr";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str = "round robin: one application per quantum, alone";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: RoundRobinParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, ..Self::default() })
    }
}

impl Policy for RoundRobin {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        self.ring.pass(usize::from(snapshot.cause == Cause::Quantum));
        let order = self.ring.renew(snapshot);
        let alone = order.len() == 1;
        let processors = if alone {
            snapshot.processors
        } else {
            turn::capacity(snapshot, self.parameters.masters)
        };
        let part = order.first().map(|&i| (i, snapshot.apps[i].wants().min(processors)));
        let mut decision = turn::decision(snapshot, part.as_slice(), []);
        turn::announce(&mut decision, order.iter().copied().zip(0..));
        decision
    }
}
