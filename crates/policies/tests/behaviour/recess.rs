//! Masters outside their turn: when their turns are said to come, and what waiting for them brings.

use std::collections::BTreeMap;

use crate::simulator::{MS, later, program, run, workload};
use crate::support::{create, requests, snapshot};
use policies::sim::{Activity, Job, Outcome, Program};
use policies::{AppId, Cause, Decision};
use proptest::prelude::*;

/// The applications with a turn to come, and after how many quanta.
fn announced(decision: &Decision) -> BTreeMap<AppId, u32> {
    let waiting = decision.allocations.iter().filter(|it| it.turn > 0);
    waiting.map(|it| (it.app, it.turn)).collect()
}

fn runs(decision: &Decision, app: AppId) -> bool {
    decision.of(app).is_some_and(|it| !it.shared && it.processors > 0)
}

proptest! {
    /// As long as nothing else happens.
    #[test]
    fn a_turn_comes_after_as_many_quanta_as_were_announced(
        wanted in prop::collection::vec(1_u32..12, 2..9),
        processors in 2_u32..12,
        first in 0_usize..4,
    ) {
        for name in ["gang", "rr", "sw-dss", "ssw-dss"] {
            let (apps, mut policy) = (requests(&wanted), create(name));
            let mut decision =
                policy.decide(&snapshot(&apps, processors, Cause::Arrival, true));
            let mut next = || policy.decide(&snapshot(&apps, processors, Cause::Quantum, true));
            for _ in 0..first {
                decision = next();
            }
            let announced = announced(&decision);
            for it in &decision.allocations {
                let waits = it.shared && decision.allocations.iter().any(|it| !it.shared);
                prop_assert_eq!(it.turn > 0, waits, "{}: {:?}", name, &decision);
            }
            let last = announced.values().copied().max().unwrap_or(0);
            let mut came = BTreeMap::new();
            for quantum in 1..=last {
                let decision = next();
                for app in announced.keys().filter(|app| runs(&decision, **app)) {
                    came.entry(*app).or_insert(quantum);
                }
            }
            prop_assert_eq!(came, announced, "{}", name);
        }
    }
}

/// Wide programs with regions that take longer alone than a cycle, and short ones.
fn crowd(regions: u32) -> Outcome {
    let wide = Program { iterations: 4, ..program(8, 1_600, regions) };
    let small = Program { iterations: 20, ..program(2, 40, 20) };
    let jobs = vec![Job::new("wide", 3, 1), later(Job::new("small", 4, 1), 50)];
    run(&workload(9, &[("wide", wide), ("small", small)], jobs), "gang")
}

/// How much of the time in which they had processors of their own the wide programs worked with
/// all of these.
fn used(outcome: &Outcome) -> f64 {
    let timeline = outcome.timeline.as_ref().expect("it was asked for");
    let wide: Vec<_> =
        timeline.tracks.iter().filter(|track| track.name.starts_with("wide")).collect();
    let time = |wanted: Activity| {
        let all = wide.iter().flat_map(|track| track.virtual_processors.iter().flatten());
        let of = all.filter(|it| it.activity == wanted).map(|it| it.end - it.begin);
        of.sum::<u64>() as f64
    };
    time(Activity::Running) / (time(Activity::Running) + time(Activity::Idle))
}

#[test]
fn a_turn_is_not_spent_in_a_region_that_its_master_began_alone() {
    // A region of 400 ms alone takes 50 with eight; four rows, of which the wide programs are
    // three, take 400 ms. A master that began it alone would have one thread in its whole turn.
    let outcome = crowd(4);
    assert!(used(&outcome) > 0.95, "{}", used(&outcome));
    // The work of three wide programs is 19.2 s: 2.4 s on eight processors, in three of four turns.
    assert!(outcome.makespan() < 3_600 * MS, "{} ms", outcome.makespan() / MS);
}

#[test]
fn a_region_that_is_over_before_the_turn_is_run_alone_meanwhile() {
    // Regions of 1 ms alone: masters outside their turn go on.
    let outcome = crowd(1_600);
    let timeline = outcome.timeline.as_ref().expect("it was asked for");
    let shared = timeline.tracks.iter().filter(|track| track.name.starts_with("wide"));
    let shared = shared.flat_map(|track| track.virtual_processors.iter().flatten());
    let shared: u64 =
        shared.filter(|it| it.activity == Activity::Sharing).map(|it| it.end - it.begin).sum();
    assert!(shared > 0 && used(&outcome) > 0.95, "{shared} ns, {}", used(&outcome));
}
