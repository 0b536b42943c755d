//! Processors of unequal speed: which ones go out first, to which application, and what stays
//! where it is.

use std::collections::{BTreeMap, BTreeSet};

use policies::{Cause, Machine, MachineCpu, Placement, Smt};
use proptest::prelude::*;

use crate::placement::{decision, lists, place};
use crate::support::{any_speeds, machine, slow_down};

/// Four small cores, processors 0 to 3, and two large ones of two threads, 4 and 5, 6 and 7, all
/// under one cache: whatever goes by numbers takes the small ones first.
fn hybrid() -> Machine {
    let core = |id: u32| if id < 4 { id } else { 2 + id / 2 };
    let cpu = |id| MachineCpu { id, core: core(id), llc: 0, node: 0 };
    let mut machine = Machine::new((0..8).map(cpu).collect());
    (0..4).for_each(|id| machine.speeds.set(id, 1));
    machine
}

/// Four fast processors, 4 to 7, and four slow ones, each a core.
fn cores() -> Machine {
    let mut machine = machine(1, 1, 8, 1);
    (0..4).for_each(|id| machine.speeds.set(id, 1));
    machine
}

#[test]
fn fast_cores_go_out_first_then_slow_ones_then_second_threads() {
    let machine = hybrid();
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine, &[1]), [[4]]);
    assert_eq!(place(&mut placement, &machine, &[2]), [[4, 6]]);
    assert_eq!(place(&mut placement, &machine, &[4]), [[4, 6, 0, 1]]);
    assert_eq!(place(&mut placement, &machine, &[8]), [[4, 6, 0, 1, 2, 3, 5, 7]]);
    // It gives back what it got last.
    assert_eq!(place(&mut placement, &machine, &[2]), [[4, 6]]);
    assert_eq!(place(&mut placement, &machine, &[2, 5])[1], [0, 1, 2, 3, 5]);
}

#[test]
fn a_packed_program_has_all_of_the_fast_cores_before_any_slow_one() {
    let mut placement = Placement::with_smt(Smt::Pack);
    assert_eq!(place(&mut placement, &hybrid(), &[6]), [[4, 5, 6, 7, 0, 1]]);
}

#[test]
fn speed_comes_before_caches_and_nodes() {
    // Two nodes of one cache; the first two cores of each are fast.
    let mut machine = machine(2, 1, 4, 1);
    [2, 3, 6, 7].into_iter().for_each(|id| machine.speeds.set(id, 1));
    let mut placement = Placement::new();
    assert_eq!(place(&mut placement, &machine, &[3]), [[0, 1, 4]]);
    // Among those that are alike the near ones are taken.
    assert_eq!(place(&mut placement, &machine, &[3, 2])[1], [5, 6]);
}

#[test]
fn classes_count_among_the_processors_that_are_there() {
    // Any numbers will do, and what is offline says nothing.
    let mut machine = cores();
    (0..4).for_each(|id| machine.speeds.set(id, 9));
    [2, 3].into_iter().for_each(|id| machine.speeds.set(id, 4));
    assert_eq!(place(&mut Placement::new(), &machine, &[7]), [[4, 5, 6, 7, 2, 3, 0]]);
    machine.cpus.retain(|cpu| cpu.id < 4);
    assert_eq!(place(&mut Placement::new(), &machine, &[3]), [[2, 3, 0]]);
}

#[test]
fn no_program_moves_because_a_fast_processor_became_free() {
    let machine = cores();
    let mut placement = Placement::new();
    place(&mut placement, &machine, &[4]);
    assert_eq!(place(&mut placement, &machine, &[4, 2]), [vec![4, 5, 6, 7], vec![0, 1]]);
    // The first one gives two back: the other keeps what it has, and takes fast ones when it grows.
    assert_eq!(place(&mut placement, &machine, &[2, 2]), [vec![4, 5], vec![0, 1]]);
    assert_eq!(place(&mut placement, &machine, &[2, 4]), [vec![4, 5], vec![0, 1, 6, 7]]);
    // What it loses is the end of its list, and it comes back to where it ran.
    assert_eq!(place(&mut placement, &machine, &[2, 1]), [vec![4, 5], vec![0]]);
    assert_eq!(place(&mut placement, &machine, &[2, 2]), [vec![4, 5], vec![0, 1]]);
}

#[test]
fn programs_that_come_together_divide_the_fast_processors_in_proportion() {
    let machine = cores();
    let fast = |numbers: &[u32]| -> Vec<usize> {
        let placed = place(&mut Placement::new(), &machine, numbers);
        let sizes = placed.iter().map(|cpus| cpus.len() as u32);
        assert!(sizes.eq(numbers.iter().copied()), "{placed:?}");
        placed.iter().map(|cpus| cpus.iter().filter(|id| **id > 3).count()).collect()
    };
    assert_eq!(fast(&[4, 4]), [2, 2]);
    assert_eq!(fast(&[6, 2]), [3, 1]);
    assert_eq!(fast(&[3, 3, 2]), [2, 1, 1]);
    assert_eq!(fast(&[2, 2, 2]), [2, 1, 1]);
    assert_eq!(fast(&[1; 8]), [1, 0, 1, 0, 1, 0, 1, 0]);
    assert_eq!(fast(&[3, 1]), [3, 1], "there is one for each");
    // The master is on a fast one, where there is any.
    let placed = place(&mut Placement::new(), &machine, &[4, 4]);
    assert_eq!(placed, [vec![4, 5, 0, 1], vec![6, 7, 2, 3]]);
    // Three kinds: each in proportion.
    let mut three = cores();
    [0, 1].into_iter().for_each(|id| three.speeds.set(id, 2));
    let placed = place(&mut Placement::new(), &three, &[4, 4]);
    assert_eq!(placed, [vec![4, 5, 2, 0], vec![6, 7, 3, 1]]);
}

#[test]
fn clusters_stay_whole_on_machines_with_slow_cores() {
    let machine = cores();
    let mut decision = decision(&[Some(4), Some(4)], Cause::Arrival);
    decision.cluster = 4;
    let placed = lists(Placement::new().place(&machine, &decision));
    assert_eq!(placed, [[4, 5, 6, 7], [0, 1, 2, 3]]);
}

#[test]
fn masters_that_share_take_turns_on_fast_and_slow_processors() {
    // Two for each processor: equal parts of unequal ones.
    let machine = cores();
    let mut placement = Placement::new();
    let mut on_fast: BTreeMap<usize, usize> = BTreeMap::new();
    for turn in 0..16 {
        let cause = if turn == 0 { Cause::Arrival } else { Cause::Quantum };
        let placed = lists(placement.place(&machine, &decision(&[None; 16], cause)));
        for (app, cpus) in placed.iter().enumerate() {
            *on_fast.entry(app).or_default() += usize::from(cpus[0] > 3);
        }
        assert!(placement.is_moved_by_turns());
    }
    assert!(on_fast.values().all(|times| *times == 8), "{on_fast:?}");
    // On equal processors they stay.
    let mut placement = Placement::new();
    placement.place(&crate::support::machine(1, 1, 8, 1), &decision(&[None; 16], Cause::Arrival));
    assert!(!placement.is_moved_by_turns());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A program alone has no slow whole core while a fast one is idle, and no second thread while
    /// any core is.
    #[test]
    fn a_program_alone_has_the_fastest_whole_cores(
        (nodes, caches, cores, threads) in (1..3_u32, 1..3_u32, 1..5_u32, 1..3_u32),
        speeds in any_speeds(16),
        pack in any::<bool>(),
        number in any::<prop::sample::Index>(),
    ) {
        let mut machine = machine(nodes, caches, cores, threads);
        slow_down(&mut machine, &speeds);
        let number = 1 + number.index(machine.cpus.len()) as u32;
        let smt = if pack { Smt::Pack } else { Smt::Spread };
        let cpus = place(&mut Placement::with_smt(smt), &machine, &[number]).remove(0);
        let core = |id: u32| machine.cpus[id as usize].core;
        let mut busy: BTreeMap<u32, u32> = BTreeMap::new();
        let mut got: Vec<(u32, u32)> = Vec::new();
        for &id in &cpus {
            let others = busy.entry(core(id)).or_default();
            got.push((if pack { 0 } else { *others }, machine.speeds.class_of(id)));
            *others += 1;
        }
        let mut best: Vec<(u32, u32)> = machine
            .cpus
            .iter()
            .map(|cpu| {
                let others = if pack { 0 } else { cpu.id / (nodes * caches * cores) };
                (others, machine.speeds.class_of(cpu.id))
            })
            .collect();
        best.sort_unstable();
        best.truncate(cpus.len());
        prop_assert_eq!(got, best);
    }

    /// Programs that come together: none has a fast processor more or less than its proportion,
    /// rounded, and no slow one is taken while a fast one is free.
    #[test]
    fn parts_of_the_fast_processors_are_within_one_of_the_proportion(
        fast in 1..16_u32,
        slow in 1..16_u32,
        wants in prop::collection::vec(1..8_u32, 1..8),
    ) {
        let mut machine = machine(1, 1, fast + slow, 1);
        (fast..fast + slow).for_each(|id| machine.speeds.set(id, 1));
        let mut rest = fast + slow;
        let wants: Vec<u32> = wants.into_iter().map(|want| {
            let got = want.min(rest);
            rest -= got;
            got
        }).collect();
        let all: u32 = wants.iter().sum();
        let placed = place(&mut Placement::new(), &machine, &wants);
        let taken: BTreeSet<u32> = placed.iter().flatten().copied().collect();
        prop_assert_eq!(taken.iter().filter(|id| **id < fast).count() as u32, fast.min(all));
        for (cpus, want) in placed.iter().zip(&wants) {
            let part = f64::from(fast.min(all) * want) / f64::from(all);
            let has = cpus.iter().filter(|id| **id < fast).count() as f64;
            prop_assert!((has - part).abs() < 1.0, "{has} of {part}");
        }
    }
}
