//! Parallel loops on real threads: every schedule, values, early ends, slices, sections, panics.

use crate::team_of_four::{four, four_alone, four_answer, n, panic_of, schedules};
use nanothreads::{
    PerThread, Schedule, doacross, join, par_chunks_mut, par_for, par_for_2d, par_for_3d, pipeline,
    pipeline_2d, sections,
};
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

#[test]
fn each_iteration_runs_once_under_every_schedule() {
    own_process!();
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
fn each_iteration_runs_once_with_chunks_longer_than_the_range_and_at_the_end_of_usize() {
    own_process!();
    let _masters = four();
    let chunks = [3, 1 << 32, usize::MAX / 2 + 1, usize::MAX - 1, usize::MAX].map(n);
    let long = chunks.into_iter().flat_map(|chunk| {
        [
            Schedule::StaticChunks(chunk),
            Schedule::Dynamic(chunk),
            Schedule::Guided(chunk),
            Schedule::TrapezoidFrom { first: chunk, last: n(1) },
            Schedule::TrapezoidFrom { first: n(1), last: chunk },
        ]
    });
    for schedule in long.chain(schedules()) {
        for length in [1, 97] {
            let first = usize::MAX - length;
            let times: Vec<AtomicU32> = (0..length).map(|_| AtomicU32::new(0)).collect();
            par_for(first..usize::MAX).schedule(schedule).run(|i| {
                times[i - first].fetch_add(1, Relaxed);
            });
            par_for(first..usize::MAX).schedule(schedule).ordered(|i, order| {
                order.wait_turn(|| _ = times[i - first].fetch_add(1, Relaxed));
            });
            assert!(times.iter().all(|t| t.load(Relaxed) == 2), "{schedule:?} {length}");
        }
    }
}

#[test]
fn each_iteration_runs_once_with_the_value_of_its_thread() {
    own_process!();
    let _masters = four();
    for schedule in schedules() {
        let seen = PerThread::new(Vec::new);
        par_for(3..503).schedule(schedule).run_with(&seen, |own, i| {
            own.push((i, std::thread::current().id()));
        });
        let mut all = Vec::new();
        for own in seen.into_values() {
            assert!(own.iter().all(|(_, thread)| *thread == own[0].1), "{schedule:?}");
            all.extend(own.into_iter().map(|(i, _)| i));
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(3..503), "{schedule:?}");
    }
}

#[test]
fn each_iteration_runs_once_when_members_differ_in_speed() {
    own_process!();
    let _masters = four();
    for schedule in schedules() {
        for round in 0..20 {
            let times: Vec<AtomicU32> = (0..300).map(|_| AtomicU32::new(0)).collect();
            par_for(0..300).schedule(schedule).run(|i| {
                times[i].fetch_add(1, Relaxed);
                // Some iterations cost a few hundred times more than others, elsewhere in each
                // round.
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
    own_process!();
    let _masters = four();
    #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
    par_for(7..3).run(|_| unreachable!());
    #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
    pipeline(7..3, 0..4).run(|_, _| unreachable!());
    doacross(4..4).run(|_, _| unreachable!());
    assert_eq!(par_for(3..3).reduce(41, |_| unreachable!(), |a, _| a), 41);
    sections().run();
    par_chunks_mut(&mut [0_u8; 0], 5).run(|_, _| unreachable!());
}

#[test]
fn loops_as_long_as_can_be_end_where_they_are_told_to() {
    own_process!();
    let _masters = four();
    const MAX: usize = usize::MAX;
    let long = [MAX / 2 + 1, MAX].map(n).into_iter().flat_map(|chunk| {
        [Schedule::StaticChunks(chunk), Schedule::Dynamic(chunk), Schedule::Guided(chunk)]
    });
    for schedule in long.chain(schedules()) {
        let all = || par_for(0..MAX).schedule(schedule);
        let stop = |i: usize| if i > 9 { ControlFlow::Break(i) } else { ControlFlow::Continue(()) };
        assert!(all().try_run(stop).is_break(), "{schedule}");
        assert!(all().any(|i| i % 3 == 1) && !all().all(|i| i % 3 == 1), "{schedule}");
        let check = |i: usize| if i > 9 { Err(i) } else { Ok(0_u8) };
        assert!(all().try_reduce(0, check, |a, _| a).is_err(), "{schedule}");
        assert_eq!(panic_of(|| all().run(|i| assert!(i < 9, "planted"))), "planted");
        // As many elements as memory has no room for; and what there is room for at any length.
        let refusal = panic_of(|| drop(all().collect(|_| 0_u8)));
        assert!(refusal.contains("capacity overflow"), "{refusal}");
        assert_eq!(panic_of(|| drop(all().collect(|i| assert!(i < 9, "planted")))), "planted");
        let mut units = vec![(); MAX];
        let lengths = par_chunks_mut(&mut units, MAX / 4).schedule(schedule).map(|_, c| c.len());
        assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (5, MAX), "{schedule}");
        let mut bytes = [0_u8; 100];
        for length in [MAX / 2 + 1, MAX] {
            par_chunks_mut(&mut bytes, length).schedule(schedule).run(|_, all| all[99] += 1);
        }
        assert_eq!(bytes[99], 2);
    }
}

#[test]
fn a_reduction_that_is_not_commutative_keeps_the_order_under_static() {
    own_process!();
    proptest!(ProptestConfig::with_cases(60), |(length in 0_usize..300)| {
        let _masters = four();
        let text = par_for(0..length).reduce(String::from("> "), |i| format!("{i},"), |a, b| a + &b);
        let oracle = (0..length).fold(String::from("> "), |text, i| text + &format!("{i},"));
        prop_assert_eq!(text, oracle);
    });
}

#[test]
fn the_first_found_is_that_of_a_sequential_loop_under_every_schedule() {
    own_process!();
    proptest!(ProptestConfig::with_cases(60), |(wanted in prop::collection::btree_set(0_usize..600, 0..5))| {
        let _masters = four();
        for schedule in schedules() {
            let found = par_for(10..500).schedule(schedule).find_first(|i| wanted.contains(&i).then_some(i));
            prop_assert_eq!(found, wanted.range(10..500).next().copied(), "{:?}", schedule);
        }
    });
}

#[test]
fn collapsed_loops_run_each_tuple_once() {
    own_process!();
    proptest!(ProptestConfig::with_cases(60), |(
        (a, b, c) in (0_usize..8, 0_usize..20, 0_usize..8), schedule in prop::sample::select(schedules()),
    )| {
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
    });
}

#[test]
fn chunks_of_a_slice_are_what_the_sequential_iterator_gives() {
    own_process!();
    proptest!(ProptestConfig::with_cases(60), |(
        length in 0_usize..500, chunk in 1_usize..40, schedule in prop::sample::select(schedules()),
    )| {
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
    });
}

fn part_length(length: usize, chunk: usize, number: usize) -> usize {
    chunk.min(length - number * chunk)
}

#[test]
fn reductions_give_the_sequential_sum_under_every_schedule() {
    own_process!();
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
    own_process!();
    let _masters = four_alone();
    let sum =
        || par_for(0..10_000).reduce(0.0_f64, |i| 1.0 / (i as f64 + 0.1), |a, b| a + b).to_bits();
    let first = sum();
    assert!((0..200).all(|_| sum() == first));
}

#[test]
fn values_of_a_reduction_that_panics_are_dropped_once() {
    own_process!();
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
    own_process!();
    let _masters = four();
    for schedule in schedules() {
        let started = AtomicUsize::new(0);
        // One member breaks; the others have to hear of it.
        let ended = par_for(0..2_000_000_000).schedule(schedule).try_run(|i| {
            started.fetch_add(1, Relaxed);
            if i == 17 { ControlFlow::Break("seventeen") } else { ControlFlow::Continue(()) }
        });
        assert_eq!(ended, ControlFlow::Break("seventeen"), "{schedule:?}");
        // Were it not stopped, all of them would run.
        assert!(started.into_inner() < 500_000_000, "{schedule:?}");
        let whole =
            par_for(0..1000).schedule(schedule).try_run(|_| ControlFlow::<()>::Continue(()));
        assert_eq!(whole, ControlFlow::Continue(()));
    }
}

#[test]
fn a_search_does_not_look_beyond_what_it_found() {
    own_process!();
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
    own_process!();
    let _masters = four_alone();
    for schedule in schedules() {
        assert_eq!(
            panic_of(|| par_for(0..500).schedule(schedule).run(|i| assert!(i != 257, "at {i}"))),
            "at 257"
        );
    }
    let mut values = [0_u8; 100];
    assert_eq!(
        panic_of(|| par_chunks_mut(&mut values, 10).run(|k, _| assert!(k != 7, "chunk {k}"))),
        "chunk 7"
    );
    assert_eq!(
        panic_of(|| par_for_2d(0..9, 0..9).run(|i, j| assert!((i, j) != (8, 8), "corner"))),
        "corner"
    );
    assert_eq!(
        panic_of(|| sections().add(|| {}).add(|| panic!("second")).add(|| {}).run()),
        "second"
    );
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
    assert_eq!(panic_of(|| doacross(0..90).run(|i, _| assert!(i != 61, "across"))), "across");
    four_answer();
}

#[test]
fn sections_run_once_each_and_overlap() {
    own_process!();
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
    let mut list = sections()
        .add(|| meet(&first, &second))
        .add(|| meet(&second, &first))
        .add(|| text.push('x'));
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
    own_process!();
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
    own_process!();
    let _masters = four();
    let mut units = vec![(); 1000];
    let seen = AtomicUsize::new(0);
    par_chunks_mut(&mut units, 33).run(|_, part| {
        seen.fetch_add(part.len(), Relaxed);
    });
    assert_eq!(seen.into_inner(), 1000);
    assert!(panic_of(|| par_chunks_mut(&mut units, 0).run(|_, _| {})).contains("at least 1"));
}
