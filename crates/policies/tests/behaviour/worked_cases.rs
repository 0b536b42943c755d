//! Golden cases worked out by hand: what each policy answers, and why.

use crate::support::{create, decide, numbers, requests, snapshot};
use policies::{Allocation, AppId, AppView, BrokenRule, Cause, Decision};

fn ids(list: &[u64]) -> Vec<AppId> {
    list.iter().map(|&id| AppId(id)).collect()
}

fn weighted(list: &[(f64, u32)]) -> Vec<AppView> {
    let mut apps = requests(&list.iter().map(|&(_, request)| request).collect::<Vec<_>>());
    for (app, &(weight, _)) in apps.iter_mut().zip(list) {
        app.weight = weight;
    }
    apps
}

#[test]
fn equip_gives_at_most_an_equal_share_and_leaves_the_rest_unallocated() {
    // floor(8 / 3) = 2; the second takes 1 of its 2; 8 - 5 = 3 stay free.
    let apps = requests(&[8, 1, 8]);
    let decision = decide("equip", &apps, 8, true);
    assert_eq!(numbers(&decision), [2, 1, 2]);
    assert_eq!(decision.unallocated(8), 3);
    assert_eq!(decision.work_list, ids(&[1, 3]));
}

#[test]
fn equip_keeps_to_a_maximum_below_the_share() {
    // floor(8 / 2) = 4; the first may have 3 at most and then wants no more.
    let mut apps = requests(&[8, 8]);
    apps[0].max = 3;
    let decision = decide("equip", &apps, 8, true);
    assert_eq!(numbers(&decision), [3, 4]);
    assert_eq!(decision.work_list, ids(&[2]));
}

#[test]
fn equip_with_more_applications_than_processors_shares_or_lets_the_last_wait() {
    let apps = requests(&[4, 4, 1]);
    let sharing = decide("equip", &apps, 2, true);
    assert_eq!(sharing.allocations, [1, 2, 3].map(|id| Allocation::shared_master(AppId(id))));
    // A shared processor is less than what the third asked for, too.
    assert_eq!(sharing.work_list, ids(&[1, 2, 3]));

    let strict = decide("equip", &apps, 2, false);
    assert_eq!(numbers(&strict), [1, 1, 0]);
    // Without a processor first, then in order of arrival.
    assert_eq!(strict.work_list, ids(&[3, 1, 2]));
}

#[test]
fn dss_gives_what_is_asked_for_when_it_fits() {
    let decision = decide("dss", &requests(&[3, 4, 1]), 8, true);
    assert_eq!(numbers(&decision), [3, 4, 1]);
    assert_eq!(decision.work_list, []);
    // What does not fit because of a request above the maximum does fit: 2 + 6 = 8.
    let mut apps = requests(&[100, 6]);
    apps[0].max = 2;
    assert_eq!(numbers(&decide("dss", &apps, 8, true)), [2, 6]);
}

#[test]
fn dss_gives_each_program_one_before_any_gets_two() {
    // Sum 103 > 4; each 1; nothing remains.
    let decision = decide("dss", &requests(&[100, 1, 1, 1]), 4, true);
    assert_eq!(numbers(&decision), [1, 1, 1, 1]);
    assert_eq!(decision.work_list, ids(&[1]));
}

#[test]
fn dss_shares_the_surplus_of_the_satisfied_again() {
    // 32 by 10 x 4 : 1 x 60 = 40 : 60 is 12.8 : 19.2; the first wants 4 only, so that 28 go to the
    // second.
    let decision = decide("dss", &weighted(&[(10.0, 4), (1.0, 60)]), 32, true);
    assert_eq!(numbers(&decision), [4, 28]);
    assert_eq!(decision.work_list, ids(&[2]));
}

#[test]
fn dss_rounds_by_webster_and_ties_by_arrival() {
    // 8 / 3 each; the third processor of each comes at 8 / 5 for all of them: the first two get it.
    assert_eq!(numbers(&decide("dss", &requests(&[8, 8, 8]), 8, true)), [3, 3, 2]);
    // 2 : 6 : 12 on 10 is 1 : 3 : 6.
    assert_eq!(numbers(&decide("dss", &requests(&[2, 6, 12]), 10, true)), [1, 3, 6]);
    // A workload of the papers, 96 requested of 64: 21.3, 16 and 5.3 exactly. 5 each leaves 39 for
    // the first two; the last one is the second's, 24 / 33, which ties with 8 / 11.
    let paper = decide("dss", &requests(&[32, 24, 8, 8, 8, 8, 8]), 64, true);
    assert_eq!(numbers(&paper), [22, 17, 5, 5, 5, 5, 5]);
}

#[test]
fn dss_has_the_floor_inside_the_proportion() {
    // 32 requested by one and 2 by each of fifteen, on 32: 16.5 and 1.03 by proportion.
    let mut apps = vec![32];
    apps.extend([2; 15]);
    let parts = numbers(&decide("dss", &requests(&apps), 32, true));
    assert!((16..=17).contains(&parts[0]) && parts[1..].iter().all(|part| (1..=2).contains(part)));
    // 64 and seven times 4, on 64: 44.5 and 2.8.
    let parts = numbers(&decide("dss", &requests(&[64, 4, 4, 4, 4, 4, 4, 4]), 64, true));
    assert_eq!(parts, [43, 3, 3, 3, 3, 3, 3, 3]);
}

#[test]
fn fair_gives_equal_parts_whatever_is_asked_for() {
    // 16 by weight: 4 leaves 12 for two that want more; asking for 100 gains nothing.
    assert_eq!(numbers(&decide("fair", &requests(&[4, 12, 100]), 16, true)), [4, 6, 6]);
    // What one gives back costs it no more than that.
    assert_eq!(numbers(&decide("fair", &requests(&[16, 5]), 16, true)), [11, 5]);
    assert_eq!(numbers(&decide("fair", &weighted(&[(3.0, 16), (1.0, 16)]), 16, true)), [12, 4]);
    let mut apps = requests(&[16, 16, 16, 16]);
    apps[3].min = 7;
    assert_eq!(numbers(&decide("fair", &apps, 16, true)), [3, 3, 3, 7]);
}

#[test]
fn dss_takes_nothing_from_a_third_when_one_leaves() {
    let before = numbers(&decide("dss", &requests(&[1, 2, 6, 6]), 7, true));
    let after = numbers(&decide("dss", &requests(&[2, 6, 6]), 7, true));
    assert!(before[1..].iter().zip(&after).all(|(before, after)| after >= before));
}

#[test]
fn dss_fills_minima_in_order_of_arrival_before_it_shares() {
    let mut apps = requests(&[8, 8, 8]);
    (apps[1].min, apps[2].min) = (4, 4);
    // Each 1, 5 remain; the second takes 3 to its minimum of 4, the third the last 2: 1, 4, 3.
    assert_eq!(numbers(&decide("dss", &apps, 8, true)), [1, 4, 3]);
    // On 12 each has 4 by proportion, with which the minima are met.
    assert_eq!(numbers(&decide("dss", &apps, 12, true)), [4, 4, 4]);
    // On 10 the proportion would be 3 1/3: the minima are the second's and third's, 2 remain.
    assert_eq!(numbers(&decide("dss", &apps, 10, true)), [2, 4, 4]);
}

#[test]
fn dss_with_more_applications_than_processors_shares_or_lets_the_last_wait() {
    let apps = requests(&[9, 1, 9]);
    let sharing = decide("dss", &apps, 2, true);
    assert_eq!(sharing.allocations, [1, 2, 3].map(|id| Allocation::shared_master(AppId(id))));
    let mut dss = create("dss");
    for _ in 0..4 {
        // No turns: the first that came stay.
        let strict = dss.decide(&snapshot(&apps, 2, Cause::Quantum, false));
        assert_eq!(numbers(&strict), [1, 1, 0]);
        assert_eq!(strict.work_list, ids(&[3, 1]));
    }
}

#[test]
fn dss_ts_is_dss_while_every_program_can_have_a_processor() {
    let apps = weighted(&[(10.0, 4), (1.0, 60)]);
    assert_eq!(decide("dss-ts", &apps, 32, true), decide("dss", &apps, 32, true));
    assert_eq!(decide("dss-ts", &apps, 2, false), decide("dss", &apps, 2, false));
}

#[test]
fn dss_ts_rotates_shared_masters_at_the_end_of_a_quantum_only() {
    let apps = requests(&[2, 2, 2]);
    let mut policy = create("dss-ts");
    for (cause, rotate) in
        [(Cause::Arrival, false), (Cause::Quantum, true), (Cause::Request, false)]
    {
        let decision = policy.decide(&snapshot(&apps, 2, cause, true));
        assert_eq!(decision.allocations, [1, 2, 3].map(|id| Allocation::shared_master(AppId(id))));
        assert_eq!(decision.rotate, rotate, "{cause:?}");
    }
}

#[test]
fn dss_ts_without_masters_gives_turns_on_whole_processors() {
    let apps = requests(&[2, 1, 2]);
    let mut policy = create("dss-ts");
    let mut at = |apps: &[AppView], cause| {
        let decision = policy.decide(&snapshot(apps, 2, cause, false));
        (numbers(&decision), decision.work_list)
    };
    assert_eq!(at(&apps, Cause::Arrival), (vec![1, 1, 0], ids(&[3, 1])));
    // 1 and 2 go to the end of the queue: 3, 1, 2.
    assert_eq!(at(&apps, Cause::Quantum), (vec![1, 0, 1], ids(&[2, 3, 1])));
    // An event in mid-quantum takes no turn away.
    assert_eq!(at(&apps, Cause::Request), (vec![1, 0, 1], ids(&[2, 3, 1])));
    // 2, 3, 1.
    assert_eq!(at(&apps, Cause::Quantum), (vec![0, 1, 1], ids(&[1, 3])));
    // A fourth comes and waits after 1; then 2 leaves and 1 takes its place at once: 3, 1, 4.
    let four = requests(&[2, 1, 2, 2]);
    assert_eq!(at(&four, Cause::Arrival), (vec![0, 1, 1, 0], ids(&[1, 4, 3])));
    let left = [four[0], four[2], four[3]];
    assert_eq!(at(&left, Cause::Exit), (vec![1, 1, 0], ids(&[4, 3, 1])));
    // With two applications none waits, and none has to queue again.
    assert_eq!(at(&left[..2], Cause::Exit), (vec![1, 1], ids(&[1, 3])));
}

#[test]
fn no_application_and_no_processor_are_answered() {
    for name in ["equip", "dss", "dss-ts"] {
        for master_always in [true, false] {
            assert_eq!(decide(name, &[], 4, master_always), decide(name, &[], 0, master_always));
            let none = decide(name, &requests(&[3, 3]), 0, master_always);
            assert_eq!(numbers(&none), [0, 0]);
            assert!(none.allocations.iter().all(|a| !a.shared));
            assert_eq!(none.work_list, ids(&[1, 2]));
        }
    }
}

#[test]
fn released_processors_go_to_the_first_in_the_work_list() {
    let mut apps = requests(&[4, 4, 4]);
    let mut policy = create("equip");
    let decision = policy.decide(&snapshot(&apps, 10, Cause::Arrival, true));
    // floor(10 / 3) = 3 each, one unallocated.
    assert_eq!((numbers(&decision), decision.work_list.clone()), (vec![3, 3, 3], ids(&[1, 2, 3])));
    // The third falls to 2 and so gives back 1; with the one that was free: 1 to the first, 1 to
    // the second.
    apps[2].request = 2;
    let after = policy.release(&snapshot(&apps, 10, Cause::Release, true), &decision);
    assert_eq!((numbers(&after), after.work_list.clone()), (vec![4, 4, 2], ids(&[])));
    // The second leaves: none waits, its processors stay free.
    apps.remove(1);
    let after = policy.release(&snapshot(&apps, 10, Cause::Exit, true), &after);
    assert_eq!((numbers(&after), after.unallocated(10)), (vec![4, 2], 4));
}

#[test]
fn a_sharing_master_gets_a_released_processor_for_itself() {
    let apps = requests(&[3, 1, 1]);
    // Two processors for the first, two masters on the third one.
    let allocations = vec![
        Allocation::own(AppId(1), 2),
        Allocation::shared_master(AppId(2)),
        Allocation::shared_master(AppId(3)),
    ];
    let before = snapshot(&apps, 3, Cause::Arrival, true);
    let decision = Decision::new(&before, allocations, ids(&[3, 1, 2]));
    assert_eq!(decision.check(&before), Ok(()));
    assert_eq!(decision.unallocated(3), 0);
    // The first falls to 1. Of 3 processors, 1 is its own and 2 are there for the two masters: each
    // is alone, nothing is left to hand out, and no master moves before the next decision.
    let fewer = requests(&[1, 1, 1]);
    let after = decision.after_release(&snapshot(&fewer, 3, Cause::Release, true));
    assert_eq!(numbers(&after), [1, 1, 1]);
    assert_eq!((after.unallocated(3), after.work_list.clone()), (0, ids(&[3, 2])));
    // On 4 processors one more is free: each of the masters is alone and has its processor for
    // itself; 3 are used.
    let four = snapshot(&fewer, 4, Cause::Administration, true);
    let after = decision.after_release(&four);
    assert_eq!(
        after.allocations[1..],
        [Allocation::own(AppId(2), 1), Allocation::own(AppId(3), 1)]
    );
    assert_eq!(
        (after.work_list.clone(), after.unallocated(4), after.check(&four)),
        (ids(&[]), 1, Ok(()))
    );
    // When they want more, the first in the list has it: 1 and 2 on its own, and nothing is left
    // for the second.
    let more = requests(&[1, 2, 2]);
    let more = snapshot(&more, 4, Cause::Release, true);
    let after = decision.after_release(&more);
    assert_eq!(
        after.allocations[1..],
        [Allocation::shared_master(AppId(2)), Allocation::own(AppId(3), 2)]
    );
    assert_eq!((after.work_list.clone(), after.check(&more)), (ids(&[2]), Ok(())));
}

#[test]
fn a_decision_that_breaks_a_rule_is_refused_by_name() {
    let apps = requests(&[2, 4]);
    let (one, two) = (AppId(1), AppId(2));
    let masters = snapshot(&apps, 4, Cause::Arrival, true);
    let strict = snapshot(&apps, 4, Cause::Arrival, false);
    let crowded = snapshot(&apps, 1, Cause::Arrival, true);
    let own = |a, b| vec![Allocation::own(one, a), Allocation::own(two, b)];
    let with = |allocations: Vec<Allocation>, work_list: &[AppId]| {
        Decision::new(&masters, allocations, work_list.to_vec())
    };
    assert_eq!(with(own(2, 2), &[two]).check(&masters), Ok(()));
    assert_eq!(with(own(0, 4), &[one]).check(&strict), Ok(()));

    let short = with(vec![Allocation::own(one, 1)], &[]);
    assert_eq!(short.check(&masters), Err(BrokenRule::List { allocations: 1, apps: 2 }));
    let swapped = with(vec![Allocation::own(two, 1), Allocation::own(one, 1)], &[]);
    assert_eq!(swapped.check(&masters), Err(BrokenRule::List { allocations: 2, apps: 2 }));
    let greedy = with(own(3, 1), &[]);
    assert_eq!(
        greedy.check(&masters),
        Err(BrokenRule::TooMany { app: one, processors: 3, wants: 2 })
    );
    let full = with(own(2, 3), &[]);
    assert_eq!(full.check(&masters), Err(BrokenRule::Sum { own: 5, masters: 0, processors: 4 }));
    let no_room = with(vec![Allocation::own(one, 1), Allocation::shared_master(two)], &[]);
    assert_eq!(no_room.check(&crowded), Err(BrokenRule::Sum { own: 1, masters: 1, processors: 1 }));
    assert_eq!(no_room.check(&strict), Err(BrokenRule::Shared { app: two, processors: 1 }));
    let broad = with(
        vec![
            Allocation::own(one, 1),
            Allocation { processors: 2, ..Allocation::shared_master(two) },
        ],
        &[],
    );
    assert_eq!(broad.check(&masters), Err(BrokenRule::Shared { app: two, processors: 2 }));
    assert_eq!(with(own(0, 4), &[]).check(&masters), Err(BrokenRule::NoMaster { app: one }));
    for (bad, list) in [(one, vec![one]), (two, vec![two, two]), (AppId(9), vec![AppId(9)])] {
        assert_eq!(with(own(2, 2), &list).check(&masters), Err(BrokenRule::WorkList { app: bad }));
    }
}
