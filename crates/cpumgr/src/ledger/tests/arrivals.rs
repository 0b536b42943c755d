//! Programs that come and go, and what is too young to be taken for that (M4).

use super::*;

#[test]
fn a_program_alone_gets_what_it_asks_for_and_is_dedicated() {
    let mut ledger = ledger(4, "dss-ts");
    ledger.arrive(AppId(1), 3, 8);
    let changes = ledger.decide(0, Cause::Arrival);
    assert_eq!(changes.len(), 1);
    assert_eq!(ledger.holding(changes[0]).unwrap().cpus.len(), 3);
    assert!(
        ledger.holding(changes[0]).unwrap().dedicated
            && !ledger.holding(changes[0]).unwrap().shared
    );
    assert_eq!(ledger.next_deadline(), None, "nothing changes by itself");
}

#[test]
fn a_weighted_program_has_its_share() {
    let mut ledger = ledger(8, "dss");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 8, 8);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (4, 4));
    assert!(
        ledger.set_weight(AppId(1), 3.0)
            && !ledger.set_weight(AppId(1), 3.0)
            && !ledger.set_weight(AppId(9), 3.0)
    );
    ledger.decide(MAX_HOLD, Cause::Administration);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (6, 2));
    assert_eq!((ledger.weight(AppId(1)), ledger.weight(AppId(2))), (Some(3.0), Some(1.0)));
}

#[test]
fn hardware_threads_are_packed_when_that_is_asked_for() {
    let cores = |id: u32| MachineCpu { id, core: id / 2, llc: 0, node: 0 };
    let machine = Machine::new((0..8).map(cores).collect());
    for (smt, has) in [(Smt::Spread, [0, 2]), (Smt::Pack, [0, 1])] {
        let mut ledger = Ledger::new(
            machine.clone(),
            100 * MS,
            Registry::with_builtin().create("equip").unwrap(),
        );
        ledger.set_smt(smt);
        ledger.arrive(AppId(1), 2, 2);
        ledger.decide(0, Cause::Arrival);
        assert_eq!(cpus(&ledger, 1), has);
    }
}

#[test]
fn a_program_that_wants_more_than_the_machine_is_dedicated_when_alone() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 9, 9);
    let changes = ledger.decide(0, Cause::Arrival);
    assert!(ledger.holding(changes[0]).unwrap().dedicated);
}

#[test]
fn an_arrival_takes_old_processors_at_once() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    ledger.arrive(AppId(2), 2, 2);
    let changes = ledger.decide(50 * MS, Cause::Arrival);
    assert_eq!(changes.len(), 2);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (1, 1));
    assert_ne!(cpus(&ledger, 1), cpus(&ledger, 2));
    assert!(
        changes
            .iter()
            .all(|app| ledger.holding(*app).is_some_and(|it| !it.shared && !it.dedicated))
    );
}

#[test]
fn a_young_processor_is_taken_when_its_hold_ends() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    ledger.arrive(AppId(2), 2, 2);
    ledger.decide(3 * MS, Cause::Arrival);
    // M4: the first keeps both for 10 ms, the second's master runs beside it (L1, L2).
    assert_eq!(cpus(&ledger, 1), [0, 1]);
    assert!(ledger.holding(AppId(2)).unwrap().shared);
    assert_eq!(ledger.next_deadline(), Some(10 * MS));
    assert!(ledger.tick(9 * MS).is_empty());
    assert_eq!(ledger.tick(10 * MS).len(), 2);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (1, 1));
    assert!(!ledger.holding(AppId(2)).unwrap().shared);
}

#[test]
fn a_crowd_does_not_take_young_processors_either() {
    let mut ledger = ledger(4, "dss-ts");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    let before = (cpus(&ledger, 1), cpus(&ledger, 2));
    for app in 3..=5 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(MS, Cause::Arrival);
    // Five programs on four processors: masters are going to share, but not before the two had
    // their time.
    assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), before);
    for app in 1..=5 {
        assert_eq!(ledger.holding(AppId(app)).unwrap().shared, app > 2, "{app}");
    }
    ledger.tick(10 * MS);
    for app in 1..=5 {
        assert!(ledger.holding(AppId(app)).unwrap().shared, "{app}");
    }
}

#[test]
fn a_short_quantum_has_a_short_hold() {
    let mut ledger =
        Ledger::new(machine(2), 8 * MS, Registry::with_builtin().create("dss-ts").unwrap());
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    ledger.arrive(AppId(2), 2, 2);
    ledger.decide(MS, Cause::Arrival);
    assert_eq!(ledger.next_deadline(), Some(2 * MS));
}

#[test]
fn a_program_of_another_manager_keeps_what_it_held_if_no_program_has_it() {
    let mut ledger = ledger(6, "equip");
    ledger.arrive(AppId(1), 2, 2);
    ledger.held_before(AppId(1), &[5, 3, 99, 5]);
    ledger.decide(0, Cause::Arrival);
    assert_eq!(ledger.holding(AppId(1)).unwrap().cpus, [5, 3]);
    ledger.arrive(AppId(2), 2, 2);
    ledger.held_before(AppId(2), &[3, 0]);
    ledger.decide(50 * MS, Cause::Arrival);
    assert_eq!(ledger.holding(AppId(1)).unwrap().cpus, [5, 3], "the one that says so first has it");
    assert!(cpus(&ledger, 2).contains(&0));
}

#[test]
fn programs_that_come_back_one_after_the_other_share_no_processor() {
    for policy in ["dss-ts", "dss", "equip"] {
        let mut ledger = ledger(4, policy);
        ledger.set_returning(true);
        for (app, had) in [(1, [0, 1]), (2, [2, 3])] {
            ledger.arrive(AppId(app), 4, 4);
            ledger.held_before(AppId(app), &had);
            ledger.decide(app * MS, Cause::Arrival);
        }
        for (app, had) in [(1, [0, 1]), (2, [2, 3])] {
            assert_eq!(cpus(&ledger, app), had, "{policy}");
            assert!(!ledger.holding(AppId(app)).unwrap().shared, "{policy}");
        }
        // With the last one back a newcomer waits as usual.
        ledger.set_returning(false);
        ledger.arrive(AppId(3), 4, 4);
        ledger.decide(3 * MS, Cause::Arrival);
        assert!(ledger.holding(AppId(3)).unwrap().shared, "{policy}");
    }
}

#[test]
fn what_a_dead_program_held_goes_to_the_others_at_once() {
    let mut ledger = ledger(2, "dss-ts");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    assert!(ledger.leave(AppId(1)) && !ledger.leave(AppId(1)));
    let changes = ledger.decide(MS, Cause::Exit);
    assert_eq!((changes.len(), cpus(&ledger, 2)), (1, vec![0, 1]));
    assert!(ledger.holding(changes[0]).unwrap().dedicated);
}

#[test]
fn what_passed_before_a_program_came_is_not_time_that_it_waited() {
    let mut ledger = ledger(2, "equip");
    let hour = 3_600_000 * MS;
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(hour, Cause::Arrival);
    assert_eq!(ledger.received(AppId(1), hour), Some((0, 0)));
    ledger.arrive(AppId(2), 1, 1);
    ledger.decide(2 * hour, Cause::Arrival);
    assert_eq!(ledger.received(AppId(1), 2 * hour), Some((2 * hour, 0)));
    assert_eq!(ledger.received(AppId(2), 2 * hour), Some((0, 0)));
}
