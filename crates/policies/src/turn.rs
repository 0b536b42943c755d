//! Allocations when some applications have their turn and the others do not.
//!
//! # Rule
//! Rule 5 of the policies. Outside its turn an application has, with `master_always`, its master on
//! the processors kept for that purpose and nothing else; placement spreads these masters and moves
//! them on at each quantum. Without `master_always` it has nothing. On a single processor, which
//! leaves none to keep apart from the one for a turn, all masters share it. Applications outside
//! their turn are told when it comes, in quanta, so that their masters can wait for it at a fork
//! ([`announce`]).

use crate::decision::{Allocation, Decision};
use crate::dss;
use crate::ring;
use crate::snapshot::{AppView, Snapshot};

/// Processors for the applications that have their turn while others have not: all but at most
/// `masters`, which is 1 or more. None where masters always run and the machine has one processor.
#[must_use]
pub fn capacity(snapshot: &Snapshot<'_>, masters: u32) -> u32 {
    if !snapshot.master_always {
        return snapshot.processors;
    }
    snapshot.processors
        - masters.min(snapshot.processors.saturating_sub(1).max(1)).min(snapshot.processors)
}

/// Parts of `processors` by `dss` for the applications at these places of the snapshot, as pairs of
/// place and part. No more of them than processors: each has one at least.
#[must_use]
pub fn divide(
    snapshot: &Snapshot<'_>,
    mut members: Vec<usize>,
    processors: u32,
) -> Vec<(usize, u32)> {
    members.sort_unstable();
    let apps: Vec<AppView> = members.iter().map(|&i| snapshot.apps[i]).collect();
    members.into_iter().zip(dss::divide(&apps, processors)).collect()
}

/// The decision in which the applications at these places have these parts (none of them 0), and
/// the others have no turn.
///
/// The work-list is what `work_list` yields, as far as it can use more. The parts are at most
/// [`capacity`] together, unless all applications have their turn.
#[must_use]
pub fn decision(
    snapshot: &Snapshot<'_>,
    parts: &[(usize, u32)],
    work_list: impl IntoIterator<Item = usize>,
) -> Decision {
    let outside = if snapshot.master_always && snapshot.processors > 0 {
        Allocation::shared_master
    } else {
        |id| Allocation::own(id, 0)
    };
    let mut allocations: Vec<_> = snapshot.apps.iter().map(|app| outside(app.id)).collect();
    for &(i, part) in parts.iter().filter(|(_, part)| *part > 0) {
        allocations[i] = Allocation::own(snapshot.apps[i].id, part);
    }
    let wanting = work_list.into_iter().filter(|&i| allocations[i].wants_more(&snapshot.apps[i]));
    let work_list = wanting.map(|i| snapshot.apps[i].id).collect();
    Decision::new(snapshot, allocations, work_list)
}

/// Says of these applications, by their places in the snapshot, after how many quanta their turns
/// come. Those that have processors of their own are passed over.
pub fn announce(decision: &mut Decision, turns: impl IntoIterator<Item = (usize, u32)>) {
    for (i, quanta) in turns {
        let allocation = &mut decision.allocations[i];
        if allocation.shared || allocation.processors == 0 {
            allocation.turn = quanta;
        }
    }
}

/// The same for applications that take turns one gang after the other, in this order: as many
/// neighbours as have requests of at most `limit` in sum, and are at most `most`, have theirs
/// together.
pub fn announce_gangs(
    decision: &mut Decision,
    snapshot: &Snapshot<'_>,
    mut order: &[usize],
    (limit, most): (u64, u32),
) {
    for quanta in 1.. {
        if order.is_empty() {
            break;
        }
        let (gang, rest) = order.split_at(ring::gang(snapshot, order, limit, most).max(1));
        announce(decision, gang.iter().map(|&i| (i, quanta)));
        order = rest;
    }
}
