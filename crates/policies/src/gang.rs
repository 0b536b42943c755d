//! `gang`: the Ousterhout matrix. Rows of applications that fit together with their whole requests,
//! a row per quantum.
//!
//! # Rule
//! An application goes into the first row, from the running one on, that has room for its whole
//! request, or opens a new row. At the end of a quantum the next row runs.
//!
//! # Decisions
//! - A request beyond the machine counts as the whole machine.
//! - When applications, requests or processors change, the matrix is packed again, in the order of
//!   the ring: the application that has waited longest for a turn comes first. So applications move
//!   up into rows with room, and empty rows go. In mid-quantum the applications that have the turn
//!   come first in the first row. One that no longer fits there takes its place in the other rows
//!   by the order, and not before others that have waited longer.
//! - Where masters always run, rows share the processors that are not kept for masters outside
//!   their turn.
//! - Minima and weights play no part. The work-list: the applications in other rows, in the order
//!   of turns, then those whose allocation was cut.
//!
//! # No application starves
//! Invariant: the first of the ring, which has waited longest, leads the first row, unless the
//! first of the ring left in this quantum. When the matrix is packed again at the end of a quantum,
//! the first of the ring comes first; in mid-quantum it has the turn already. When the matrix is
//! not packed again, the next row is led by the first application of the ring's order that is in no
//! earlier row. That is the first of the ring after those of the earlier rows went to its end. So
//! in each quantum an application either runs, or one that stood before it in the ring moves after
//! it or leaves; none comes in before it. Hence, however requests change, no application waits for
//! more than n - 1 quanta for its turn, n being the number of applications when it came or had its
//! last turn.

use std::collections::{BTreeSet, VecDeque};

use crate::decision::Decision;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::quick::QuickSet;
use crate::ring::Ring;
use crate::snapshot::{AppId, Cause, Snapshot};
use crate::turn;

parameters! {
    /// Parameters of `gang`.
    pub struct GangParameters {
        /// Processors kept for the masters of applications outside their turn, where masters always
        /// run.
        "masters" masters: u32 = 1, 1 => 1024;
    }
}

/// Gang scheduling by the Ousterhout matrix. O(n log n + n x rows) when something changes.
#[derive(Debug, Clone, Default)]
pub struct Gang {
    parameters: GangParameters,
    /// The application that has waited longest for a turn stands first.
    ring: Ring,
    /// The running row first.
    rows: VecDeque<Vec<AppId>>,
    /// What the rows were packed for: processors for a row, and the number that each application
    /// wants, in order of arrival.
    packed: Option<(u32, Vec<(AppId, u32)>)>,
}

impl Gang {
    /// Its name in the registry.
    pub const NAME: &'static str = "gang";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "the Ousterhout matrix: whole requests, a row of applications per quantum";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: GangParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, ..Self::default() })
    }

    /// Rows of at most `processors` for applications in this order. In the first row the
    /// applications that have the turn come first.
    fn pack(
        snapshot: &Snapshot<'_>,
        order: &[usize],
        has_turn: &BTreeSet<AppId>,
        processors: u32,
    ) -> VecDeque<Vec<AppId>> {
        let mut left = processors;
        let mut running = Vec::new();
        let (first, then): (Vec<usize>, Vec<usize>) =
            order.iter().partition(|&&i| has_turn.contains(&snapshot.apps[i].id));
        for app in first.into_iter().chain(then).map(|i| &snapshot.apps[i]) {
            let size = app.wants().min(processors);
            if size <= left {
                left -= size;
                running.push(app.id);
            }
        }
        let runs: QuickSet<AppId> = running.iter().copied().collect();
        // No other application has room in the first row.
        let mut rows: Vec<(u32, Vec<AppId>)> = vec![(0, running)];
        for app in order.iter().map(|&i| &snapshot.apps[i]).filter(|app| !runs.contains(&app.id)) {
            let size = app.wants().min(processors);
            match rows.iter_mut().find(|(left, _)| *left >= size) {
                Some((left, row)) => {
                    *left -= size;
                    row.push(app.id);
                }
                None => rows.push((processors - size, vec![app.id])),
            }
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

impl Policy for Gang {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let quantum_ended = snapshot.cause == Cause::Quantum;
        if quantum_ended && let Some(ran) = self.rows.pop_front() {
            self.ring.pass_over(&ran.iter().copied().collect());
            self.rows.push_back(ran);
        }
        let order = self.ring.renew(snapshot);
        let wanted: u64 = snapshot.apps.iter().map(|app| u64::from(app.wants())).sum();
        let one_row = wanted <= u64::from(snapshot.processors) || order.len() == 1;
        let processors = if one_row {
            snapshot.processors
        } else {
            turn::capacity(snapshot, self.parameters.masters)
        };
        if processors == 0 {
            (self.rows, self.packed) = (VecDeque::new(), None);
            return turn::decision(snapshot, &[], order);
        }
        let wants = || snapshot.apps.iter().map(|app| (app.id, app.wants()));
        let as_before =
            |packed: &(u32, Vec<_>)| packed.0 == processors && packed.1.iter().copied().eq(wants());
        if !self.packed.as_ref().is_some_and(as_before) {
            let mut has_turn: BTreeSet<AppId> =
                self.rows.front().into_iter().flatten().copied().collect();
            if quantum_ended {
                has_turn.clear();
            }
            self.rows = Self::pack(snapshot, &order, &has_turn, processors);
            self.packed = Some((processors, wants().collect()));
        }
        let at = snapshot.places();
        let mut rows = self.rows.iter().map(|row| row.iter().map(|app| at[app]));
        let running: Vec<usize> = rows.next().into_iter().flatten().collect();
        let parts: Vec<_> =
            running.iter().map(|&i| (i, snapshot.apps[i].wants().min(processors))).collect();
        let waiting = rows.clone().flatten().chain(running.iter().copied());
        let mut decision = turn::decision(snapshot, &parts, waiting);
        for (row, quanta) in rows.zip(1..) {
            turn::announce(&mut decision, row.map(|i| (i, quanta)));
        }
        decision
    }
}
