//! `dss-ts`, dynamic space sharing with time sharing: `dss` while each application can have a
//! processor, turns otherwise.
//!
//! # More applications than processors
//! With `master_always` all masters share all processors by their weights; placement moves them on
//! at each quantum. Without it applications queue for turns of one quantum on a processor of their
//! own. The first P of the queue have a turn; at the end of a quantum those that had one go to the
//! end of the queue. Hence
//! T1  with the same n applications for n quanta, each of them has exactly P turns;
//! T2  no application waits for more than ceil(n / P) - 1 quanta between turns; newcomers join at
//!     the end and delay none that waits already;
//! T3  an event in mid-quantum passes no turn on: only processors whose holders left go to the next
//!     in the queue.

use std::collections::{BTreeSet, VecDeque};

use crate::crowd;
use crate::decision::Decision;
use crate::dss;
use crate::policy::Policy;
use crate::snapshot::{AppId, Cause, Snapshot};

/// Time-shared dynamic space sharing, the manager's default. O(n log n).
#[derive(Debug, Clone, Default)]
pub struct DssTs {
    /// All applications of the last snapshot; those that have (or would have) a turn come first.
    queue: VecDeque<AppId>,
    /// How many at the front of the queue had a turn by the last decision.
    holders: usize,
}

impl DssTs {
    /// Its name in the registry.
    pub const NAME: &'static str = "dss-ts";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "dss, and turns when there are more applications than processors (default)";

    /// The policy. It has no parameters of its own; the length of a turn is the manager's quantum.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When the quantum is over, the applications that had a turn go to the end. Those that left
    /// are removed; those that came join at the end.
    fn advance(&mut self, snapshot: &Snapshot<'_>) {
        if snapshot.cause == Cause::Quantum {
            self.queue.rotate_left(self.holders);
        }
        let apps = snapshot.apps.iter().map(|app| app.id);
        if apps.eq(self.queue.iter().copied()) {
            return;
        }
        let present: BTreeSet<AppId> = snapshot.apps.iter().map(|app| app.id).collect();
        self.queue.retain(|app| present.contains(app));
        let known: BTreeSet<AppId> = self.queue.iter().copied().collect();
        self.queue
            .extend(snapshot.apps.iter().map(|app| app.id).filter(|app| !known.contains(app)));
    }
}

impl Policy for DssTs {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// The queue moves for turns of its own only, and there are none where masters share.
    fn is_timeless(&self) -> bool {
        self.holders == 0
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        self.advance(snapshot);
        if !snapshot.is_crowded() {
            self.holders = 0;
            return Decision::everybody_waits(snapshot, dss::space_share(snapshot));
        }
        if snapshot.master_always {
            self.holders = 0;
            return Decision::everybody_waits(snapshot, dss::crowd(snapshot));
        }
        self.holders = (snapshot.processors as usize).min(self.queue.len());
        let at = snapshot.places();
        let order: Vec<usize> = self.queue.iter().map(|app| at[app]).collect();
        let allocations = crowd::one_each(snapshot, order.iter().copied());
        // A processor that falls free gives the next in the queue its turn early; holders that want
        // more come last.
        let (having, waiting) = order.split_at(self.holders);
        let wanting = having.iter().filter(|&&i| allocations[i].wants_more(&snapshot.apps[i]));
        let work_list = waiting.iter().chain(wanting).map(|&i| snapshot.apps[i].id).collect();
        Decision::new(snapshot, allocations, work_list)
    }
}
