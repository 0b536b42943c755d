//! Minima hold under every policy that divides processors in space.

use policies::{AppId, AppView, Cause, Snapshot};
use proptest::prelude::*;

use crate::support::{create, numbers, requests, snapshot};

/// The policies that divide the processors, and give each application some of them all the time.
const IN_SPACE: [&str; 7] = ["equip", "cluster", "dss", "dss-ts", "fair", "marginal", "pdpa"];

#[test]
fn a_rigid_job_has_its_processors_from_its_beginning_and_when_others_come() {
    for name in IN_SPACE {
        let mut policy = create(name);
        let mut apps = requests(&[8, 8]);
        apps[1].min = 5;
        for others in 0..3 {
            let decision = policy.decide(&snapshot(&apps, 8, Cause::Arrival, true));
            let own = numbers(&decision)[1];
            assert!(own >= 5, "{name} beside {others} more: {own}");
            apps.push(AppView::new(AppId(10 + others), 8));
        }
    }
}

#[test]
fn a_job_alone_that_needs_the_machine_has_it_before_it_reports() {
    for name in IN_SPACE {
        let mut apps = requests(&[8]);
        apps[0].min = 8;
        let decision = create(name).decide(&snapshot(&apps, 8, Cause::Arrival, true));
        assert_eq!(numbers(&decision), [8], "{name}");
    }
}

#[test]
fn minima_that_do_not_fit_are_met_in_order_of_arrival() {
    for name in IN_SPACE {
        let mut apps = requests(&[8, 8, 8]);
        (apps[1].min, apps[2].min) = (5, 4);
        let decision = create(name).decide(&snapshot(&apps, 8, Cause::Arrival, true));
        assert_eq!(numbers(&decision), [1, 5, 2], "{name}");
    }
}

#[test]
fn equal_shares_are_of_what_larger_minima_leave() {
    let mut apps = requests(&[16, 16, 16, 2]);
    apps[1].min = 8;
    let decision = create("equip").decide(&snapshot(&apps, 16, Cause::Arrival, true));
    // 8 for the three others: 2 each; the last one asks for no more.
    assert_eq!(numbers(&decision), [2, 8, 2, 2]);
}

#[test]
fn clusters_complete_a_minimum() {
    let mut apps = requests(&[16, 16, 16]);
    apps[2].min = 5;
    let decision = create("cluster").decide(&snapshot(&apps, 16, Cause::Arrival, true));
    // 1, 1, 5; a cluster of 4 for each of the first two; 3 more would complete the first one's
    // second cluster, and twos and ones are left.
    let numbers = numbers(&decision);
    assert_eq!(numbers.iter().sum::<u32>(), 16, "{numbers:?}");
    assert!(numbers[0] >= 4 && numbers[1] >= 4 && numbers[2] >= 5, "{numbers:?}");
}

#[test]
fn a_search_ends_at_the_minimum() {
    let mut policy = create("pdpa");
    let mut apps = requests(&[16]);
    apps[0].min = 6;
    let mut own = 0;
    for at in 1..10 {
        let now = at * 1_000_000_000;
        let snapshot = Snapshot { now, ..snapshot(&apps, 16, Cause::Speedup, true) };
        let decision = policy.decide(&snapshot);
        assert_eq!(decision.check(&snapshot), Ok(()));
        own = numbers(&decision)[0];
        assert!(own >= 6, "{own} at {at}");
        // It gains nothing from any of them.
        let speedup = policies::Speedup { processors: own, speedup: 1.0, at: now + 1 };
        apps[0] = AppView { allocated: own, speedup: Some(speedup), ..apps[0] };
    }
    assert_eq!(own, 6);
}

proptest! {
    /// Each has its minimum, unless those before it and one for each after it leave less.
    #[test]
    fn minima_are_met_in_order(
        apps in prop::collection::vec((1_u32..20, 0_u32..20), 1..8),
        processors in 8_u32..40,
        master_always: bool,
    ) {
        let mut views = requests(&apps.iter().map(|app| app.0).collect::<Vec<_>>());
        for (view, (_, min)) in views.iter_mut().zip(&apps) {
            view.min = *min;
        }
        for name in IN_SPACE {
            let snapshot = snapshot(&views, processors, Cause::Arrival, master_always);
            let decision = create(name).decide(&snapshot);
            prop_assert_eq!(decision.check(&snapshot), Ok(()), "{}", name);
            if !master_always {
                continue;
            }
            let mut rest = processors - views.len() as u32;
            for (view, own) in views.iter().zip(numbers(&decision)) {
                let more = (view.floor() - 1).min(rest);
                rest -= more;
                prop_assert!(own > more, "{name}: {own} of {view:?} in {views:?}");
            }
        }
    }
}
