//! `marginal`: processors go where they bring most, by what programs report.

use std::collections::BTreeMap;

use policies::sim::{Curve, Job, MachineSpec, Options, Outcome, Program, Span, Workload, simulate};
use policies::{AppId, AppView, Cause, Marginal, Policy, Speedup, Value};
use proptest::prelude::*;

use crate::support::{all, decide, numbers, requests, snapshot};

fn report(app: &mut AppView, processors: u32, speedup: f64, at: u64) {
    app.speedup = Some(Speedup { processors, speedup, at });
}

fn parts(policy: &mut Marginal, apps: &[AppView], processors: u32) -> Vec<u32> {
    let snapshot = snapshot(apps, processors, Cause::Speedup, true);
    let decision = policy.decide(&snapshot);
    assert_eq!(decision.check(&snapshot), Ok(()));
    numbers(&decision)
}

/// A program of this curve, 20 iterations of a second of work.
fn program(request: u32, curve: Curve) -> Program {
    Program { iterations: 20, curve, ..Program::new(request, Span::from_ms(1000)) }
}

/// Three copies of each, at once, on 32 processors; times on one processor are known, as in the
/// daemon, or not.
fn outcome(curves: &[Curve], base_on_one: bool, policy: &str) -> Outcome {
    let programs: BTreeMap<String, Program> = (0..)
        .zip(curves)
        .map(|(i, curve): (u32, _)| (format!("p{i}"), program(32, curve.clone())))
        .collect();
    let jobs = programs.keys().map(|name| Job::new(name, 3, 1)).collect();
    let mut workload = Workload::new(MachineSpec::flat(32), programs, jobs);
    workload.manager.base_on_one = base_on_one;
    simulate(&workload, &all(), &Options::policy(policy)).expect("it ends")
}

#[test]
fn the_next_processor_goes_where_it_brings_most() {
    let mut policy = Marginal::new();
    let mut apps = requests(&[16, 16]);
    assert_eq!(parts(&mut policy, &apps, 16), [8, 8], "nothing is known: as dss");
    // Amdahl: a serial part of an eighth, a third processor brings 0.7 and an eighth 0.3; linear:
    // 1.
    report(&mut apps[0], 8, 1.0 / (0.125 + 0.875 / 8.0), 1);
    report(&mut apps[1], 8, 7.999, 1);
    assert_eq!(parts(&mut policy, &apps, 16), [1, 15]);
    // A weight of 4 makes the gains of the first ones as good.
    apps[0].weight = 4.0;
    let with_weight = parts(&mut policy, &apps, 16);
    assert!((8..12).contains(&with_weight[0]), "{with_weight:?}");
    // What a program asks for bounds it; the other one gets the rest.
    (apps[0].weight, apps[1].request) = (1.0, 6);
    assert_eq!(parts(&mut policy, &apps, 16), [10, 6]);
    // A minimum is a floor.
    (apps[0].min, apps[1].request) = (4, 16);
    assert_eq!(parts(&mut policy, &apps, 16), [4, 12]);
}

#[test]
fn programs_that_do_not_report_have_what_dss_gives_them() {
    let mut policy = Marginal::new();
    let mut apps = requests(&[32, 16, 16]);
    report(&mut apps[1], 8, 2.0, 1);
    report(&mut apps[2], 8, 7.9, 1);
    let by_dss = numbers(&decide("dss", &apps, 32, true));
    let got = parts(&mut policy, &apps, 32);
    assert_eq!(got[0], by_dss[0]);
    assert!(got[1] < 4 && got[2] > 12, "{got:?}");
}

#[test]
fn a_report_relative_to_itself_makes_one_copy_look_at_fewer() {
    let mut policy = Marginal::new();
    let mut apps = requests(&[16, 16, 16]);
    apps[0].program = Some(1);
    apps[1].program = Some(1);
    assert_eq!(parts(&mut policy, &apps, 24), [8, 8, 8]);
    report(&mut apps[0], 8, 8.0, 1);
    report(&mut apps[1], 8, 8.0, 1);
    let looks = parts(&mut policy, &apps, 24);
    assert_eq!(looks[0], 4, "{looks:?}");
    assert!(looks[1] >= 8, "only one of a program: {looks:?}");
    // As fast as on twice as many: on to 2, then 1.
    report(&mut apps[0], 4, 8.0, 2);
    assert_eq!(parts(&mut policy, &apps, 24)[0], 2);
    report(&mut apps[0], 2, 8.0, 3);
    assert_eq!(parts(&mut policy, &apps, 24)[0], 1);
    // Known on one: no more looks, and both copies give their processors to the third.
    report(&mut apps[0], 1, 1.0, 4);
    let known = parts(&mut policy, &apps, 24);
    assert!(known.iter().sum::<u32>() == 24, "{known:?}");
    // Without looks nothing is tried.
    let mut policy = Marginal::new();
    policy.configure("look", &Value::Switch(false)).expect("it is one of its parameters");
    assert_eq!(parts(&mut policy, &apps[1..2], 8), [8]);
}

#[test]
fn a_look_takes_nothing_of_a_minimum() {
    // Its minimum, and on how many it looks after a report on 12 of 16; alone it has them all.
    for (min, on) in [(1, 6), (8, 8), (12, 16), (16, 16)] {
        let mut policy = Marginal::new();
        let mut apps = requests(&[20]);
        report(&mut apps[0], 12, 12.0, 1);
        apps[0].min = min;
        assert_eq!(parts(&mut policy, &apps, 16), [on], "a minimum of {min}");
    }
    // One that is raised ends a look that would be below it.
    let mut policy = Marginal::new();
    let mut apps = requests(&[20]);
    report(&mut apps[0], 12, 12.0, 1);
    assert_eq!(parts(&mut policy, &apps, 16), [6]);
    apps[0].min = 7;
    assert_eq!(parts(&mut policy, &apps, 16), [7]);
    // What is reported there ends it.
    report(&mut apps[0], 7, 7.0, 2);
    assert_eq!(parts(&mut policy, &apps, 16), [16]);
}

#[test]
fn programs_that_stop_scaling_leave_processors_to_those_that_do() {
    let curves = [Curve::Linear, Curve::Amdahl { serial: 0.3 }];
    for base_on_one in [true, false] {
        let [marginal, dss, pdpa] = ["marginal", "dss-ts", "pdpa"]
            .map(|name| outcome(&curves, base_on_one, name).response());
        println!("base on one {base_on_one}: {marginal:.3} s, dss-ts {dss:.3}, pdpa {pdpa:.3}");
        assert!(!base_on_one || marginal < 0.99 * dss, "{marginal} {dss}");
        assert!(marginal < 1.05 * dss, "{marginal} {dss}");
    }
}

#[test]
fn programs_that_all_scale_are_treated_as_by_dss() {
    for base_on_one in [true, false] {
        let [marginal, dss] = ["marginal", "dss-ts"]
            .map(|name| outcome(&[Curve::Linear], base_on_one, name).response());
        assert!(marginal <= 1.02 * dss, "{marginal} {dss}");
    }
}

proptest! {
    /// Any reports: decisions obey the rules, and the sum is all that is wanted, or the machine,
    /// unless a curve falls.
    #[test]
    fn any_reports_are_answered(
        wanted in prop::collection::vec((1..40_u32, 0..4_u32), 1..12),
        reports in prop::collection::vec((0..12_usize, 0..50_u32, -1.0..60.0_f64), 0..60),
        processors in 0..64_u32,
    ) {
        let mut policy = Marginal::new();
        let mut apps = requests(&wanted.iter().map(|it| it.0).collect::<Vec<u32>>());
        for (app, it) in apps.iter_mut().zip(&wanted) {
            app.program = (it.1 > 0).then_some(it.1.into());
        }
        for (at, (which, on, speedup)) in (1..).zip(reports) {
            let which = which % apps.len();
            let speedup = if speedup < -0.5 { f64::NAN } else { speedup };
            report(&mut apps[which], on, speedup, at);
            let snapshot = snapshot(&apps, processors, Cause::Speedup, true);
            let decision = policy.decide(&snapshot);
            prop_assert_eq!(decision.check(&snapshot), Ok(()));
            prop_assert_eq!(&policy.decide(&snapshot), &decision, "no report, no change");
        }
        // They leave, and the policy forgets them.
        prop_assert_eq!(policy.decide(&snapshot(&[], processors, Cause::Exit, true)).allocations, []);
        let fresh = [AppView::new(AppId(99), 4)];
        prop_assert_eq!(policy.decide(&snapshot(&fresh, 64, Cause::Arrival, true)).allocations[0].processors, 4);
    }
}
