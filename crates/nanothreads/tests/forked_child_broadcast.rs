//! The test of `forked_child`, with all teams supplied by broadcast.
#![cfg(all(not(loom), unix))]

#[path = "forked_child.rs"]
mod forked_child;
