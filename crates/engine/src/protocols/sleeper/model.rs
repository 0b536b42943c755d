//! Models of sleeping and waking, on the shipped types: barriers that are not due, wakes that
//! others pass on.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib sleeper::model`. Each
//! has a twin with a planted bug that loom must find.

use crate::protocols::sleeper::{Preparation, Sleeper, wake};
use crate::protocols::wait_point::Look;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use platform::futex::PrivateFutex;
use platform::membarrier;
use platform::model::{DEADLOCK, explore, is_needed, is_refuted};

/// A sleeper whose barrier is not due, since it had one before, and a waker. The planted sleeper
/// sleeps as if it had been.
fn sleep_without_a_barrier(only_for_a_while: bool) {
    let shared = Arc::new((PrivateFutex::new(0), AtomicBool::new(false)));
    let sleeper = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (asleep, condition) = &*shared;
            assert!(membarrier::heavy_if_due().is_none(), "a thread's first one is due");
            loop {
                asleep.word().store(1, Relaxed);
                let limit = membarrier::heavy_if_due();
                if condition.load(Relaxed) {
                    break;
                }
                let _ = asleep.wait(1, limit.filter(|_| only_for_a_while));
            }
        })
    };
    let (asleep, condition) = &*shared;
    condition.store(true, Relaxed);
    membarrier::light();
    if asleep.word().swap(0, Relaxed) == 1 {
        asleep.wake(1);
    }
    sleeper.join().unwrap();
}

#[test]
fn a_sleeper_whose_barrier_is_not_due_comes_back_by_the_clock() {
    explore(|| sleep_without_a_barrier(true));
}

#[test]
fn a_sleeper_that_sleeps_on_without_a_barrier_is_caught() {
    is_refuted("a_sleeper_that_sleeps_on_without_a_barrier_is_caught", DEADLOCK, || {
        sleep_without_a_barrier(false)
    });
}

/// Nothing to do before a wake.
const NOTHING: Preparation<()> = Preparation { before: |()| {}, in_vain: |()| {} };

/// Sleepers, each with a condition of its own.
struct Row<const COUNT: usize> {
    sleepers: [&'static Sleeper<()>; COUNT],
    conditions: [AtomicBool; COUNT],
}

impl<const COUNT: usize> Row<COUNT> {
    fn new() -> Arc<Self> {
        let sleeper = |_| -> &'static Sleeper<()> { Box::leak(Box::new(Sleeper::new(()))) };
        Arc::new(Self {
            sleepers: std::array::from_fn(sleeper),
            conditions: std::array::from_fn(|_| AtomicBool::new(false)),
        })
    }

    fn sleep(&self, place: usize) {
        self.sleepers[place]
            .sleep_until(|| Look::from(self.conditions[place].load(Relaxed)), NOTHING);
    }

    /// Makes all conditions true and wakes the threads that may sleep.
    fn wake_all(&self) {
        for condition in &self.conditions {
            condition.store(true, Relaxed);
        }
        // ORDERING: light fence (K1) - pairs with the sleeper's heavy one.
        membarrier::light();
        let asleep: Vec<_> =
            self.sleepers.iter().copied().filter(|sleeper| sleeper.may_sleep()).collect();
        wake(&asleep, NOTHING);
    }
}

fn wake_one() {
    let row = Row::<1>::new();
    let sleeper = {
        let row = Arc::clone(&row);
        thread::spawn(move || row.sleep(0))
    };
    row.wake_all();
    sleeper.join().unwrap();
}

#[test]
fn one_sleeper_is_woken() {
    explore(wake_one);
}

#[test]
fn the_fences_of_waker_and_sleeper_are_needed() {
    is_needed("one_sleeper_is_woken", "src/protocols/sleeper/model.rs", &[("K1", DEADLOCK)]);
    is_needed("one_sleeper_is_woken", "src/protocols/sleeper.rs", &[("W2", DEADLOCK)]);
    let others = [("K1 of three", DEADLOCK)];
    is_needed(
        "a_wake_that_was_left_to_a_member_that_is_awake_by_then_is_not_lost",
        "src/protocols/sleeper/model.rs",
        &others,
    );
    // A sleeper that does not ask before it wakes has the exchanges, too.
    let together = [("W1 and W2", DEADLOCK)];
    is_needed(
        "a_wake_is_passed_on_by_a_sleeper_that_sleeps_again",
        "src/protocols/sleeper.rs",
        &together,
    );
}

/// Three sleepers, the third hung below the first. The first two may leave by themselves at any
/// moment. `passes_on`: the waker wakes the first two as shipped; else as if a wake of a sleeper
/// that is awake were the end of it.
fn wake_three(passes_on: bool) {
    let row = Row::<3>::new();
    let sleepers: Vec<_> = [0, 2]
        .map(|place| {
            let row = Arc::clone(&row);
            thread::spawn(move || row.sleep(place))
        })
        .into_iter()
        .collect();
    for condition in &row.conditions {
        condition.store(true, Relaxed);
    }
    // ORDERING: light fence (K1 of three) - as above.
    membarrier::light();
    // The second does not sleep; it stands for others that the waker visits.
    let asleep: Vec<_> = [0, 1, 2]
        .into_iter()
        .filter(|&place| row.sleepers[place].may_sleep() || place == 1)
        .collect();
    let woken: Vec<_> = asleep.iter().map(|&place| row.sleepers[place]).collect();
    if passes_on {
        wake(&woken, NOTHING);
    } else {
        let (mine, rest) = woken.split_at(woken.len().min(2));
        rest.iter().for_each(|sleeper| assert!(mine[0].hang(sleeper), "both places are free"));
        for sleeper in mine {
            sleeper.wake_if_asleep();
        }
    }
    for sleeper in sleepers {
        sleeper.join().unwrap();
    }
}

#[test]
fn a_wake_that_was_left_to_a_member_that_is_awake_by_then_is_not_lost() {
    explore(|| wake_three(true));
}

#[test]
fn a_waker_that_forgets_the_branch_of_a_sleeper_that_is_awake_is_caught() {
    is_refuted(
        "a_waker_that_forgets_the_branch_of_a_sleeper_that_is_awake_is_caught",
        DEADLOCK,
        || wake_three(false),
    );
}

/// The first sleeper has left by itself, and sleeps for something else, when the third is left to
/// it: it must pass the wake on at once, because what it waits for now comes only when the third
/// has left.
#[test]
fn a_wake_is_passed_on_by_a_sleeper_that_sleeps_again() {
    explore(|| {
        let row = Row::<3>::new();
        let again = Arc::new(AtomicBool::new(false));
        let first = {
            let (row, again) = (Arc::clone(&row), Arc::clone(&again));
            thread::spawn(move || {
                row.sleep(0);
                row.sleepers[0].sleep_until(|| Look::from(again.load(Relaxed)), NOTHING);
            })
        };
        let third = {
            let row = Arc::clone(&row);
            thread::spawn(move || row.sleep(2))
        };
        for condition in &row.conditions {
            condition.store(true, Relaxed);
        }
        membarrier::light();
        wake(&row.sleepers, NOTHING);
        third.join().unwrap();
        again.store(true, Relaxed);
        membarrier::light();
        wake(&row.sleepers[..1], NOTHING);
        first.join().unwrap();
    });
}
