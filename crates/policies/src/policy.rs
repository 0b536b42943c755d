//! The interface that every allocation policy implements.

use crate::decision::Decision;
use crate::snapshot::Snapshot;

/// Decides how many processors each application has until the next decision.
///
/// A policy is a state machine: no clock, no system call, no randomness. The same object runs in the manager and in a
/// simulator. A decision follows from the snapshot and the policy's own state, and obeys the rules D1-D5 of
/// [`decision`](crate::decision).
///
/// ```
/// use policies::{Allocation, AppId, AppView, Cause, Decision, Policy, Snapshot};
///
/// /// Whoever came first has all that it wants.
/// struct FirstComeAll;
///
/// impl Policy for FirstComeAll {
///     fn name(&self) -> &'static str {
///         "first-come-all"
///     }
///
///     fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
///         // Everybody keeps its master as long as there are processors for that.
///         let mut free = snapshot.processors.saturating_sub(snapshot.apps.len() as u32);
///         let mut masters = snapshot.processors;
///         let mut own = |app: &AppView| {
///             let master = masters.min(1);
///             masters -= master;
///             let more = if master == 1 { free.min(app.wants() - 1) } else { 0 };
///             free -= more;
///             Allocation::own(app.id, master + more)
///         };
///         let allocations = if snapshot.is_crowded() && snapshot.master_always && snapshot.processors > 0 {
///             snapshot.apps.iter().map(|app| Allocation::shared_master(app.id)).collect()
///         } else {
///             snapshot.apps.iter().map(&mut own).collect()
///         };
///         Decision::everybody_waits(snapshot, allocations)
///     }
/// }
///
/// let apps = [AppView::new(AppId(1), 6), AppView::new(AppId(2), 6)];
/// let snapshot = Snapshot {
///     now: 0, quantum: 100_000_000, processors: 8, apps: &apps, cause: Cause::Arrival, master_always: true,
/// };
/// let decision = FirstComeAll.decide(&snapshot);
/// decision.check(&snapshot)?;
/// // 8 processors: a master each, then 5 of the other 6 to the first and 1 to the second.
/// assert_eq!((decision.allocations[0].processors, decision.allocations[1].processors), (6, 2));
/// assert_eq!(decision.work_list, [AppId(2)]);
/// # Ok::<(), policies::BrokenRule>(())
/// ```
pub trait Policy: Send {
    /// The name by which the registry knows it.
    fn name(&self) -> &'static str;

    /// The allocations from now on.
    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision;

    /// The allocations after processors were released in mid-quantum, from the last decision.
    ///
    /// As it stands, whoever is in the work-list takes what is free, first come first served
    /// ([`Decision::after_release`]). A policy overrides it when that is not its rule. For newcomers, raised requests
    /// and a machine that changed, ask [`decide`](Policy::decide).
    fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        last.after_release(snapshot)
    }
}
