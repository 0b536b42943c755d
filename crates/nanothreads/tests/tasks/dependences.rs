//! Dependences against a naive oracle: for any tasks that a program creates, with any values and
//! predecessors, their effects are those of running them one after the other in the order of
//! creation.

use engine::sizer::Fixed;
use nanothreads::{Access, TaskRef, scope};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, Once};

const VALUES: usize = 5;

#[derive(Clone, Debug)]
struct Plan {
    accesses: Vec<(usize, Access)>,
    /// Distances to older tasks.
    predecessors: Vec<usize>,
    yields: usize,
    priority: i32,
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Write),
        Just(Access::Exclude),
        Just(Access::Share),
    ];
    let plan = (
        prop::collection::vec((0..VALUES, access), 0..4),
        prop::collection::vec(1_usize..40, 0..7),
        0_usize..4,
        -1..2,
    )
        .prop_map(|(accesses, predecessors, yields, priority)| Plan {
            accesses,
            predecessors,
            yields,
            priority,
        });
    prop::collection::vec(plan, 1..60)
}

/// What a task does to each value: several accesses of different kinds are a change.
fn kinds(plan: &Plan) -> BTreeMap<usize, Access> {
    let mut kinds = BTreeMap::new();
    for &(value, access) in &plan.accesses {
        kinds
            .entry(value)
            .and_modify(|kind| {
                if *kind != access {
                    *kind = Access::Write;
                }
            })
            .or_insert(access);
    }
    kinds
}

/// A change whose order matters.
fn overwrite(value: u64, task: usize) -> u64 {
    (value ^ task as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// A change whose order does not matter.
fn increment(task: usize) -> u64 {
    (task as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// The oracle: values at the end, and what each task read.
fn one_after_the_other(plans: &[Plan]) -> ([u64; VALUES], Vec<Vec<u64>>) {
    let mut values = [0; VALUES];
    let seen = plans
        .iter()
        .enumerate()
        .map(|(task, plan)| {
            let mut seen = Vec::new();
            for (value, kind) in kinds(plan) {
                match kind {
                    Access::Read => seen.push(values[value]),
                    Access::Write => values[value] = overwrite(values[value], task),
                    Access::Exclude | Access::Share => {
                        values[value] = values[value].wrapping_add(increment(task))
                    }
                    _ => unreachable!("a kind that no plan has"),
                }
            }
            seen
        })
        .collect();
    (values, seen)
}

#[derive(Default)]
struct Cell {
    value: AtomicU64,
    occupied: AtomicBool,
}

fn in_parallel(plans: &[Plan]) -> ([u64; VALUES], Vec<Vec<u64>>) {
    let cells: [Cell; VALUES] = Default::default();
    let seen: Vec<Mutex<Vec<u64>>> = plans.iter().map(|_| Mutex::default()).collect();
    let done: Vec<AtomicBool> = plans.iter().map(|_| AtomicBool::new(false)).collect();
    scope(|s| {
        let (cells, seen, done) = (&cells, &seen, &done);
        let mut tasks: Vec<TaskRef> = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let older = move |distance: &usize| number.checked_sub(*distance);
            let mut task = s.task().priority(plan.priority);
            for predecessor in plan.predecessors.iter().filter_map(older) {
                task = task.depends_on(&tasks[predecessor]);
            }
            for &(value, access) in &plan.accesses {
                task = task.accesses(access, &cells[value]);
            }
            tasks.push(task.spawn(move |s| {
                for predecessor in plan.predecessors.iter().filter_map(older) {
                    assert!(
                        done[predecessor].load(Relaxed),
                        "{number} started before {predecessor} was done"
                    );
                }
                for (value, kind) in kinds(plan) {
                    let Cell { value, occupied } = &cells[value];
                    // A read and a write with a suspension between: the effect of a task that ran
                    // in between is lost.
                    let before = value.load(Relaxed);
                    if kind == Access::Exclude {
                        assert!(
                            !occupied.swap(true, Relaxed),
                            "two tasks that exclude each other overlap"
                        );
                    }
                    (0..plan.yields).for_each(|_| s.yield_now());
                    match kind {
                        Access::Read => seen[number].lock().expect("one task each").push(before),
                        Access::Write => value.store(overwrite(before, number), Relaxed),
                        Access::Exclude => {
                            value.store(before.wrapping_add(increment(number)), Relaxed);
                            occupied.store(false, Relaxed);
                        }
                        Access::Share => {
                            value.fetch_add(increment(number), Relaxed);
                        }
                        _ => unreachable!("a kind that no plan has"),
                    }
                }
                done[number].store(true, Relaxed);
            }));
        }
    });
    (
        cells.map(|cell| cell.value.into_inner()),
        seen.into_iter().map(|seen| seen.into_inner().expect("one task each")).collect(),
    )
}

#[test]
fn effects_are_those_of_the_order_of_creation() {
    own_process!();
    proptest!(ProptestConfig::with_cases(80), |(plans in plans())| {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| assert!(nanothreads::builder().sizer(Fixed::new(4)).install().is_ok()));
        prop_assert_eq!(in_parallel(&plans), one_after_the_other(&plans));
    });
}
