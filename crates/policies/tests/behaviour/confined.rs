//! Applications that stay inside a set of processors: none runs outside its set, none is without a
//! processor, and no processor idles that one of them lacks.

use std::collections::{BTreeMap, BTreeSet};

use policies::{Allocation, AppId, AppView, Cause, Decision, Machine, Placement};
use proptest::prelude::*;

use crate::support::{machine, snapshot};

/// Processors of applications: `n` of its own, or `None` for a shared master.
fn decision(list: &[(u64, Option<u32>)], cause: Cause) -> Decision {
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

fn place(
    placement: &mut Placement,
    machine: &Machine,
    list: &[(u64, Option<u32>)],
    cause: Cause,
) -> Vec<Vec<u32>> {
    placement.place(machine, &decision(list, cause)).into_iter().map(|(_, cpus)| cpus).collect()
}

fn arrive(
    placement: &mut Placement,
    machine: &Machine,
    list: &[(u64, Option<u32>)],
) -> Vec<Vec<u32>> {
    place(placement, machine, list, Cause::Arrival)
}

#[test]
fn a_program_that_may_run_elsewhere_makes_room_and_moves_no_more_than_that() {
    let machine = machine(1, 1, 4, 1);
    let mut placement = Placement::new();
    assert_eq!(arrive(&mut placement, &machine, &[(1, Some(3))]), [vec![0, 1, 2]]);
    placement.confine(AppId(2), &[0]);
    assert_eq!(
        arrive(&mut placement, &machine, &[(1, Some(3)), (2, Some(1))]),
        [vec![3, 1, 2], vec![0]]
    );
    // An application whose set has something free takes that.
    placement.confine(AppId(3), &[1, 3]);
    let three = [(1, Some(2)), (2, Some(1)), (3, Some(1))];
    assert_eq!(arrive(&mut placement, &machine, &three), [vec![3, 2], vec![0], vec![1]]);
    assert!(placement.guests().is_empty());
}

#[test]
fn a_chain_of_moves_gives_each_program_what_is_possible() {
    let machine = machine(1, 1, 3, 1);
    let mut placement = Placement::new();
    placement.confine(AppId(1), &[0, 1]);
    placement.confine(AppId(2), &[1, 2]);
    assert_eq!(arrive(&mut placement, &machine, &[(1, Some(1)), (2, Some(1))]), [vec![0], vec![1]]);
    placement.confine(AppId(3), &[0]);
    let three = [(1, Some(1)), (2, Some(1)), (3, Some(1))];
    assert_eq!(arrive(&mut placement, &machine, &three), [vec![1], vec![2], vec![0]]);
}

#[test]
fn a_set_that_is_too_small_for_all_is_shared_out_evenly() {
    let machine = machine(1, 1, 6, 1);
    let mut placement = Placement::new();
    placement.confine(AppId(1), &[0, 1, 2, 3]);
    assert_eq!(arrive(&mut placement, &machine, &[(1, Some(4))]), [vec![0, 1, 2, 3]]);
    placement.confine(AppId(2), &[0, 1, 2, 3]);
    let placed = arrive(&mut placement, &machine, &[(1, Some(3)), (2, Some(3))]);
    assert_eq!(placed.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2], "{placed:?}");
    placement.confine(AppId(3), &[0, 1, 2, 3]);
    let mut placed = arrive(&mut placement, &machine, &[(1, Some(2)), (2, Some(2)), (3, Some(2))]);
    placed.sort_by_key(Vec::len);
    assert_eq!(placed.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2], "{placed:?}");
}

#[test]
fn a_program_that_finds_nothing_in_its_set_is_a_guest_where_fewest_are() {
    let machine = machine(1, 1, 4, 1);
    let mut placement = Placement::new();
    for app in [1, 2, 3] {
        placement.confine(AppId(app), &[0]);
    }
    let list = [(1, Some(1)), (2, Some(1)), (3, Some(1)), (4, Some(1))];
    assert_eq!(arrive(&mut placement, &machine, &list), [vec![0], vec![0], vec![0], vec![1]]);
    assert_eq!(placement.guests(), &BTreeSet::from([AppId(2), AppId(3)]));
    // The host leaves: the first guest has it for its own.
    assert_eq!(arrive(&mut placement, &machine, &list[1..]), [vec![0], vec![0], vec![1]]);
    assert_eq!(placement.guests(), &BTreeSet::from([AppId(3)]));
}

#[test]
fn one_that_shared_as_a_guest_takes_nothing_back_from_a_program_that_is_there_now() {
    let machine = machine(1, 1, 3, 1);
    let mut placement = Placement::new();
    placement.confine(AppId(1), &[0, 2]);
    assert_eq!(arrive(&mut placement, &machine, &[(1, Some(1))]), [vec![0]]);
    let crowded = [(1, None), (2, Some(2)), (3, None)];
    assert_eq!(arrive(&mut placement, &machine, &crowded), [vec![0], vec![0, 1], vec![2]]);
    // The third one leaves: there is room for the first beside the second.
    let two = [(1, Some(1)), (2, Some(2))];
    assert_eq!(arrive(&mut placement, &machine, &two), [vec![2], vec![0, 1]]);
}

#[test]
fn masters_that_share_stay_inside_and_leave_the_others_their_part() {
    let two = machine(1, 1, 2, 1);
    let shared = [(1, None), (2, None), (3, None)];
    // One that is bound to processor 0: the circle goes round on both, so that no master always
    // shares with the guest.
    let mut placement = Placement::new();
    placement.confine(AppId(3), &[0]);
    assert_eq!(place(&mut placement, &two, &shared, Cause::Arrival), [vec![0], vec![1], vec![0]]);
    assert_eq!(place(&mut placement, &two, &shared, Cause::Quantum), [vec![1], vec![0], vec![0]]);
    // Two: the circle leaves them processor 0.
    let mut placement = Placement::new();
    placement.confine(AppId(2), &[0]);
    placement.confine(AppId(3), &[0]);
    assert_eq!(place(&mut placement, &two, &shared, Cause::Arrival), [vec![1], vec![0], vec![0]]);
}

#[test]
fn a_set_ends_with_its_application_and_bounds_nothing_where_the_machine_has_none_of_it() {
    let machine = machine(1, 1, 2, 1);
    let mut placement = Placement::new();
    placement.confine(AppId(1), &[1]);
    placement.confine(AppId(2), &[7]);
    assert_eq!(arrive(&mut placement, &machine, &[(1, Some(1)), (2, Some(1))]), [vec![1], vec![0]]);
    assert!(
        placement.is_confined(AppId(1))
            && !placement.may_use(AppId(1), 0)
            && placement.may_use(AppId(1), 1)
    );
    arrive(&mut placement, &machine, &[]);
    assert!(!placement.is_confined(AppId(1)) && placement.may_use(AppId(1), 0));
    assert_eq!(arrive(&mut placement, &machine, &[(1, Some(1))]), [vec![0]]);
}

/// Per application of a list of at most 10 its set, cut down to the machine's numbers; `None`:
/// everywhere.
fn any_sets() -> impl Strategy<Value = Vec<Option<BTreeSet<u32>>>> {
    prop::collection::vec(
        prop::option::weighted(0.6, prop::collection::btree_set(0..24_u32, 1..8)),
        10,
    )
}

/// What the next decision says: per application whether it is there and with what; whether a
/// quantum ended.
fn any_step() -> impl Strategy<Value = (Vec<(bool, Option<u32>)>, bool)> {
    let number = prop_oneof![4 => (1..7_u32).prop_map(Some), 1 => Just(None)];
    (prop::collection::vec((prop::bool::weighted(0.7), number), 10), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn none_is_outside_its_set_or_without_a_processor_and_nothing_idle_is_lacked_elsewhere(
        (nodes, caches, cores, threads) in (1..3_u32, 1..3_u32, 1..4_u32, 1..3_u32),
        sets in any_sets(),
        steps in prop::collection::vec(any_step(), 1..12),
    ) {
        let machine = machine(nodes, caches, cores, threads);
        let ids: BTreeSet<u32> = machine.cpus.iter().map(|cpu| cpu.id).collect();
        let set = |app: u64| {
            let set = sets[app as usize - 1].as_ref().map(|set| set.intersection(&ids).copied().collect::<BTreeSet<u32>>());
            set.filter(|set| !set.is_empty() && *set != ids)
        };
        let mut placement = Placement::new();
        let mut present: BTreeSet<u64> = BTreeSet::new();
        for (apps, quantum) in &steps {
            // As a policy would: a master for each application, more as far as it goes.
            let there: Vec<(u64, Option<u32>)> =
                (1..).zip(apps).filter(|(_, (there, _))| *there).map(|(id, (_, number))| (id, *number)).collect();
            let crowded = there.len() > ids.len();
            let own = there.iter().filter(|(_, number)| number.is_some()).count();
            let masters = usize::from(own < there.len());
            let crowded = crowded || own + masters > ids.len();
            let mut more = ids.len().saturating_sub(own + masters) as u32;
            let list: Vec<(u64, Option<u32>)> = there
                .into_iter()
                .map(|(id, number)| {
                    let extra = number.map_or(0, |number| (number - 1).min(more));
                    more -= extra;
                    (id, number.filter(|_| !crowded).map(|_| 1 + extra))
                })
                .collect();
            for (app, _) in list.iter().filter(|(app, _)| !present.contains(app)) {
                if let Some(set) = set(*app) {
                    placement.confine(AppId(*app), &set.into_iter().collect::<Vec<u32>>());
                }
            }
            present = list.iter().map(|(app, _)| *app).collect();

            let cause = if *quantum { Cause::Quantum } else { Cause::Request };
            let placed = placement.place(&machine, &decision(&list, cause));
            let guests = placement.guests().clone();
            prop_assert!(placed.iter().map(|(app, _)| app.0).eq(list.iter().map(|(app, _)| *app)));
            let used: BTreeSet<u32> = placed.iter().flat_map(|(_, cpus)| cpus.iter().copied()).collect();
            let mut owner: BTreeMap<u32, AppId> = BTreeMap::new();
            for ((app, cpus), (_, number)) in placed.iter().zip(&list) {
                // P6.
                prop_assert!(!cpus.is_empty(), "{app} has nothing");
                let inside = set(app.0);
                prop_assert!(cpus.iter().all(|cpu| inside.as_ref().is_none_or(|set| set.contains(cpu))));
                let is_own = number.is_some() && !guests.contains(app);
                if !is_own {
                    prop_assert_eq!(cpus.len(), 1);
                    prop_assert!(number.is_none() || inside.is_some(), "{app} is a guest and might be elsewhere");
                } else if inside.is_none() {
                    prop_assert_eq!(Some(cpus.len() as u32), *number, "others' sets cost {} processors", app);
                }
                for cpu in cpus.iter().filter(|_| is_own) {
                    prop_assert_eq!(owner.insert(*cpu, *app), None);
                }
            }
            for ((app, cpus), (_, number)) in placed.iter().zip(&list) {
                let (Some(inside), Some(number)) = (set(app.0), number) else { continue };
                let has = if guests.contains(app) { 0 } else { cpus.len() };
                if has == *number as usize {
                    continue;
                }
                prop_assert!(has < *number as usize);
                for cpu in &inside {
                    prop_assert!(used.contains(cpu), "{cpu} is idle and {app} lacks one");
                    let Some(other) = owner.get(cpu).filter(|other| *other != app) else { continue };
                    prop_assert!(set(other.0).is_some(), "{other} might be elsewhere than on {cpu}");
                    let others = owner.values().filter(|it| *it == other).count();
                    prop_assert!(others < has + 2, "{other} has {others} and {app} has {has}");
                }
            }
            // Rule 7: the same again moves nothing.
            prop_assert_eq!(&placement.place(&machine, &decision(&list, Cause::Request)), &placed);
            prop_assert_eq!(placement.guests(), &guests);
        }
    }
}

#[test]
fn a_confined_master_brings_its_circle_to_its_set_and_none_goes_where_it_is_kept_free() {
    let machine = machine(1, 1, 2, 1);
    let masters = |circle: u16| {
        let master = |id| Allocation { circle, ..Allocation::shared_master(AppId(id)) };
        vec![master(1), master(2)]
    };
    let mut of_class = Decision::default();
    (of_class.allocations, of_class.circles) = (masters(1), vec![0, 1]);
    let mut beside_reserve = Decision::default();
    (beside_reserve.allocations, beside_reserve.reserved) = (masters(0), 1);
    for decision in [of_class, beside_reserve] {
        for set in [0, 1] {
            let mut placement = Placement::new();
            // Alone it is on the first processor, and moves when the other one comes.
            let mut alone = decision.clone();
            alone.allocations.pop();
            placement.place(&machine, &alone);
            placement.confine(AppId(2), &[set]);
            for _ in 0..3 {
                let placed = placement.place(&machine, &decision);
                assert!(placed.iter().all(|(_, cpus)| *cpus == [set]), "{placed:?} of {set}");
            }
        }
    }
}

#[test]
fn a_circle_stays_where_it_is_though_a_set_of_its_master_is_anothers() {
    // Circle 1 shares 2, where one of its masters must be, and circle 2 shares 1 and has a guest
    // that can be on 2 only; then 0 is free.
    let machine = machine(1, 1, 4, 1);
    let mut placement = Placement::new();
    let master = |id, circle| Allocation { circle, ..Allocation::shared_master(AppId(id)) };
    let mut decision = Decision::default();
    decision.allocations = vec![Allocation::own(AppId(1), 1), master(2, 2), master(3, 1)];
    (decision.circles, decision.reserved) = (vec![0, 1, 1], 1);
    let before = placement.place(&machine, &decision);
    let of_circle_1 = before[2].1[0];
    for (app, circle) in [(4, 1), (5, 2)] {
        placement.confine(AppId(app), &[of_circle_1]);
        decision.allocations.push(master(app, circle));
        placement.place(&machine, &decision);
    }
    decision.allocations.remove(0);
    let after = placement.place(&machine, &decision);
    assert_eq!((&after[0].1, &after[1].1), (&before[1].1, &before[2].1), "{after:?}");
    assert_eq!((after[2].1[0], after[3].1[0]), (of_circle_1, of_circle_1));
}
