//! Nano-threads: tasks, what they depend on, how they wait, what their stacks hold, and what idle
//! members do.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod alone;
mod dependences;
mod detached;
mod detached_alone;
mod endless;
mod four;
mod idle;
mod install;
mod members;
mod overflow;
#[path = "../processor_time/mod.rs"]
mod processor_time;
mod task_groups;
