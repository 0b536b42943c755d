//! Parallel regions: what each member runs, what it captures, where regions may be forked from, and
//! what becomes of panics.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod anywhere;
mod borrowed;
mod callers;
mod captures;
mod drops;
mod ends;
mod overlap;
mod panics;
mod renewed;
mod supply;
#[path = "../team_of_four/mod.rs"]
mod team_of_four;

/// Teams are supplied by lines.
#[path = "supplied.rs"]
mod lines;

/// The same tests with all teams supplied by broadcast.
#[path = "supplied.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests once more")]
mod broadcast;
