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
#[doc(hidden)]
pub mod captures;
mod channel;
#[doc(hidden)]
pub mod config;
mod contention;
#[doc(hidden)]
pub mod counters;
#[doc(hidden)]
pub mod engine_state;
mod following;
#[doc(hidden)]
pub mod fork_join;
#[doc(hidden)]
pub mod forked;
#[doc(hidden)]
pub mod head;
mod inheritance;
mod lending;
#[doc(hidden)]
pub mod local;
mod managed;
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
#[doc(hidden)]
pub mod placement;
#[doc(hidden)]
pub mod process;
mod recall;
mod report;
#[doc(hidden)]
pub mod ring;
#[doc(hidden)]
pub mod safe_point;
mod shares;
pub mod sizer;
mod sleeper;
#[doc(hidden)]
pub mod slot;
mod source;
#[doc(hidden)]
pub mod split;
mod statistics;
#[doc(hidden)]
pub mod supply;
#[doc(hidden)]
pub mod team;
#[doc(hidden)]
pub mod vp;
#[doc(hidden)]
pub mod wait_point;
mod wishes;

use crate::engine_state::engine;
use crate::local::local;
use crate::patience::Wait;
use crate::wait_point::Look;

pub use crate::addresses::{AddressHasher, Addresses};
pub use crate::barrier::Barrier;
pub use crate::config::{Config, Waiting};
pub use crate::inheritance::{before_exec, needs_unbound, unbound};
pub use crate::managed::iteration;
pub use crate::offer::{Offer, Refusal, VirtualProcessor, on_each_vp, virtual_processors};
pub use crate::recall::Recall;
pub use crate::report::report;
pub use crate::sizer::TeamSizer;
pub use crate::statistics::{Statistics, statistics};
pub use crate::supply::Supply;
pub use crate::team::{Member, Team, Work};
pub use crate::wait_point::WaitPoint;

/// Installs a source of team sizes in the place of the one that the engine would find. False when one is in use already:
/// call it before the first region.
pub fn set_team_sizer(sizer: Box<dyn TeamSizer>) -> bool {
    engine().set_sizer(sizer)
}

/// Sets how the engine works; only before anything was used. False when it is too late.
pub fn configure(config: Config) -> bool {
    engine().configure(config)
}

/// Processors of the mask that the program was started with, cgroup quota counted. Constant (D4).
pub fn processors() -> usize {
    engine().processors()
}

/// The most threads that a team may have: 1024, or 8 for each processor if that is more; never above 32767.
pub fn largest_team() -> usize {
    engine().largest_team()
}

/// Processors that a region may use now. Follows the manager's grant, or mask and quota.
#[inline]
pub fn team_limit() -> usize {
    engine().sizer().limit()
}

/// States that the program could use `wanted` processors, and returns how many threads a region of the caller may have
/// now (M1, M2). With several outermost masters, what it returns is taken from the others until the caller's next
/// region is joined (D6).
#[inline]
pub fn grant_for(wanted: usize) -> usize {
    local().grant(wanted)
}

/// Says which region the calling thread forks next, by a number that is the same whenever it forks the same one (the address
/// of its code): so the program's outer loop is found. To be called before [`grant_for`]. Cost: a store.
#[inline]
pub fn identify_region(region: usize) {
    local().identify_region(region);
}

/// The virtual processors that the calling thread has for its teams, and those that they have for theirs, go on on new kernel
/// threads: what the program keeps in thread-local storage there begins anew. Outside regions; inside one it does nothing. Not
/// in the child of a fork, and where the system refuses threads.
pub fn renew_threads() {
    let local = local();
    if local.is_outside_regions() {
        local.renew_members();
    }
}

/// True when a manager was found at the engine's first use.
pub fn is_managed() -> bool {
    engine().is_managed()
}

/// A team of `size` threads with the caller as member 0: [`Team::reserve`].
#[inline]
pub fn reserve(size: usize) -> Team {
    Team::reserve(size)
}

/// Waits at `point` until `done` holds: spins as long as that can pay in the caller's situation, then sleeps. `done` may
/// do work.
pub fn wait(point: &WaitPoint, mut done: impl FnMut() -> bool) {
    wait_looking(point, || done().into());
}

/// Microseconds that the caller may spin now for another thread of its team, by the rules of all waits: 0 in a team that is
/// larger than its processors. For waits on words that are not ours to wake, as locks in a program's memory.
pub fn patience() -> u64 {
    let local = local();
    patience::limit(local, local.membership().crowd, Wait::Inside)
}

/// To be called between two pieces of work that the calling thread does for a region (chunks of a loop, tasks), where it holds
/// nothing and nobody waits for just this thread: it follows what a manager granted meanwhile. Cost: four loads, and one
/// that is thread-local; two loads without a manager.
#[inline]
pub fn between_pieces() {
    safe_point::between_pieces();
}

/// True where [`between_pieces`] has something to look for: a manager was found. The same from the program's first region on.
/// Cost: two loads.
#[inline]
pub fn is_to_follow() -> bool {
    engine().managed_already().is_some()
}

/// As [`wait`], for looks that may make progress.
pub fn wait_looking(point: &WaitPoint, look: impl FnMut() -> Look) {
    let local = local();
    patience::wait(point, local, local.membership().crowd, || {}, look);
}
