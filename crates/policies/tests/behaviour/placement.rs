//! Which processors: golden cases by hand, and what holds for any machine and any sequence of
//! decisions.

use std::collections::{BTreeMap, BTreeSet};

use policies::{
    Allocation, AppId, AppView, Cause, Decision, Distances, Machine, MachineCpu, Placement, Smt,
};
use proptest::prelude::*;

use crate::support::{any_speeds, create, machine, requests, slow_down, snapshot};

/// Processors of applications 1, 2, ...: `n` of its own, or `None` for a shared master.
pub(crate) fn decision(numbers: &[Option<u32>], cause: Cause) -> Decision {
    let list: Vec<(u64, Option<u32>)> = (1..).zip(numbers.iter().copied()).collect();
    decision_of(&list, cause)
}

fn decision_of(list: &[(u64, Option<u32>)], cause: Cause) -> Decision {
    let allocation = |&(id, n): &(u64, Option<u32>)| {
        n.map_or(Allocation::shared_master(AppId(id)), |n| Allocation::own(AppId(id), n))
    };
    let apps: Vec<AppView> =
        list.iter().map(|&(id, n)| AppView::new(AppId(id), n.unwrap_or(1))).collect();
    Decision::new(
        &snapshot(&apps, 0, cause, true),
        list.iter().map(allocation).collect(),
        Vec::new(),
    )
}

/// Places numbers of processors for applications 1, 2, ... and returns their lists.
pub(crate) fn place(
    placement: &mut Placement,
    machine: &Machine,
    numbers: &[u32],
) -> Vec<Vec<u32>> {
    let numbers: Vec<_> = numbers.iter().copied().map(Some).collect();
    lists(placement.place(machine, &decision(&numbers, Cause::Request)))
}

pub(crate) fn lists(placed: Vec<(AppId, Vec<u32>)>) -> Vec<Vec<u32>> {
    placed.into_iter().map(|(_, cpus)| cpus).collect()
}

fn without(machine: &Machine, ids: &[u32]) -> Machine {
    Machine::new(machine.cpus.iter().copied().filter(|cpu| !ids.contains(&cpu.id)).collect())
}

#[test]
fn an_application_stays_within_a_cache_and_takes_the_smallest_hole_that_suffices() {
    // Caches 0-3, 4-7, 8-11.
    let machine = machine(1, 3, 4, 1);
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine, &[3, 2]), [vec![0, 1, 2], vec![4, 5]]);
    // Free: 3 | 6 7 | 8-11. One goes into the hole of one, two into the hole of two, so that four
    // find four.
    let lists = place(&mut placement, &machine, &[3, 2, 1, 2, 4]);
    assert_eq!(lists[2..], [vec![3], vec![6, 7], vec![8, 9, 10, 11]]);
}

#[test]
fn growth_goes_to_the_own_cache_then_to_the_own_node() {
    // Caches 0-1, 2-3 in node 0 and 4-5, 6-7 in node 1.
    let machine = machine(2, 2, 2, 1);
    let mut placement = Placement::new();
    // Two single ones start in different holes of one cache: the fullest that suffices.
    assert_eq!(place(&mut placement, &machine, &[1, 1, 1]), [vec![0], vec![1], vec![2]]);
    // The third has cache 2-3: first 3; then nothing is free in its node, so the next comes from
    // node 1.
    assert_eq!(place(&mut placement, &machine, &[1, 1, 3])[2], [2, 3, 4]);
    // Then 5, which shares a cache with 4, although the first and the second are gone and node 0
    // has room.
    let grown = placement.place(&machine, &decision_of(&[(3, Some(4))], Cause::Exit));
    assert_eq!(grown, [(AppId(3), vec![2, 3, 4, 5])]);
    // A fourth begins at 0; alone it grows by 1 in its cache, by 2 and 3 in its node, and only then
    // beyond.
    let decision = decision_of(&[(3, Some(4)), (4, Some(1))], Cause::Arrival);
    assert_eq!(placement.place(&machine, &decision)[1], (AppId(4), vec![0]));
    let grown = placement.place(&machine, &decision_of(&[(4, Some(5))], Cause::Exit));
    assert_eq!(grown, [(AppId(4), vec![0, 1, 2, 3, 4])]);
}

#[test]
fn a_large_application_goes_where_a_node_suffices() {
    // Node 0: caches 0-1, 2-3; node 1: caches 4-5, 6-7. One processor of node 0 is taken.
    let machine = machine(2, 2, 2, 1);
    let mut placement = Placement::new();
    // Four fit in no cache, and in node 1 only.
    assert_eq!(place(&mut placement, &machine, &[1, 4]), [vec![0], vec![4, 5, 6, 7]]);
}

#[test]
fn hardware_threads_of_busy_cores_are_filled_last() {
    // Cores {0,4} {1,5} in cache 0 and {2,6} {3,7} in cache 1.
    let machine = machine(1, 2, 2, 2);
    let mut placement = Placement::new();
    // Three cores are wanted, the fourth one stays for the second application: no sibling of a busy
    // core before that.
    assert_eq!(place(&mut placement, &machine, &[3, 1]), [vec![0, 1, 2], vec![3]]);
    // Now only siblings are left: those of the own cache first.
    assert_eq!(place(&mut placement, &machine, &[5, 1])[0], [0, 1, 2, 4, 5]);
}

#[test]
fn packing_fills_the_threads_of_a_core_and_the_cache_first() {
    let machine = machine(1, 2, 2, 2);
    let mut placement = Placement::with_smt(Smt::Pack);
    assert_eq!(place(&mut placement, &machine, &[3, 2]), [vec![0, 4, 1], vec![2, 6]]);
    // Applications keep the processors that they have when the order is changed; the next ones
    // follow the new order: the idle core of the other cache comes before the free sibling in its
    // own.
    placement.set_smt(Smt::Spread);
    assert_eq!(place(&mut placement, &machine, &[4, 2]), [vec![0, 4, 1, 3], vec![2, 6]]);
}

#[test]
fn a_list_is_cut_at_its_end_and_grows_back_to_where_it_was() {
    let machine = machine(1, 2, 4, 1);
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine, &[6, 2])[0], [0, 1, 2, 3, 4, 5]);
    assert_eq!(place(&mut placement, &machine, &[3, 2])[0], [0, 1, 2]);
    // A newcomer borrows two of the other cache, 4 and 5 (6 and 7 are taken).
    let borrowed = place(&mut placement, &machine, &[3, 2, 2]);
    assert_eq!(borrowed[1..], [vec![6, 7], vec![4, 5]]);
    // Back to four: virtual processor 3 returns to 3, on which none ran since.
    assert_eq!(place(&mut placement, &machine, &[4, 2, 2])[0], [0, 1, 2, 3]);
    // The newcomer gives one back: virtual processor 4 returns to its old 4 only if that is the
    // one, else takes 5.
    assert_eq!(place(&mut placement, &machine, &[5, 2, 1])[0], [0, 1, 2, 3, 5]);
}

#[test]
fn gangs_that_alternate_find_their_own_processors_again() {
    let machine = machine(1, 2, 4, 1);
    let mut placement = Placement::new();
    let turn = |placement: &mut Placement, numbers: [u32; 3]| place(placement, &machine, &numbers);
    let first = turn(&mut placement, [5, 3, 0]);
    let second = turn(&mut placement, [0, 0, 7]);
    assert_eq!(first, [vec![0, 1, 2, 3, 4], vec![5, 6, 7], vec![]]);
    for _ in 0..3 {
        assert_eq!(turn(&mut placement, [5, 3, 0]), first);
        assert_eq!(turn(&mut placement, [0, 0, 7]), second);
    }
}

#[test]
fn a_processor_that_goes_offline_is_replaced_and_no_other_program_moves() {
    let all = machine(1, 2, 4, 1);
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &all, &[3, 3]), [vec![0, 1, 2], vec![4, 5, 6]]);
    // 1 goes; 3 is free in the same cache and takes its place in the list.
    let fewer = without(&all, &[1]);
    assert_eq!(place(&mut placement, &fewer, &[3, 3]), [vec![0, 3, 2], vec![4, 5, 6]]);
    // 4 goes and the second must shrink to two: its own last one fills the hole, rather than the
    // free one.
    let fewer = without(&all, &[1, 4]);
    assert_eq!(place(&mut placement, &fewer, &[3, 2]), [vec![0, 3, 2], vec![6, 5]]);
}

#[test]
fn what_is_held_now_comes_before_what_was_held_once() {
    // The first cache is 0, the second one 1 2.
    let cpu = |id, llc| MachineCpu { id, core: id, llc, node: 0 };
    let all = Machine::new(vec![cpu(0, 0), cpu(1, 1), cpu(2, 1)]);
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &without(&all, &[2]), &[2]), [vec![0, 1]]);
    // 0 goes, 2 comes for it.
    assert_eq!(place(&mut placement, &without(&all, &[0]), &[2]), [vec![2, 1]]);
    // 2 goes and 0 is back, where the application was the last to run; but it holds 1, and shrinks
    // to that.
    assert_eq!(place(&mut placement, &without(&all, &[2]), &[1]), [vec![1]]);
}

#[test]
fn a_decision_for_more_than_the_machine_has_is_served_in_order_of_arrival() {
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine(1, 1, 4, 1), &[3, 3]), [vec![0, 1, 2], vec![3]]);
    assert_eq!(
        place(&mut placement, &Machine::default(), &[3, 3]),
        [vec![], vec![]] as [Vec<u32>; 2]
    );
    // A shared master keeps one processor, an owner goes short for it.
    let mixed = decision(&[Some(4), None], Cause::Arrival);
    let placed = lists(placement.place(&machine(1, 1, 4, 1), &mixed));
    assert_eq!(placed, [vec![0, 1, 2], vec![3]]);
    // Without any processor not even that.
    assert_eq!(
        lists(placement.place(&Machine::default(), &mixed)),
        [vec![], vec![]] as [Vec<u32>; 2]
    );
}

#[test]
fn three_masters_on_two_processors_take_turns_in_being_alone() {
    let machine = machine(1, 1, 2, 1);
    let mut placement = Placement::new();
    let mut at = |cause| lists(placement.place(&machine, &decision(&[None; 3], cause)));
    // The circle 1 2 3 in runs of two and one; each turn moves it on by one.
    assert_eq!(at(Cause::Arrival), [vec![0], vec![0], vec![1]]);
    assert_eq!(at(Cause::Quantum), [vec![1], vec![0], vec![0]]); // 2 3 | 1
    assert_eq!(at(Cause::Request), [vec![1], vec![0], vec![0]], "an event is no turn");
    assert_eq!(at(Cause::Quantum), [vec![0], vec![1], vec![0]]); // 3 1 | 2
    assert_eq!(at(Cause::Quantum), [vec![0], vec![0], vec![1]]); // 1 2 | 3
}

#[test]
fn masters_begin_to_share_where_they_ran_and_return_when_there_is_room() {
    let machine = machine(1, 1, 4, 1);
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine, &[1, 1, 2]), [vec![0], vec![1], vec![2, 3]]);
    // Two more come: five masters, runs of 2, 1, 1, 1 on 0, 1, 2, 3. The old ones stay; the new
    // ones fill the rest.
    let five = decision(&[None; 5], Cause::Arrival);
    let shared = lists(placement.place(&machine, &five));
    assert_eq!(shared, [vec![0], vec![1], vec![2], vec![0], vec![3]]);
    // They leave again: each one is where it was, and the third has its second processor back.
    assert_eq!(place(&mut placement, &machine, &[1, 1, 2]), [vec![0], vec![1], vec![2, 3]]);
}

#[test]
fn masters_outside_a_gang_share_what_the_gang_leaves() {
    let machine = machine(1, 1, 4, 1);
    let mut placement = Placement::new();
    let gang = decision(&[Some(2), None, None, None, None, None], Cause::Quantum);
    let placed = lists(placement.place(&machine, &gang));
    assert_eq!(placed[0], [0, 1]);
    let loads: Vec<usize> =
        [2, 3].map(|cpu| placed[1..].iter().filter(|list| **list == [cpu]).count()).to_vec();
    assert_eq!(loads, [3, 2]);
    // Fewer masters than processors left: one each.
    let placed =
        lists(placement.place(&machine, &decision(&[Some(1), None, None], Cause::Quantum)));
    let distinct: BTreeSet<u32> = placed.iter().flatten().copied().collect();
    assert_eq!((placed.len(), distinct.len()), (3, 3));
}

#[test]
fn a_program_that_left_is_forgotten() {
    let machine = machine(1, 2, 2, 1);
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine, &[2, 2]), [vec![0, 1], vec![2, 3]]);
    placement.place(&machine, &decision_of(&[(1, Some(2))], Cause::Exit));
    // An application with the old identity is a new one: it starts where a new one would.
    placement.place(&machine, &decision_of(&[], Cause::Exit));
    assert_eq!(
        lists(placement.place(&machine, &decision_of(&[(2, Some(2))], Cause::Arrival))),
        [vec![0, 1]]
    );
}

#[test]
fn a_cluster_stays_within_a_cache_although_the_own_one_has_a_little_room() {
    // Caches of 6. The first has 4 of cache 0, the second 4 of cache 1. Both grow by a cluster of
    // 4: 2 are free in the cache of each, but caches 2 and 3 have whole clusters.
    let machine = machine(1, 4, 6, 1);
    let mut policy = create("cluster");
    let mut placement = Placement::new();
    let mut grow = |list: &[u32]| {
        let apps = requests(list);
        lists(placement.place(&machine, &policy.decide(&snapshot(&apps, 24, Cause::Request, true))))
    };
    let before = grow(&[4, 4]);
    assert_eq!(before, [vec![0, 1, 2, 3], vec![6, 7, 8, 9]]);
    let after = grow(&[8, 8]);
    assert_eq!(after[0], [0, 1, 2, 3, 12, 13, 14, 15]);
    assert_eq!(after[1], [6, 7, 8, 9, 18, 19, 20, 21]);
    // Ten: the two that are no whole cluster lie near what it has.
    assert_eq!(grow(&[10, 8])[0], [0, 1, 2, 3, 12, 13, 14, 15, 4, 5]);
    // Under dss, one by one, the own cache comes first.
    let mut placement = Placement::new();
    place(&mut placement, &machine, &[4, 4]);
    assert_eq!(place(&mut placement, &machine, &[8, 8])[0][..6], [0, 1, 2, 3, 4, 5]);
}

#[test]
fn beyond_the_own_node_the_nearest_one_comes_first() {
    // Four nodes of one cache of 2. Node 0 is near 3, far from 1 and 2.
    let mut machine = machine(4, 1, 2, 1);
    for (from, row) in
        [[10, 31, 31, 21], [31, 10, 21, 31], [31, 21, 10, 31], [21, 31, 31, 10]].iter().enumerate()
    {
        for (to, &distance) in row.iter().enumerate() {
            machine.distances.set(from as u32, to as u32, distance);
        }
    }
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine, &[2]), [vec![0, 1]]);
    assert_eq!(place(&mut placement, &machine, &[4]), [vec![0, 1, 6, 7]]);
    assert_eq!(place(&mut placement, &machine, &[4, 2])[1], [2, 3]);
    // Where nothing is known all other nodes are equally far: by number.
    machine.distances = Distances::default();
    let mut placement = Placement::new();
    place(&mut placement, &machine, &[2]);
    assert_eq!(place(&mut placement, &machine, &[4]), [vec![0, 1, 2, 3]]);
}

#[test]
fn a_hybrid_machine_is_filled_core_by_core() {
    // Two large cores with two threads each, four small ones with one, all under one cache.
    let cpu = |id, core| MachineCpu { id, core, llc: 0, node: 0 };
    let cpus = vec![
        cpu(0, 0),
        cpu(1, 0),
        cpu(2, 1),
        cpu(3, 1),
        cpu(4, 2),
        cpu(5, 3),
        cpu(6, 4),
        cpu(7, 5),
    ];
    let machine = Machine::new(cpus);
    let mut placement = Placement::new();
    assert_eq!(
        place(&mut placement, &machine, &[6]),
        [vec![0, 2, 4, 5, 6, 7]],
        "a core each, then second threads"
    );
    assert_eq!(place(&mut placement, &machine, &[6, 2])[1], [1, 3]);
}

#[test]
fn a_machine_of_1024_processors_with_holes_is_filled_without_splitting_caches() {
    // 8 nodes, 8 caches each, 8 cores each, two threads; every 16th core is offline.
    let whole = machine(8, 8, 8, 2);
    let machine =
        Machine::new(whole.cpus.iter().copied().filter(|cpu| cpu.core % 16 != 15).collect());
    let processors = machine.cpus.len() as u32;
    assert_eq!((whole.cpus.len(), processors), (1024, 960));
    let mut placement = Placement::new();
    let apps = requests(&vec![15; 64]);
    let mut policy = create("dss");
    let placed = placement
        .place(&machine, &policy.decide(&snapshot(&apps, processors, Cause::Arrival, true)));
    let distinct: BTreeSet<u32> =
        placed.iter().flat_map(|(_, cpus)| cpus.iter().copied()).collect();
    assert_eq!(distinct.len(), 960, "each has 15 of its own");
    let node = |id: u32| machine.cpus.iter().find(|cpu| cpu.id == id).expect("it is there").node;
    let torn =
        placed.iter().filter(|(_, cpus)| cpus.iter().any(|&id| node(id) != node(cpus[0]))).count();
    assert_eq!(torn, 0, "{torn} of 64 are on several nodes");
}

/// A machine with holes, its list in any order; some have slow cores.
fn any_machine() -> impl Strategy<Value = Machine> {
    (1..4_u32, 1..4_u32, 1..5_u32, 1..3_u32)
        .prop_map(|(nodes, caches, cores, threads)| machine(nodes, caches, cores, threads).cpus)
        .prop_flat_map(|cpus| {
            let some = cpus.len().div_ceil(2)..=cpus.len();
            prop::sample::subsequence(cpus, some).prop_shuffle()
        })
        .prop_flat_map(|cpus| (Just(cpus), any_speeds(36)))
        .prop_map(|(cpus, speeds)| {
            let mut machine = Machine::new(cpus);
            slow_down(&mut machine, &speeds);
            machine
        })
}

/// What the next decision says: per application of a list of at most 12, in order, whether it is
/// there and with what.
type Step = (Vec<(bool, Option<u32>)>, bool, Option<prop::sample::Index>);

fn any_step() -> impl Strategy<Value = Step> {
    let number = prop_oneof![5 => (0..9_u32).prop_map(Some), 1 => Just(None)];
    let app = (prop::bool::weighted(0.8), number);
    (
        prop::collection::vec(app, 0..12),
        any::<bool>(),
        prop::option::weighted(0.2, any::<prop::sample::Index>()),
    )
}

/// Cuts numbers down so that they fit, as a policy would.
fn fitted(step: &Step, processors: usize) -> Decision {
    let (apps, quantum, _) = step;
    let masters = usize::from(apps.iter().any(|&(there, n)| there && n.is_none()));
    let mut rest = processors.saturating_sub(masters) as u32;
    let mut list = Vec::new();
    for (id, (_, number)) in (1..).zip(apps).filter(|(_, (there, _))| *there) {
        let number = number.map(|n| n.min(rest));
        rest -= number.unwrap_or(0);
        list.push((id, number));
    }
    decision_of(&list, if *quantum { Cause::Quantum } else { Cause::Request })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// P1, P2, P3, evenness of sharing, and that the placement is a function of its input.
    #[test]
    fn processors_are_disjoint_complete_and_move_only_when_they_must(
        machine in any_machine(),
        pack in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..20),
    ) {
        let smt = if pack { Smt::Pack } else { Smt::Spread };
        let (mut placement, mut twin) = (Placement::with_smt(smt), Placement::with_smt(smt));
        let mut before: BTreeMap<AppId, Vec<u32>> = BTreeMap::new();
        for step in &steps {
            // One processor is offline for this step, now and then.
            let hole = step.2.map(|index| index.get(&machine.cpus).id);
            let online: Vec<MachineCpu> = machine.cpus.iter().copied().filter(|cpu| Some(cpu.id) != hole).collect();
            let online = Machine { cpus: online, ..machine.clone() };
            let ids: BTreeSet<u32> = online.cpus.iter().map(|cpu| cpu.id).collect();
            let decision = fitted(step, ids.len());
            let placed = placement.place(&online, &decision);
            prop_assert_eq!(&placed, &twin.place(&online, &decision));
            prop_assert!(placed.iter().map(|(app, _)| *app).eq(decision.allocations.iter().map(|a| a.app)));

            let (mut own, mut loads) = (BTreeSet::new(), BTreeMap::new());
            let mut now = BTreeMap::new();
            for ((app, cpus), allocation) in placed.iter().zip(&decision.allocations) {
                prop_assert!(cpus.iter().all(|id| ids.contains(id)), "{cpus:?} of {ids:?}");
                if allocation.shared {
                    prop_assert_eq!(cpus.len(), usize::from(!ids.is_empty()));
                    cpus.iter().for_each(|&id| *loads.entry(id).or_insert(0_usize) += 1);
                    continue;
                }
                prop_assert_eq!(cpus.len(), allocation.processors as usize);
                prop_assert!(cpus.iter().all(|&id| own.insert(id)), "another has one of {cpus:?}");
                if let Some(held) = before.get(app) {
                    let online_held = held.iter().filter(|id| ids.contains(id)).count();
                    let kept = held.iter().filter(|id| cpus.contains(id)).count();
                    prop_assert_eq!(kept, online_held.min(cpus.len()), "{:?} -> {:?}", held, cpus);
                    // The second level: a virtual processor that keeps running stays where it is.
                    for (was, is) in held.iter().zip(cpus).filter(|(was, _)| ids.contains(was)) {
                        prop_assert_eq!(was, is);
                    }
                }
                now.insert(*app, cpus.clone());
            }
            prop_assert!(loads.keys().all(|id| !own.contains(id)), "a shared processor belongs to a program");
            let masters = decision.allocations.iter().filter(|a| a.shared).count();
            prop_assert_eq!(loads.len(), masters.min(ids.len() - own.len()));
            if let (Some(least), Some(most)) = (loads.values().min(), loads.values().max()) {
                prop_assert!(most - least <= 1, "{loads:?}");
            }
            // Rule 7: the same again moves nothing.
            let again = Decision::new(
                &snapshot(&[], 0, Cause::Request, true),
                decision.allocations.clone(),
                decision.work_list.clone(),
            );
            prop_assert_eq!(&placement.place(&online, &again), &placed);
            prop_assert_eq!(&twin.place(&online, &again), &placed);
            before = now;
        }
    }

    /// P4 with the policy in front: over as many quanta as there are applications, each one is
    /// equally often on a processor of a given load, so that all get the same, and at each turn few
    /// move.
    #[test]
    fn shared_masters_all_get_the_same_over_as_many_quanta_as_there_are_masters(
        machine in any_machine(),
        more in 1..20_usize,
        history in prop::collection::vec(any_step(), 0..4),
        policy in prop::sample::select(vec!["equip", "dss", "dss-ts"]),
    ) {
        let mut placement = Placement::new();
        for step in &history {
            placement.place(&machine, &fitted(step, machine.cpus.len()));
        }
        let processors = machine.cpus.len();
        let apps = requests(&vec![3; processors + more]);
        let mut policy = create(policy);
        let mut place = |cause| {
            let decision = policy.decide(&snapshot(&apps, processors as u32, cause, true));
            placement.place(&machine, &decision)
        };
        let mut before = place(Cause::Arrival);
        let mut times: BTreeMap<AppId, BTreeMap<usize, usize>> = BTreeMap::new();
        let mut visits: BTreeMap<AppId, BTreeMap<u32, usize>> = BTreeMap::new();
        for _ in 0..apps.len() {
            let placed = place(Cause::Quantum);
            let mut loads: BTreeMap<u32, usize> = BTreeMap::new();
            for (_, cpus) in &placed {
                *loads.entry(cpus[0]).or_default() += 1;
            }
            for (app, cpus) in &placed {
                *times.entry(*app).or_default().entry(loads[&cpus[0]]).or_default() += 1;
                *visits.entry(*app).or_default().entry(cpus[0]).or_default() += 1;
            }
            let moved = placed.iter().zip(&before).filter(|(now, before)| now != before).count();
            prop_assert!(moved <= processors, "{moved} moved on {processors} processors");
            before = placed;
        }
        let first = times.values().next().expect("there are applications");
        prop_assert!(times.values().all(|t| t == first), "{times:?}");
        let class = |cpu: &MachineCpu| machine.speeds.class_of(cpu.id);
        let is_equal = machine.cpus.iter().map(class).collect::<BTreeSet<_>>().len() == 1;
        if apps.len().is_multiple_of(processors) && is_equal {
            // All share alike without moving (rule 7).
            prop_assert!(visits.values().all(|v| v.len() == 1), "{visits:?}");
            return Ok(());
        }
        // Not only the loads: the processors, too.
        let first = visits.values().next().expect("there are applications");
        prop_assert!(visits.values().all(|v| v == first && v.len() == processors), "{visits:?}");
    }

    /// A new application that fits on idle cores of one cache is never spread over two, and never
    /// put on siblings.
    #[test]
    fn a_newcomer_that_fits_stays_within_a_cache_on_cores_of_its_own(
        nodes in 1..3_u32, caches in 2..4_u32, cores in 1..6_u32, threads in 1..3_u32,
        first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>(),
    ) {
        let machine = machine(nodes, caches, cores, threads);
        // At least one core stays idle.
        let first = 1 + first.index((nodes * caches * cores - 1) as usize) as u32;
        let mut placement = Placement::new();
        let taken = place(&mut placement, &machine, &[first]).remove(0);
        let cpu = |id: u32| machine.cpus[id as usize];
        let busy: BTreeSet<u32> = taken.iter().map(|&id| cpu(id).core).collect();
        let mut idle: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for cpu in machine.cpus.iter().filter(|cpu| !busy.contains(&cpu.core)) {
            idle.entry(cpu.llc).or_default().insert(cpu.core);
        }
        let largest = idle.values().map(BTreeSet::len).max().expect("a core is idle");
        let second = 1 + second.index(largest) as u32;
        let got = place(&mut placement, &machine, &[first, second]).remove(1);
        let caches: BTreeSet<u32> = got.iter().map(|&id| cpu(id).llc).collect();
        let cores: BTreeSet<u32> = got.iter().map(|&id| cpu(id).core).collect();
        prop_assert_eq!((caches.len(), cores.len()), (1, got.len()));
        prop_assert!(cores.is_disjoint(&busy));
    }

    /// P7: circles share processors of their own, and no more than they have.
    #[test]
    fn circles_share_nothing_with_each_other(
        machine in any_machine(),
        // By application: its circle, or processors of its own; by circle: processors.
        steps in prop::collection::vec(
            (
                prop::collection::vec(prop::option::of((0_u16..3, any::<bool>(), 1_u32..5)), 1..12),
                prop::array::uniform3(1_u32..5),
            ),
            1..12,
        ),
    ) {
        let mut placement = Placement::new();
        let processors = u32::try_from(machine.cpus.len()).expect("small");
        for (apps, circles) in &steps {
            let named = apps.iter().zip(1..).filter_map(|(it, id)| Some((AppId(id), (*it)?)));
            let (mut own, mut masters) = (0, [0_u32; 3]);
            let mut allocations = Vec::new();
            for (app, (circle, shares, number)) in named {
                if shares {
                    masters[usize::from(circle)] += 1;
                    allocations.push(Allocation { circle, ..Allocation::shared_master(app) });
                } else {
                    // Some are left for the circles, as far as there are.
                    let number = number.min(processors.saturating_sub(own + 3));
                    own += number;
                    allocations.push(Allocation::own(app, number));
                }
            }
            let mut left = processors - own;
            let mut decision = decision_of(&[], Cause::Quantum);
            decision.circles = circles
                .iter()
                .zip(masters)
                .map(|(circle, masters)| {
                    let has = (*circle).min(masters).min(left);
                    left -= has;
                    has
                })
                .collect();
            let fits = decision.circles.iter().zip(masters).all(|(it, n)| (*it > 0) == (n > 0));
            decision.allocations = allocations;
            decision.rotate = true;
            if !fits {
                continue;
            }
            let placed = placement.place(&machine, &decision);
            let mut users: BTreeMap<u32, BTreeSet<Option<u16>>> = BTreeMap::new();
            for ((app, cpus), allocation) in placed.iter().zip(&decision.allocations) {
                let user = allocation.shared.then_some(allocation.circle);
                prop_assert_eq!(cpus.len(), allocation.processors as usize, "{}", app);
                for cpu in cpus {
                    users.entry(*cpu).or_default().insert(user);
                }
            }
            prop_assert!(users.values().all(|of_cpu| of_cpu.len() == 1), "{users:?}");
            for (circle, most) in (0..).zip(&decision.circles) {
                let of_circle = users.values().filter(|it| it.contains(&Some(circle))).count();
                prop_assert!(of_circle <= *most as usize, "{of_circle} of {most}");
            }
        }
    }
}
