//! Rayon's own threads are never created. One test, so that no other test's threads come and go.

use nanothreads::Team;
use nanothreads_rayon::OnEngine;
use rayon::prelude::*;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the kernel lists threads").count()
}

#[test]
fn iterators_create_no_thread_beside_the_engines() {
    nanothreads::builder().threads(3).install().expect("nothing was forked before");
    let before = threads();
    assert_eq!(Team::available().map(|_| ()).len(), 3);
    assert_eq!(threads(), before + 2, "virtual processors");
    let numbers: Vec<usize> = (0..10_000).collect();
    let sum: usize = numbers.par_iter().zip(&numbers).map(|(a, b)| a + b).rev().on_engine().sum();
    assert_eq!(sum, 99_990_000);
    let collected: Vec<usize> =
        numbers.into_par_iter().enumerate().map(|(i, n)| i + n).on_engine().collect();
    assert_eq!(collected[5_000], 10_000);
    assert_eq!(threads(), before + 2, "rayon started threads of its own");
    // What the test can see: rayon's own `sum` does start them.
    assert_eq!((0..100).into_par_iter().sum::<usize>(), 4_950);
    assert!(
        threads() > before + 2,
        "rayon's own drive starts its threads, which this test would have seen"
    );
}
