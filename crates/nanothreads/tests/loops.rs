//! Parallel loops on real threads: every schedule, order, dependences, values, early ends, panics.
#![cfg(not(loom))]

use nanothreads::{
    Alpha, Schedule, broadcast, join, par_chunks_mut, par_for, par_for_2d, par_for_3d, pipeline, pipeline_2d, sections,
};
use nanothreads::sizer::Fixed;
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// This process has four processors, which the masters of all tests that run at the same time share.
#[must_use]
fn four() -> RwLockReadGuard<'static, ()> {
    fix_team_size();
    MASTERS.read().unwrap_or_else(PoisonError::into_inner)
}

/// As [`four`], for tests that need all four for themselves.
#[must_use]
fn four_alone() -> RwLockWriteGuard<'static, ()> {
    fix_team_size();
    MASTERS.write().unwrap_or_else(PoisonError::into_inner)
}

static MASTERS: RwLock<()> = RwLock::new(());

fn fix_team_size() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| assert!(nanothreads::set_team_sizer(Box::new(Fixed::new(4)))));
}

fn n(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap()
}

fn schedules() -> Vec<Schedule> {
    vec![
        Schedule::Static,
        Schedule::StaticChunks(n(7)),
        Schedule::PURE,
        Schedule::Dynamic(n(7)),
        Schedule::Guided(n(3)),
        Schedule::Trapezoid,
        Schedule::TrapezoidFrom { first: n(20), last: n(3) },
        Schedule::Safe(Alpha::HALF),
        Schedule::Factoring,
        Schedule::Affinity,
        Schedule::Auto,
    ]
}

/// The text of the panic with which `body` ends.
fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("the panic reaches the caller");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast_ref::<&str>().expect("the payload is the body's")).to_owned(),
    }
}

/// Members that answer a broadcast: all virtual processors are back.
fn members() -> u32 {
    let seen = AtomicU32::new(0);
    broadcast(|_| {
        seen.fetch_add(1, Relaxed);
    });
    seen.into_inner()
}

#[test]
fn each_iteration_runs_once_under_every_schedule() {
    let _masters = four();
    for schedule in schedules() {
        for length in [0, 1, 2, 5, 1000] {
            let times: Vec<AtomicU32> = (0..length).map(|_| AtomicU32::new(0)).collect();
            par_for(5..5 + length).schedule(schedule).run(|i| {
                times[i - 5].fetch_add(1, Relaxed);
            });
            assert!(times.iter().all(|t| t.load(Relaxed) == 1), "{schedule:?} {length}");
        }
    }
}

#[test]
fn each_iteration_runs_once_when_members_differ_in_speed() {
    let _masters = four();
    for schedule in schedules() {
        for round in 0..20 {
            let times: Vec<AtomicU32> = (0..300).map(|_| AtomicU32::new(0)).collect();
            par_for(0..300).schedule(schedule).run(|i| {
                times[i].fetch_add(1, Relaxed);
                // Some iterations cost a few hundred times more than others, elsewhere in each round.
                if (i + round * 37) % 50 == 0 {
                    std::thread::yield_now();
                    (0..20_000).for_each(|k| {
                        std::hint::black_box(k);
                    });
                }
            });
            assert!(times.iter().all(|t| t.load(Relaxed) == 1), "{schedule:?}");
        }
    }
}

#[test]
fn a_range_that_ends_before_it_begins_is_empty() {
    let _masters = four();
    #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
    par_for(7..3).run(|_| unreachable!());
    #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
    pipeline(7..3, 0..4).run(|_, _| unreachable!());
    assert_eq!(par_for(3..3).reduce(41, |_| unreachable!(), |a, _| a), 41);
    sections().run();
    par_chunks_mut(&mut [0_u8; 0], 5).run(|_, _| unreachable!());
}

#[test]
fn ordered_sections_run_in_the_order_of_the_iterations_under_every_schedule() {
    let _masters = four();
    for schedule in schedules() {
        for length in [1, 2, 3, 200] {
            let seen = Mutex::new(Vec::new());
            par_for(3..3 + length).schedule(schedule).ordered(|i, order| {
                order.wait_turn(|| seen.lock().unwrap().push(i));
            });
            assert_eq!(seen.into_inner().unwrap(), (3..3 + length).collect::<Vec<_>>(), "{schedule:?}");
        }
    }
}

#[test]
fn iterations_without_an_ordered_section_do_not_hold_up_the_others() {
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
        assert_eq!(seen.into_inner().unwrap(), (1..150).step_by(3).collect::<Vec<_>>(), "{schedule:?}");
        assert_eq!(ran.into_inner(), 150);
    }
}

#[test]
fn ordered_sections_see_what_those_before_wrote() {
    let _masters = four();
    // Relaxed on purpose: the hand-over has to order the accesses.
    let hash = AtomicU64::new(1);
    let step = |old: u64, i: usize| old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i as u64);
    par_for(0..2_000).schedule(Schedule::StaticChunks(n(3))).ordered(|i, order| {
        order.wait_turn(|| hash.store(step(hash.load(Relaxed), i), Relaxed));
    });
    assert_eq!(hash.into_inner(), (0..2_000).fold(1, step));
}

#[test]
fn the_rest_of_ordered_bodies_overlaps() {
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
            assert_eq!(text, format!("planted {} {guilty}", if inside { "inside" } else { "before" }));
            assert!(sections_run.into_inner() <= guilty);
        }
    }
    assert_eq!(members(), 4);
}

/// Runs a pipeline over a table whose every element is a hash of its two neighbours, and compares.
fn wave(rows: usize, columns: usize, blocks: Option<usize>) {
    let mix = |up: u64, left: u64| (up ^ left.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let table = || (0..(rows + 1) * (columns + 1)).map(|k| AtomicU64::new(k as u64)).collect::<Vec<_>>();
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
    let values = |table: Vec<AtomicU64>| table.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>();
    assert_eq!(values(parallel), values(serial));
}

/// As [`wave`], in three dimensions.
fn wave_2d(lengths: [usize; 3], blocks: usize, outer_is_free: bool) {
    let [rows, columns, depth] = lengths.map(|length| length + 1);
    let table = || (0..rows * columns * depth).map(|k| AtomicU64::new(k as u64)).collect::<Vec<_>>();
    let (parallel, serial) = (table(), table());
    let update = |table: &[AtomicU64], o: usize, m: usize, i: usize| {
        let at = |o: usize, m: usize, i: usize| &table[(o * columns + m) * depth + i];
        let above = if outer_is_free { 0 } else { at(o - 1, m, i).load(Relaxed) };
        let left = at(o, m - 1, i).load(Relaxed).rotate_left(13);
        let before = at(o, m, i - 1).load(Relaxed).rotate_left(29);
        at(o, m, i).store((above ^ left ^ before).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1), Relaxed);
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
    let values = |table: Vec<AtomicU64>| table.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>();
    assert_eq!(values(parallel), values(serial));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_pipeline_computes_what_the_sequential_loops_do(
        rows in 0_usize..40, columns in 0_usize..60, blocks in prop::option::of(1_usize..80),
    ) {
        let _masters = four();
        wave(rows, columns, blocks);
    }

    #[test]
    fn a_pipeline_of_two_dimensions_computes_what_the_sequential_loops_do(
        rows in 0_usize..9, columns in 0_usize..9, depth in 0_usize..20, blocks in 1_usize..25, free in any::<bool>(),
    ) {
        let _masters = four();
        wave_2d([rows, columns, depth], blocks, free);
    }

    #[test]
    fn a_reduction_that_is_not_commutative_keeps_the_order_under_static(length in 0_usize..300) {
        let _masters = four();
        let text = par_for(0..length).reduce(String::from("> "), |i| format!("{i},"), |a, b| a + &b);
        let oracle = (0..length).fold(String::from("> "), |text, i| text + &format!("{i},"));
        prop_assert_eq!(text, oracle);
    }

    #[test]
    fn the_first_found_is_that_of_a_sequential_loop_under_every_schedule(
        wanted in prop::collection::btree_set(0_usize..600, 0..5),
    ) {
        let _masters = four();
        for schedule in schedules() {
            let found = par_for(10..500).schedule(schedule).find_first(|i| wanted.contains(&i).then_some(i));
            prop_assert_eq!(found, wanted.range(10..500).next().copied(), "{:?}", schedule);
        }
    }

    #[test]
    fn collapsed_loops_run_each_tuple_once(
        (a, b, c) in (0_usize..8, 0_usize..20, 0_usize..8), schedule in prop::sample::select(schedules()),
    ) {
        let _masters = four();
        let times: Vec<AtomicU32> = (0..a * b * c).map(|_| AtomicU32::new(0)).collect();
        par_for_3d(2..2 + a, 5..5 + b, 1..1 + c).schedule(schedule).run(|i, j, k| {
            times[((i - 2) * b + j - 5) * c + k - 1].fetch_add(1, Relaxed);
        });
        prop_assert!(times.iter().all(|t| t.load(Relaxed) == 1));
        par_for_2d(3..3 + a * b, 4..4 + c).schedule(schedule).run(|i, j| {
            times[(i - 3) * c + j - 4].fetch_add(1, Relaxed);
        });
        prop_assert!(times.iter().all(|t| t.load(Relaxed) == 2));
    }

    #[test]
    fn chunks_of_a_slice_are_what_the_sequential_iterator_gives(
        length in 0_usize..500, chunk in 1_usize..40, schedule in prop::sample::select(schedules()),
    ) {
        let _masters = four();
        let mut values = vec![0_usize; length];
        par_chunks_mut(&mut values, chunk).schedule(schedule).run(|number, part| {
            part.iter_mut().enumerate().for_each(|(at, value)| *value += number * 1000 + at + part_length(length, chunk, number));
        });
        let mut oracle = vec![0_usize; length];
        for (number, part) in oracle.chunks_mut(chunk).enumerate() {
            let part_length = part.len();
            part.iter_mut().enumerate().for_each(|(at, value)| *value = number * 1000 + at + part_length);
        }
        prop_assert_eq!(values, oracle);
    }
}

fn part_length(length: usize, chunk: usize, number: usize) -> usize {
    chunk.min(length - number * chunk)
}

#[test]
fn reductions_give_the_sequential_sum_under_every_schedule() {
    let _masters = four();
    for schedule in schedules() {
        let sum = par_for(1..5001).schedule(schedule).reduce(7, |i| i as u64, |a, b| a + b);
        assert_eq!(sum, 7 + 5000 * 5001 / 2, "{schedule:?}");
        let boxes = par_for(0..1000).schedule(schedule).reduce_chunks(
            Box::new(0),
            |chunk| Box::new(chunk.len()),
            |a, b| Box::new(*a + *b),
        );
        assert_eq!(*boxes, 1000, "{schedule:?}");
    }
}

#[test]
fn floating_point_sums_of_one_team_are_the_same_every_time() {
    let _masters = four_alone();
    let sum = || par_for(0..10_000).reduce(0.0_f64, |i| 1.0 / (i as f64 + 0.1), |a, b| a + b).to_bits();
    let first = sum();
    assert!((0..200).all(|_| sum() == first));
}

#[test]
fn values_of_a_reduction_that_panics_are_dropped_once() {
    let _masters = four();
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (made, dropped) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let text = panic_of(|| {
        par_for(0..100).reduce(
            Counted(&dropped),
            |i| {
                assert_ne!(i, 60, "planted");
                made.fetch_add(1, Relaxed);
                Counted(&dropped)
            },
            |a, _| a,
        );
    });
    assert!(text.contains("planted"));
    assert_eq!(made.into_inner(), dropped.into_inner());
}

#[test]
fn a_loop_that_breaks_starts_nothing_more_and_says_why() {
    let _masters = four();
    for schedule in schedules() {
        let started = AtomicUsize::new(0);
        let ended = par_for(0..1_000_000_000).schedule(schedule).try_run(|i| {
            started.fetch_add(1, Relaxed);
            if i % 1000 == 17 { ControlFlow::Break(i) } else { ControlFlow::Continue(()) }
        });
        let ControlFlow::Break(at) = ended else { panic!("{schedule:?} did not break") };
        assert_eq!(at % 1000, 17);
        // Were it not stopped, this would take minutes.
        assert!(started.into_inner() < 100_000_000, "{schedule:?}");
        let whole = par_for(0..1000).schedule(schedule).try_run(|_| ControlFlow::<()>::Continue(()));
        assert_eq!(whole, ControlFlow::Continue(()));
    }
}

#[test]
fn a_search_does_not_look_behind_what_it_found() {
    let _masters = four();
    for schedule in schedules() {
        let looked = AtomicUsize::new(0);
        let found = par_for(0..usize::MAX / 2).schedule(schedule).find_first(|i| {
            looked.fetch_add(1, Relaxed);
            // Each static block begins with a hit; the first one counts.
            (i % 10 == 3 || i > usize::MAX / 16).then_some(i)
        });
        assert_eq!(found, Some(3), "{schedule:?}");
        assert!(looked.into_inner() < 100_000_000);
    }
}

#[test]
fn panics_reach_the_caller_from_every_kind_of_loop_and_lose_no_virtual_processor() {
    let _masters = four_alone();
    for schedule in schedules() {
        assert_eq!(panic_of(|| par_for(0..500).schedule(schedule).run(|i| assert!(i != 257, "at {i}"))), "at 257");
    }
    let mut values = [0_u8; 100];
    assert_eq!(panic_of(|| par_chunks_mut(&mut values, 10).run(|k, _| assert!(k != 7, "chunk {k}"))), "chunk 7");
    assert_eq!(panic_of(|| par_for_2d(0..9, 0..9).run(|i, j| assert!((i, j) != (8, 8), "corner"))), "corner");
    assert_eq!(panic_of(|| sections().add(|| {}).add(|| panic!("second")).add(|| {}).run()), "second");
    for (row, column) in [(0, 0), (0, 30), (20, 0), (39, 39)] {
        let text = panic_of(|| {
            pipeline(0..40, 0..40).run(|outer, inner| {
                assert!(!(outer.contains(&row) && inner.contains(&column)), "in the wave");
            });
        });
        assert_eq!(text, "in the wave");
        let text = panic_of(|| {
            pipeline_2d(0..40, 0..40, 0..9).run(|outer, middle, _| {
                assert!(!(outer.contains(&row) && middle.contains(&column)), "in the grid");
            });
        });
        assert_eq!(text, "in the grid");
    }
    assert_eq!(members(), 4);
}

#[test]
fn blocks_that_need_a_panicked_one_do_not_run() {
    let _masters = four();
    let last_ran = AtomicUsize::new(0);
    let text = panic_of(|| {
        pipeline(0..4, 0..8).blocks(n(8)).run(|outer, inner| {
            assert!(!(outer.start == 1 && inner.start == 3), "planted");
            if outer.start == 3 {
                last_ran.fetch_max(inner.start + 1, Relaxed);
            }
        });
    });
    assert_eq!(text, "planted");
    assert!(last_ran.into_inner() <= 3);
}

#[test]
fn sections_run_once_each_and_overlap() {
    let _masters = four_alone();
    let (first, second) = (AtomicU32::new(0), AtomicU32::new(0));
    let meet = |own: &AtomicU32, other: &AtomicU32| {
        own.fetch_add(1, Relaxed);
        while other.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
    };
    let mut text = String::new();
    let rest = AtomicU32::new(0);
    let mut list = sections().add(|| meet(&first, &second)).add(|| meet(&second, &first)).add(|| text.push('x'));
    for _ in 0..20 {
        list = list.add(|| {
            rest.fetch_add(1, Relaxed);
        });
    }
    list.run();
    assert_eq!((first.into_inner(), second.into_inner(), rest.into_inner()), (1, 1, 20));
    assert_eq!(text, "x");
}

#[test]
fn loops_inside_sections_iterations_and_foreign_threads_are_whole() {
    let _masters = four();
    let total = AtomicUsize::new(0);
    let inner = || {
        par_for(0..100).schedule(Schedule::Affinity).ordered(|_, order| {
            order.wait_turn(|| total.fetch_add(1, Relaxed));
        });
        pipeline(0..10, 0..10).run(|outer, inner| {
            total.fetch_add(outer.len() * inner.len(), Relaxed);
        });
    };
    sections().add(inner).add(inner).run();
    par_for(0..5).schedule(Schedule::PURE).run(|_| inner());
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                join(inner, inner);
            });
        }
    });
    assert_eq!(total.into_inner(), (2 + 5 + 8) * 200);
}

#[test]
fn slices_of_elements_without_size_are_cut_as_well() {
    let _masters = four();
    let mut units = vec![(); 1000];
    let seen = AtomicUsize::new(0);
    par_chunks_mut(&mut units, 33).run(|_, part| {
        seen.fetch_add(part.len(), Relaxed);
    });
    assert_eq!(seen.into_inner(), 1000);
    assert!(panic_of(|| par_chunks_mut(&mut units, 0).run(|_, _| {})).contains("at least 1"));
}
