//! Teams: which threads they have and keep, where these run, and how teams are divided into groups.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod blocks;
mod bound;
mod departures;
mod engine;
mod inner;
mod kept;
mod lost;
mod places;

mod groups;

/// The same tests with all teams supplied by broadcast.
#[path = "groups.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests once more")]
mod groups_broadcast;
