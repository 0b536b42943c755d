//! Teams of kernel threads that follow what the machine can really run: the engine below the
//! safe library `nanothreads` and the drop-in OpenMP library, for authors of runtimes.
//!
#![doc = include_str!("../README.md")]
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
// Files are read aside: `platform::file`.
#![cfg_attr(not(any(test, loom)), deny(clippy::disallowed_methods))]

#[doc(hidden)]
pub mod addresses;
#[doc(hidden)]
pub mod arrival;
#[doc(hidden)]
pub mod barrier;
mod berth;
mod broadcast;
#[doc(hidden)]
pub mod captures;
mod channel;
#[doc(hidden)]
pub mod config;
mod contention;
#[doc(hidden)]
pub mod counters;
mod facade;
mod following;
#[doc(hidden)]
pub mod fork_join;
#[doc(hidden)]
pub mod forked;
#[doc(hidden)]
pub mod head;
mod home;
mod inheritance;
mod lending;
#[doc(hidden)]
pub mod local;
mod managed;
mod mask_and_quota;
mod masters;
#[doc(hidden)]
pub mod membership;
#[doc(hidden)]
pub mod nearness;
#[doc(hidden)]
pub mod numbers;
#[doc(hidden)]
pub mod occupant;
mod offer;
mod open_ring;
#[doc(hidden)]
pub mod panics;
#[doc(hidden)]
pub mod patience;
mod per_process;
mod placed;
#[doc(hidden)]
pub mod placement;
mod pool;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod program;
mod recall;
mod report;
mod reserve;
#[doc(hidden)]
pub mod ring;
#[doc(hidden)]
pub mod safe_point;
mod serve;
mod shares;
pub mod sizer;
mod sleeper;
#[doc(hidden)]
pub mod slot;
#[doc(hidden)]
pub mod source;
#[doc(hidden)]
pub mod split;
mod station;
mod statistics;
mod supply;
#[doc(hidden)]
pub mod team;
#[doc(hidden)]
pub mod vp;
#[doc(hidden)]
pub mod wait_point;
#[doc(hidden)]
pub mod waiter;
mod wishes;
#[doc(hidden)]
pub mod work;

pub use crate::addresses::{AddressHasher, Addresses};
pub use crate::barrier::Barrier;
pub use crate::config::{Config, Supply, Waiting};
pub use crate::facade::{
    between_pieces, configure, grant_for, identify_region, is_managed, is_to_follow, iteration,
    largest_team, processors, renew_threads, reserve, set_team_sizer, spin_limit, team_limit, wait,
    wait_looking,
};
pub use crate::inheritance::{before_exec, needs_unbound, unbound};
pub use crate::managed::Managed;
pub use crate::offer::{Offer, Refusal, VirtualProcessor, on_each_vp, virtual_processors};
pub use crate::recall::Recall;
pub use crate::report::{report, statistics};
pub use crate::sizer::TeamSizer;
pub use crate::statistics::Statistics;
pub use crate::team::Team;
pub use crate::wait_point::WaitPoint;
pub use crate::work::{Member, Work};
