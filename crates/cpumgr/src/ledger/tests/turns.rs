//! Turns: quanta, policies that change, and windows that slide.

use super::invariants::check;
use super::*;

#[test]
fn a_policy_that_comes_later_decides_from_then_on() {
    let mut ledger = ledger(4, "equip");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 4, 4);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (2, 2));
    ledger.set_policy(Registry::with_builtin().create("batch").unwrap());
    ledger.configure("masters", &Value::Whole(2)).unwrap();
    assert!(ledger.configure("colour", &Value::Switch(true)).is_err());
    ledger.decide(50 * MS, Cause::Administration);
    assert_eq!(ledger.policy(), "batch");
    assert_eq!(
        ledger.parameters().iter().find(|it| it.key == "masters").unwrap().value,
        Value::Whole(2)
    );
}

#[test]
fn a_shorter_quantum_ends_a_turn_that_has_begun() {
    let mut ledger = ledger(2, "dss-ts");
    for app in 1..=3 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!(ledger.next_deadline(), Some(100 * MS));
    ledger.set_quantum(8 * MS, 20 * MS);
    assert_eq!(ledger.next_deadline(), Some(28 * MS));
}

#[test]
fn a_policy_that_shares_space_needs_no_timer_while_programs_wait() {
    for (policy, needs_one) in
        [("cluster", false), ("dss", false), ("dss-ts", false), ("fair", false), ("gang", true)]
    {
        let mut ledger = ledger(8, policy);
        for app in 1..=3 {
            ledger.arrive(AppId(app), 8, 8);
        }
        ledger.decide(0, Cause::Arrival);
        assert!(ledger.waiting() > 0, "{policy}: they want more than there is");
        assert_eq!(ledger.next_deadline().is_some(), needs_one, "{policy}");
    }
}

#[test]
fn three_programs_on_two_processors_get_the_same_over_three_quanta() {
    let mut ledger = ledger(2, "dss-ts");
    for app in 1..=3 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    let mut now = 0;
    for _ in 0..30 {
        let deadline = ledger.next_deadline().unwrap();
        assert_eq!(deadline, now + 100 * MS, "a turn each quantum");
        now = deadline;
        assert!(!ledger.tick(now).is_empty(), "the turn moves a program");
    }
    ledger.account(now);
    let times: Vec<Nanos> = ledger.entries.iter().map(|entry| entry.cpu_time).collect();
    assert_eq!(times.iter().sum::<Nanos>(), 2 * now);
    assert!(times.iter().all(|time| time.abs_diff(2 * now / 3) <= MS), "{times:?}");
}

/// The programs that have processors of their own, and how many.
fn owners(ledger: &Ledger) -> Vec<(u64, usize)> {
    let own = ledger.entries.iter().filter(|entry| !entry.holding.shared);
    own.map(|entry| (entry.id.0, entry.holding.cpus.len())).collect()
}

/// Four programs on 8 processors change from `equip` to this policy; then one line per turn, taken
/// in its middle, when rule M4 keeps nothing back any more.
fn turns_after_equip(policy: &str, request: u32) -> Vec<Vec<u64>> {
    let mut ledger = ledger(8, "equip");
    for app in 1..=4 {
        ledger.arrive(AppId(app), request, request);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!(owners(&ledger), [(1, 2), (2, 2), (3, 2), (4, 2)]);
    // The first turn is short: 5 ms. What it hands out is young when the second one begins.
    ledger.set_policy(Registry::with_builtin().create(policy).unwrap());
    ledger.decide(95 * MS, Cause::Administration);
    ledger.set_quantum(5 * MS, 95 * MS);
    ledger.set_quantum(100 * MS, 95 * MS);
    let mut turns = Vec::new();
    let mut now = 95 * MS;
    while turns.len() < 9 {
        let next = ledger.next_deadline().unwrap();
        if next - now > 50 * MS {
            let own = owners(&ledger);
            assert_eq!(
                own.iter().map(|(_, number)| number).sum::<usize>(),
                7,
                "all but the masters' one: {own:?}"
            );
            turns.push(own.into_iter().map(|(app, _)| app).collect());
        }
        now = next;
        ledger.tick(now);
        check(&ledger);
    }
    turns
}

#[test]
fn windows_slide_in_order_from_the_second_turn_on() {
    // 1.5 x 8 = 12: two requests of 5 are 10, three are 15. The turn of (1, 2) was the short one.
    let gangs = turns_after_equip("sw-dss", 5);
    assert!(gangs.chunks_exact(2).all(|pair| *pair == [[3, 4], [1, 2]]), "{gangs:?}");
    let windows = turns_after_equip("ssw-dss", 5);
    assert!(
        windows.chunks_exact(4).all(|round| *round == [[2, 3], [3, 4], [1, 4], [1, 2]]),
        "{windows:?}"
    );
    // Three requests of 4 are 12, no more than 1.5 times the machine, although the masters of
    // others have one of it.
    let windows = turns_after_equip("ssw-dss", 4);
    assert!(
        windows.chunks_exact(4).all(|round| *round == [[2, 3, 4], [1, 3, 4], [1, 2, 4], [1, 2, 3]]),
        "{windows:?}"
    );
}

#[test]
fn no_quantum_runs_where_its_end_changes_nothing() {
    // Masters that share evenly, a program that wants more than there is: under a policy that
    // answers the same each time.
    for (policy, programs, runs) in [
        ("dss-ts", 4, false),
        ("dss-ts", 3, true),
        ("dss-ts", 2, false),
        ("dss", 2, false),
        ("equip", 2, false),
        ("batch", 2, true),
    ] {
        let mut ledger = ledger(2, policy);
        (0..programs).for_each(|app| ledger.arrive(AppId(app), 2, 2));
        ledger.decide(0, Cause::Arrival);
        assert!(ledger.waiting() > 0);
        assert_eq!(ledger.next_deadline(), runs.then_some(100 * MS), "{policy} for {programs}");
    }
}

#[test]
fn what_is_passed_on_in_mid_quantum_is_decided_anew_at_its_end() {
    let mut ledger = ledger(4, "dss");
    (0..2).for_each(|app| ledger.arrive(AppId(app), 4, 4));
    ledger.decide(0, Cause::Arrival);
    assert_eq!(ledger.next_deadline(), None);
    ledger.release(AppId(0), &cpus(&ledger, 0)[1..], 20 * MS);
    assert_eq!(ledger.next_deadline(), Some(120 * MS));
    ledger.tick(120 * MS);
    assert_eq!(ledger.next_deadline(), None);
}

#[test]
fn without_programs_there_is_no_deadline() {
    let mut ledger = ledger(2, "dss-ts");
    for app in 1..=3 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    for app in 1..=3 {
        ledger.leave(AppId(app));
    }
    assert!(ledger.decide(MS, Cause::Exit).is_empty());
    assert_eq!(ledger.next_deadline(), None);
}
