//! Models of the park word: a wake is never lost. The twins without either fence are refuted.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-arena --test loom_park \
//!     --target-dir target/loom
//! ```
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use nanothreads_arena::park::ParkWord;
use platform::model::{DEADLOCK, explore, is_needed};

/// The sleeper's side: sleeps until the turn is its own. A lost wake is a deadlock, which loom
/// reports.
fn sleep_until(word: &ParkWord, turn: &AtomicBool) {
    loop {
        word.prepare();
        if turn.load(Ordering::Relaxed) {
            word.cancel();
            return;
        }
        word.sleep(None);
    }
}

#[test]
fn a_sleeper_never_misses_what_the_manager_grants() {
    explore(|| {
        let shared = Arc::new((ParkWord::default(), AtomicBool::new(false)));
        let manager = Arc::clone(&shared);
        let waker = loom::thread::spawn(move || {
            manager.1.store(true, Ordering::Relaxed);
            manager.0.wake();
        });
        sleep_until(&shared.0, &shared.1);
        waker.join().unwrap();
    });
}

#[test]
fn of_two_wakers_neither_loses_the_wake_to_the_other() {
    explore(|| {
        let shared = Arc::new((ParkWord::default(), AtomicBool::new(false)));
        // One of them brings what the sleeper waits for, the other only wakes.
        let wakers = [true, false].map(|brings| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || {
                if brings {
                    shared.1.store(true, Ordering::Relaxed);
                }
                shared.0.wake();
            })
        });
        sleep_until(&shared.0, &shared.1);
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

#[test]
fn both_fences_are_needed() {
    let tags = [("park.prepare", DEADLOCK), ("park.wake", DEADLOCK)];
    is_needed("a_sleeper_never_misses_what_the_manager_grants", "src/park.rs", &tags);
    is_needed("of_two_wakers_neither_loses_the_wake_to_the_other", "src/park.rs", &tags);
}
