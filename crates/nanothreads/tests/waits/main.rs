//! How threads wait: whether they spin or sleep, for how long, and to which threads they leave the
//! processor meanwhile.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod active;
mod auto;
mod beside;
mod cost;
mod crowded;
mod hot;
mod late_yields;
mod leases;
mod passive;
#[path = "../processor_time/mod.rs"]
mod processor_time;
