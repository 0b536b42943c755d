//! Policies in which applications take turns, or wait: golden cases by hand, and none starves.

use std::collections::BTreeMap;

use crate::support::{create, decide, numbers, requests, snapshot};
use policies::{Allocation, AppId, AppView, Cause, Decision, Policy, Value};
use proptest::prelude::*;

fn ids(list: &[u64]) -> Vec<AppId> {
    list.iter().map(|&id| AppId(id)).collect()
}

/// Allocations at the end of each of `quanta` quanta, without masters outside turns; the first is
/// the arrival.
fn quanta(
    policy: &mut dyn Policy,
    apps: &[AppView],
    processors: u32,
    quanta: usize,
) -> Vec<Vec<u32>> {
    let causes = std::iter::once(Cause::Arrival).chain(std::iter::repeat(Cause::Quantum));
    causes
        .take(quanta)
        .map(|cause| numbers(&policy.decide(&snapshot(apps, processors, cause, false))))
        .collect()
}

/// The applications that run with processors of their own.
fn running(decision: &Decision) -> Vec<AppId> {
    decision.allocations.iter().filter(|a| !a.shared && a.processors > 0).map(|a| a.app).collect()
}

#[test]
fn cluster_hands_out_whole_clusters_in_order_of_arrival_then_the_rest() {
    // 14 processors, clusters of 4, masters not counted. First round: 4, 4, 2 (the third asks for
    // 2): 4 left. Second round: 4 to the first. Nothing is left.
    assert_eq!(numbers(&decide("cluster", &requests(&[12, 8, 2]), 14, false)), [8, 4, 2]);
    // 11: first round 4, 4 and 3 left, less than a cluster: two go to the third, which had nothing,
    // and, as each pass begins there, the last one, too.
    let decision = decide("cluster", &requests(&[12, 8, 5]), 11, false);
    assert_eq!((numbers(&decision), decision.work_list.clone()), (vec![4, 4, 3], ids(&[1, 2, 3])));
    // The third asks for 2 only: the last one goes to the first.
    assert_eq!(numbers(&decide("cluster", &requests(&[12, 8, 2]), 11, false)), [5, 4, 2]);
    // With masters each has 1 of 11 first; 3 complete the cluster of the first, 3 that of the
    // second; then 2 are left, less than a cluster: both to the third, which has no more than its
    // master. So it is as without masters.
    assert_eq!(numbers(&decide("cluster", &requests(&[12, 8, 5]), 11, true)), [4, 4, 3]);
    // A fourth has its master only, and heads the work-list: 12 - 4 = 8, 3 + 3 of them to the first
    // two, 2 to the third.
    let decision = decide("cluster", &requests(&[12, 8, 5, 5]), 12, true);
    assert_eq!(
        (numbers(&decision), decision.work_list.clone()),
        (vec![4, 4, 3, 1], ids(&[4, 1, 2, 3]))
    );
    // More applications than clusters, strict: the last ones have nothing and head the work-list.
    let decision = decide("cluster", &requests(&[4, 6, 4, 4]), 8, false);
    assert_eq!(
        (numbers(&decision), decision.work_list.clone()),
        (vec![4, 4, 0, 0], ids(&[3, 4, 2]))
    );
}

#[test]
fn a_cluster_of_another_size_is_handed_out_from_the_next_decision_on() {
    let apps = requests(&[8, 8]);
    let mut policy = create("cluster");
    let numbers = |policy: &mut Box<dyn Policy>| {
        numbers(&policy.decide(&snapshot(&apps, 12, Cause::Request, false)))
    };
    // Clusters of 4: 4, 4, then 4 more to the first.
    assert_eq!(numbers(&mut policy), [8, 4]);
    policy.configure("size", &Value::Whole(6)).expect("it is a size");
    // Clusters of 6: 6 and 6.
    assert_eq!(numbers(&mut policy), [6, 6]);
}

#[test]
fn sw_dss_runs_gang_after_gang_under_dss() {
    // P = 4, load 1.5: requests of a gang are at most 6. From 1: 4 + 2 = 6, with 3 it were 9: gang
    // {1, 2}; then from 3: 3 + 3 = 6: {3, 4}, with 1 it were 10; then {1, 2} again.
    // dss on 4: {4, 2}: 2.67 and 1.33: 3, 1. {3, 3}: 2, 2.
    let apps = requests(&[4, 2, 3, 3]);
    let mut policy = create("sw-dss");
    let expected = [[3, 1, 0, 0], [0, 0, 2, 2], [3, 1, 0, 0]].map(|row| row.to_vec());
    assert_eq!(quanta(&mut *policy, &apps, 4, 3), expected);
    // In mid-quantum 2 leaves: the gang from 1 on is 4 alone (with 3 it were 7); its turn does not
    // pass.
    let left = [apps[0], apps[2], apps[3]];
    let decision = policy.decide(&snapshot(&left, 4, Cause::Exit, false));
    assert_eq!((numbers(&decision), decision.work_list), (vec![4, 0, 0], ids(&[3, 4])));
}

#[test]
fn sw_dss_gangs_reach_around_the_end_of_the_list() {
    // At most 6 of requests: {1, 2}, then {3, 1} around the end, then {2, 3}.
    let apps = requests(&[3, 3, 3]);
    let expected = [[2, 2, 0], [2, 0, 2], [0, 2, 2], [2, 2, 0]].map(|row| row.to_vec());
    assert_eq!(quanta(&mut *create("sw-dss"), &apps, 4, 4), expected);
}

#[test]
fn ssw_dss_drops_the_first_and_takes_what_fits_at_the_end() {
    // P = 4, at most 6: {1, 2} = 4; with 3 it were 9. Drop 1: {2} = 2; 3 would be 7: alone, 2 of 4.
    // Drop 2: {3} = 5. Drop 3: {1, 2} again? In the ring after 3 comes 1: 5 alone was the window;
    // now {1, 2}.
    let apps = requests(&[2, 2, 5]);
    let expected = [[2, 2, 0], [0, 2, 0], [0, 0, 4], [2, 2, 0]].map(|row| row.to_vec());
    assert_eq!(quanta(&mut *create("ssw-dss"), &apps, 4, 4), expected);
    // Sizes that fit: {1, 2, 3} = 6, {2, 3, 4}, {3, 4, 5}, {4, 5, 1}.
    // dss of {2, 2, 2} on 4: 1 each, the one that remains goes to the first in order of arrival.
    let apps = requests(&[2, 2, 2, 2, 2]);
    let expected = [[2, 1, 1, 0, 0], [0, 2, 1, 1, 0], [0, 0, 2, 1, 1], [2, 0, 0, 1, 1]]
        .map(|row| row.to_vec());
    assert_eq!(quanta(&mut *create("ssw-dss"), &apps, 4, 4), expected);
}

#[test]
fn outside_its_turn_an_application_has_its_master_on_the_processor_kept_for_that() {
    // P = 4: three for the gang {1} (4 + 4 is more than 6), one for the masters of 2 and 3.
    let apps = requests(&[4, 4, 4]);
    for name in ["sw-dss", "ssw-dss", "vtq-dss", "gang", "rr"] {
        let decision = decide(name, &apps, 4, true);
        // Turns are said to come in the order of arrival.
        let masters = [(2, 1), (3, 2)];
        let masters =
            masters.map(|(id, turn)| Allocation { turn, ..Allocation::shared_master(AppId(id)) });
        assert_eq!(
            decision.allocations,
            [&[Allocation::own(AppId(1), 3)][..], &masters].concat(),
            "{name}"
        );
    }
    // A single processor is shared by all.
    for name in ["sw-dss", "ssw-dss", "vtq-dss", "gang", "rr", "batch"] {
        let decision = decide(name, &apps, 1, true);
        let shares = |it: &Allocation| {
            *it == Allocation { turn: it.turn, ..Allocation::shared_master(it.app) }
        };
        assert!(decision.allocations.iter().all(shares), "{name}: {decision:?}");
    }
}

#[test]
fn gang_puts_whole_requests_into_rows() {
    // P = 8. Rows in order of arrival: 5 | 4, 3 (fits into the second row: 7) | ... 2 fits into the
    // first: 7.
    let apps = requests(&[5, 4, 3, 2]);
    let mut policy = create("gang");
    let expected = [[5, 0, 3, 0], [0, 4, 0, 2], [5, 0, 3, 0]].map(|row| row.to_vec());
    // 1 takes 5, 2 does not fit into its row, 3 does (8), 4 goes into the row of 2.
    assert_eq!(quanta(&mut *policy, &apps, 8, 3), expected);
    // 1 leaves in mid-quantum: 3 keeps its row; 2 moves up to it (7), and 4 does not fit (9).
    let left = [apps[1], apps[2], apps[3]];
    let decision = policy.decide(&snapshot(&left, 8, Cause::Exit, false));
    assert_eq!((numbers(&decision), decision.work_list), (vec![4, 3, 0], ids(&[4])));
    // A request beyond the machine is the machine, alone.
    assert_eq!(
        quanta(&mut *create("gang"), &requests(&[20, 1]), 8, 3),
        [vec![8, 0], vec![0, 1], vec![8, 0]]
    );
}

#[test]
fn gang_lets_no_program_be_passed_over_for_ever_by_requests_that_change() {
    // P = 8. The third always asks for all. At each quantum the first two of the others, in the
    // order in which they ran, ask for 5 and the last two for 3: pairs of 5 and 3 fill every row
    // that is packed, two of them at each time.
    let mut apps = requests(&[5, 5, 8, 3, 3]);
    let mut policy = create("gang");
    let mut cause = Cause::Arrival;
    let mut ring: Vec<usize> = vec![0, 1, 3, 4];
    let mut waits = 0;
    for quantum in 0..200 {
        for (place, &i) in ring.iter().enumerate() {
            apps[i].request = if place < 2 { 5 } else { 3 };
        }
        let run = running(&policy.decide(&snapshot(&apps, 8, cause, false)));
        waits = if run.contains(&AppId(3)) { 0 } else { waits + 1 };
        assert!(waits < apps.len(), "quantum {quantum}: the third waits for {waits} quanta");
        let (ran, others): (Vec<usize>, Vec<usize>) =
            ring.iter().partition(|&&i| run.contains(&apps[i].id));
        ring = [others, ran].concat();
        cause = Cause::Quantum;
    }
}

#[test]
fn rr_gives_the_machine_to_one_after_the_other_and_none_waits_for_more() {
    let apps = requests(&[2, 9, 3]);
    let mut policy = create("rr");
    let expected = [[2, 0, 0], [0, 4, 0], [0, 0, 3], [2, 0, 0]].map(|row| row.to_vec());
    assert_eq!(quanta(&mut *policy, &apps, 4, 4), expected);
    let decision = policy.decide(&snapshot(&apps, 4, Cause::Request, false));
    assert_eq!((numbers(&decision), decision.work_list.clone()), (vec![2, 0, 0], vec![]));
    // The one with the turn wants less: what it gives back idles.
    let fewer = requests(&[1, 9, 3]);
    let after = policy.release(&snapshot(&fewer, 4, Cause::Release, false), &decision);
    assert_eq!((numbers(&after), after.unallocated(4)), (vec![1, 0, 0], 3));
}

#[test]
fn batch_starts_whole_requests_in_order_and_with_backfill_also_others() {
    let apps = requests(&[4, 6, 2, 3]);
    let mut policy = create("batch");
    // 4 of 8; 6 does not fit, and all after it wait.
    let decision = policy.decide(&snapshot(&apps, 8, Cause::Arrival, false));
    assert_eq!(
        (numbers(&decision), decision.work_list.clone()),
        (vec![4, 0, 0, 0], ids(&[2, 3, 4]))
    );
    // Backfilling: 2 starts (2 left), 3 does not fit.
    policy.configure("backfill", &Value::Switch(true)).expect("it is a switch");
    let decision = policy.decide(&snapshot(&apps, 8, Cause::Administration, false));
    assert_eq!(numbers(&decision), [4, 0, 2, 0]);
    // The first leaves: 6 are free, which is the whole request of the second.
    let rest = [apps[1], apps[2], apps[3]];
    let released = policy.release(&snapshot(&rest, 8, Cause::Release, false), &decision);
    let decided = policy.decide(&snapshot(&rest, 8, Cause::Exit, false));
    assert_eq!((numbers(&decided), numbers(&released)), (vec![6, 2, 0], vec![6, 2, 0]));
}

#[test]
fn batch_takes_nothing_from_running_programs() {
    let mut apps = requests(&[4, 4]);
    let mut policy = create("batch");
    assert_eq!(numbers(&policy.decide(&snapshot(&apps, 8, Cause::Arrival, false))), [4, 4]);
    // The first asks for more: nothing is free. It falls to 1 and rises again: what it gave back is
    // there still.
    for (request, expected) in [(6, [4, 4]), (1, [1, 4]), (3, [3, 4]), (9, [4, 4])] {
        apps[0].request = request;
        assert_eq!(
            numbers(&policy.decide(&snapshot(&apps, 8, Cause::Request, false))),
            expected,
            "{request}"
        );
    }
    // It falls to 1, and a third one takes the three. Then it cannot have them back.
    apps[0].request = 1;
    apps.push(AppView::new(AppId(3), 3));
    assert_eq!(numbers(&policy.decide(&snapshot(&apps, 8, Cause::Arrival, false))), [1, 4, 3]);
    apps[0].request = 4;
    let decision = policy.decide(&snapshot(&apps, 8, Cause::Request, false));
    assert_eq!((numbers(&decision), decision.work_list), (vec![1, 4, 3], ids(&[1])));
}

#[test]
fn batch_lets_those_that_wait_keep_their_masters() {
    // 8 processors, both run. A third comes: one processor is kept for its master, from the one
    // that started last.
    let mut apps = requests(&[4, 4]);
    let mut policy = create("batch");
    assert_eq!(numbers(&policy.decide(&snapshot(&apps, 8, Cause::Arrival, true))), [4, 4]);
    apps.push(AppView::new(AppId(3), 2));
    let decision = policy.decide(&snapshot(&apps, 8, Cause::Arrival, true));
    assert_eq!(numbers(&decision), [4, 3, 1]);
    assert!(decision.allocations[2].shared);
    // The first leaves: the second has its whole request again and the third starts.
    let decision = policy.decide(&snapshot(&apps[1..], 8, Cause::Exit, true));
    assert_eq!(decision.allocations, [Allocation::own(AppId(2), 4), Allocation::own(AppId(3), 2)]);
}

#[test]
fn none_gives_every_program_everything_and_binds_nothing() {
    let decision = decide("none", &requests(&[8, 100, 1]), 4, true);
    assert_eq!(
        (numbers(&decision), decision.unbound, decision.work_list),
        (vec![8, 100, 1], true, vec![])
    );
}

/// Applications for turn-taking policies: some small, some as large as the machine.
fn crowd() -> impl Strategy<Value = (Vec<u32>, u32)> {
    (2..17_u32).prop_flat_map(|p| (prop::collection::vec(1..=2 * p, 2..20), Just(p)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// All but the first of the window run again.
    #[test]
    fn ssw_dss_keeps_all_but_one_running((sizes, processors) in crowd(), masters in any::<bool>()) {
        let apps = requests(&sizes);
        let mut policy = create("ssw-dss");
        let mut before = running(&policy.decide(&snapshot(&apps, processors, Cause::Arrival, masters)));
        for _ in 0..3 * apps.len() {
            let now = running(&policy.decide(&snapshot(&apps, processors, Cause::Quantum, masters)));
            let dropped = before.iter().filter(|app| !now.contains(app)).count();
            prop_assert!(dropped <= 1, "{before:?} then {now:?}");
            before = now;
        }
    }

    /// Each application has a turn on processors of its own within as many quanta as there were
    /// applications when it came or had its last turn, while newcomers arrive and requests change
    /// at every quantum and between them.
    #[test]
    fn no_program_starves_in_a_policy_with_turns(
        (sizes, processors) in crowd(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 0..200),
        masters in any::<bool>(),
    ) {
        for name in ["sw-dss", "ssw-dss", "gang", "rr"] {
            let mut apps = requests(&sizes);
            let number = apps.len();
            let mut policy = create(name);
            // For how many quanta each has waited, and how many it may.
            let mut waits: BTreeMap<AppId, (usize, usize)> = apps.iter().map(|app| (app.id, (0, number))).collect();
            let mut cause = Cause::Arrival;
            let mut changes = changes.iter();
            for turn in 0..3 * number {
                let mut decision = policy.decide(&snapshot(&apps, processors, cause, masters));
                prop_assert_eq!(decision.check(&snapshot(&apps, processors, cause, masters)), Ok(()));
                let (all, mut run) = (apps.len(), running(&decision));
                for (who, request, in_mid_quantum) in changes.by_ref().take(number) {
                    who.get_mut(&mut apps).request = 1 + request.index(2 * processors as usize) as u32;
                    if *in_mid_quantum {
                        decision = policy.decide(&snapshot(&apps, processors, Cause::Request, masters));
                        // An application that is cut short had a turn, and so had one that is
                        // pulled in.
                        run.extend(running(&decision));
                    }
                }
                // One processor and masters that always run: all share it, and that is their turn.
                let all_share = run.is_empty() && processors == 1 && masters;
                for (app, (waited, may)) in &mut waits {
                    *waited += 1;
                    prop_assert!(*waited <= *may, "{name}: {app} waits for {waited} quanta");
                    if all_share || run.contains(app) {
                        (*waited, *may) = (0, all);
                    }
                }
                if turn < 2 * number {
                    let newcomer = AppView::new(AppId(1000 + turn as u64), sizes[turn % number]);
                    apps.push(newcomer);
                    waits.insert(newcomer.id, (0, apps.len()));
                }
                cause = Cause::Quantum;
            }
        }
    }

    /// Rule 8: another policy in mid-run leaves no application without what its rule gives.
    #[test]
    fn a_policy_that_takes_over_answers_as_a_fresh_one((sizes, processors) in crowd()) {
        let apps = requests(&sizes);
        for first in ["sw-dss", "vtq-dss", "batch", "gang"] {
            let mut running_one = create(first);
            let decision = running_one.decide(&snapshot(&apps, processors, Cause::Arrival, true));
            let mut given = apps.clone();
            for (app, allocation) in given.iter_mut().zip(&decision.allocations) {
                (app.allocated, app.cpu_time) = (allocation.processors, 12_345);
            }
            for second in ["equip", "cluster", "dss-ts", "ssw-dss", "pdpa", "rr"] {
                let taken_over = create(second).decide(&snapshot(&given, processors, Cause::Administration, true));
                let fresh = create(second).decide(&snapshot(&apps, processors, Cause::Administration, true));
                prop_assert_eq!(&taken_over, &fresh, "{} after {}", second, first);
            }
        }
    }
}
