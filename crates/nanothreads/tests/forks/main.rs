//! Processes that the program forks itself (D13): what is the child's, and what stays the parent's.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod detached;
mod forked;
mod handles;
mod inside;
mod join;
mod lookups;
mod overlap;
mod parts;
mod sort;
mod starts;
mod storage;
mod task;
mod teams;

mod child;

/// The same test with all teams supplied by broadcast.
#[path = "child.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests once more")]
mod child_broadcast;
