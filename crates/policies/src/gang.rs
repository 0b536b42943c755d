//! `gang`: the Ousterhout matrix. Rows of applications that fit together with their whole requests, a row per quantum.
//!
//! # Rule
//! An application goes into the first row, from the running one on, in which its whole request is left, or opens a new
//! row. At the end of a quantum the next row runs.
//!
//! # Decisions
//! - A request beyond the machine counts as the whole machine.
//! - When applications, requests or processors change, applications move up into rows with room and empty rows go: the
//!   matrix is packed again in the order of turns, so that nobody's turn comes later for it but by rows that grew.
//! - Where masters always run, rows share what is left beside the processors kept for masters outside their turn.
//! - Minima and weights play no part. The work-list: who is in other rows, in the order of turns, then who was cut.
//!
//! Hence nobody waits for more than n - 1 quanta for its turn.

use crate::decision::Decision;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::ring::Ring;
use crate::snapshot::{AppId, Cause, Snapshot};
use crate::turn;

parameters! {
    /// Parameters of `gang`.
    pub struct GangParameters {
        /// Processors kept for the masters of applications outside their turn, where masters always run.
        "masters" masters: u32 = 1, 1 => 1024;
    }
}

/// Gang scheduling by the Ousterhout matrix. O(n log n + n x rows) when something changes.
#[derive(Debug, Clone, Default)]
pub struct Gang {
    parameters: GangParameters,
    /// Applications row by row, the running row first.
    ring: Ring,
    /// Lengths of the rows.
    rows: Vec<usize>,
    /// What the rows were packed for: processors for a row, and who wants how many, in the order of the ring.
    packed: Option<(u32, Vec<(AppId, u32)>)>,
}

impl Gang {
    /// Its name in the registry.
    pub const NAME: &'static str = "gang";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str = "the Ousterhout matrix: whole requests, a row of applications per quantum";

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

    /// The next row comes to the front.
    fn pass(&mut self) {
        let Some(&running) = self.rows.first() else { return };
        self.ring.pass(running);
        self.rows.rotate_left(1);
        if let Some((_, packed)) = &mut self.packed {
            packed.rotate_left(running);
        }
    }

    /// Rows of at most so many processors for applications in this order. Returns the order row by row.
    fn pack(&mut self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32) -> Vec<usize> {
        let mut rows: Vec<(u32, Vec<usize>)> = Vec::new();
        for &i in order {
            let size = snapshot.apps[i].wants().min(processors);
            match rows.iter_mut().find(|(left, _)| *left >= size) {
                Some((left, row)) => {
                    *left -= size;
                    row.push(i);
                }
                None => rows.push((processors - size, vec![i])),
            }
        }
        self.rows = rows.iter().map(|(_, row)| row.len()).collect();
        rows.into_iter().flat_map(|(_, row)| row).collect()
    }
}

impl Policy for Gang {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        if snapshot.cause == Cause::Quantum {
            self.pass();
        }
        let mut order = self.ring.renew(snapshot);
        let wanted: u64 = snapshot.apps.iter().map(|app| u64::from(app.wants())).sum();
        let one_row = wanted <= u64::from(snapshot.processors) || order.len() == 1;
        let processors = if one_row { snapshot.processors } else { turn::capacity(snapshot, self.parameters.masters) };
        if processors == 0 {
            (self.rows, self.packed) = (Vec::new(), None);
            return turn::decision(snapshot, &[], order);
        }
        let wants = |order: &[usize]| order.iter().map(|&i| (snapshot.apps[i].id, snapshot.apps[i].wants())).collect();
        let now: Vec<(AppId, u32)> = wants(&order);
        if self.packed.as_ref().is_none_or(|(before, packed)| *before != processors || *packed != now) {
            order = self.pack(snapshot, &order, processors);
            self.ring.reorder(order.iter().map(|&i| snapshot.apps[i].id));
            self.packed = Some((processors, wants(&order)));
        }
        let (running, waiting) = order.split_at(self.rows.first().copied().unwrap_or(0));
        let parts: Vec<_> = running.iter().map(|&i| (i, snapshot.apps[i].wants().min(processors))).collect();
        turn::decision(snapshot, &parts, waiting.iter().chain(running).copied())
    }
}
