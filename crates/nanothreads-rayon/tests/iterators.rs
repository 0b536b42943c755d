//! Indexed rayon iterators on the engine: results as the standard library's, no thread of rayon,
//! panics that drop all.

use nanothreads::{Team, groups};
use nanothreads_rayon::OnEngine;
use rayon::iter::plumbing::{Consumer, ProducerCallback, UnindexedConsumer, bridge};
use rayon::prelude::*;
use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once};
use std::thread;

fn four() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        nanothreads::builder().threads(4).install().expect("nothing was forked before")
    });
}

#[test]
fn results_are_those_of_the_standard_library() {
    four();
    for length in [0, 1, 2, 3, 17, 1000, 50_001] {
        let a: Vec<u64> = (0..length).collect();
        let b: Vec<u64> = a.iter().map(|n| n * n % 31).collect();
        let collected: Vec<_> = a.par_iter().zip(&b).map(|(x, y)| x + y).on_engine().collect();
        assert_eq!(collected, a.iter().zip(&b).map(|(x, y)| x + y).collect::<Vec<_>>());
        let turned: VecDeque<_> = a.par_iter().enumerate().rev().on_engine().collect();
        assert_eq!(turned, a.iter().enumerate().rev().collect::<VecDeque<_>>());
        assert_eq!(a.par_iter().on_engine().sum::<u64>(), a.iter().sum::<u64>());
        assert_eq!(
            b.par_iter().map(|n| n % 3 + 1).on_engine().product::<u128_wrapping::Wrapping>().0,
            { b.iter().fold(1_u128, |product, n| product.wrapping_mul(u128::from(n % 3 + 1))) }
        );
        assert_eq!(b.par_iter().on_engine().min(), b.iter().min());
        assert_eq!(
            b.par_iter().enumerate().on_engine().max_by(|x, y| x.1.cmp(y.1)),
            b.iter().enumerate().max_by_key(|x| x.1)
        );
        assert_eq!(
            b.par_iter().enumerate().on_engine().min_by(|x, y| x.1.cmp(y.1)),
            b.iter().enumerate().min_by_key(|x| x.1)
        );
        assert_eq!(
            a.par_iter().copied().on_engine().reduce(|| 0, |x, y| x.max(y)),
            a.iter().copied().fold(0, u64::max)
        );
        assert_eq!(a.par_iter().on_engine().any(|&n| n == 700), a.contains(&700));
        assert!(a.par_iter().on_engine().all(|&n| n < length));
        let kept = a.par_iter().on_engine().filter_map(|&n| (n % 7 == 0).then_some(n));
        assert_eq!(kept, a.iter().copied().filter(|n| n % 7 == 0).collect::<Vec<_>>());
        let twice = a.par_iter().on_engine().flat_map(|&n| [n, n]);
        assert_eq!(twice, a.iter().flat_map(|&n| [n, n]).collect::<Vec<_>>());
        let words = a
            .par_chunks(10)
            .map(<[u64]>::len)
            .on_engine()
            .fold(Vec::new, |mut all, n| (all.push(n), all).1);
        assert_eq!(words.concat(), a.chunks(10).map(<[u64]>::len).collect::<Vec<_>>());
    }
}

/// A product that wraps, to have one of 128 bits.
mod u128_wrapping {
    #[derive(Clone, Copy)]
    pub(crate) struct Wrapping(pub(crate) u128);

    impl std::iter::Product<u64> for Wrapping {
        fn product<I: Iterator<Item = u64>>(items: I) -> Self {
            Self(items.fold(1, |product, n| product.wrapping_mul(u128::from(n))))
        }
    }

    impl std::iter::Product for Wrapping {
        fn product<I: Iterator<Item = Self>>(items: I) -> Self {
            Self(items.fold(1, |product, n| product.wrapping_mul(n.0)))
        }
    }
}

#[test]
fn items_are_moved_out_of_and_into_vectors() {
    four();
    let names: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let mut collected = vec![String::from("first")];
    names.clone().into_par_iter().map(|name| name + "!").on_engine().collect_into(&mut collected);
    assert_eq!(collected[0], "first");
    assert!(collected[1..].iter().zip(&names).all(|(new, old)| *new == format!("{old}!")));
    let mut cells = vec![0; 777];
    cells.par_iter_mut().enumerate().on_engine().for_each(|(i, cell)| *cell = i);
    assert_eq!(cells, (0..777).collect::<Vec<_>>());
}

#[test]
fn items_are_worked_on_by_the_engines_threads_only() {
    four();
    let own: HashSet<_> = Team::exact(4)
        .expect("the system gives threads")
        .map(|_| thread::current().id())
        .into_iter()
        .collect();
    let seen = Mutex::new(HashSet::new());
    for _ in 0..20 {
        (0..1000_usize).into_par_iter().rev().on_engine().for_each(|_| {
            seen.lock().expect("nothing panics").insert(thread::current().id());
        });
    }
    assert!(seen.into_inner().expect("nothing panics").is_subset(&own));
}

#[test]
fn iterators_stay_in_the_group_around_them() {
    four();
    let inside = groups().equal(2).map(|_| {
        let own: HashSet<_> =
            Team::available().map(|_| thread::current().id()).into_iter().collect();
        let seen = Mutex::new(HashSet::new());
        (0..500_usize).into_par_iter().on_engine().for_each(|_| {
            seen.lock().expect("nothing panics").insert(thread::current().id());
        });
        seen.into_inner().expect("nothing panics").is_subset(&own)
    });
    assert_eq!(inside, [true, true]);
}

#[test]
fn a_panic_drops_what_was_collected_and_the_engine_goes_on() {
    four();
    let alive = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    let make = |n: usize, bad: usize| {
        assert!(n != bad, "planted");
        alive.fetch_add(1, Relaxed);
        Counted(Arc::clone(&alive))
    };
    for bad in [0, 1, 499, 999] {
        let collect = || {
            (0..1000).into_par_iter().map(|n| make(n, bad)).on_engine().collect::<Vec<_>>().len()
        };
        let payload = catch_unwind(AssertUnwindSafe(collect)).expect_err("the panic is passed on");
        assert!(payload.downcast_ref::<&str>().is_some_and(|text| text.contains("planted")));
        assert_eq!(alive.load(Relaxed), 0, "bad item {bad}");
    }
    let all: Vec<_> = (0..1000).into_par_iter().map(|n| make(n, usize::MAX)).on_engine().collect();
    assert_eq!((all.len(), alive.load(Relaxed)), (1000, 1000));
    drop(all);
    assert_eq!(alive.load(Relaxed), 0);
}

#[test]
fn lengths_of_pieces_are_respected() {
    four();
    let fine =
        (0..1000).into_par_iter().with_max_len(10).on_engine().fold(|| 0, |count, _| count + 1);
    assert!(fine.iter().all(|&count| count <= 10) && fine.iter().sum::<usize>() == 1000);
    let coarse =
        (0..1000).into_par_iter().with_min_len(300).on_engine().fold(|| 0, |count, _| count + 1);
    assert!(coarse.iter().all(|&count| count >= 300) && coarse.iter().sum::<usize>() == 1000);
}

#[test]
fn searches_stop_soon_and_find_what_a_sequential_one_finds() {
    four();
    let asked = AtomicUsize::new(0);
    let found = (0..1_000_000_u32).into_par_iter().on_engine().any(|i| {
        asked.fetch_add(1, Relaxed);
        i >= 3
    });
    assert!(found && asked.into_inner() <= 4 + 4 * 16, "each piece looks before each item");
    for length in [0, 1, 10, 50_000_usize] {
        let numbers: Vec<usize> = (0..length).map(|i| i * 7919 % 1009).collect();
        let first = numbers.iter().position(|&n| n > 900);
        let iter = || numbers.par_iter().on_engine();
        assert_eq!(iter().position_first(|&n| n > 900), first);
        assert_eq!(iter().find_first(|n| **n > 900), first.map(|at| &numbers[at]));
        assert_eq!(iter().find_any(|n| **n > 900).is_some(), first.is_some());
        assert_eq!(iter().find_any(|n| **n > 2000), None);
        assert_eq!(iter().count(), length);
        let failed = iter().try_for_each(|&n| if n > 900 { Err(n) } else { Ok(()) });
        assert_eq!(failed.is_err(), first.is_some());
        let (large, small) = iter().partition(|n| **n > 500);
        let (l, s): (Vec<&usize>, Vec<&usize>) = numbers.iter().partition(|n| **n > 500);
        assert_eq!((large, small), (l, s));
        let (a, b) = numbers.par_iter().map(|n| (n + 1, n * 2)).on_engine().unzip();
        let (c, d): (Vec<usize>, Vec<usize>) = numbers.iter().map(|n| (n + 1, n * 2)).unzip();
        assert_eq!((a, b), (c, d));
        let sum = AtomicUsize::new(0);
        iter().for_each_init(|| 1, |one, n| _ = sum.fetch_add(n + *one - 1, Relaxed));
        assert_eq!(sum.into_inner(), numbers.iter().sum::<usize>());
    }
}

#[test]
fn pieces_of_one_item_cover_all_items_in_order_however_many_they_are() {
    four();
    let collected: Vec<usize> = (0..300_000).into_par_iter().with_max_len(1).on_engine().collect();
    assert!(collected.into_iter().eq(0..300_000));
    let lengths = (0..10_000).into_par_iter().with_max_len(3).on_engine().fold(|| 0, |n, _| n + 1);
    assert!(lengths.iter().all(|&n| n <= 3 && n > 0));
    assert_eq!(lengths.iter().sum::<usize>(), 10_000);
}

#[test]
fn the_last_one_is_found_and_places_are_those_of_the_items() {
    four();
    for length in [0, 1, 10, 50_000_usize] {
        let numbers: Vec<usize> = (0..length).map(|i| i * 7919 % 1009).collect();
        let iter = || numbers.par_iter().on_engine();
        for least in [0, 900, 2000] {
            let last = numbers.iter().rposition(|&n| n >= least);
            assert_eq!(iter().position_last(|&n| n >= least), last, "{length}, {least}");
            assert_eq!(iter().find_last(|n| **n >= least), last.map(|at| &numbers[at]));
            let any = iter().position_any(|&n| n >= least);
            assert_eq!(any.is_some(), last.is_some());
            assert!(any.is_none_or(|at| numbers[at] >= least));
        }
    }
}

#[test]
fn what_is_made_for_a_piece_serves_its_items_in_order() {
    four();
    let made = AtomicUsize::new(0);
    let init = || {
        made.fetch_add(1, Relaxed);
        0
    };
    let counted = (0..10_000_usize).into_par_iter().on_engine().map_init(init, |seen, i| {
        *seen += 1;
        (i, *seen)
    });
    assert!(counted.iter().map(|it| it.0).eq(0..10_000));
    let begun = counted.iter().filter(|it| it.1 == 1).count();
    assert_eq!(begun, made.into_inner());
    assert!(counted.windows(2).all(|it| it[1].1 == 1 || it[1].1 == it[0].1 + 1));
}

#[test]
fn the_first_error_stops_a_fold_and_comes_back() {
    four();
    for length in [0, 1, 1000, 50_000_usize] {
        for most in [1, 7, usize::MAX] {
            let iter = || (0..length).into_par_iter().with_max_len(most);
            let sums = iter().on_engine().try_fold(|| 0, |sum, i| Ok::<_, ()>(sum + i));
            let sum = (0..length).sum::<usize>();
            assert_eq!(sums.map(|sums| sums.into_iter().sum::<usize>()), Ok(sum));
            let items = || iter().map(Ok::<_, ()>);
            assert_eq!(items().on_engine().try_reduce(|| 0, |a, b| Ok(a + b)), Ok(sum));
            // In order: what is put together is text.
            let words = iter().map(|i| Ok::<_, ()>(i.to_string()));
            let text = words.on_engine().try_reduce(String::new, |a, b| Ok(a + &b)).unwrap();
            assert_eq!(text, (0..length).map(|i| i.to_string()).collect::<String>());
        }
    }
    let asked = AtomicUsize::new(0);
    let ask = |_, i: u32| {
        asked.fetch_add(1, Relaxed);
        if i >= 3 { Err(i) } else { Ok(()) }
    };
    assert!((0..1_000_000_u32).into_par_iter().on_engine().try_fold(|| (), ask).is_err());
    assert!(asked.into_inner() <= 4 + 4 * 16, "each piece looks before each item");
    let refuses = |a: u32, b: u32| if a + b > 100 { Err(a + b) } else { Ok(a + b) };
    let sum = (0..1000_u32).into_par_iter().map(Ok).on_engine().try_reduce(|| 0, refuses);
    assert!(sum.is_err_and(|sum| sum > 100));
}

/// Says one length, then another one, and has a third one.
struct Wrong {
    said: [usize; 2],
    asked: AtomicUsize,
    has: usize,
}

impl ParallelIterator for Wrong {
    type Item = Box<usize>;

    fn drive_unindexed<C: UnindexedConsumer<Box<usize>>>(self, consumer: C) -> C::Result {
        bridge(self, consumer)
    }
}

impl IndexedParallelIterator for Wrong {
    fn len(&self) -> usize {
        self.said[self.asked.fetch_add(1, Relaxed).min(1)]
    }

    fn drive<C: Consumer<Box<usize>>>(self, consumer: C) -> C::Result {
        bridge(self, consumer)
    }

    fn with_producer<CB: ProducerCallback<Box<usize>>>(self, callback: CB) -> CB::Output {
        let items: Vec<_> = (0..self.has).map(Box::new).collect();
        items.into_par_iter().with_producer(callback)
    }
}

#[test]
fn an_iterator_of_another_length_than_it_says_gives_whole_items_or_a_panic() {
    four();
    for said in [[100, 100], [100, 50], [50, 100], [0, 100], [100, 0], [10, 1000], [1000, 10]] {
        for has in [0, 10, 50, 100, 150] {
            let wrong = Wrong { said, asked: AtomicUsize::new(0), has };
            let collected =
                catch_unwind(AssertUnwindSafe(|| wrong.on_engine().collect::<Vec<_>>()));
            if let Ok(collected) = collected {
                assert!(collected.iter().all(|item| **item < has), "{said:?}, {has}");
            }
        }
    }
}
