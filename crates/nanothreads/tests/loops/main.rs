//! Parallel loops: every schedule, dependences between iterations, and many more members than
//! processors.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod crowded;
mod order;
mod schedules;
#[path = "../team_of_four/mod.rs"]
mod team_of_four;
mod vectors;
