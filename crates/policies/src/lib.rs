//! Processor allocation policies and placement: pure state machines, no clock, no input or output.
//!
//! A manager describes the moment ([`Snapshot`]), a [`Policy`] answers how many processors each
//! application has ([`Decision`]), and [`Placement`] says which ones. Time, events and the machine
//! come in as arguments, so that the same objects run in the manager and in a simulator.
//!
//! ```
//! use policies::{AppId, AppView, Cause, DEFAULT_POLICY, Machine, MachineCpu, Placement, Registry, Snapshot};
//!
//! let machine = Machine::new((0..4).map(|id| MachineCpu { id, core: id, llc: id / 2, node: 0 }).collect());
//! let mut policy = Registry::with_builtin().create(DEFAULT_POLICY)?;
//! let mut placement = Placement::new();
//!
//! let apps = [AppView::new(AppId(1), 4), AppView::new(AppId(2), 4)];
//! let snapshot = Snapshot {
//!     now: 0,
//!     quantum: 100_000_000,
//!     processors: machine.cpus.len() as u32,
//!     apps: &apps,
//!     cause: Cause::Arrival,
//!     master_always: true,
//! };
//! let decision = policy.decide(&snapshot);
//! let placed = placement.place(&machine, &decision);
//! // Equal requests: two processors each, each pair under one cache.
//! assert_eq!(placed, [(AppId(1), vec![0, 1]), (AppId(2), vec![2, 3])]);
//! # Ok::<(), policies::UnknownPolicy>(())
//! ```
//!
//! # Modules, from the bottom up
//! 1. `quick`, `snapshot`: maps by numbers, and what a policy is told.
//! 2. `admission`, `backfill`, `decision`, `fair_share`, `ring`, `share`: what it answers, and
//!    arithmetic that needs no policy.
//! 3. `placement`: which processors.
//! 4. `parameter`, `policy`: the interface of all policies, and their parameters.
//! 5. `conformance`, `none`, `speedups`: the rules as a test, the policy that does nothing, and
//!    what reports say.
//! 6. `crowd`, `dss`: more applications than processors; the policy that others fall back on.
//! 7. `classes`, `cluster`, `dss_ts`, `equip`, `fair`, `marginal`, `pdpa`: policies that share
//!    space.
//! 8. `turn`: allocations for applications that take turns.
//! 9. `batch`, `gang`, `rr`, `sliding`, `turnaround`, `vtq`: policies of turns.
//! 10. `registry`: all policies by name.
//! 11. `sim`: policies and placement under made-up programs.
//!
//! # How a manager uses it
//! 1. At each quantum and event: [`Snapshot`] (its applications in order of arrival),
//!    [`Policy::decide`]. Under a policy that [is timeless](Policy::is_timeless) the end of a
//!    quantum changes nothing but turns of masters that share.
//! 2. A processor is released in mid-quantum: [`Policy::release`] with the last decision.
//! 3. For each decision that takes effect, once: [`Placement::place`]. Turns of sharing masters
//!    pass by [`Decision::rotate`], which is set at the end of a quantum only, so that events cut
//!    no turn short.
//! 4. Another policy takes over by being asked next; nothing else changes.
//! 5. A manager that holds programs back asks [`Policy::admission`] first. What else a policy
//!    needs, and a manager may not offer, stands in [`Needs`]; [`Registry::with_builtin_for`] hands
//!    out only what can run.
//!
//! [`Snapshot::check`] names values that should not have come in, [`Decision::check`] rules that a
//! foreign policy breaks.
//!
//! # Cost
//! A decision is O(n log n) (`cluster` O(n + P), `gang` also looks at each row for each application
//! when something changed), a placement O(n + P) where nothing moves; it also looks at the caches
//! in which an application has something for each cache from which it takes new processors, and
//! where applications stay inside sets ([`Placement::confine`]) walks over their sets for each
//! processor that one of them lacks. A placement keeps what it knows of the machine, and makes it
//! anew when the machine changes. `examples/cost.rs` measures both together for 512 applications on
//! 1024 processors, a quarter of them inside sets: 0.5 to 3 million instructions a quantum.

#![forbid(unsafe_code)]

pub mod admission;
pub mod backfill;
mod batch;
pub mod classes;
mod cluster;
pub mod conformance;
pub mod crowd;
pub mod decision;
mod dss;
mod dss_ts;
mod equip;
mod fair;
pub mod fair_share;
mod gang;
mod marginal;
mod none;
pub mod parameter;
mod pdpa;
pub mod placement;
mod policy;
mod quick;
mod registry;
pub mod ring;
mod rr;
pub mod share;
pub mod sim;
mod sliding;
pub mod snapshot;
pub mod speedups;
pub mod turn;
mod turnaround;
mod vtq;

pub use admission::{Admission, Waiting};
pub use batch::{Batch, BatchParameters};
pub use classes::{Class, Classes};
pub use cluster::{Cluster, ClusterParameters};
pub use decision::{Allocation, BrokenRule, Decision, WHOLE};
pub use dss::Dss;
pub use dss_ts::DssTs;
pub use equip::Equip;
pub use fair::Fair;
pub use gang::{Gang, GangParameters};
pub use marginal::{Marginal, MarginalParameters};
pub use none::NoPolicy;
pub use parameter::{Parameter, ParameterError, Settings, Value};
pub use pdpa::{Pdpa, PdpaParameters, PdpaState};
pub use placement::{Distances, Machine, MachineCpu, Placement, Smt, Speeds};
pub use policy::{Needs, Policy};
pub use registry::{DEFAULT_POLICY, RegisterError, Registry, UnknownPolicy};
pub use rr::{RoundRobin, RoundRobinParameters};
pub use sliding::{SswDss, SwDss, WindowParameters};
pub use snapshot::{
    AppId, AppView, Cause, InvalidSnapshot, MAX_WEIGHT, MIN_WEIGHT, Nanos, Snapshot, Speedup,
};
pub use speedups::{Refused, Sample, SpeedupParameters, Speedups};
pub use turnaround::{Turnaround, TurnaroundParameters};
pub use vtq::{VtqDss, VtqParameters};
