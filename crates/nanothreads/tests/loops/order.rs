//! Loops with dependences on real threads: ordered sections, pipelines, doacross, against the
//! sequential loops.

use crate::team_of_four::{four, four_alone, four_answer, n, panic_of, schedules};
use nanothreads::{Schedule, doacross, par_for, pipeline, pipeline_2d};
use proptest::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

#[test]
fn ordered_sections_run_in_the_order_of_the_iterations_under_every_schedule() {
    own_process!();
    let _masters = four();
    for schedule in schedules() {
        for length in [1, 2, 3, 200] {
            let seen = Mutex::new(Vec::new());
            par_for(3..3 + length).schedule(schedule).ordered(|i, order| {
                order.wait_turn(|| seen.lock().unwrap().push(i));
            });
            assert_eq!(
                seen.into_inner().unwrap(),
                (3..3 + length).collect::<Vec<_>>(),
                "{schedule:?}"
            );
        }
    }
}

#[test]
fn iterations_without_an_ordered_section_do_not_hold_up_the_others() {
    own_process!();
    let _masters = four();
    for schedule in schedules() {
        let (seen, ran) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        par_for(0..150).schedule(schedule).ordered(|i, order| {
            ran.fetch_add(1, Relaxed);
            if i % 3 == 1 {
                let returned = order.wait_turn(|| {
                    seen.lock().unwrap().push(i);
                    i * 2
                });
                assert_eq!(returned, i * 2);
            }
        });
        assert_eq!(
            seen.into_inner().unwrap(),
            (1..150).step_by(3).collect::<Vec<_>>(),
            "{schedule:?}"
        );
        assert_eq!(ran.into_inner(), 150);
    }
}

#[test]
fn ordered_sections_see_what_those_before_wrote() {
    own_process!();
    let _masters = four();
    // Relaxed on purpose: the hand-over has to order the accesses.
    let hash = AtomicU64::new(1);
    let step =
        |old: u64, i: usize| old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i as u64);
    par_for(0..2_000).schedule(Schedule::StaticChunks(n(3))).ordered(|i, order| {
        order.wait_turn(|| hash.store(step(hash.load(Relaxed), i), Relaxed));
    });
    assert_eq!(hash.into_inner(), (0..2_000).fold(1, step));
}

#[test]
fn the_rest_of_ordered_bodies_overlaps() {
    own_process!();
    let _masters = four_alone();
    // Iteration 0 does not end before iteration 1 began: without overlap this would hang.
    let second_began = AtomicU32::new(0);
    par_for(0..2).ordered(|i, order| {
        if i == 1 {
            second_began.store(1, Relaxed);
        } else {
            while second_began.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
        }
        order.wait_turn(|| {});
    });
}

#[test]
fn a_panic_in_an_ordered_loop_frees_those_that_wait_for_their_turn() {
    own_process!();
    let _masters = four_alone();
    for guilty in [0, 1, 57, 99] {
        for inside in [false, true] {
            let sections_run = AtomicUsize::new(0);
            let text = panic_of(|| {
                par_for(0..100).ordered(|i, order| {
                    assert!(inside || i != guilty, "planted before {i}");
                    order.wait_turn(|| {
                        assert!(!inside || i != guilty, "planted inside {i}");
                        sections_run.fetch_add(1, Relaxed);
                    });
                });
            });
            assert_eq!(
                text,
                format!("planted {} {guilty}", if inside { "inside" } else { "before" })
            );
            assert!(sections_run.into_inner() <= guilty);
        }
    }
    four_answer();
}

/// Runs a pipeline over a table whose every element is a hash of its two neighbours, and compares.
fn wave(rows: usize, columns: usize, blocks: Option<usize>) {
    let mix = |up: u64, left: u64| {
        (up ^ left.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1)
    };
    let table =
        || (0..(rows + 1) * (columns + 1)).map(|k| AtomicU64::new(k as u64)).collect::<Vec<_>>();
    let (parallel, serial) = (table(), table());
    let update = |table: &[AtomicU64], row: usize, column: usize| {
        let at = |row: usize, column: usize| &table[row * (columns + 1) + column];
        let value = mix(at(row - 1, column).load(Relaxed), at(row, column - 1).load(Relaxed));
        at(row, column).store(value, Relaxed);
    };
    let plan = pipeline(1..rows + 1, 1..columns + 1);
    let plan = blocks.map_or(plan.clone(), |blocks| plan.blocks(n(blocks)));
    plan.run(|outer, inner| {
        assert!(!outer.is_empty() && !inner.is_empty());
        outer.for_each(|row| inner.clone().for_each(|column| update(&parallel, row, column)));
    });
    (1..rows + 1).for_each(|row| (1..columns + 1).for_each(|column| update(&serial, row, column)));
    let values =
        |table: Vec<AtomicU64>| table.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>();
    assert_eq!(values(parallel), values(serial));
}

/// As [`wave`], in three dimensions.
fn wave_2d(lengths: [usize; 3], blocks: usize, outer_is_free: bool) {
    let [rows, columns, depth] = lengths.map(|length| length + 1);
    let table =
        || (0..rows * columns * depth).map(|k| AtomicU64::new(k as u64)).collect::<Vec<_>>();
    let (parallel, serial) = (table(), table());
    let update = |table: &[AtomicU64], o: usize, m: usize, i: usize| {
        let at = |o: usize, m: usize, i: usize| &table[(o * columns + m) * depth + i];
        let above = if outer_is_free { 0 } else { at(o - 1, m, i).load(Relaxed) };
        let left = at(o, m - 1, i).load(Relaxed).rotate_left(13);
        let before = at(o, m, i - 1).load(Relaxed).rotate_left(29);
        at(o, m, i).store(
            (above ^ left ^ before).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1),
            Relaxed,
        );
    };
    let plan = pipeline_2d(1..rows, 1..columns, 1..depth).blocks(n(blocks));
    let plan = if outer_is_free { plan.outer_is_free() } else { plan };
    plan.run(|outer, middle, inner| {
        for o in outer {
            for m in middle.clone() {
                inner.clone().for_each(|i| update(&parallel, o, m, i));
            }
        }
    });
    for o in 1..rows {
        for m in 1..columns {
            (1..depth).for_each(|i| update(&serial, o, m, i));
        }
    }
    let values =
        |table: Vec<AtomicU64>| table.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>();
    assert_eq!(values(parallel), values(serial));
}

#[test]
fn a_pipeline_computes_what_the_sequential_loops_do() {
    own_process!();
    proptest!(ProptestConfig::with_cases(60), |(
        rows in 0_usize..40, columns in 0_usize..60, blocks in prop::option::of(1_usize..80),
    )| {
        let _masters = four();
        wave(rows, columns, blocks);
    });
}

#[test]
fn a_pipeline_of_two_dimensions_computes_what_the_sequential_loops_do() {
    own_process!();
    proptest!(ProptestConfig::with_cases(60), |(
        rows in 0_usize..9, columns in 0_usize..9, depth in 0_usize..20, blocks in 1_usize..25, free in any::<bool>(),
    )| {
        let _masters = four();
        wave_2d([rows, columns, depth], blocks, free);
    });
}

#[test]
fn a_doacross_loop_computes_what_the_sequential_loop_does() {
    own_process!();
    proptest!(ProptestConfig::with_cases(60), |(
        start in 0_usize..50, needs in prop::collection::vec(prop::collection::vec(1_usize..40, 0..4), 0..200),
        chunk in 1_usize..9, posts in any::<bool>(),
    )| {
        let _masters = four();
        let step = |values: &[AtomicU64], at: usize| {
            let needed = needs[at].iter().filter_map(|&back| at.checked_sub(back));
            let hash = |sum: u64, value: u64| (sum ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
            let value = needed.map(|at| values[at].load(Relaxed)).fold(at as u64, hash);
            values[at].store(value, Relaxed);
        };
        let cells = || needs.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (parallel, serial) = (cells(), cells());
        doacross(start..start + needs.len()).chunks(n(chunk)).run(|i, cross| {
            needs[i - start].iter().for_each(|&back| cross.wait_back(back));
            step(&parallel, i - start);
            if posts {
                cross.post();
            }
        });
        (0..needs.len()).for_each(|at| step(&serial, at));
        let values = |cells: Vec<AtomicU64>| cells.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>();
        prop_assert_eq!(values(parallel), values(serial));
    });
}

#[test]
fn blocks_that_need_a_panicked_one_do_not_run() {
    own_process!();
    let _masters = four_alone();
    let last_ran = AtomicUsize::new(0);
    let text = panic_of(|| {
        // A row of blocks for each member: fewer rows where a thread of another test still runs.
        pipeline(0..4, 0..8).blocks(n(8)).run(|outer, inner| {
            assert!(!(outer.contains(&1) && inner.start == 3), "planted");
            if outer.contains(&3) {
                last_ran.fetch_max(inner.start + 1, Relaxed);
            }
        });
    });
    assert_eq!(text, "planted");
    assert!(last_ran.into_inner() <= 3);
}

#[test]
fn an_iteration_that_posted_lets_others_go_on_before_it_ends() {
    own_process!();
    let _masters = four_alone();
    let second_is_done = AtomicU32::new(0);
    doacross(0..2).run(|i, cross| {
        if i == 0 {
            cross.post();
            while second_is_done.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
        } else {
            cross.wait_back(1);
            second_is_done.store(1, Relaxed);
        }
    });
}

#[test]
fn a_panic_in_a_doacross_loop_frees_those_that_wait() {
    own_process!();
    let _masters = four_alone();
    for guilty in [0, 1, 57, 99] {
        let done = AtomicUsize::new(0);
        let text = panic_of(|| {
            doacross(0..100).run(|i, cross| {
                cross.wait_back(1);
                assert_ne!(i, guilty, "planted");
                done.fetch_add(1, Relaxed);
            });
        });
        assert!(text.contains("planted"), "{text}");
        assert_eq!(done.into_inner(), guilty);
    }
    let text = panic_of(|| doacross(5..9).run(|i, cross| cross.wait_back(i - i.min(7))));
    assert!(text.contains("waits for itself") && text.contains("at least 1"), "{text}");
    four_answer();
}

#[test]
fn loops_with_dependences_take_chunks_longer_than_their_ranges_at_the_end_of_usize() {
    own_process!();
    let _masters = four();
    let range = usize::MAX - 20..usize::MAX;
    for length in [1, 3, usize::MAX / 2 + 1, usize::MAX].map(n) {
        let ran = AtomicUsize::new(0);
        doacross(range.clone()).chunks(length).run(|_, cross| {
            cross.wait_back(1);
            // There is none: it returns.
            cross.wait_back(usize::MAX);
            ran.fetch_add(1, Relaxed);
            cross.post();
        });
        pipeline(range.clone(), 3..50).blocks(length).run(|outer, inner| {
            ran.fetch_add(outer.len() * inner.len(), Relaxed);
        });
        assert_eq!(ran.into_inner(), 20 + 20 * 47, "{length}");
    }
}
