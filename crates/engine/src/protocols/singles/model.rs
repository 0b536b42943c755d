//! Models of members that come to singles, on the shipped type.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib singles::model`. Beside
//! them stands a model with a planted bug, which loom must find. No ordering is weakened: all are
//! Relaxed.

use crate::protocols::singles::Singles;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;
use platform::model::{explore, is_refuted};

const ONCE: &str = "each single is run by one member";

/// `members` come to two singles each, with `numbers`.
fn singles(members: usize, numbers: [u32; 2]) {
    let shared = Arc::new((Singles::default(), [(); 2].map(|()| AtomicU32::new(0))));
    let member = move |shared: &(Singles, [AtomicU32; 2])| {
        for (number, runs) in numbers.into_iter().zip(&shared.1) {
            if shared.0.begin(number, members) {
                runs.fetch_add(1, Relaxed);
            }
        }
    };
    let others: Vec<_> = (1..members)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || member(&shared))
        })
        .collect();
    member(&shared);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert!(shared.1.iter().all(|runs| runs.load(Relaxed) == 1), "{ONCE}");
}

#[test]
fn each_single_is_run_by_one_of_two() {
    explore(|| singles(2, [0, 1]));
}

#[test]
fn each_single_is_run_by_one_of_three() {
    explore(|| singles(3, [0, 1]));
}

#[test]
fn a_member_that_does_not_count_its_singles_is_caught() {
    is_refuted("a_member_that_does_not_count_its_singles_is_caught", ONCE, || {
        singles(2, [0, 0]);
    });
}
