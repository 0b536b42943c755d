//! `dss`, dynamic space sharing: processors in proportion to weight and request, and at least one
//! for each application.
//!
//! # Rule
//! When all requests fit, each application has its request. Otherwise the processors are shared in
//! proportion to weight x request, with at least 1 for each and, as long as processors last, its
//! minimum, in order of arrival. These floors are inside the proportion: they count for what an
//! application has, and are not given out before. No application gets more than it wants; what it
//! leaves is shared in the same proportion. Whole numbers come from Webster's divisor method, ties
//! are broken by arrival, so that nothing is lost by an application because another one leaves, as
//! long as weights are equal and there are no minima. Every processor that some application can use
//! is used.
//!
//! Where weights differ, 1 for each is too much for the light ones when there are few processors:
//! those that are due less by their weight share some ([`crowd`], where masters always run).
//!
//! # Decisions
//! - The proportion counts the whole request, also the part above the application's maximum, as the
//!   rule is written.
//! - More applications than processors is not foreseen by the rule. As in `equip`: with
//!   `master_always` all masters share all processors in turn, by their weights; without it the
//!   first P in order of arrival have one each and the others wait until one of them leaves
//!   (`dss-ts` gives them turns).

use crate::crowd;
use crate::decision::{Allocation, Decision};
use crate::policy::Policy;
use crate::share::{self, Claim};
use crate::snapshot::{AppView, Snapshot};

/// Dynamic space sharing. Without state; O(n log n).
#[derive(Debug, Clone, Default)]
pub struct Dss(());

impl Dss {
    /// Its name in the registry.
    pub const NAME: &'static str = "dss";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str = "space sharing in proportion to weight and request";

    /// The policy. It has no parameters.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl Policy for Dss {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn is_timeless(&self) -> bool {
        true
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let allocations =
            if snapshot.is_crowded() { crowd(snapshot) } else { space_share(snapshot) };
        Decision::everybody_waits(snapshot, allocations)
    }
}

/// The rule for at most as many applications as processors.
pub(crate) fn space_share(snapshot: &Snapshot<'_>) -> Vec<Allocation> {
    // Most often all fits.
    if fits(snapshot.apps, snapshot.processors) {
        return snapshot.apps.iter().map(|app| Allocation::own(app.id, app.wants())).collect();
    }
    if let Some(allocations) = crowd::by_weight(snapshot, |app| app.request) {
        return allocations;
    }
    let parts = divide(snapshot.apps, snapshot.processors);
    snapshot.apps.iter().zip(parts).map(|(app, part)| Allocation::own(app.id, part)).collect()
}

/// The rule for more applications than processors.
pub(crate) fn crowd(snapshot: &Snapshot<'_>) -> Vec<Allocation> {
    let by_weight = crowd::by_weight(snapshot, |app| app.request);
    by_weight.unwrap_or_else(|| crowd::one_each(snapshot, 0..snapshot.apps.len()))
}

/// Whether each application can have all that it wants.
pub(crate) fn fits(apps: &[AppView], processors: u32) -> bool {
    apps.iter().map(|app| u64::from(app.wants())).sum::<u64>() <= u64::from(processors)
}

/// The same for any applications, in order of arrival, that have these processors for themselves.
pub(crate) fn divide(apps: &[AppView], processors: u32) -> Vec<u32> {
    divide_by(apps, processors, |app| app.request)
}

/// The same in proportion to weight x `size`.
pub(crate) fn divide_by(
    apps: &[AppView],
    processors: u32,
    size: impl Fn(&AppView) -> u32,
) -> Vec<u32> {
    debug_assert!(apps.len() as u64 <= u64::from(processors));
    // When all fits the order of steps does not matter, but minima and proportions must not be
    // asked.
    if fits(apps, processors) {
        return apps.iter().map(AppView::wants).collect();
    }
    let claim = |(app, floor): (&AppView, u32)| Claim {
        key: share::key(app.weight, size(app)),
        floor,
        room: app.wants(),
    };
    let claims: Vec<Claim> = apps.iter().zip(floors(apps, processors)).map(claim).collect();
    share::divide(processors.into(), &claims)
}

/// What each has at least: one processor and, in order of arrival while processors last, its
/// minimum. Together no more than there are, where each can have one.
pub(crate) fn floors(apps: &[AppView], processors: u32) -> Vec<u32> {
    let mut rest = u64::from(processors).saturating_sub(apps.len() as u64);
    let floor = |app: &AppView| {
        let more = u64::from(app.floor() - 1).min(rest);
        rest -= more;
        1 + u32::try_from(more).expect("it is at most the floor, a u32")
    };
    apps.iter().map(floor).collect()
}
