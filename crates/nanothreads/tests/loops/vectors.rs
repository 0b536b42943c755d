//! Loops that make vectors, questions to ranges, chunks of slices, sorting.

use nanothreads::{Schedule, par_chunks_mut, par_for};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

const SCHEDULES: [Schedule; 7] = [
    Schedule::Static,
    Schedule::static_chunks(3),
    Schedule::PURE,
    Schedule::guided(2),
    Schedule::Factoring,
    Schedule::Affinity,
    Schedule::Auto,
];

#[test]
fn collected_elements_stand_where_their_numbers_do() {
    for schedule in SCHEDULES {
        for length in [0, 1, 2, 7, 1000] {
            let range = 5..5 + length;
            let texts = par_for(range.clone()).schedule(schedule).collect(|i| i.to_string());
            assert!(
                texts.iter().map(String::as_str).eq(range.map(|i| i.to_string())),
                "{schedule}"
            );
        }
    }
    assert_eq!(par_for(0..3).collect(|_| ()), [(), (), ()]);
}

/// Counts how many of it live.
struct Counted<'a>(&'a AtomicIsize);

impl<'a> Counted<'a> {
    fn new(live: &'a AtomicIsize) -> Self {
        live.fetch_add(1, Relaxed);
        Self(live)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn elements_of_a_collection_that_panics_are_dropped_once() {
    let live = AtomicIsize::new(0);
    for schedule in SCHEDULES {
        for at in [0, 1, 499, 999] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                par_for(0..1000).schedule(schedule).collect(|i| {
                    assert!(i != at, "planted");
                    Counted::new(&live)
                })
            }));
            assert!(outcome.is_err());
            assert_eq!(live.load(Relaxed), 0, "{schedule}, {at}");
        }
    }
    let all = par_for(0..1000).collect(|_| Counted::new(&live));
    assert_eq!((all.len(), live.load(Relaxed)), (1000, 1000));
    drop(all);
    assert_eq!(live.into_inner(), 0);
}

/// Gives three elements, whatever it says, and panics instead of that of number `fails_at`.
struct Three<'a> {
    live: &'a AtomicIsize,
    says: usize,
    given: usize,
    fails_at: usize,
}

impl<'a> Iterator for Three<'a> {
    type Item = Counted<'a>;

    fn next(&mut self) -> Option<Counted<'a>> {
        assert!(self.given != self.fails_at, "planted");
        self.given += 1;
        (self.given <= 3).then(|| Counted::new(self.live))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.says, Some(self.says))
    }
}

#[test]
fn iterators_of_another_length_than_they_say_and_those_that_panic_give_each_element_once() {
    let live = AtomicIsize::new(0);
    let three = |says, fails_at| Three { live: &live, says, given: 0, fails_at };
    for schedule in SCHEDULES {
        let all = || par_for(0..100).schedule(schedule);
        for says in [0, 2, 100] {
            let elements = all().flat_map(|_| three(says, usize::MAX));
            assert_eq!((elements.len(), live.load(Relaxed)), (300, 300), "{schedule}");
            drop(elements);
            assert_eq!(live.load(Relaxed), 0);
        }
        for (at, says, fails_at) in [(0, 3, 2), (57, 0, 1), (99, 3, 0), (57, usize::MAX, 9)] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                all().flat_map(|i| if i == at { three(says, fails_at) } else { three(1, 9) })
            }));
            // The vector may have room for what the one that says so much gives.
            assert!(outcome.is_err() || says == usize::MAX);
            drop(outcome);
            assert_eq!(live.load(Relaxed), 0, "{schedule}, {at}");
        }
    }
}

#[test]
fn elements_of_large_alignment_stand_where_they_are_aligned() {
    #[repr(align(256))]
    struct Lines(u8);
    let is_aligned = |lines: &Lines| std::ptr::from_ref(lines).addr() % 256 == usize::from(lines.0);
    for schedule in SCHEDULES {
        let all = || par_for(0..40).schedule(schedule);
        assert!(all().collect(|_| Lines(0)).iter().all(is_aligned));
        assert!(all().flat_map(|_| [Lines(0), Lines(0)]).iter().all(is_aligned));
        assert!(all().find_first(|i| (i == 17).then_some(Lines(0))).iter().all(is_aligned));
        let last = |a: Lines, b: Lines| (assert!(is_aligned(&a) && is_aligned(&b)), b).1;
        assert!(is_aligned(&all().reduce(Lines(0), |_| Lines(0), last)));
    }
    let (a, b) = nanothreads::join(|| Lines(0), || Lines(0));
    assert!(is_aligned(&a) && is_aligned(&b));
}

#[test]
fn filtered_and_flattened_elements_keep_the_order_of_the_range() {
    for schedule in SCHEDULES {
        let odd = par_for(0..1001).schedule(schedule).filter_map(|i| (i % 2 == 1).then_some(i));
        assert!(odd.into_iter().eq((0..1001).filter(|i| i % 2 == 1)), "{schedule}");
        let flat = par_for(0..50).schedule(schedule).flat_map(|i| 0..i);
        assert!(flat.into_iter().eq((0..50).flat_map(|i| 0..i)), "{schedule}");
    }
    assert!(par_for(0..0).filter_map(Some).is_empty());
}

#[test]
fn questions_have_the_answers_of_a_sequential_loop() {
    for schedule in SCHEDULES {
        let numbers = || par_for(3..1003).schedule(schedule);
        assert_eq!(numbers().count(|i| i % 3 == 0), 334);
        assert!(numbers().any(|i| i == 1002) && !numbers().any(|i| i == 1003));
        assert!(numbers().all(|i| i > 2) && !numbers().all(|i| i != 500));
        // Of equal ones the first and the last, as `Iterator::min_by_key` and `max_by_key`.
        #[derive(PartialEq, Eq, Debug)]
        struct Key(usize, usize);
        impl PartialOrd for Key {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for Key {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.0.cmp(&other.0)
            }
        }
        let key = |i: usize| Key(i % 10, i);
        assert_eq!(numbers().min(key).map(|key| key.1), Some(10), "{schedule}");
        assert_eq!(numbers().max(key).map(|key| key.1), Some(999), "{schedule}");
    }
    assert_eq!(par_for(0..0).min(|i| i), None);
    assert!(!par_for(0..0).any(|_| true) && par_for(0..0).all(|_| false));
}

#[test]
fn any_stops_soon_after_the_first_find() {
    let asked = AtomicUsize::new(0);
    let found = par_for(0..1_000_000).schedule(Schedule::dynamic(64)).any(|i| {
        asked.fetch_add(1, Relaxed);
        i >= 5
    });
    assert!(found);
    // Each thread of a team may be asking when the first one finds.
    let most = 6 + nanothreads::current_num_threads() * 64;
    assert!(asked.into_inner() <= most, "a member asks no further once it was found");
}

#[test]
fn the_error_of_the_lowest_number_that_was_reached_is_returned() {
    for schedule in SCHEDULES {
        let failed = par_for(0..1000)
            .schedule(schedule)
            .try_for_each(|i| if i == 400 { Err(i) } else { Ok(()) });
        assert_eq!(failed, Err(400));
        let sum = |bad: usize| {
            par_for(0..1000).schedule(schedule).try_reduce(
                0,
                |i| if i == bad { Err(i) } else { Ok(i) },
                |a, b| a + b,
            )
        };
        assert_eq!((sum(2000), sum(999), sum(0)), (Ok(499_500), Err(999), Err(0)), "{schedule}");
    }
}

#[test]
fn chunks_are_mapped_reduced_and_walked_together_with_those_of_another_slice() {
    for schedule in SCHEDULES {
        let mut x: Vec<u64> = (0..1001).collect();
        let chunks = |x: &mut [u64]| x.iter().sum::<u64>();
        let sums = par_chunks_mut(&mut x, 10).schedule(schedule).map(|_, chunk| chunks(chunk));
        assert_eq!((sums.len(), sums[100], sums.iter().sum::<u64>()), (101, 1000, 500_500));
        let sum = par_chunks_mut(&mut x, 10).schedule(schedule).reduce(
            0,
            |_, chunk| chunks(chunk),
            |a, b| a + b,
        );
        assert_eq!(sum, 500_500);
        let mut y = vec![0_u8; 2002];
        par_chunks_mut(&mut x, 10).zip(&mut y, 20).schedule(schedule).run(|number, x, y| {
            assert_eq!(y.len(), 2 * x.len());
            x[0] = number as u64;
            y[0] = 1;
        });
        assert_eq!((x[1000], x[990], y.iter().filter(|&&y| y == 1).count()), (100, 99, 101));
    }
    let (mut x, mut y) = ([0; 4], [0; 6]);
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(par_chunks_mut(&mut x, 2).zip(&mut y, 2))));
    let text = outcome.expect_err("2 chunks beside 3");
    assert!(text.downcast_ref::<String>().is_some_and(|text| text.contains("2 chunks beside 3")));
}

#[test]
fn schedules_are_read_as_they_are_written() {
    let half = Schedule::Safe(nanothreads::Alpha::HALF);
    for schedule in SCHEDULES.into_iter().chain([half, Schedule::Trapezoid]) {
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }
    for text in ["", "dynamic,0", "dynamic,1,2", "safe,2", "factoring,1", "Dynamik"] {
        let error = text.parse::<Schedule>().expect_err(text);
        assert!(error.to_string().contains("`dynamic,16`"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn sorted_slices_are_those_of_the_standard_library(
        keys in prop::collection::vec(0_u32..5000, 0..60_000),
    ) {
        // The number tells equal keys apart.
        let mut own: Vec<(u32, usize)> = keys.iter().copied().zip(0..).collect();
        let mut expected = own.clone();
        expected.sort_by_key(|element| element.0);
        nanothreads::par_sort_by_key(&mut own, |element| element.0);
        prop_assert!(own == expected, "stable");
        let mut own = keys.clone();
        nanothreads::par_sort_unstable(&mut own);
        prop_assert!(own.is_sorted());
        prop_assert!(own.iter().eq(expected.iter().map(|element| &element.0)));
        let mut texts: Vec<String> = keys.iter().map(u32::to_string).collect();
        nanothreads::par_sort_by(&mut texts, |a, b| b.cmp(a));
        prop_assert!(texts.is_sorted_by(|a, b| a >= b));
    }
}

#[test]
fn a_comparison_that_panics_leaves_each_element_in_the_slice_once() {
    const LENGTH: usize = 100_000;
    /// Freed twice it would end the process.
    struct Owned(Box<usize>);
    for is_stable in [true, false] {
        let mut panics = 0;
        for budget in [0, 1, 5000, 50_000, 200_000, 800_000, 1_200_000, 1_500_000, 1_600_000] {
            let mut own: Vec<Owned> =
                (0..LENGTH).map(|i| Owned(Box::new(i * 7919 % LENGTH))).collect();
            let left = AtomicIsize::new(budget);
            let compare = |a: &Owned, b: &Owned| {
                assert!(left.fetch_sub(1, Relaxed) > 0, "planted");
                a.0.cmp(&b.0)
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| match is_stable {
                true => nanothreads::par_sort_by(&mut own, compare),
                false => nanothreads::par_sort_unstable_by(&mut own, compare),
            }));
            panics += u32::from(outcome.is_err());
            let mut values: Vec<usize> = own.into_iter().map(|element| *element.0).collect();
            values.sort_unstable();
            assert!(values.into_iter().eq(0..LENGTH), "budget {budget}");
        }
        assert!(panics >= 5, "{panics}");
    }
}

#[test]
fn a_comparison_that_changes_what_it_compares_leaves_each_value_once() {
    use std::cell::Cell;
    const LENGTH: usize = 40_000;
    let live = AtomicIsize::new(0);
    for (is_stable, fails_at) in [(true, 0), (false, 0), (true, 300_000), (false, 300_000)] {
        // Freed twice it would end the process, and one copy too many would count.
        let mut own: Vec<(usize, Cell<Option<Box<Counted<'_>>>>)> = (0..LENGTH)
            .map(|i| (i * 7919 % LENGTH, Cell::new(Some(Box::new(Counted::new(&live))))))
            .collect();
        let calls = AtomicUsize::new(1);
        let compare = |a: &(usize, Cell<_>), b: &(usize, Cell<_>)| {
            if (a.0 ^ b.0) % 3 == 0 {
                drop(a.1.take());
                b.1.set(Some(Box::new(Counted::new(&live))));
            } else {
                a.1.swap(&b.1);
            }
            assert!(calls.fetch_add(1, Relaxed) != fails_at, "planted");
            a.0.cmp(&b.0)
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| match is_stable {
            true => nanothreads::par_sort_by(&mut own, compare),
            false => nanothreads::par_sort_unstable_by(&mut own, compare),
        }));
        assert_eq!(outcome.is_err(), fails_at > 0);
        let held = own.iter().filter(|element| element.1.take().is_some()).count();
        assert!(held > 0 && live.load(Relaxed) == 0, "{held} held, {live:?} too many");
    }
}

#[test]
fn zero_sized_and_few_elements_are_sorted_too() {
    nanothreads::par_sort(&mut [(); 100_000]);
    let mut few = [3, 1, 2];
    nanothreads::par_sort_unstable_by_key(&mut few, |&x| std::cmp::Reverse(x));
    assert_eq!(few, [3, 2, 1]);
}
