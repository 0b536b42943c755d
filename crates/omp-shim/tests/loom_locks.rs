//! Models of the locks in a program's memory, on the shipped source.
//! `RUSTFLAGS="--cfg loom" cargo test --profile bench -p omp-shim --test loom_locks`. Each ordering
//! has a twin in which it is lost.
#![cfg(loom)]

// Loom takes the file itself: the crate is a library for C, and shows no Rust name.
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/lock.rs"]
mod lock;

use lock::{NestLock, OldNestLock, SimpleLock};
use loom::thread;
use platform::model::{DEADLOCK, RACE, explore, is_needed, is_refuted};
use platform::sync::{Arc, HandCell};

/// What a lock guards: plain memory, whose accesses loom checks.
#[derive(Default)]
struct Guarded<L> {
    lock: L,
    count: HandCell<u32>,
}

// SAFETY: - `count` is touched by the thread that holds `lock`, which is what the models show.
unsafe impl<L> Sync for Guarded<L> {}
// SAFETY: - a lock and a number.
unsafe impl<L> Send for Guarded<L> {}

impl<L> Guarded<L> {
    /// By the thread that holds the lock.
    fn count(&self) {
        // SAFETY: - the caller holds the lock.
        unsafe { self.count.with_mut(|count| *count += 1) };
    }
}

/// Threads 1 and 2, and this one as 3, do `work` once each; the count is that of `each` of them.
fn three<L: Default + 'static>(threads: usize, each: u32, work: fn(&Guarded<L>, usize)) {
    let guarded = Arc::new(Guarded::<L>::default());
    let others: Vec<_> = (1..threads)
        .map(|number| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || work(&guarded, number))
        })
        .collect();
    work(&guarded, threads);
    others.into_iter().for_each(|other| other.join().unwrap());
    // SAFETY: - all others have ended.
    let count = unsafe { guarded.count.with(|count| *count) };
    assert_eq!(count, each * u32::try_from(threads).unwrap(), "a turn is lost");
}

fn simple(guarded: &Guarded<SimpleLock>, _: usize) {
    guarded.lock.take();
    guarded.count();
    guarded.lock.free();
}

#[test]
fn a_simple_lock_excludes_and_wakes_a_waiting_thread() {
    explore(|| three(2, 1, simple));
}

#[test]
fn a_simple_lock_excludes_three() {
    platform::model::explore_within(2, || three(3, 1, simple));
}

#[test]
fn a_simple_lock_that_is_only_tried_excludes() {
    explore(|| {
        let guarded = Arc::new(Guarded::<SimpleLock>::default());
        let other = {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || simple(&guarded, 0))
        };
        if guarded.lock.try_take() {
            guarded.count();
            guarded.lock.free();
        }
        other.join().unwrap();
    });
}

#[test]
fn the_orderings_of_a_simple_lock_are_needed() {
    let file = "src/lock.rs";
    is_needed("a_simple_lock_that_is_only_tried_excludes", file, &[("L1", RACE)]);
    is_needed(
        "a_simple_lock_excludes_and_wakes_a_waiting_thread",
        file,
        &[("L2", RACE), ("L3", RACE)],
    );
}

/// A lock whose holder frees it as if no thread could sleep.
fn freed_without_a_wake(guarded: &Guarded<SimpleLock>, _: usize) {
    guarded.lock.take();
    guarded.lock.reset();
}

#[test]
fn a_holder_that_wakes_no_thread_is_caught() {
    is_refuted("a_holder_that_wakes_no_thread_is_caught", DEADLOCK, || {
        three(2, 0, freed_without_a_wake)
    });
}

fn nested(guarded: &Guarded<NestLock>, owner: usize) {
    guarded.lock.take(owner);
    guarded.count();
    assert_eq!(guarded.lock.try_take(owner), 2, "the owner may take it again");
    guarded.count();
    guarded.lock.free();
    guarded.count();
    guarded.lock.free();
}

#[test]
fn a_nestable_lock_is_its_owner_s_until_it_gave_all_of_it_back() {
    explore(|| three(2, 3, nested));
}

/// The owner gives it back once too early.
fn given_back_too_early(guarded: &Guarded<NestLock>, owner: usize) {
    guarded.lock.take(owner);
    guarded.lock.free();
    guarded.count();
}

#[test]
fn an_owner_that_gives_a_nestable_lock_back_too_early_is_caught() {
    let name = "an_owner_that_gives_a_nestable_lock_back_too_early_is_caught";
    is_refuted(name, RACE, || three(2, 1, given_back_too_early));
}

fn nested_of_old(guarded: &Guarded<OldNestLock>, thread: usize) {
    let thread = i32::try_from(thread).unwrap();
    guarded.lock.take(thread);
    guarded.count();
    assert_eq!(guarded.lock.try_take(thread), 2, "the owner may take it again");
    guarded.lock.free();
    guarded.count();
    guarded.lock.free();
}

#[test]
fn an_old_nestable_lock_is_its_owner_s_until_it_gave_all_of_it_back() {
    explore(|| three(2, 2, nested_of_old));
}

#[test]
fn the_orderings_of_an_old_nestable_lock_are_needed() {
    let name = "an_old_nestable_lock_is_its_owner_s_until_it_gave_all_of_it_back";
    is_needed(name, "src/lock.rs", &[("N1", RACE), ("N2", RACE)]);
}
