//! Reported times.

use super::*;

#[test]
fn reported_times_become_a_speedup_that_is_smoothed() {
    let mut ledger = ledger(4, "equip");
    ledger.arrive(AppId(1), 4, 4);
    ledger.report(AppId(1), "cg", &[(1, 1_600), (2, 1_000)], MS).unwrap();
    assert_eq!(ledger.speedup(AppId(1)).unwrap().speedup, 1.6);
    ledger.report(AppId(1), "cg", &[(1, 1_000), (2, 1_000)], 2 * MS).unwrap();
    let known = ledger.speedup(AppId(1)).unwrap();
    assert_eq!((known.processors, known.speedup, known.at), (2, 1.3, 2 * MS));
    assert!(ledger.report(AppId(1), "cg", &[(5, 10)], 3 * MS).is_err(), "the machine has four");
    assert_eq!(ledger.speedup(AppId(1)).unwrap().speedup, 1.3);
    // The next execution of the same program begins with what is known.
    assert!(ledger.leave(AppId(1)));
    ledger.arrive(AppId(2), 4, 4);
    ledger.report(AppId(2), "cg", &[(2, 1_000)], 4 * MS).unwrap();
    assert_eq!(ledger.speedup(AppId(2)).unwrap().speedup, 1.3);
}

#[test]
fn programs_of_one_name_that_run_at_once_are_measured_each_by_itself() {
    let mut ledger = ledger(4, "equip");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 4, 4);
    }
    // The second has ten times as much to do: together with the first it would be impossibly fast
    // on two processors.
    for turn in 1..4 {
        ledger.report(AppId(1), "cg", &[(1, 1_000), (2, 500)], turn * MS).unwrap();
        ledger.report(AppId(2), "cg", &[(1, 10_000), (2, 8_000)], turn * MS).unwrap();
    }
    let speedup = |ledger: &Ledger, app: u64| ledger.speedup(AppId(app)).unwrap().speedup;
    assert_eq!((speedup(&ledger, 1), speedup(&ledger, 2)), (2.0, 1.25));
    // What is remembered is what the first one measured, whichever program leaves first.
    assert!(ledger.leave(AppId(2)) && ledger.leave(AppId(1)));
    ledger.arrive(AppId(3), 4, 4);
    ledger.report(AppId(3), "cg", &[(2, 500)], 5 * MS).unwrap();
    assert_eq!(speedup(&ledger, 3), 2.0);
}

#[test]
fn nothing_is_decided_upon_a_report_of_which_a_part_is_refused() {
    let mut ledger = ledger(4, "equip");
    ledger.arrive(AppId(1), 4, 4);
    // Five times as fast on two processors.
    assert!(ledger.report(AppId(1), "cg", &[(1, 1_000), (2, 200)], MS).is_err());
    assert_eq!(ledger.speedup(AppId(1)), None);
}
