//! Every policy in the real manager with real programs: each policy's own rule, read from the
//! trace.
//!
//! On as many processors as there are, from 2 on: here, and on 8 in the guest of
//! `cargo xtask vm smp`. Programs are processes with threads that spin; numbers below are worked
//! out for P processors, in comments for 2 and 8.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod space;
mod story;
mod switch;
mod turns;

use platform::affinity::affinity;
use story::Stage;
use support::Program;

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A manager with this policy on all processors of this process, or a printed reason why there is
/// none.
fn stage(policy: &[&str], quantum: &str) -> Option<Stage> {
    let mask = affinity(None).unwrap();
    if mask.len() < 2 {
        platform::skip!("needs two processors, this process may use {mask}");
        return None;
    }
    Some(Stage::set(policy, quantum, mask))
}

/// The process ids.
fn pids(programs: &[Program]) -> Vec<u32> {
    programs.iter().map(Program::pid).collect()
}
