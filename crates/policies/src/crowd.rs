//! What policies do when some applications are due less than a processor: because there are more
//! applications than processors, or by their weights.
//!
//! # Rule
//! [`by_weight`]: each application is due a part of the processors in proportion to its key, which
//! is its weight x request or its weight alone. None is due more than it wants, nor less than its
//! weight relative to the largest one, so that a program of the largest weight has a processor at
//! least. When that is more than there is, all are due parts by weight alone. Those that are due a
//! processor or more have processors of their own. The masters of the others share what is then
//! left, which is their parts together, rounded to the nearest and at least one; placement gives
//! each of them turns by its part.
//!
//! # Decisions
//! - With equal weights no application shares as long as there is a processor for each.
//! - A minimum of two or more is a floor in arrival order, as far as processors go.
//! - The masters that share have one processor together, however little they are due: the weight of
//!   a single light program next to as many heavy ones as there are processors does not hold.

use crate::decision::{Allocation, WHOLE};
use crate::dss;
use crate::quick::QuickMap;
use crate::share::{self, Claim};
use crate::snapshot::{AppView, Snapshot};

/// Allocations, in order of arrival, for more applications than processors.
///
/// With `master_always` every application has its master on a shared processor, all of them alike
/// (rule 5). Without, the first P of `order` (indices into the snapshot) have one processor each
/// and the others wait.
#[must_use]
pub fn one_each(snapshot: &Snapshot<'_>, order: impl Iterator<Item = usize>) -> Vec<Allocation> {
    if snapshot.master_always && snapshot.processors > 0 {
        return snapshot.apps.iter().map(|app| Allocation::shared_master(app.id)).collect();
    }
    let mut allocations: Vec<_> =
        snapshot.apps.iter().map(|app| Allocation::own(app.id, 0)).collect();
    for i in order.take(snapshot.processors as usize) {
        allocations[i].processors = 1;
    }
    allocations
}

/// Allocations by weight x `size`, in order of arrival; see the rule. `None` where weights are
/// equal or masters do not always run: other rules hold then. O(n log n).
#[must_use]
pub fn by_weight(
    snapshot: &Snapshot<'_>,
    size: impl Fn(&AppView) -> u32,
) -> Option<Vec<Allocation>> {
    let Snapshot { apps, processors, .. } = *snapshot;
    let heaviest = apps.iter().map(|app| share::fixed(app.weight)).max()?;
    let differ = apps.iter().any(|app| share::fixed(app.weight) != heaviest);
    if !differ || !snapshot.master_always || processors == 0 {
        return None;
    }
    // Parts of a processor; fewer on machines beyond all that there are, for the sake of 32 bits.
    let unit = (u32::MAX / processors).clamp(1, WHOLE);
    let all = u64::from(processors) * u64::from(unit);
    let relative = |app: &AppView| {
        let part = u128::from(unit) * share::fixed(app.weight) / heaviest;
        u32::try_from(part).expect("it is at most `unit`, a u32").max(1)
    };
    let least: Vec<u32> = apps.iter().map(relative).collect();
    let floors: u64 = least.iter().map(|part| u64::from(*part)).sum();
    let Some(mut rest) = all.checked_sub(floors) else {
        return Some(share_all(apps, &least));
    };
    let claim = |(app, least): (&AppView, &u32)| {
        let minimum = if app.floor() > 1 { app.floor().saturating_mul(unit) } else { 0 };
        let more = u64::from(minimum.saturating_sub(*least)).min(rest);
        rest -= more;
        let floor = least + u32::try_from(more).expect("it is at most the minimum, a u32");
        let room = app.wants().min(processors).saturating_mul(unit).max(floor);
        Claim { key: share::key(app.weight, size(app)), floor, room }
    };
    let claims: Vec<Claim> = apps.iter().zip(&least).map(claim).collect();
    let mut parts = share::divide(all, &claims);
    // Those that claim the same are due the same; the division gave the last few units to the
    // first.
    let mut same = QuickMap::default();
    for (part, claim) in parts.iter_mut().zip(&claims) {
        *part = *same.entry((claim.key, claim.floor, claim.room)).or_insert(*part);
    }
    let owns = |part: u32| part >= unit - 1;
    let due: u64 = parts.iter().filter(|part| !owns(**part)).map(|part| u64::from(*part)).sum();
    let own: Vec<AppView> =
        apps.iter().zip(&parts).filter(|(_, part)| owns(**part)).map(|(app, _)| *app).collect();
    let sharers = (apps.len() - own.len()) as u64;
    let nearest = (due + u64::from(unit) / 2) / u64::from(unit);
    let room = u64::from(processors).checked_sub(own.len() as u64)?;
    let shared = nearest.max(1).min(sharers).min(room);
    if shared == sharers {
        // One for each after all.
        return None;
    }
    if shared == 0 {
        return Some(share_all(apps, &parts));
    }
    let left = processors - u32::try_from(shared).expect("it is at most `processors`");
    let mut numbers = dss::divide_by(&own, left, size).into_iter();
    let allocation = |(app, part): (&AppView, &u32)| match owns(*part) {
        true => Allocation::own(app.id, numbers.next().unwrap_or(1)),
        false => Allocation::shared_part(app.id, *part),
    };
    Some(apps.iter().zip(&parts).map(allocation).collect())
}

fn share_all(apps: &[AppView], parts: &[u32]) -> Vec<Allocation> {
    apps.iter().zip(parts).map(|(app, part)| Allocation::shared_part(app.id, *part)).collect()
}
