//! A discrete-event simulator: the policies and the placement of this crate under made-up programs
//! and machines.
//!
//! ```
//! use std::collections::BTreeMap;
//! use policies::sim::{Job, MachineSpec, Options, Program, Span, Workload, simulate};
//! use policies::{Needs, Registry};
//!
//! // Two copies of a program with 8 s of work that asks for 8 processors, on 8.
//! let programs = BTreeMap::from([("a".to_owned(), Program::new(8, Span::from_ms(8_000)))]);
//! let workload = Workload::new(MachineSpec::flat(8), programs, vec![Job::new("a", 2, 1)]);
//! let registry = Registry::with_builtin_for(Needs::EVERYTHING);
//! let outcome = simulate(&workload, &registry, &Options::policy("equip"))?;
//! // Each has 4 processors: 2 s.
//! assert_eq!(outcome.makespan(), 2_000_000_000);
//! # Ok::<(), policies::sim::SimError>(())
//! ```
//!
//! # Model
//! - A program runs its phases, over and over ([`Program`]). A serial phase runs at the speed of
//!   one processor. A parallel one runs at S(t) for a team of t on t processors of its own. A team
//!   changes its size between regions only; one that has lost processors within a region runs at
//!   S(t) x processors / t until the region ends, because a waiter hands its processor to a sibling
//!   without one.
//! - Masters that share a processor have equal parts of it, but for those that wait for their turn:
//!   these use nothing (`recess`).
//! - Where the machine and not the program is the bottleneck ([`Bottleneck`]), the curve counts all
//!   busy processors.
//! - A program that gets a processor that another program used last stops for its `refill` time, or
//!   for a quarter of it when it has a processor under the same cache. A program that loses
//!   processors stops for the corresponding part of its `refill` time: what their caches held has
//!   to be loaded again.
//! - Under an unbound decision (policy `none`) the kernel shares out the processors: [`Native`];
//!   the program may be another runtime's code there ([`NativeCode`]).
//! - At the end of an iteration that ran with one team (and of each step of a phase, if it has
//!   several) the program reports how long its parallel part took; policies see what
//!   [`Speedups`](crate::speedups::Speedups) makes of that. With [`ManagerSpec::base_on_one`] it has
//!   told its time on one processor before, as programs of the daemon do.
//!   Reports are off by [`ManagerSpec::noise`].
//! - The manager decides at each event and each quantum, in no time; `examples/cost.rs` says how
//!   long that takes in truth. What programs give back goes to the work-list of the last decision,
//!   as in the daemon ([`ManagerSpec::work_list`]). Processors that were just given stay for
//!   [`ManagerSpec::hold`].
//! - Hardware threads of a core, slow cores, memory of other nodes and the bandwidth of a node make
//!   programs slower: `hardware`. Policies and their speedups do not know of slow cores.
//! - A rigid program has a team of its request, whatever it has.
//!
//! # Invariants
//! X1  Same workload, same outcome, bit for bit: no clock, no randomness, no order of addresses or
//!     hashes.
//! X2  Every decision is checked against D1-D5, and the CPU time handed out is at most P x time.
//! X3  A simulation ends: with all executions, or with the error that names the program that makes
//!     no progress.

mod allowed;
mod curve;
mod engine;
mod forecast;
mod hardware;
mod instance;
mod native;
mod outcome;
mod pairs;
mod program;
mod recess;
mod span;
mod timeline;
mod workload;

pub use allowed::allowed;
pub use curve::{Curve, MOST_SUPERLINEAR};
pub use engine::{Options, SimError, simulate};
pub use forecast::{Forecast, MOST_FORECAST, Seen, forecast};
pub use native::{Native, NativeCode};
pub use outcome::{Execution, Outcome, ProgramSummary};
pub use program::{Bottleneck, MOST_PROCESSORS, Pattern, Phase, Program, Waits};
pub use span::{Span, SpanError};
pub use timeline::{Activity, Interval, Timeline, Track};
pub use workload::{Fault, Job, MachineSpec, ManagerSpec, Switch, Workload};
