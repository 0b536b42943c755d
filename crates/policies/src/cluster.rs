//! `cluster`: processors in groups of a fixed size.
//!
//! # Rule
//! In order of arrival each application gets one cluster (or its request, if that is less) while a
//! whole cluster is left. Further rounds hand out further clusters. When less than a cluster is
//! left, or every application has all the whole clusters that it wants, the rest is handed out in
//! twos and then in ones, so that no wanted processor idles. Applications that have nothing (or
//! only a processor for the master) come first there, and in the work-list.
//!
//! # Decisions
//! - Weights play no part. Minima do: they are handed out first, in order of arrival while
//!   processors last, and clusters complete them.
//! - Of a cluster an application takes what it asks for; the rest of the cluster is not lost but
//!   counts as left.
//! - With `master_always` each application has its one processor first, and a cluster completes it.
//!   With more applications than processors, all masters then share all processors in turn. Without
//!   `master_always` the clusters are handed out in order of arrival, and the applications that
//!   have nothing head the work-list.
//! - That a cluster lies under one cache is the business of [`placement`](crate::placement).

use std::collections::BTreeSet;

use crate::crowd;
use crate::decision::{Allocation, Decision};
use crate::dss;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::snapshot::{AppId, AppView, Snapshot};

parameters! {
    /// Parameters of `cluster`.
    pub struct ClusterParameters {
        /// Processors of a cluster.
        "size" size: u32 = 4, 1 => 1024;
    }
}

/// Processors in clusters. Without state; O(n + P).
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    parameters: ClusterParameters,
}

impl Cluster {
    /// Its name in the registry.
    pub const NAME: &'static str = "cluster";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "processors in clusters of a fixed size, in order of arrival";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: ClusterParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters })
    }
}

impl Policy for Cluster {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn is_timeless(&self) -> bool {
        true
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let allocations = if snapshot.is_crowded() && snapshot.master_always {
            crowd::one_each(snapshot, 0..snapshot.apps.len())
        } else {
            hand_out(snapshot, self.parameters.size)
        };
        let first = u32::from(snapshot.master_always);
        let served: BTreeSet<AppId> =
            allocations.iter().filter(|a| a.processors > first).map(|a| a.app).collect();
        let mut decision = Decision::everybody_waits(snapshot, allocations);
        decision.work_list.sort_by_key(|app| served.contains(app));
        decision.cluster = self.parameters.size;
        decision
    }
}

/// What each has before clusters are handed out: its minimum in order of arrival, while processors
/// last; where masters always run, one processor in any case.
fn least(snapshot: &Snapshot<'_>) -> Vec<u32> {
    if snapshot.master_always {
        return dss::floors(snapshot.apps, snapshot.processors);
    }
    let mut rest = snapshot.processors;
    let minimum = |app: &AppView| {
        let wanted = if app.floor() > 1 { app.floor() } else { 0 };
        // A part of it is of no use to one that cannot do with less.
        let part = if wanted <= rest { wanted } else { 0 };
        rest -= part;
        part
    };
    snapshot.apps.iter().map(minimum).collect()
}

fn hand_out(snapshot: &Snapshot<'_>, size: u32) -> Vec<Allocation> {
    let first = u32::from(snapshot.master_always);
    let mut parts = least(snapshot);
    let mut left =
        u64::from(snapshot.processors) - parts.iter().map(|part| u64::from(*part)).sum::<u64>();
    let wants = |i: usize| snapshot.apps[i].wants();

    // Whole clusters; the first one completes the processor that is there already.
    let mut open: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] < wants(i)).collect();
    let mut round = 1;
    let mut out = false;
    while !open.is_empty() && !out {
        for &i in &open {
            // None where its minimum is more.
            let cluster = size.saturating_mul(round).saturating_sub(parts[i]);
            if u64::from(cluster) > left {
                out = true;
                break;
            }
            let taken = cluster.min(wants(i) - parts[i]);
            parts[i] += taken;
            left -= u64::from(taken);
        }
        open.retain(|&i| parts[i] < wants(i));
        round += 1;
    }

    open.sort_by_key(|&i| parts[i] > first);
    for chunk in [2_u32, 1] {
        while left >= u64::from(chunk) && !open.is_empty() {
            for &i in &open {
                if left < u64::from(chunk) {
                    break;
                }
                let taken = chunk.min(wants(i) - parts[i]);
                parts[i] += taken;
                left -= u64::from(taken);
            }
            open.retain(|&i| parts[i] < wants(i));
        }
    }
    snapshot.apps.iter().zip(parts).map(|(app, part)| Allocation::own(app.id, part)).collect()
}
