//! orx-parallel's iterators on the engine: results as the standard library's, no thread but the
//! engine's, panics.

use nanothreads::{Team, groups};
use nanothreads_orx::runner;
use orx_parallel::*;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once};
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
    for length in [0_usize, 1, 2, 1000, 20_000] {
        let numbers: Vec<usize> = (0..length).collect();
        let map: Vec<_> = numbers.par().runner(runner()).map(|n| n * 3).collect();
        assert_eq!(map, numbers.iter().map(|n| n * 3).collect::<Vec<_>>());
        let kept: Vec<_> = numbers.par().runner(runner()).copied().filter(|n| n % 7 == 0).collect();
        assert_eq!(kept, numbers.iter().copied().filter(|n| n % 7 == 0).collect::<Vec<_>>());
        let sum: usize = (0..length).into_par().runner(runner()).sum();
        assert_eq!(sum, numbers.iter().sum::<usize>());
        let most = (0..length).into_par().runner(runner()).max();
        assert_eq!(most, numbers.iter().copied().max());
    }
}

#[test]
fn work_runs_on_the_engines_threads_only() {
    four();
    let own: HashSet<_> = Team::exact(4)
        .expect("the system gives threads")
        .map(|_| thread::current().id())
        .into_iter()
        .collect();
    let seen = Mutex::new(HashSet::new());
    (0..10_000_usize).into_par().runner(runner()).for_each(|_| {
        seen.lock().expect("nothing panics").insert(thread::current().id());
    });
    assert!(seen.into_inner().expect("nothing panics").is_subset(&own));
}

#[test]
fn computations_stay_in_the_group_around_them() {
    four();
    let sums = groups().equal(2).map(|group| -> usize {
        (0..1000 * (group.index() + 1)).into_par().runner(runner()).sum()
    });
    assert_eq!(sums, [499_500, 1_999_000]);
}

#[test]
fn a_panic_reaches_the_caller_and_the_engine_goes_on() {
    four();
    for _ in 0..20 {
        let run = || {
            (0..1000_usize).into_par().runner(runner()).for_each(|n| assert!(n != 500, "planted"))
        };
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        let count = AtomicUsize::new(0);
        (0..100_usize).into_par().runner(runner()).for_each(|_| {
            count.fetch_add(1, Relaxed);
        });
        assert_eq!(count.into_inner(), 100);
    }
}
