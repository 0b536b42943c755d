//! Recursive joins: their results, their panics, and which threads run the halves.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod inside;
mod random_trees;
mod recursive;
