//! Masters of a circle that stay inside different sets: how many processors they are on, and whose.

use std::collections::{BTreeMap, BTreeSet};

use policies::{Allocation, AppId, Decision, Machine, Placement};
use proptest::prelude::*;

use crate::support::machine;

fn master(app: u64, circle: u16) -> Allocation {
    Allocation { circle, ..Allocation::shared_master(AppId(app)) }
}

fn decision(allocations: &[Allocation], circles: &[u32], reserved: u32) -> Decision {
    let mut decision = Decision::default();
    (decision.allocations, decision.reserved) = (allocations.to_vec(), reserved);
    decision.circles = circles.to_vec();
    decision
}

/// Applications with sets, which come one after the other and share in circle 1 of `most`; where
/// each is at last.
fn come(machine: &Machine, sets: &[(u64, &[u32])], most: u32) -> BTreeMap<AppId, Vec<u32>> {
    let mut placement = Placement::new();
    let mut allocations = Vec::new();
    let mut placed = BTreeMap::new();
    for (app, set) in sets {
        placement.confine(AppId(*app), set);
        allocations.push(master(*app, 1));
        let circle = most.min(allocations.len() as u32);
        placed = placement
            .place(machine, &decision(&allocations, &[0, circle], 0))
            .into_iter()
            .collect();
    }
    placed
}

fn used(placed: &BTreeMap<AppId, Vec<u32>>) -> BTreeSet<u32> {
    placed.values().flatten().copied().collect()
}

/// All orders of these.
fn orders<T: Copy>(list: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = list.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for order in orders(rest) {
        for at in 0..=order.len() {
            let mut order = order.clone();
            order.insert(at, *first);
            all.push(order);
        }
    }
    all
}

#[test]
fn confined_masters_are_on_as_many_processors_in_whatever_order_they_come() {
    let machine = machine(1, 1, 6, 1);
    let row: [(u64, &[u32]); 3] = [(1, &[0, 1]), (2, &[1, 2]), (3, &[2, 3])];
    let star: [(u64, &[u32]); 4] = [(1, &[0, 5]), (2, &[1, 5]), (3, &[2, 5]), (4, &[3, 5])];
    let nested: [(u64, &[u32]); 3] = [(1, &[0, 1, 2]), (2, &[1, 2]), (3, &[2])];
    // On 2 and 3. To take the processor of most sets first, which is 0, leads to three.
    let greedy: [(u64, &[u32]); 4] = [(1, &[0, 2]), (2, &[0, 3]), (3, &[2]), (4, &[1, 3])];
    // With the most that the circle may have, how many they need or use of it.
    for (sets, most, number) in [
        (&row[..], 1, 2),
        (&row, 2, 2),
        (&row, 3, 3),
        (&star, 1, 1),
        (&star, 3, 3),
        (&nested, 1, 1),
        (&nested, 2, 2),
        (&greedy, 1, 2),
        (&greedy, 2, 2),
        (&greedy, 3, 3),
    ] {
        for order in orders(sets) {
            let placed = come(&machine, &order, most);
            assert_eq!(used(&placed).len(), number, "{order:?} of {most}: {placed:?}");
            for (app, set) in sets {
                assert!(placed[&AppId(*app)].iter().all(|cpu| set.contains(cpu)), "{placed:?}");
            }
        }
    }
}

#[test]
fn confined_masters_leave_what_is_kept_free_where_they_can_meet() {
    let machine = machine(1, 1, 3, 1);
    let sets: [(u64, &[u32]); 2] = [(1, &[0, 1]), (2, &[1, 2])];
    for order in orders(&sets) {
        let mut placement = Placement::new();
        let mut allocations = Vec::new();
        let mut placed = Vec::new();
        for (app, set) in order {
            placement.confine(AppId(app), set);
            allocations.push(master(app, 0));
            placed = placement.place(&machine, &decision(&allocations, &[], 2));
        }
        assert!(placed.iter().all(|(_, cpus)| *cpus == [1]), "{placed:?}");
    }
}

#[test]
fn a_guest_joins_its_circle_before_it_joins_a_program_on_a_processor_of_its_own() {
    let machine = machine(1, 1, 4, 1);
    let mut placement = Placement::new();
    let owner = Allocation::own(AppId(1), 1);
    let before = placement.place(&machine, &decision(&[owner], &[], 0));
    assert_eq!(before[0].1, [0]);
    placement.confine(AppId(2), &[1]);
    placement.confine(AppId(3), &[0, 1]);
    let all = [owner, master(2, 1), master(3, 1)];
    let placed = placement.place(&machine, &decision(&all, &[0, 1], 0));
    let places: Vec<&[u32]> = placed.iter().map(|(_, cpus)| &cpus[..]).collect();
    assert_eq!(places, [[0], [1], [1]], "the owner is alone");
}

#[test]
fn a_guest_without_its_circle_joins_another_one_then_an_owner_and_what_is_kept_last() {
    let machine = machine(1, 1, 5, 1);
    // The owner is on 0, circle 1 on 1, circle 2 on 2; 3 and 4 are kept.
    for (set, is_on) in [(&[0, 2, 4][..], 2), (&[0, 4], 0), (&[4], 4)] {
        let mut placement = Placement::new();
        let owner = Allocation::own(AppId(1), 1);
        assert_eq!(placement.place(&machine, &decision(&[owner], &[], 0))[0].1, [0]);
        for (app, set) in [(2, &[1][..]), (3, &[2]), (4, set), (5, &[1])] {
            placement.confine(AppId(app), set);
        }
        let all = [owner, master(2, 1), master(3, 2), master(4, 1), master(5, 1)];
        let placed = placement.place(&machine, &decision(&all, &[0, 1, 1], 2));
        let places: Vec<&[u32]> = placed.iter().map(|(_, cpus)| &cpus[..]).collect();
        assert_eq!(places, [&[0][..], &[1], &[2], &[is_on], &[1]]);
    }
}

#[test]
fn a_circle_moves_where_it_meets_all_of_its_confined_masters() {
    let machine = machine(1, 1, 4, 1);
    let sets: [(u64, &[u32]); 2] = [(2, &[0, 1]), (3, &[1, 2])];
    for order in orders(&sets) {
        let mut placement = Placement::new();
        // One that may be anywhere has what its circle has.
        let mut allocations = vec![master(1, 1)];
        placement.place(&machine, &decision(&allocations, &[0, 1], 0));
        let mut placed = Vec::new();
        for (app, set) in order {
            placement.confine(AppId(app), set);
            allocations.push(master(app, 1));
            placed = placement.place(&machine, &decision(&allocations, &[0, 1], 0));
        }
        assert!(placed.iter().all(|(_, cpus)| *cpus == [1]), "{placed:?}");
    }
}

#[test]
fn a_circle_takes_the_processor_of_most_sets_first() {
    let machine = machine(1, 1, 6, 1);
    let mut placement = Placement::new();
    let mut all: Vec<Allocation> = (1..=4).map(|app| master(app, 1)).collect();
    let placed = placement.place(&machine, &decision(&all, &[0, 2], 0));
    assert_eq!(used(&placed.into_iter().collect()), BTreeSet::from([0, 1]));
    // On 2 and 3 for the first two sets nothing would be left for the last one.
    for (app, set) in [(5, &[2, 4][..]), (6, &[3, 4]), (7, &[5])] {
        placement.confine(AppId(app), set);
        all.push(master(app, 1));
    }
    let placed = placement.place(&machine, &decision(&all, &[0, 2], 0));
    assert_eq!(used(&placed.into_iter().collect()), BTreeSet::from([4, 5]));
}

#[test]
fn masters_that_may_be_everywhere_have_a_processor_before_confined_ones_that_can_be_guests() {
    // A processor left, and two circles and a program have two now.
    let machine = machine(1, 1, 2, 1);
    for (confined, other) in [(1, 2), (2, 1)] {
        let mut placement = Placement::new();
        placement.confine(AppId(2), &[0]);
        let all = [Allocation::own(AppId(1), 1), master(2, confined), master(3, other)];
        let placed = placement.place(&machine, &decision(&all, &[0, 1, 1], 0));
        assert!(placed.iter().all(|(_, cpus)| cpus.len() == 1), "{placed:?}");
    }
}

#[test]
fn masters_that_meet_move_a_program_that_may_be_elsewhere_and_none_that_may_not() {
    let machine = machine(1, 1, 4, 1);
    for is_bound in [false, true] {
        let mut placement = Placement::new();
        placement.remember_newcomer(AppId(1), &[1]);
        if is_bound {
            placement.confine(AppId(1), &[1]);
        }
        let owner = Allocation::own(AppId(1), 1);
        assert_eq!(placement.place(&machine, &decision(&[owner], &[], 0))[0].1, [1]);
        placement.confine(AppId(2), &[0, 1]);
        placement.confine(AppId(3), &[1, 2]);
        let all = [owner, master(2, 1), master(3, 1)];
        let placed = placement.place(&machine, &decision(&all, &[0, 1], 0));
        if is_bound {
            assert_eq!(placed[0].1, [1]);
        } else {
            assert!(placed[1].1 == [1] && placed[2].1 == [1] && placed[0].1 != [1], "{placed:?}");
        }
    }
}

/// What is where after each of these is confined to its set, and placed as a newcomer among the
/// first ones of the list.
fn arrive(
    placement: &mut Placement,
    machine: &Machine,
    list: &[(Allocation, Option<&[u32]>)],
    circles: &[u32],
) -> Vec<Vec<u32>> {
    let mut allocations = Vec::new();
    let mut placed = Vec::new();
    for (allocation, set) in list {
        if let Some(set) = set {
            placement.confine(allocation.app, set);
        }
        allocations.push(*allocation);
        placed = placement.place(machine, &decision(&allocations, circles, 0));
        let again = placement.place(machine, &decision(&allocations, circles, 0));
        assert_eq!(again, placed, "nothing changed");
    }
    placed.into_iter().map(|(_, cpus)| cpus).collect()
}

#[test]
fn a_program_leaves_the_only_processor_where_a_circle_can_meet_its_confined_master() {
    let machine = machine(1, 1, 2, 1);
    let mut placement = Placement::new();
    placement.remember_newcomer(AppId(1), &[1]);
    let list = [
        (Allocation::own(AppId(1), 1), None),
        (master(2, 1), None),
        (master(3, 1), Some(&[1][..])),
        (master(4, 1), None),
    ];
    let placed = arrive(&mut placement, &machine, &list[..2], &[0, 1]);
    assert_eq!(placed, [[1], [0]]);
    let all: Vec<Allocation> = list.iter().map(|(it, _)| *it).collect();
    placement.confine(AppId(3), &[1]);
    for number in [3, 4, 4] {
        let placed = placement.place(&machine, &decision(&all[..number], &[0, 1], 0));
        let places: Vec<&[u32]> = placed.iter().map(|(_, cpus)| &cpus[..]).collect();
        assert_eq!(places, [&[0][..], &[1], &[1], &[1]][..number]);
    }
    // One that is confined there itself stays, and the circle is where it can be.
    let mut placement = Placement::new();
    let list = [
        (Allocation::own(AppId(1), 1), Some(&[1][..])),
        (master(2, 1), None),
        (master(3, 1), Some(&[1])),
    ];
    let placed = arrive(&mut placement, &machine, &list, &[0, 1]);
    assert_eq!(placed, [[1], [0], [1]]);
}

#[test]
fn a_class_that_could_share_elsewhere_gives_way_to_one_that_can_not() {
    let machine = machine(1, 1, 2, 1);
    let mut placement = Placement::new();
    // Those of class 2 are on both before a master of class 1 comes that can be on 1 only.
    let list = [
        (master(1, 1), None),
        (master(2, 2), None),
        (master(3, 2), None),
        (master(4, 1), Some(&[1][..])),
        (master(5, 2), None),
    ];
    let placed = arrive(&mut placement, &machine, &list[..3], &[0, 1, 1]);
    assert_eq!(placed, [[0], [1], [1]]);
    placement.confine(AppId(4), &[1]);
    let all: Vec<Allocation> = list.iter().map(|(it, _)| *it).collect();
    for number in [4, 5, 5] {
        let placed = placement.place(&machine, &decision(&all[..number], &[0, 1, 1], 0));
        let places: Vec<&[u32]> = placed.iter().map(|(_, cpus)| &cpus[..]).collect();
        assert_eq!(places, [[1], [0], [0], [1], [0]][..number]);
    }
}

#[test]
fn a_chain_of_circles_and_programs_passes_processors_on() {
    // A circle can meet its master on 0 only. There a circle is that can be on 1, too; there a
    // program that can be on 2, too; there a program that can be anywhere.
    let machine = machine(1, 1, 5, 1);
    let mut placement = Placement::new();
    placement.remember_newcomer(AppId(1), &[2]);
    placement.remember_newcomer(AppId(2), &[1]);
    let list = [
        (Allocation::own(AppId(1), 1), None),
        (Allocation::own(AppId(2), 1), Some(&[1, 2][..])),
        (master(3, 1), None),
        (master(4, 1), Some(&[0, 1])),
        (master(5, 2), None),
        (master(6, 2), Some(&[0])),
    ];
    let placed = arrive(&mut placement, &machine, &list[..4], &[0, 1, 1]);
    assert_eq!(placed, [[2], [1], [0], [0]]);
    let placed = arrive(&mut placement, &machine, &list, &[0, 1, 1]);
    assert_eq!(placed[1..], [[2], [1], [1], [0], [0]]);
    assert!([3, 4].contains(&placed[0][0]), "{placed:?}");
}

/// One that has processors, of which each is on its own: a program's, or those that share in one
/// circle.
#[derive(Debug, Clone)]
enum Party {
    /// So many processors, or one of a set.
    Program(u32, Option<BTreeSet<u32>>),
    /// Masters that may be everywhere, and others that stay inside one set.
    Class(u32, Option<(BTreeSet<u32>, u32)>),
}

fn any_party() -> impl Strategy<Value = Party> {
    let set = || prop::collection::btree_set(0..6_u32, 1..4);
    prop_oneof![
        1 => (1..3_u32).prop_map(|number| Party::Program(number, None)),
        1 => set().prop_map(|set| Party::Program(1, Some(set))),
        1 => (1..4_u32).prop_map(|masters| Party::Class(masters, None)),
        3 => (1..3_u32, set(), 1..3_u32)
            .prop_map(|(masters, set, more)| Party::Class(masters, Some((set, more)))),
        1 => (set(), 1..3_u32).prop_map(|(set, more)| Party::Class(0, Some((set, more)))),
    ]
}

/// The most sets that have a processor of their own, by trying all ways.
fn most_apart(sets: &[BTreeSet<u32>], used: &BTreeSet<u32>) -> usize {
    let Some((set, others)) = sets.split_first() else { return 0 };
    let without = most_apart(others, used);
    let with = set.difference(used).map(|cpu| {
        let mut used = used.clone();
        used.insert(*cpu);
        1 + most_apart(others, &used)
    });
    with.max().unwrap_or(0).max(without)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever came and went before: P3 for owners, P6, and no master is with an owner, or on a
    /// processor beyond what its circle has, whose set has one of its circle's.
    #[test]
    fn a_confined_master_is_where_its_circle_is_if_its_set_has_such_a_processor(
        processors in 2_u32..8,
        most in 1_u32..5,
        reserved in 0_u32..3,
        sets in prop::collection::vec(
            prop::option::weighted(0.7, prop::collection::btree_set(0..8_u32, 1..4)), 8),
        // By application whether it is there, and whether it shares.
        steps in prop::collection::vec(prop::collection::vec(any::<(bool, bool)>(), 8), 1..8),
    ) {
        let machine = machine(1, 1, processors, 1);
        let ids: BTreeSet<u32> = (0..processors).collect();
        let mut placement = Placement::new();
        let mut before: BTreeMap<AppId, Vec<u32>> = BTreeMap::new();
        for step in &steps {
            let mut allocations = Vec::new();
            let mut owners = 0;
            for ((app, (is_there, shares)), set) in (1..).zip(step).zip(&sets) {
                if !is_there {
                    continue;
                }
                // Owners may be anywhere.
                if set.is_none() && !shares && owners + 1 < processors {
                    owners += 1;
                    allocations.push(Allocation::own(AppId(app), 1));
                } else {
                    allocations.push(master(app, 1));
                }
                if let Some(set) = set && !before.contains_key(&AppId(app)) {
                    placement.confine(AppId(app), &set.iter().copied().collect::<Vec<u32>>());
                }
            }
            let masters = allocations.len() as u32 - owners;
            let circle = most.min(masters).min(processors - owners);
            let kept = reserved.min(processors - owners - circle);
            let decision = decision(&allocations, &[0, circle], kept);
            let placed: BTreeMap<AppId, Vec<u32>> =
                placement.place(&machine, &decision).into_iter().collect();
            let again: BTreeMap<AppId, Vec<u32>> =
                placement.place(&machine, &decision).into_iter().collect();
            prop_assert_eq!(&again, &placed, "nothing changed");
            let room = |app: AppId| {
                let set = sets[app.0 as usize - 1].as_ref().map(|set| set & &ids);
                set.filter(|set| !set.is_empty() && *set != ids)
            };
            let owned: BTreeSet<u32> = allocations
                .iter()
                .filter(|it| !it.shared)
                .flat_map(|it| placed[&it.app].clone())
                .collect();
            prop_assert_eq!(owned.len() as u32, owners);
            let of_circle = |but: AppId| -> BTreeSet<u32> {
                let others = allocations.iter().filter(|it| it.shared && it.app != but);
                let theirs = others.flat_map(|it| placed[&it.app].clone());
                theirs.filter(|it| !owned.contains(it)).collect()
            };
            let all = of_circle(AppId(0)).len() as u32;
            for it in allocations.iter().filter(|it| it.shared) {
                let cpu = placed[&it.app][0];
                let Some(room) = room(it.app) else {
                    prop_assert!(!owned.contains(&cpu));
                    continue;
                };
                prop_assert!(room.contains(&cpu), "{} is on {}", it.app, cpu);
                let others = of_circle(it.app);
                let joins = !others.is_disjoint(&room);
                prop_assert!(!owned.contains(&cpu) || !joins, "{} is with an owner", it.app);
                let alone = !others.contains(&cpu) && !owned.contains(&cpu);
                prop_assert!(!(alone && joins && all > circle), "{} takes one: {placed:?}", it.app);
            }
            before = placed;
        }
    }

    #[test]
    fn the_order_of_arrival_of_confined_masters_changes_nothing_of_their_number_of_processors(
        processors in 2_u32..8,
        most in 1_u32..4,
        sets in prop::collection::vec(prop::collection::btree_set(0..8_u32, 1..4), 1..7),
        seed in prop::collection::vec(any::<prop::sample::Index>(), 7),
    ) {
        let machine = machine(1, 1, processors, 1);
        let sets: Vec<Vec<u32>> = sets
            .into_iter()
            .map(|set| set.into_iter().map(|id| id % (processors - 1)).collect())
            .collect();
        let named: Vec<(u64, &[u32])> =
            (1..).zip(&sets).map(|(app, set)| (app, &set[..])).collect();
        let mut order = named.clone();
        for (at, index) in (0..order.len()).zip(&seed) {
            let other = index.index(order.len());
            order.swap(at, other);
        }
        let (one, other) = (come(&machine, &named, most), come(&machine, &order, most));
        prop_assert_eq!(used(&one).len(), used(&other).len(), "{:?} {:?} {:?}", named, one, other);
    }

    /// Beside a search that tries everything: as many programs and circles of one processor as
    /// possible have one where all of theirs can be, whatever came and went before.
    #[test]
    fn as_many_circles_of_one_processor_as_can_meet_their_confined_masters(
        processors in 2_u32..7,
        parties in prop::collection::vec(any_party(), 1..7),
        // By party whether it is there, and how many of its members have come.
        steps in prop::collection::vec(
            prop::collection::vec((prop::bool::weighted(0.8), 1_usize..6), 7), 1..6),
    ) {
        let machine = machine(1, 1, processors, 1);
        let ids: BTreeSet<u32> = (0..processors).collect();
        let room = |set: &BTreeSet<u32>| Some(set & &ids).filter(|set| !set.is_empty());
        let mut placement = Placement::new();
        let mut before: BTreeSet<AppId> = BTreeSet::new();
        for step in &steps {
            let (mut allocations, mut circles, mut left) = (Vec::new(), vec![0], processors);
            // Each its set; of circles the applications, too.
            let mut programs: Vec<BTreeSet<u32>> = Vec::new();
            let mut classes: Vec<(BTreeSet<u32>, Vec<AppId>)> = Vec::new();
            for ((number, party), (is_there, come)) in (1..).zip(&parties).zip(step) {
                let app = |member: u32| AppId(u64::from(number * 10 + member));
                let needs = if let Party::Program(many, _) = party { *many } else { 1 };
                if !is_there || needs > left {
                    continue;
                }
                left -= needs;
                match party {
                    Party::Program(many, set) => {
                        allocations.push((Allocation::own(app(0), *many), set.as_ref()));
                        let room = set.as_ref().and_then(room).unwrap_or_else(|| ids.clone());
                        programs.extend(vec![room; *many as usize]);
                    }
                    Party::Class(masters, confined) => {
                        let (set, more) =
                            confined.as_ref().map_or((None, 0), |(set, more)| (Some(set), *more));
                        let circle = circles.len() as u16;
                        let sets = (0..*masters).map(|_| None).chain((0..more).map(|_| set));
                        let all = sets.take(*come).enumerate();
                        let all: Vec<_> = all.map(|(at, set)| (app(at as u32), set)).collect();
                        let confined = all.iter().find_map(|(_, set)| *set).and_then(room);
                        let apps = all.iter().map(|(app, _)| *app).collect();
                        classes.push((confined.unwrap_or_else(|| ids.clone()), apps));
                        let placed = |(app, set): (AppId, _)| (master(app.0, circle), set);
                        allocations.extend(all.into_iter().map(placed));
                        circles.push(1);
                    }
                }
            }
            for (allocation, set) in &allocations {
                if let Some(set) = set && !before.contains(&allocation.app) {
                    placement.confine(allocation.app, &set.iter().copied().collect::<Vec<u32>>());
                }
            }
            let allocations: Vec<Allocation> = allocations.into_iter().map(|(it, _)| it).collect();
            before = allocations.iter().map(|it| it.app).collect();
            let decision = decision(&allocations, &circles, 0);
            let placed: BTreeMap<AppId, Vec<u32>> =
                placement.place(&machine, &decision).into_iter().collect();
            let again: BTreeMap<AppId, Vec<u32>> =
                placement.place(&machine, &decision).into_iter().collect();
            prop_assert_eq!(&again, &placed, "nothing changed");

            let of_classes = classes.iter().map(|(set, _)| set.clone());
            let sets: Vec<BTreeSet<u32>> = programs.into_iter().chain(of_classes).collect();
            let own = allocations.iter().filter(|it| !it.shared);
            let mut used: BTreeSet<u32> = own.flat_map(|it| placed[&it.app].clone()).collect();
            // Circles of masters with seats first: those are served as programs are.
            classes.sort_by_key(|(_, apps)| apps.iter().any(|app| !placement.is_confined(*app)));
            let mut apart = used.len();
            for (_, apps) in &classes {
                let on: BTreeSet<u32> = apps.iter().flat_map(|app| placed[app].clone()).collect();
                let is_alone = on.len() == 1 && on.is_disjoint(&used);
                apart += usize::from(is_alone);
                used.extend(on.iter().filter(|_| is_alone));
            }
            let most = most_apart(&sets, &BTreeSet::new());
            prop_assert_eq!(apart, most, "{:?}: {:?}", &decision.allocations, placed);
        }
    }

    /// Beside all ways of choosing processors: confined masters that no other ones are beside are
    /// on the fewest, whether their circle has as many or not.
    #[test]
    fn confined_masters_alone_are_on_the_fewest_processors(
        processors in 2_u32..9,
        most in 1_u32..4,
        is_kept in any::<bool>(),
        sets in prop::collection::vec(prop::collection::btree_set(0..9_u32, 1..4), 1..9),
    ) {
        let machine = machine(1, 1, processors, 1);
        let cut = |set: &BTreeSet<u32>| set.iter().map(|id| id % (processors - 1)).collect();
        let sets: Vec<BTreeSet<u32>> = sets.iter().map(cut).collect();
        let meets_all =
            |chosen: &u32| sets.iter().all(|set| set.iter().any(|id| chosen & 1 << id != 0));
        let all = (0..1_u32 << processors).filter(meets_all);
        let fewest = all.map(u32::count_ones).min().expect("all of them do");
        let listed: Vec<Vec<u32>> = sets.iter().map(|set| set.iter().copied().collect()).collect();
        let placed = if is_kept {
            let mut placement = Placement::new();
            let all: Vec<Allocation> = (1..).zip(&listed).map(|(app, _)| master(app, 0)).collect();
            (1..).zip(&listed).for_each(|(app, set)| placement.confine(AppId(app), set));
            let placed = placement.place(&machine, &decision(&all, &[], processors - 1));
            placed.into_iter().collect()
        } else {
            let named: Vec<(u64, &[u32])> = (1..).zip(listed.iter().map(|set| &set[..])).collect();
            come(&machine, &named, most.min(fewest))
        };
        prop_assert_eq!(used(&placed).len(), fewest as usize, "{:?}: {:?}", sets, placed);
    }
}
