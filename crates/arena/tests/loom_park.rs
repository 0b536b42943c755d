//! Models of the park word: a wake is never lost. The twin without the waker's fence is refuted.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-arena --test loom_park --target-dir target/loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use nanothreads_arena::park::ParkWord;

mod planted;
use planted::{explore, is_refuted};

/// The sleeper's side: sleeps until the turn is its own. A lost wake is a deadlock, which loom reports.
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

/// The planted bug: the waker looks whether anybody sleeps without the full fence after its store.
#[test]
fn a_waker_without_its_fence_is_refuted() {
    is_refuted("a_waker_without_its_fence_is_refuted", || {
        let shared = Arc::new((ParkWord::default(), AtomicBool::new(false)));
        let manager = Arc::clone(&shared);
        let waker = loom::thread::spawn(move || {
            manager.1.store(true, Ordering::Release);
            if manager.0.is_parked() {
                manager.0.wake();
            }
        });
        sleep_until(&shared.0, &shared.1);
        waker.join().unwrap();
    });
}
