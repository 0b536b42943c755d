//! `sw-dss` and `ssw-dss`: a window slides over the circular list of applications; those in the
//! window run under `dss`.
//!
//! # Rule
//! A gang is the longest run of neighbours, from the first of the list on, whose requests add up to
//! at most load x P (one application always fits). At the end of a quantum the window moves on:
//! `sw-dss` to the neighbouring gang, `ssw-dss` by one application, so that all but one run again.
//! When all applications fit into one gang all run always.
//!
//! # Decisions
//! - `dss` gives each application in a gang a processor: a gang has no more applications than
//!   processors.
//! - Newcomers join the list where they come last ([`ring`] R2), not between the last and the first
//!   of the order of arrival: so arrivals make no other application wait longer.
//! - Events in mid-quantum pass no turn on; the gang is cut anew from its first application on.
//! - The work-list: the applications outside the window, in the order of turns, then those inside
//!   that want more.
//!
//! Hence no application waits for more than n - 1 quanta for its turn.

use crate::decision::Decision;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::ring::{self, Ring};
use crate::snapshot::{Cause, Snapshot};
use crate::turn;

parameters! {
    /// Parameters of `sw-dss` and `ssw-dss`.
    pub struct WindowParameters {
        /// The requests in a gang are at most this times the number of processors.
        "load" load: f64 = 1.5, 1.0 => 64.0;
        /// Processors kept for the masters of applications outside their turn, where masters always
        /// run.
        "masters" masters: u32 = 1, 1 => 1024;
    }
}

/// By what the window moves on at the end of a quantum.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// All that run: to the neighbouring gang.
    Gang,
    /// The first of them.
    One,
}

/// The window of both policies.
#[derive(Debug, Clone, Default)]
struct Window {
    ring: Ring,
    /// How many at the front of the ring run by the last decision.
    running: usize,
}

impl Window {
    fn decide(
        &mut self,
        snapshot: &Snapshot<'_>,
        parameters: &WindowParameters,
        step: Step,
    ) -> Decision {
        if snapshot.cause == Cause::Quantum {
            self.ring.pass(match step {
                Step::Gang => self.running,
                Step::One => self.running.min(1),
            });
        }
        let order = self.ring.renew(snapshot);
        let limit = ring::limit(snapshot.processors, parameters.load);
        let mut processors = snapshot.processors;
        self.running = ring::gang(snapshot, &order, limit, processors);
        if self.running < order.len() {
            processors = turn::capacity(snapshot, parameters.masters);
            self.running = ring::gang(snapshot, &order, limit, processors);
        }
        let (inside, outside) = order.split_at(self.running);
        let parts = turn::divide(snapshot, inside.to_vec(), processors);
        let work_list = outside.iter().copied().chain(parts.iter().map(|(i, _)| *i));
        let mut decision = turn::decision(snapshot, &parts, work_list);
        match step {
            Step::One => turn::announce(
                &mut decision,
                reached(snapshot, &order, self.running, (limit, processors)),
            ),
            Step::Gang => {
                turn::announce_gangs(&mut decision, snapshot, outside, (limit, processors));
            }
        }
        decision
    }
}

/// After how many quanta a window that moves on by one application reaches each of those of `order`
/// that it does not hold now.
fn reached<'a>(
    snapshot: &Snapshot<'_>,
    order: &'a [usize],
    running: usize,
    (limit, most): (u64, u32),
) -> impl Iterator<Item = (usize, u32)> + use<'a> {
    let wants = |place: usize| u64::from(snapshot.apps[order[place]].wants());
    let (mut first, mut sum) = (0, (0..running).map(wants).sum::<u64>());
    let mut quanta = Vec::with_capacity(order.len().saturating_sub(running));
    for place in running..order.len() {
        sum += wants(place);
        // The window has moved on once at least.
        while first < place && (first == 0 || sum > limit || place - first >= most as usize) {
            sum -= wants(first);
            first += 1;
        }
        quanta.push(u32::try_from(first).unwrap_or(u32::MAX));
    }
    order[running.min(order.len())..].iter().copied().zip(quanta)
}

macro_rules! window_policy {
    ($(#[$doc:meta])* $name:ident, $key:literal, $description:literal, $step:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            parameters: WindowParameters,
            window: Window,
        }

        impl $name {
            /// Its name in the registry.
            pub const NAME: &'static str = $key;
            /// What it does, in a line.
            pub const DESCRIPTION: &'static str = $description;

            /// The policy with the default parameters.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            /// The policy with these parameters.
            ///
            /// # Errors
            /// The first parameter that is out of range.
            pub fn with(parameters: WindowParameters) -> Result<Self, ParameterError> {
                parameters.check()?;
                Ok(Self { parameters, ..Self::default() })
            }
        }

        impl Policy for $name {
            configurable!();

            fn name(&self) -> &'static str {
                Self::NAME
            }

            fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
                self.window.decide(snapshot, &self.parameters, $step)
            }
        }
    };
}

window_policy!(
    /// The sliding window: a gang per quantum. O(n log n).
    SwDss, "sw-dss", "gangs of neighbours, one per quantum, dss inside", Step::Gang
);
window_policy!(
    /// The step sliding window: all but one application of a gang run again. O(n log n).
    SswDss, "ssw-dss", "a window of neighbours that moves by one application per quantum, dss inside", Step::One
);
