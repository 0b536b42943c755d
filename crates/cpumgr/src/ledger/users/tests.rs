//! Shares of users.

use std::collections::BTreeMap;

use policies::{AppId, Cause};

use super::super::tests::{MS, cpus, ledger};
use super::super::{Curb, Guarded, Ledger, MAX_HOLD};

const POLICIES: [&str; 11] = [
    "dss-ts", "dss", "fair", "equip", "cluster", "batch", "sw-dss", "ssw-dss", "vtq-dss", "gang",
    "rr",
];

/// Programs of users 1, 2, ..., of each the number given, that want all processors. Program
/// `100 * user + i` is user `user`'s.
fn books(processors: u32, policy: &str, programs: &[u64]) -> Ledger {
    let mut ledger = ledger(processors, policy);
    for (user, number) in (1..).zip(programs) {
        for i in 0..*number {
            come(&mut ledger, 100 * user + i, processors);
        }
    }
    ledger.decide(0, Cause::Arrival);
    settle(&mut ledger, 50 * MS);
    ledger
}

fn come(ledger: &mut Ledger, app: u64, request: u32) {
    ledger.arrive(AppId(app), request, request);
    ledger.set_user(AppId(app), u32::try_from(app / 100).unwrap());
}

fn settle(ledger: &mut Ledger, until: u64) {
    while let Some(next) = ledger.next_deadline().filter(|next| *next <= until) {
        ledger.tick(next);
    }
    ledger.tick(until);
}

/// Processor time of a user's programs, in processors, over `quanta` quanta.
fn received(ledger: &mut Ledger, users: u64, quanta: u64) -> Vec<f64> {
    ledger.account(50 * MS);
    let time = |ledger: &Ledger, user: u64| {
        let own = ledger.entries.iter().filter(|entry| u64::from(entry.user) == user);
        own.map(|entry| entry.cpu_time).sum::<u64>()
    };
    let before: Vec<u64> = (1..=users).map(|user| time(ledger, user)).collect();
    let end = (50 + 100 * quanta) * MS;
    settle(ledger, end);
    ledger.account(end);
    let passed = (quanta * 100 * MS) as f64;
    (1..=users)
        .zip(before)
        .map(|(user, before)| (time(ledger, user) - before) as f64 / passed)
        .collect()
}

#[test]
fn any_number_of_programs_of_one_user_leaves_another_its_half() {
    for policy in POLICIES {
        let mut ledger = books(2, policy, &[20, 1]);
        let theirs = ledger.holding(AppId(200)).unwrap();
        assert_eq!((theirs.cpus.len(), theirs.shared), (1, false), "{policy}");
        let received = received(&mut ledger, 2, 20);
        assert!((0.99..1.01).contains(&received[1]), "{policy}: {received:?}");
    }
    let mut ledger = books(8, "dss-ts", &[90, 1]);
    assert_eq!(cpus(&ledger, 200).len(), 4);
    let received = received(&mut ledger, 2, 3);
    assert!((3.99..4.01).contains(&received[0]), "{received:?}");
}

#[test]
fn users_share_by_their_weights_and_what_one_does_not_want_is_the_others() {
    let mut ledger = books(8, "equip", &[2, 3]);
    ledger.set_user_weights(std::collections::BTreeMap::from([(2, 3.0)]));
    ledger.decide(60 * MS, Cause::Administration);
    let sum = |ledger: &Ledger, apps: &[u64]| {
        apps.iter().map(|app| cpus(ledger, *app).len()).sum::<usize>()
    };
    settle(&mut ledger, 200 * MS);
    assert_eq!((sum(&ledger, &[100, 101]), sum(&ledger, &[200, 201, 202])), (2, 6));
    ledger.set_user_weights(std::collections::BTreeMap::from([(1, 3.0)]));
    ledger.decide(260 * MS, Cause::Administration);
    settle(&mut ledger, 400 * MS);
    assert_eq!(sum(&ledger, &[100, 101]), 6);
    let theirs: std::collections::BTreeSet<u32> =
        [200, 201, 202].into_iter().flat_map(|app| cpus(&ledger, app)).collect();
    assert_eq!(theirs.len(), 2, "three programs share what their user has");
}

#[test]
fn a_quantum_runs_for_the_policy_of_any_user() {
    let mut ledger = books(8, "equip", &[2, 3]);
    assert_eq!(ledger.next_deadline(), None);
    for policy in ledger.other_policies_mut() {
        *policy = Guarded::new(crate::guarded::tests::Panics::at("drop", 0));
    }
    ledger.decide(60 * MS, Cause::Request);
    assert_eq!(ledger.next_deadline(), Some(160 * MS));
}

#[test]
fn each_user_is_served_by_the_policy() {
    // Equal shares of five and three: one of the five is left.
    let equal = books(8, "equip", &[2, 3]);
    let held = |app| cpus(&equal, app).len();
    assert_eq!([100, 101, 200, 201, 202].map(held), [2, 2, 1, 1, 1]);
    // Whole requests of four each.
    let mut ledger = ledger(8, "batch");
    for app in [100, 101, 200, 201] {
        come(&mut ledger, app, 3);
    }
    ledger.decide(0, Cause::Arrival);
    let held = |app| ledger.holding(AppId(app)).map(|it| (it.cpus.len(), it.shared)).unwrap();
    assert_eq!([100, 101, 200, 201].map(held), [(3, false), (1, true), (3, false), (1, true)]);
    let apart = cpus(&ledger, 101) != cpus(&ledger, 201);
    assert!(apart, "masters share with those of their user only");
}

#[test]
fn what_one_user_does_not_want_is_the_others() {
    let mut ledger = ledger(8, "dss");
    for (app, request) in [(100, 1), (101, 1), (200, 8), (300, 8)] {
        come(&mut ledger, app, request);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!([100, 101, 200, 300].map(|app| cpus(&ledger, app).len()), [1, 1, 3, 3]);
    // A program that sleeps wants nothing.
    ledger.curb(AppId(200), Some(Curb { processors: 0, firm: false }));
    ledger.decide(MAX_HOLD, Cause::Request);
    assert_eq!(cpus(&ledger, 300).len(), 6);
    ledger.curb(AppId(200), None);
    ledger.leave(AppId(300));
    ledger.decide(2 * MAX_HOLD, Cause::Exit);
    assert_eq!(cpus(&ledger, 200).len(), 6);
}

#[test]
fn three_users_of_two_processors_get_the_same_and_many_programs_bring_nothing() {
    for policy in POLICIES {
        let received = received(&mut books(2, policy, &[1, 1, 1]), 3, 30);
        assert!(received.iter().all(|it| (0.63..0.7).contains(it)), "{policy}: {received:?}");
        // Those with one program have half a processor each; the one with twenty is by itself.
        let received = super::tests::received(&mut books(2, policy, &[20, 1, 1]), 3, 30);
        assert!(received[1] > 0.45 && received[2] > 0.45, "{policy}: {received:?}");
    }
}

#[test]
fn a_users_programs_have_no_more_processors_together_than_its_cap() {
    for policy in POLICIES {
        for programs in [&[1][..], &[3], &[6], &[2, 2], &[7, 1]] {
            let mut ledger = books(8, policy, programs);
            ledger.set_user_caps(BTreeMap::from([(1, 3)]));
            ledger.decide(60 * MS, Cause::Administration);
            settle(&mut ledger, 120 * MS);
            let mut own: Vec<u32> = Vec::new();
            for i in 0..programs[0] {
                own.extend(cpus(&ledger, 100 + i));
            }
            own.sort_unstable();
            own.dedup();
            assert!(own.len() <= 3, "{policy} {programs:?}: {own:?}");
            assert!(!own.is_empty());
            ledger.set_user_caps(BTreeMap::new());
            ledger.decide(200 * MS, Cause::Administration);
        }
    }
    let mut ledger = books(8, "dss", &[1, 1]);
    ledger.set_user_caps(BTreeMap::from([(1, 3)]));
    ledger.decide(60 * MS, Cause::Administration);
    settle(&mut ledger, 120 * MS);
    assert_eq!((cpus(&ledger, 100).len(), cpus(&ledger, 200).len()), (3, 5));
}

#[test]
fn with_programs_of_one_user_it_is_as_if_there_were_no_users() {
    for policy in POLICIES {
        let mut known = books(4, policy, &[3]);
        let mut unknown = ledger(4, policy);
        (100..103).for_each(|app| unknown.arrive(AppId(app), 4, 4));
        unknown.decide(0, Cause::Arrival);
        settle(&mut unknown, 50 * MS);
        for now in (1..20).map(|turn| turn * 60 * MS) {
            settle(&mut known, now);
            settle(&mut unknown, now);
            for app in 100..103 {
                assert_eq!(known.holding(AppId(app)), unknown.holding(AppId(app)), "{policy}");
            }
            assert_eq!(known.next_deadline(), unknown.next_deadline());
        }
    }
}

#[test]
fn a_user_that_stays_keeps_its_policy_when_the_first_one_leaves() {
    let mut ledger = books(4, "dss", &[1, 2]);
    assert_eq!(ledger.users.others.len(), 1);
    ledger.leave(AppId(100));
    ledger.decide(60 * MS, Cause::Exit);
    assert!(
        ledger.users.others.is_empty()
            && ledger.users.first == Some(2)
            && ledger.users.shares.is_empty()
    );
    settle(&mut ledger, 100 * MS);
    assert_eq!((cpus(&ledger, 200).len(), cpus(&ledger, 201).len()), (2, 2));
}

#[test]
fn what_is_released_goes_to_waiting_programs_of_the_same_user_and_then_to_others() {
    let mut ledger = books(8, "dss", &[2, 1]);
    let held = |ledger: &Ledger| [100, 101, 200].map(|app| cpus(ledger, app).len());
    assert_eq!(held(&ledger), [2, 2, 4]);
    let given = cpus(&ledger, 100)[1];
    ledger.release(AppId(100), &[given], 60 * MS);
    assert_eq!(held(&ledger), [1, 3, 4]);
    let given = cpus(&ledger, 101);
    ledger.release(AppId(101), &given[1..], 80 * MS);
    assert_eq!(held(&ledger), [1, 1, 6]);
    assert!(ledger.resume(AppId(100)) && ledger.resume(AppId(101)));
    ledger.decide(100 * MS, Cause::Request);
    settle(&mut ledger, 120 * MS);
    assert_eq!(held(&ledger), [2, 2, 4]);
}
