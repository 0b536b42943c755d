//! The tests of `regions`, with all teams supplied by broadcast.
#![cfg(not(loom))]

#[path = "regions.rs"]
mod regions;
