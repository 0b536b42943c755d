//! What programs give back, pass on, or keep in a serial phase.

use super::*;

#[test]
fn a_processor_that_is_passed_goes_to_the_first_that_waits_besides_the_giver() {
    let mut ledger = ledger(4, "dss-ts");
    ledger.arrive(AppId(1), 4, 4);
    ledger.arrive(AppId(2), 4, 4);
    ledger.decide(0, Cause::Arrival);
    ledger.decide(50 * MS, Cause::Quantum);
    let (given, kept) = (cpus(&ledger, 1)[0], cpus(&ledger, 1)[1]);
    assert!(ledger.pass(AppId(1), given, 51 * MS).is_none(), "no program passes to itself");
    assert!(ledger.pass(AppId(7), given, 51 * MS).is_none(), "no program of that number waits");
    assert!(ledger.pass(AppId(2), 9, 51 * MS).is_none(), "no program has that processor");
    assert!(ledger.pass(AppId(2), given, 51 * MS).is_some_and(|changes| changes.len() == 2));
    assert_eq!(cpus(&ledger, 1), [kept]);
    assert!(cpus(&ledger, 2).contains(&given) && cpus(&ledger, 2).len() == 3);
    assert!(ledger.pass(AppId(2), kept, 52 * MS).is_none(), "the last one is not to be given");
    // As after a release: it wants all again when it says so.
    assert!(ledger.resume(AppId(1)));
    ledger.decide(80 * MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1).len(), 2);
}

#[test]
fn a_program_that_asks_for_less_gives_back_at_once() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    assert!(ledger.ask(AppId(1), 1));
    ledger.decide(MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1).len(), 1);
    assert_eq!(ledger.next_deadline(), None);
}

#[test]
fn a_program_in_a_serial_phase_keeps_what_no_other_gets() {
    let mut ledger = ledger(4, "equip");
    ledger.arrive(AppId(1), 4, 4);
    ledger.decide(0, Cause::Arrival);
    let held = cpus(&ledger, 1);
    ledger.set_serial(AppId(1), true);
    ledger.ask(AppId(1), 1);
    assert_eq!(ledger.decide(20 * MS, Cause::Request), []);
    // Another one comes: it gets what it wants of them, at once.
    ledger.arrive(AppId(2), 2, 2);
    ledger.decide(50 * MS, Cause::Arrival);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (2, 2));
    assert_eq!(cpus(&ledger, 1)[0], held[0]);
    // Four for 20 ms, then one.
    assert_eq!(ledger.entries[0].cpu_time, 4 * 20 * MS + 30 * MS);
    // Its region comes: what is left is there.
    ledger.set_serial(AppId(1), false);
    ledger.ask(AppId(1), 4);
    let before = cpus(&ledger, 1);
    ledger.decide(51 * MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1), before);
    // A phase that asks for less for good gives back at once.
    ledger.ask(AppId(1), 1);
    ledger.decide(52 * MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1).len(), 1);
}

#[test]
fn what_is_given_back_goes_to_a_waiting_program_and_only_that() {
    let mut ledger = ledger(6, "dss");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 6, 6);
    }
    ledger.decide(0, Cause::Arrival);
    let held = ledger.holding(AppId(1)).unwrap().cpus.clone();
    assert_eq!((held.len(), ledger.waiting()), (3, 2));
    // The middle one, and one that it does not hold.
    let foreign = cpus(&ledger, 2)[0];
    let changes = ledger.release(AppId(1), &[held[1], foreign], 50 * MS);
    assert_eq!(changes.len(), 2);
    assert_eq!(
        ledger.holding(AppId(1)).unwrap().cpus,
        [held[0], held[2]],
        "the others stay in their order"
    );
    assert!(cpus(&ledger, 2).contains(&held[1]) && cpus(&ledger, 2).len() == 4);
    assert_eq!(ledger.request(AppId(1)), Some(6));
    // The same again is nothing new, at the quantum neither.
    assert!(ledger.release(AppId(1), &[held[1]], 51 * MS).is_empty());
    assert_eq!(ledger.tick(200 * MS), []);
    assert!(ledger.resume(AppId(1)) && !ledger.resume(AppId(1)));
    ledger.decide(250 * MS, Cause::Request);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (3, 3));
}

#[test]
fn the_last_processor_is_not_given_back() {
    let mut ledger = ledger(4, "dss-ts");
    ledger.arrive(AppId(1), 3, 3);
    ledger.decide(0, Cause::Arrival);
    let held = cpus(&ledger, 1);
    ledger.release(AppId(1), &held, MS);
    assert_eq!(cpus(&ledger, 1).len(), 1);
}

#[test]
fn what_is_given_back_before_a_newcomer_is_decided_upon_breaks_no_rule() {
    let mut ledger = ledger(4, "batch");
    ledger.arrive(AppId(1), 4, 4);
    ledger.decide(0, Cause::Arrival);
    assert_eq!(cpus(&ledger, 1), [0, 1, 2, 3]);
    // In one pass: another one registers, and the first gives a processor back.
    ledger.arrive(AppId(2), 4, 4);
    ledger.release(AppId(1), &[3], 200 * MS);
    // By the rule of batch, and not by equal shares, which take the place of decisions that break a
    // rule.
    assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), (vec![0, 1, 2], vec![3]));
}
