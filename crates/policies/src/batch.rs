//! `batch`: first come, first served, each application with its whole request until it leaves.
//!
//! # Rule
//! Applications start in order of arrival as long as their whole requests fit. The first that does
//! not fit waits, and so do all that came after it. With `backfill`, later ones start if they fit.
//!
//! # Decisions
//! - An application that runs keeps what it has. It gives back what it no longer asks for. When it
//!   asks for more than it has, it comes before applications that have not started, and takes what
//!   there is.
//! - A request beyond the machine counts as the whole machine.
//! - With `backfill` a large request may wait for ever while small ones start: the lengths of
//!   programs are not known.
//! - Where masters always run, waiting applications have their masters on the processors kept for
//!   that. If these were in use, the application that started last gives them up.
//! - When the machine shrank and has too few processors for all that ran, the application that
//!   started last waits again.
//! - Minima and weights play no part.

use std::collections::BTreeMap;

use crate::decision::{Allocation, Decision};
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::snapshot::{AppId, Snapshot};
use crate::turn;

parameters! {
    /// Parameters of `batch`.
    pub struct BatchParameters {
        /// Whether applications may start before one that came earlier and does not fit.
        "backfill" backfill: bool = false, false => true;
        /// Processors kept for the masters of applications that wait, where masters always run.
        "masters" masters: u32 = 1, 1 => 1024;
    }
}

/// First come, first served. O(n log n).
#[derive(Debug, Clone, Default)]
pub struct Batch {
    parameters: BatchParameters,
    /// The applications that run, in order of start, and their numbers of processors.
    running: Vec<(AppId, u32)>,
}

impl Batch {
    /// Its name in the registry.
    pub const NAME: &'static str = "batch";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "first come, first served, with whole requests; backfilling is an option";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: BatchParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, ..Self::default() })
    }

    /// The applications that run on `processors`, in order of start: place in the snapshot and
    /// number of processors, which is never 0.
    fn fill(&self, snapshot: &Snapshot<'_>, processors: u32) -> Vec<(usize, u32)> {
        let at = snapshot.places();
        let mut left = processors;
        let mut parts = Vec::new();
        let mut runs = vec![false; snapshot.apps.len()];
        let mut start = |i: usize, part: u32, parts: &mut Vec<(usize, u32)>| {
            parts.push((i, part));
            runs[i] = true;
        };
        for &(app, held) in &self.running {
            let Some(&i) = at.get(&app) else { continue };
            let part = held.min(snapshot.apps[i].wants()).min(left);
            if part > 0 {
                left -= part;
                start(i, part, &mut parts);
            }
        }
        for (i, part) in &mut parts {
            let more = left.min(snapshot.apps[*i].wants() - *part);
            *part += more;
            left -= more;
        }
        for (i, app) in snapshot.apps.iter().enumerate() {
            let size = app.wants().min(processors);
            if runs[i] || left == 0 {
                continue;
            }
            if size <= left {
                left -= size;
                parts.push((i, size));
            } else if !self.parameters.backfill {
                break;
            }
        }
        parts
    }
}

impl Policy for Batch {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let mut parts = self.fill(snapshot, snapshot.processors);
        if parts.len() < snapshot.apps.len() {
            parts = self.fill(snapshot, turn::capacity(snapshot, self.parameters.masters));
        }
        self.running = parts.iter().map(|&(i, part)| (snapshot.apps[i].id, part)).collect();
        let running = parts.iter().map(|(i, _)| *i);
        let mut waits = vec![true; snapshot.apps.len()];
        running.clone().for_each(|i| waits[i] = false);
        let queue = (0..snapshot.apps.len()).filter(|&i| waits[i]);
        turn::decision(snapshot, &parts, running.chain(queue))
    }

    /// As in a decision, a waiting application starts with its whole request or not at all.
    fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        let held: BTreeMap<AppId, Allocation> =
            last.allocations.iter().map(|a| (a.app, *a)).collect();
        let listed: BTreeMap<AppId, usize> =
            last.work_list.iter().enumerate().map(|(place, app)| (*app, place)).collect();
        let mut after: Vec<Allocation> = Vec::new();
        for app in snapshot.apps {
            let before = held.get(&app.id).copied().unwrap_or(Allocation::own(app.id, 0));
            after.push(Allocation { processors: before.processors.min(app.wants()), ..before });
        }
        let own = after.iter().filter(|a| !a.shared).map(|a| u64::from(a.processors)).sum();
        let mut free = u64::from(snapshot.processors).saturating_sub(own);
        let mut sharing = after.iter().filter(|a| a.shared).count();
        let mut order: Vec<usize> =
            (0..after.len()).filter(|&i| listed.contains_key(&after[i].app)).collect();
        order.sort_by_key(|&i| listed[&after[i].app]);

        let most = turn::capacity(snapshot, self.parameters.masters);
        for &i in &order {
            let view = &snapshot.apps[i];
            let runs = after[i].processors > 0 && !after[i].shared;
            // Processors stay for the masters of applications that go on waiting.
            let others = sharing - usize::from(after[i].shared);
            let kept = if others > 0 { snapshot.processors - most } else { 0 };
            let room = u32::try_from(free.saturating_sub(kept.into())).unwrap_or(u32::MAX);
            let wanted =
                if runs { view.wants() - after[i].processors } else { view.wants().min(most) };
            if wanted == 0 {
                continue;
            }
            if runs || wanted <= room {
                let taken = wanted.min(room);
                free -= u64::from(taken);
                sharing = others;
                after[i] = Allocation::own(
                    view.id,
                    if runs { after[i].processors + taken } else { taken },
                );
            } else if !self.parameters.backfill {
                break;
            }
        }
        let waits = order.iter().filter(|&&i| after[i].wants_more(&snapshot.apps[i]));
        let work_list = waits.map(|&i| snapshot.apps[i].id).collect();
        let mut decision = Decision::new(snapshot, after, work_list);
        decision.rotate = false;
        decision
    }
}
