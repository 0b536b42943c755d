//! The interface that every allocation policy implements.

use crate::admission::{Admission, Waiting};
use crate::decision::Decision;
use crate::parameter::{Parameter, ParameterError, Value};
use crate::snapshot::Snapshot;

/// What a policy needs, or a manager offers, beyond decisions that take effect and timers
/// ([`Decision::next`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Applications report speedups, in [`AppView::speedup`](crate::AppView::speedup).
    pub reports: bool,
    /// Allocations are not bound to processors, see [`Decision::unbound`].
    pub unbound: bool,
}

impl Needs {
    /// Nothing beyond.
    pub const NOTHING: Self = Self { reports: false, unbound: false };
    /// All that there is.
    pub const EVERYTHING: Self = Self { reports: true, unbound: true };

    /// What of this is not in `offered`, in words.
    #[must_use]
    pub fn missing(self, offered: Self) -> Vec<&'static str> {
        let all = [
            (self.reports && !offered.reports, "speedup reports"),
            (self.unbound && !offered.unbound, "allocations that are not bound to processors"),
        ];
        all.into_iter().filter(|(missing, _)| *missing).map(|(_, name)| name).collect()
    }
}

/// Decides how many processors each application has until the next decision.
///
/// A policy is a state machine: no clock, no system call, no randomness. The same object runs in
/// the manager and in a simulator. A decision follows from the snapshot and the policy's own state,
/// and obeys the rules D1-D5 of [`decision`](crate::decision).
///
/// ```
/// use policies::{Allocation, AppId, AppView, Cause, Decision, Policy, Snapshot};
///
/// /// The application that came first has all that it wants.
/// struct FirstComeAll;
///
/// impl Policy for FirstComeAll {
///     fn name(&self) -> &'static str {
///         "first-come-all"
///     }
///
///     fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
///         // Every application keeps its master as long as there are processors for that.
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
    /// By default, the applications of the work-list take what is free, the first in the list first
    /// ([`Decision::after_release`]). A policy overrides it when that is not its rule. For
    /// newcomers, raised requests and a machine that changed, ask [`decide`](Policy::decide).
    fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        last.after_release(snapshot)
    }

    /// How many of the applications that wait for admission may start, see
    /// [`admission`](crate::admission). By default: all.
    fn admission(&mut self, snapshot: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
        let _ = snapshot;
        Admission::everybody(queue)
    }

    /// What it needs of the manager. By default: nothing beyond the usual.
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    /// Whether [`decide`](Policy::decide) answers the same at the end of each quantum for as long
    /// as applications want the same and the machine is the same, whatever time it is, whatever
    /// they have and have received, when every application keeps its master
    /// ([`Snapshot::master_always`]). A manager need not ask it then before something happens. By
    /// default: no.
    fn is_timeless(&self) -> bool {
        false
    }

    /// Its parameters as they are now. By default it has none.
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    /// Changes a parameter, also while applications run; the next decision follows it.
    ///
    /// # Errors
    /// There is none called `key`, or it cannot have this value; nothing has changed then.
    fn configure(&mut self, key: &str, value: &Value) -> Result<(), ParameterError> {
        let _ = value;
        Err(ParameterError::unknown(key, &self.parameters()))
    }
}
