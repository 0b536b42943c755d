//! What every policy does when there are more applications than processors.

use crate::decision::Allocation;
use crate::snapshot::Snapshot;

/// Allocations, in order of arrival, for more applications than processors.
///
/// With `master_always` every application has its master on a shared processor, all of them alike
/// (rule 5). Without, the first P of `order` (indices into the snapshot) have one processor each
/// and the others wait.
pub(crate) fn one_each(
    snapshot: &Snapshot<'_>,
    order: impl Iterator<Item = usize>,
) -> Vec<Allocation> {
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
