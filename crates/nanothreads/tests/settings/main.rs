//! Settings of a process: the builder, sizers of any kind, the affinity mask, what the engine says
//! of them; and the runner that gives tests a process of their own.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod builder;
mod chunks;
mod huge_sizer;
mod mask;
mod messages;
mod old_kernel;
mod panicking_sizer;
mod processes;
mod reentrant_sizer;
mod self_allocating;
mod threads;
mod zero_sizer;
