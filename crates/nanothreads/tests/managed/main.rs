//! Programs under a manager: a manager by script, or a sizer, says what each test wants.
#![cfg(not(loom))]

#[macro_use]
#[path = "../process/mod.rs"]
mod process;

mod active;
mod domain;
mod late;
mod loss;
mod masters;
#[path = "../processor_time/mod.rs"]
mod processor_time;
mod requests;
mod script;
mod seats;
mod wishes;
