use super::super::MAX_HOLD;
use super::super::tests::{MS, cpus, ledger};
use super::*;

fn class(min: u32, max: u32, weight: f64, priority: i32, reserve: bool) -> Class {
    Class { min, max, weight, priority, reserve }
}

fn classes(all: &[(&str, Class)]) -> BTreeMap<String, Class> {
    all.iter().map(|(name, class)| ((*name).to_owned(), class.clone())).collect()
}

/// What is tried, classes, and the processors of a program of each.
type Case<'a> = (&'a str, &'a [(&'a str, Class)], [usize; 2]);

/// Books of 8 processors with a program of each of these (class, user, request).
fn books(policy: &str, all: &[(&str, Class)], programs: &[(&str, u32, u32)]) -> Ledger {
    let mut ledger = ledger(8, policy);
    ledger.set_classes(classes(all));
    for (id, (class, user, request)) in (1..).zip(programs) {
        ledger.arrive(AppId(id), *request, 8);
        ledger.set_user(AppId(id), *user);
        let class = Some((*class).to_owned()).filter(|class| !class.is_empty());
        ledger.set_class(AppId(id), class);
    }
    ledger.decide(0, Cause::Arrival);
    ledger
}

fn sizes(ledger: &Ledger, programs: u64) -> Vec<usize> {
    (1..=programs).map(|app| cpus(ledger, app).len()).collect()
}

#[test]
fn weight_priority_minimum_and_maximum_divide_the_machine_under_each_policy() {
    let cases: [Case<'_>; 4] = [
        ("weight", &[("a", class(0, 8, 3.0, 0, false)), ("b", class(0, 8, 1.0, 0, false))], [6, 2]),
        (
            "priority",
            &[("a", class(0, 8, 1.0, 1, false)), ("b", class(0, 8, 9.0, 0, false))],
            [7, 1],
        ),
        (
            "minimum",
            &[("a", class(0, 8, 9.0, 1, false)), ("b", class(3, 8, 1.0, 0, false))],
            [5, 3],
        ),
        (
            "maximum",
            &[("a", class(0, 2, 9.0, 1, false)), ("b", class(0, 8, 1.0, 0, false))],
            [2, 6],
        ),
    ];
    for policy in ["equip", "dss", "dss-ts", "fair"] {
        for (what, all, expected) in &cases {
            // The same user's or not: classes come first.
            for users in [[7, 7], [7, 8]] {
                let books = books(policy, all, &[("a", users[0], 8), ("b", users[1], 8)]);
                assert_eq!(sizes(&books, 2), expected, "{policy}: {what}, users {users:?}");
            }
        }
    }
}

#[test]
fn a_reserve_stays_free_of_sharing_masters() {
    let all = [("urgent", class(2, 8, 1.0, 5, true))];
    let crowd: Vec<(&str, u32, u32)> = (0..12).map(|user| ("", user % 3, 4)).collect();
    let books = books("equip", &all, &crowd);
    let mut used: Vec<u32> = (1..=12).flat_map(|app| cpus(&books, app)).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 6, "{used:?}");
}

#[test]
fn users_inside_a_class_share_evenly_whatever_the_number_of_their_programs() {
    let all = [("a", class(0, 6, 1.0, 0, false))];
    let books = books("equip", &all, &[("a", 1, 8), ("a", 1, 8), ("a", 2, 8), ("", 3, 8)]);
    assert_eq!(sizes(&books, 4), [1, 1, 2, 4]);
}

#[test]
fn a_users_cap_holds_across_classes() {
    let mut ledger = books(
        "equip",
        &[("a", class(0, 8, 1.0, 0, false)), ("b", class(0, 8, 1.0, 0, false))],
        &[("a", 1, 8), ("b", 1, 8)],
    );
    ledger.set_user_caps(BTreeMap::from([(1, 3)]));
    ledger.decide(MAX_HOLD, Cause::Administration);
    assert_eq!(sizes(&ledger, 2).iter().sum::<usize>(), 3);
}

#[test]
fn a_users_cap_leaves_its_programs_the_minima_that_fit() {
    let all = [("a", class(0, 8, 1.0, 0, false))];
    // The last one is another user's.
    let programs = [("a", 1, 8), ("a", 1, 8), ("", 1, 8), ("", 2, 1)];
    for (cap, min, expected) in
        [(5, 1, [2, 2, 1, 1]), (5, 3, [1, 1, 3, 1]), (4, 3, [2, 1, 1, 1]), (6, 4, [1, 1, 4, 1])]
    {
        let mut ledger = books("fair", &all, &programs);
        ledger.set_bounds(AppId(3), min, 8);
        ledger.set_user_caps(BTreeMap::from([(1, cap)]));
        ledger.decide(MAX_HOLD, Cause::Administration);
        assert_eq!(sizes(&ledger, 4), expected, "a cap of {cap} beside a minimum of {min}");
    }
}

#[test]
fn classes_come_change_and_go_while_programs_run_and_another_policy_keeps_them() {
    let mut ledger = books("equip", &[], &[("a", 1, 8), ("b", 1, 8)]);
    assert_eq!(sizes(&ledger, 2), [4, 4]);
    let mut now = 0;
    let mut decide = |ledger: &mut Ledger| {
        now += 100 * MS;
        ledger.decide(now, Cause::Administration);
        sizes(ledger, 2)
    };
    assert!(ledger.set_classes(classes(&[("a", class(0, 2, 1.0, 0, false))])));
    assert!(!ledger.set_classes(classes(&[("a", class(0, 2, 1.0, 0, false))])));
    assert_eq!(decide(&mut ledger), [2, 6]);
    ledger.set_policy(super::super::tests::plain("dss"));
    assert_eq!((ledger.policy(), decide(&mut ledger)), ("dss", vec![2, 6]));
    assert!(ledger.set_class(AppId(2), Some("a".into())));
    assert_eq!(decide(&mut ledger), [1, 1]);
    ledger.set_classes(BTreeMap::new());
    assert_eq!((ledger.policy(), decide(&mut ledger)), ("dss", vec![4, 4]));
}

#[test]
fn a_panic_of_the_policy_inside_reaches_no_further() {
    use crate::guarded::tests::Panics;
    let mut ledger = ledger(8, "equip");
    ledger.set_maker(|_| Some(Panics::at("decide", 1)));
    ledger.set_classes(classes(&[("a", class(0, 2, 1.0, 0, false))]));
    ledger.arrive(AppId(1), 8, 8);
    ledger.decide(0, Cause::Arrival);
    assert_eq!(cpus(&ledger, 1).len(), 8, "equal shares decide, without classes");
    assert!(ledger.policy_failure().is_some());
}
