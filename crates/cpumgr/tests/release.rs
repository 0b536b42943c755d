//! A processor that one program releases runs a virtual processor of another one at once, and not
//! at the next quantum.
//!
//! Prints how long that takes, compared with a bare chain of eventfd and futex: what bench
//! `manager`, part `releases`, measures, for the guest of `cargo xtask vm smp --test release`,
//! which has the processors for the way that two lack.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::{Duration, Instant};

use platform::affinity::affinity;
use support::{Before, End, PATIENCE, Releases, Times, chain};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

#[test]
fn what_one_program_releases_another_one_has_without_waiting_for_the_quantum() {
    const TIMES: usize = 20;
    const ENOUGH: Duration = Duration::from_secs(2);
    let cpus = affinity(None).unwrap();
    if cpus.len() < 2 {
        return platform::skip!("needs two processors, this process may use {cpus}");
    }
    let mut programs = Releases::begin(&cpus);
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < TIMES && begin.elapsed() < if times.is_empty() { PATIENCE } else { ENOUGH }
    {
        times.extend(programs.time(Duration::from_millis(2), Before::Computes));
    }
    assert!(
        !times.is_empty(),
        "none of {} releases brought a processor before it would have come anyway",
        programs.late
    );
    println!(
        "measured: {}",
        Times::new(chain(&cpus, times.len(), Before::Computes, End::There))
            .line("bare chain: eventfd to futex")
    );
    println!("measured: {}", Times::new(times).line(programs.what()));
}
