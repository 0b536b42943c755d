//! Teams of kernel threads that follow what the machine can really run: the engine below the
//! safe library `nanothreads` and the drop-in OpenMP library, for authors of runtimes.
//!
#![doc = include_str!("../README.md")]
//!
//! # Modules, from the bottom up
//! Each uses those in its own line and above it in this list, and none below.
//! 1. `process`, `period`: the process and its forked children, state that each has of its own,
//!    panics; the outer loop of a program, found in the sequence of its regions.
//! 2. `sizer`: where the size of a team comes from, as a program can say it.
//! 3. `protocols`: what threads do to the words that they share, with a model for each.
//! 4. `contention`: what a thread sees of other programs on its processors.
//! 5. `work`: work as plain data.
//! 6. `program`: settings, processors, masters and counters of the program.
//! 7. `placement`: on which processor a worker runs.
//! 8. `workers`, `broadcast`: the worker, and the pool of all; dispatch by one line for all.
//! 9. `manager`: following a processor manager; the source of team sizes.
//! 10. `waits`: how threads wait.
//! 11. `thread`: the state of a thread: where it stands, and what it reserved.
//! 12. `regions`: supply, wake, join and barrier of a region; safe points.
//! 13. `serve`: what a worker does as long as it lives.
//! 14. `teams`: teams, and what runs regions on them.
//! 15. `facade`, `inheritance`, `report`: what a runtime asks of the engine beside that.
//!
//! What a lower module needs of an upper one it is given: the caller that reserves workers gives
//! the pool the function that they run; the source of team sizes is given what is around a question
//! to the program's own code ([`set_team_sizer`]); a wake, what goes before it; and the process,
//! what a forked child does first (`process::at_child`). There are no others.
//!
//! # Example
//! ```
//! use nanothreads_engine::{Member, Team};
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! unsafe fn count(data: *const (), member: Member) {
//!     // SAFETY: - the region below passes an `AtomicU32` that outlives it.
//!     let sum = unsafe { &*data.cast::<AtomicU32>() };
//!     sum.fetch_add(member.id + 1, Ordering::Relaxed);
//! }
//!
//! let sum = AtomicU32::new(0);
//! let team = Team::reserve(3);
//! // SAFETY: - `count` takes an AtomicU32, may run on many threads at once, and does not unwind.
//! unsafe { team.run(count, std::ptr::from_ref(&sum).cast()) };
//! assert_eq!(sum.into_inner(), 6);
//! ```

// The hidden modules are for the library beside this crate: their heads speak of what is inside.
#![allow(rustdoc::private_intra_doc_links)]
// What cannot be written must not panic: `platform::message`.
#![cfg_attr(not(any(test, loom)), deny(clippy::print_stderr, clippy::print_stdout))]
// What only a manager's grants need stays where it belongs.
#![cfg_attr(not(feature = "manager"), allow(dead_code))]
// Files are read aside: `platform::file`.
#![cfg_attr(not(any(test, loom)), deny(clippy::disallowed_methods))]

mod broadcast;
mod contention;
mod facade;
mod inheritance;
mod manager;
#[doc(hidden)]
pub mod period;
mod placement;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod program;
mod protocols;
mod regions;
mod report;
mod serve;
pub mod sizer;
mod teams;
#[doc(hidden)]
pub mod thread;
mod waits;
#[doc(hidden)]
pub mod work;
mod workers;

// By one path each for the library beside this crate, wherever they stand here.
#[doc(hidden)]
pub use crate::{
    manager::source,
    placement::nearness,
    process::{addresses, forked, panics},
    program::config,
    protocols::{arrival, free_list, ring, singles, slot, stage, turn, wait_point},
    regions::{barrier, fork_join, occupant, safe_point},
    serve::on_leaver,
    teams::team,
    thread as local,
    thread::{head, membership, split},
    waits::spin_policy,
    work::captures,
    workers::worker,
};

pub use crate::facade::{
    absences, ask_again, between_pieces, configure, grant_epoch, grant_for, granted,
    identify_region, is_managed, is_to_follow, iteration, largest_team, moment, processors,
    renew_threads, reserve, set_lone_sizer, set_team_sizer, spin_limit, team_limit, wait,
    wait_looking,
};
pub use crate::inheritance::{before_exec, needs_unbound, unbound};
pub use crate::manager::Managed;
pub use crate::process::addresses::{AddressHasher, Addresses};
pub use crate::program::config::{Config, Dispatch, Waiting};
pub use crate::program::mask_and_quota::MaskAndQuota;
pub use crate::program::statistics::Statistics;
pub use crate::protocols::wait_point::WaitPoint;
pub use crate::regions::barrier::Barrier;
pub use crate::report::{report, statistics};
pub use crate::sizer::TeamSizer;
pub use crate::teams::recall::Recall;
pub use crate::teams::team::Team;
pub use crate::teams::visits::{on_each_worker, worker_count};
pub use crate::work::{Member, Work};
