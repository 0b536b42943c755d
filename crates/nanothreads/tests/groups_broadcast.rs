//! The tests of `groups`, with all teams supplied by broadcast.
#![cfg(not(loom))]

#[path = "groups.rs"]
mod groups;
