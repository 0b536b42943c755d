//! Weights hold at any load: 10 : 1 is at least 8 : 1, also where masters share processors.

use std::collections::BTreeMap;

use policies::{AppId, AppView, Cause, Placement};
use proptest::prelude::*;

use crate::support::{create, machine, numbers, requests, snapshot};

/// Processors that each application has on average over `quanta`, when the kernel shares a
/// processor evenly among the masters on it.
fn received(policy: &str, apps: &[AppView], processors: u32, quanta: u32) -> Vec<f64> {
    let (mut policy, mut placement) = (create(policy), Placement::new());
    let machine = machine(1, 1, processors, 1);
    let mut sums: BTreeMap<AppId, f64> = BTreeMap::new();
    for turn in 0..quanta {
        let cause = if turn == 0 { Cause::Arrival } else { Cause::Quantum };
        let snapshot = snapshot(apps, processors, cause, true);
        let decision = policy.decide(&snapshot);
        assert_eq!(decision.check(&snapshot), Ok(()));
        let placed = placement.place(&machine, &decision);
        let mut users: BTreeMap<u32, f64> = BTreeMap::new();
        placed
            .iter()
            .flat_map(|(_, cpus)| cpus)
            .for_each(|cpu| *users.entry(*cpu).or_default() += 1.0);
        assert!(users.len() <= processors as usize);
        for (app, cpus) in placed {
            assert!(!cpus.is_empty(), "{app} has nothing");
            *sums.entry(app).or_default() += cpus.iter().map(|cpu| 1.0 / users[cpu]).sum::<f64>();
        }
    }
    apps.iter().map(|app| sums[&app.id] / f64::from(quanta)).collect()
}

/// `heavy` programs of weight 10, then `light` ones of weight 1, which all want the machine.
fn two_kinds(heavy: usize, light: usize, processors: u32) -> Vec<AppView> {
    let mut apps = requests(&vec![processors; heavy + light]);
    apps.iter_mut().take(heavy).for_each(|app| app.weight = 10.0);
    apps
}

/// The mean of the heavy ones (whole processors are not equal to within one) to the most of the
/// light ones, over as many turns as bring each to each place of its circle.
fn ratio(policy: &str, heavy: usize, light: usize, processors: u32) -> f64 {
    let apps = two_kinds(heavy, light, processors);
    let quanta = u32::try_from(heavy * light).expect("small");
    let got = received(policy, &apps, processors, quanta);
    let mean = got[..heavy].iter().sum::<f64>() / heavy as f64;
    mean / got[heavy..].iter().copied().fold(0.0, f64::max)
}

#[test]
fn ten_to_one_is_eight_to_one_at_least_at_any_load() {
    for policy in ["dss", "dss-ts", "fair"] {
        // On 16: 2 to 13 programs, as many as processors, more, three times as many, half heavy.
        for (heavy, light) in [
            (1, 1),
            (1, 7),
            (1, 12),
            (1, 15),
            (1, 16),
            (1, 40),
            (4, 20),
            (8, 24),
            (24, 24),
            (32, 32),
        ] {
            let ratio = ratio(policy, heavy, light, 16);
            assert!(ratio >= 8.0, "{policy}: {heavy} heavy and {light} light ones: {ratio:.2}");
        }
        // The review's workload: 210 programs on 64 processors.
        let ratio = ratio(policy, 105, 105, 64);
        assert!((8.0..14.0).contains(&ratio), "{policy}: {ratio:.2}");
    }
}

#[test]
fn light_programs_share_although_there_is_a_processor_for_each() {
    // 16 by 10 : 1 x 12 is 7.3 : 0.73 each; 8.7 for the light ones together.
    let decision =
        create("dss-ts").decide(&snapshot(&two_kinds(1, 12, 16), 16, Cause::Arrival, true));
    assert_eq!(decision.allocations[0].processors, 7);
    assert!(decision.allocations[1..].iter().all(|it| it.shared && it.processors == 1));
    // The one that asks for less than its part leaves it to the others.
    let mut apps = two_kinds(1, 12, 16);
    apps[0].request = 2;
    let decision = create("dss-ts").decide(&snapshot(&apps, 16, Cause::Arrival, true));
    assert_eq!(numbers(&decision)[0], 2);
    assert!(decision.allocations.iter().all(|it| !it.shared), "14 for 12");
}

#[test]
fn one_light_program_beside_as_many_heavy_ones_as_processors_has_the_last_one() {
    // What cannot be had where the kernel shares evenly: less than one processor for all light
    // ones.
    let decision = create("dss").decide(&snapshot(&two_kinds(12, 1, 16), 16, Cause::Arrival, true));
    assert_eq!(numbers(&decision)[12], 1);
}

proptest! {
    /// With equal weights all is as if there were none: none shares that need not.
    #[test]
    fn equal_weights_are_no_weights(
        weight in 0.001..1000.0_f64,
        wanted in prop::collection::vec(1..40_u32, 1..40),
        processors in 1..40_u32,
    ) {
        for policy in ["dss", "dss-ts", "fair"] {
            let apps = requests(&wanted);
            let weighted: Vec<AppView> = apps.iter().map(|app| AppView { weight, ..*app }).collect();
            let decide = |apps: &[AppView]| create(policy).decide(&snapshot(apps, processors, Cause::Arrival, true));
            prop_assert_eq!(decide(&apps), decide(&weighted));
        }
    }

    /// More weight is never less, each application runs, and over the turns of a circle those with
    /// equal claims have the same.
    #[test]
    fn more_weight_is_never_less(
        kinds in prop::collection::vec((0..4_usize, 1..20_u32), 2..24),
        processors in 1..24_u32,
    ) {
        let weights = [0.5, 1.0, 3.0, 10.0];
        let mut apps = requests(&kinds.iter().map(|_| processors).collect::<Vec<u32>>());
        apps.iter_mut().zip(&kinds).for_each(|(app, kind)| app.weight = weights[kind.0]);
        // All groups have been in each of their places.
        let counts = (0..4).map(|kind| kinds.iter().filter(|it| it.0 == kind).count().max(1));
        let lcm = counts.fold(1, |lcm: usize, count| {
            (1..=count).map(|i| lcm * i).find(|it| it % count == 0).expect("the last one is")
        });
        prop_assume!(lcm <= 600);
        let got = received("dss-ts", &apps, processors, u32::try_from(lcm).expect("small"));
        for (one, of_one) in apps.iter().zip(&got) {
            for (other, of_other) in apps.iter().zip(&got) {
                // Whole processors are not equal to within one.
                if one.weight >= other.weight {
                    prop_assert!(of_one + 1.01 > *of_other, "{got:?} {kinds:?} on {processors}");
                }
                if one.weight == other.weight && *of_other < 0.99 {
                    prop_assert!((of_one - of_other).abs() < 1e-6, "{got:?} {kinds:?} on {processors}");
                }
            }
        }
    }
}
