//! Fork/join engine with workers that follow what the machine can really run.
//!
#![doc = include_str!("../README.md")]
//!
//! # Vocabulary
//! - A *worker* is one kernel thread of the engine. It is created at first use, sleeps when it has
//!   nothing to do, and is never destroyed by a change of team size.
//! - A *region* is a piece of work that several threads run together. The thread that forks it is
//!   its *master* and member 0; the others are workers. All of them are the region's *team*.
//! - A *work descriptor* says what a member has to do. The master writes it into the worker's line.
//! - The *grant* is how many processors the program may use now. It comes from a [`TeamSizer`]: the
//!   processor manager (`cpumgr`) when one answers, else the affinity mask and cgroup quota. Each
//!   region reads it when it forks.
//!
//! # fork()
//! A child of `fork` has one thread, and starts with an engine of its own: it may use all that is
//! here (but see the end of this section), with workers that it creates, also when it was forked
//! inside a region. What was open in its parent stays the parent's (D13):
//! - A child that a *master* forks in its own part leaves the region as its only member. It keeps
//!   the result of its own part, and the results of any parts that its thread ran for members that
//!   had not begun; kept [`Team`]s go on with other threads. It must not wait in that part for the
//!   other members (at a barrier, for a turn, a post or data).
//! - A child that a *worker* forks in its part (of a region or of an overlap's construct, as the
//!   master of a group that is not the caller, in work of [`workers::on_each`]) has nothing to go
//!   back to: it must end, or exec, before it leaves that part. Else it is ended with a report on
//!   stderr, by `SIGABRT`. So is one that goes on with its parent's tasks ([`scope()`]), or spawns
//!   into its parent's scope with a [`Spawner`]. A [`Completion`] or a [`Canceller`] of what its
//!   parent has open does nothing there, and nothing is cancelled.
//! - A child that completes or joins what other threads of its parent run, in [`join()`] or in an
//!   overlap of `papers`, gets a panic that says so.
//!
//! The child's copy of the engine's locks is free. That of the locks of the C library and of Rust's
//! standard library need not be. glibc puts its own in order in a child (its allocator, its
//! threads), and a child's workers are threads of the C library. The standard library does not: in
//! a program whose `main` is Rust's, each `std::thread` that starts or ends holds a lock for a
//! moment (for what is said of stack overflows), and so does each thread that prints. A child that
//! is forked in that moment waits for ever when it starts a `std::thread` itself, or prints. A
//! stack overflow of a child's worker is a bare SIGSEGV. And a child that is forked while another
//! thread makes the program's very first call of this crate (some us) may wait for that.
//!
//! # Map
//! | what | where |
//! |---|---|
//! | loops and sections | [`par_for`] and what belongs to it |
//! | two halves | [`join()`] |
//! | sorting | [`par_sort()`] and its family |
//! | tasks | [`scope()`], [`Scope`], [`Task`], [`DataCell`], [`Completion`] |
//! | tasks that no scope waits for, and async | [`spawn()`], [`Spawned`], [`Canceller`] |
//! | divided processors | [`groups()`] |
//! | teams | [`broadcast`], [`Team`], its [`TeamMember`] and [`Buffers`] |
//! | several regions of one master at once | `papers`, with the feature of that name |
//! | storage for each thread | [`PerThread`] |
//! | starting programs and threads in a region | [`process::unbound`] |
//! | something on each thread | [`workers::on_each`] |
//! | settings and numbers | [`builder()`], [`statistics()`] |
//! | a program for each usual task | [`recipes`] |
//! | under a processor manager | [`managed`] |
//!
//! Language runtimes stand on the crate `nanothreads-engine`, as this one does.
//!
//! <!-- For contributors; `cargo xtask graph` reads it.
//! # Modules, from the bottom up
//! 1. `builder`, `managed`, `process`, `touches`, `workers`: what belongs to the process and its
//!    threads.
//! 2. `idle`, `per_member`, `per_thread`, `region`: which members sleep; a value for each member,
//!    and for each thread; a region on what the program has.
//! 3. `join`, `parts`: two halves; regions that idle threads of a join or scope take part in.
//! 4. `groups`, `sort`: divided processors; sorting, on `join`.
//! 5. `loops`: loops and sections.
//! 6. `tasks`: scopes and what runs in them.
//! 7. `detached`: tasks that no scope waits for.
//! 8. `teams`: reserved threads, for all of the above but these.
//! 9. `papers`: several regions of one master at once, and both ways of dispatch; a feature.
//! 10. `recipes`: documentation.
//! -->

// What cannot be written must not panic: `platform::message`.
#![cfg_attr(not(any(test, loom)), deny(clippy::print_stderr, clippy::print_stdout))]
// What only tasks need of the rest stays where it belongs.
#![cfg_attr(not(feature = "tasks"), allow(dead_code))]
// Files are read aside: `platform::file`.
#![cfg_attr(not(any(test, loom)), deny(clippy::disallowed_methods))]

mod builder;
#[cfg(feature = "tasks")]
mod detached;
mod groups;
mod idle;
mod join;
mod loops;
pub mod managed;
#[cfg(feature = "papers")]
pub mod papers;
mod parts;
mod per_member;
mod per_thread;
pub mod process;
#[doc = include_str!("../RECIPES.md")]
pub mod recipes {}
mod region;
mod sort;
#[cfg(feature = "tasks")]
mod tasks;
mod teams;
mod touches;
pub mod workers;

pub use builder::{BuildError, Builder, Waiting, builder};
#[cfg(feature = "tasks")]
pub use detached::{Spawned, spawn, spawn_cancellable};
pub use engine::{Member, Statistics, TeamSizer, statistics};
pub use groups::{Group, Groups, groups};
pub use join::join;
pub use loops::{
    Alpha, Cross, Doacross, InvalidAlpha, InvalidSchedule, Order, ParChunksMut, ParChunksMut2,
    ParFor, ParFor2d, ParFor3d, Pipeline, Pipeline2d, Schedule, Sections, doacross, par_chunks_mut,
    par_for, par_for_2d, par_for_3d, pipeline, pipeline_2d, sections,
};
pub use parts::current_num_threads;
pub use per_thread::PerThread;
pub use region::broadcast;
pub use sort::{
    par_sort, par_sort_by, par_sort_by_key, par_sort_unstable, par_sort_unstable_by,
    par_sort_unstable_by_key,
};
#[cfg(feature = "tasks")]
pub use tasks::cell::{DataCell, Reading, Writing};
#[cfg(feature = "tasks")]
pub use tasks::completion::{Completion, Spawner};
#[cfg(feature = "tasks")]
pub use tasks::depend::Access;
#[cfg(feature = "tasks")]
pub use tasks::group::Canceller;
#[cfg(feature = "tasks")]
pub use tasks::scope::{Scope, scope};
#[cfg(feature = "tasks")]
pub use tasks::task::{Task, TaskRef};
#[cfg(feature = "tasks")]
pub use tasks::task_group::TaskGroup;
pub use teams::{Buffers, Team, TeamError, TeamMember};
