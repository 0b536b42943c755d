//! Models of the shipped protocol types, driven by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib slot::model`. Each has
//! a twin with a planted bug that loom must find.

use crate::protocols::slot::{Slot, Supplied};
use crate::protocols::wait_point::{Look, WaitPoint};
use crate::regions::barrier::Barrier;
use crate::regions::barrier::pair::Pair;
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;
use platform::membarrier;
use platform::model::{DEADLOCK, RACE, explore, is_needed, is_refuted};

fn run_two_regions(master_waits_for_join: bool) {
    let slot = Arc::new(Slot::new(0_u32));
    let worker = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || {
            for number in 1..=2 {
                let work = loop {
                    // SAFETY: - this thread is the worker.
                    match unsafe { slot.poll(number - 1) } {
                        Supplied::Work(found, work) => {
                            assert_eq!(found, number, "a descriptor was overwritten");
                            break work;
                        }
                        Supplied::TakenBack(_) => panic!("nothing is recoverable"),
                        Supplied::Nothing => thread::yield_now(),
                    }
                };
                assert_eq!(u64::from(work), number * 10);
                // SAFETY: - this thread plays the worker, and is done with what it polled.
                unsafe { slot.finish(number) };
            }
        })
    };
    for number in 1..=2_u32 {
        // SAFETY: - one master; the planted twin breaks the second condition on purpose.
        unsafe { slot.supply(number * 10, false) };
        while master_waits_for_join && !slot.is_joined() {
            thread::yield_now();
        }
    }
    worker.join().unwrap();
}

#[test]
fn a_supplied_descriptor_is_read_whole_and_once() {
    explore(|| run_two_regions(true));
}

#[test]
fn each_ordering_of_a_supply_line_is_needed() {
    let tags = [("S1", RACE), ("S2", RACE), ("S3", RACE), ("S4", RACE)];
    is_needed("a_supplied_descriptor_is_read_whole_and_once", "src/protocols/slot.rs", &tags);
}

#[test]
fn a_master_that_does_not_wait_for_the_join_is_caught() {
    is_refuted("a_master_that_does_not_wait_for_the_join_is_caught", RACE, || {
        run_two_regions(false)
    });
}

/// Regions whose second part master and worker contend for: each part is run once, by one of them,
/// and what it wrote is seen after the join. The planted worker forgets to claim: it reads the
/// descriptor as if it could not be taken back.
fn contend_for_a_start(worker_claims: bool) {
    const REGIONS: u32 = 3;
    let slot = Arc::new(Slot::new(0_u32));
    let ran: Arc<Vec<AtomicU64>> = Arc::new((0..=REGIONS).map(|_| AtomicU64::new(0)).collect());
    let worker = {
        let (slot, ran) = (Arc::clone(&slot), Arc::clone(&ran));
        thread::spawn(move || {
            let mut last = 0;
            while last < u64::from(REGIONS) {
                // SAFETY: - this thread is the worker.
                match unsafe { slot.poll(last) } {
                    Supplied::Work(number, work) => {
                        assert_eq!(u64::from(work), number);
                        ran[number as usize].fetch_add(1, Relaxed);
                        // SAFETY: - this thread plays the worker, and is done with what it polled.
                        unsafe { slot.finish(number) };
                        last = number;
                    }
                    Supplied::TakenBack(number) => last = number,
                    Supplied::Nothing => thread::yield_now(),
                }
            }
        })
    };
    for number in 1..=REGIONS {
        // SAFETY: - one master; the last region is joined or taken back, unless the twin's plain
        //           supply is taken back against the contract.
        unsafe { slot.supply(number, worker_claims) };
        // SAFETY: - as above.
        if unsafe { slot.take_back() } {
            ran[number as usize].fetch_add(1, Relaxed);
        } else {
            while !slot.is_joined() {
                thread::yield_now();
            }
        }
        assert_eq!(ran[number as usize].load(Relaxed), 1, "run twice, or not seen");
    }
    worker.join().unwrap();
    assert!(ran[1..].iter().all(|times| times.load(Relaxed) == 1));
}

#[test]
fn a_part_that_both_want_to_start_is_run_once() {
    explore(|| contend_for_a_start(true));
}

#[test]
fn each_ordering_of_a_recoverable_supply_is_needed() {
    let unseen = "run twice, or not seen";
    let tags = [("S1", RACE), ("S2", RACE), ("S3", unseen), ("S4", unseen)];
    is_needed("a_part_that_both_want_to_start_is_run_once", "src/protocols/slot.rs", &tags);
}

#[test]
fn a_worker_that_starts_without_claiming_is_caught() {
    is_refuted("a_worker_that_starts_without_claiming_is_caught", RACE, || {
        contend_for_a_start(false)
    });
}

fn sleep_and_wake(with_fence: bool) {
    let shared = Arc::new((WaitPoint::new(), AtomicBool::new(false)));
    let sleeper = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.0.sleep_until(|| Look::from(shared.1.load(Relaxed))))
    };
    shared.1.store(true, Relaxed);
    if with_fence {
        shared.0.notify_all();
    } else if shared.0.has_sleepers() {
        shared.0.wake_sleepers();
    }
    sleeper.join().unwrap();
}

#[test]
fn no_wake_is_lost() {
    explore(|| sleep_and_wake(true));
}

#[test]
fn a_notifier_without_its_fence_loses_a_wake() {
    is_refuted("a_notifier_without_its_fence_loses_a_wake", DEADLOCK, || sleep_and_wake(false));
}

/// Two sleepers with conditions of their own at one place, woken one after the other.
fn wake_two_in_turn() {
    let shared = Arc::new((WaitPoint::new(), [AtomicBool::new(false), AtomicBool::new(false)]));
    let sleepers: Vec<_> = (0..2)
        .map(|me| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.0.sleep_until(|| Look::from(shared.1[me].load(Relaxed))))
        })
        .collect();
    for condition in &shared.1 {
        condition.store(true, Relaxed);
        shared.0.notify_all();
    }
    for sleeper in sleepers {
        sleeper.join().unwrap();
    }
}

#[test]
fn a_wake_for_one_does_not_lose_the_wake_for_another() {
    explore(wake_two_in_turn);
}

#[test]
fn each_fence_of_a_wait_point_and_the_order_of_its_epochs_are_needed() {
    is_needed(
        "no_wake_is_lost",
        "src/protocols/wait_point.rs",
        &[("N2", DEADLOCK), ("W2", DEADLOCK)],
    );
    let tags = [("W1", DEADLOCK), ("N5", DEADLOCK)];
    is_needed(
        "a_wake_for_one_does_not_lose_the_wake_for_another",
        "src/protocols/wait_point.rs",
        &tags,
    );
}

fn supply_to_a_sleeping_worker(with_fence: bool) {
    let shared = Arc::new((Slot::new(0_u32), WaitPoint::new(), WaitPoint::new()));
    let worker = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (slot, idle, join) = &*shared;
            // SAFETY: - this thread is the worker.
            idle.sleep_until(|| Look::from(unsafe { slot.poll(0) } == Supplied::Work(1, 7)));
            // SAFETY: - this thread plays the worker, and is done with what it polled.
            unsafe { slot.finish(1) };
            if with_fence {
                join.notify_all();
            } else if join.has_sleepers() {
                join.wake_sleepers();
            }
        })
    };
    let (slot, idle, join) = &*shared;
    // SAFETY: - one master, nothing supplied before.
    unsafe { slot.supply(7, false) };
    membarrier::light();
    if idle.has_sleepers() {
        idle.wake_sleepers();
    }
    join.sleep_until(|| slot.is_joined().into());
    worker.join().unwrap();
}

#[test]
fn fork_and_join_wake_both_sides() {
    explore(|| supply_to_a_sleeping_worker(true));
}

#[test]
fn an_arrival_without_its_fence_leaves_the_master_asleep() {
    is_refuted("an_arrival_without_its_fence_leaves_the_master_asleep", DEADLOCK, || {
        supply_to_a_sleeping_worker(false)
    });
}

fn meet_at_barrier(member_zero_gathers: bool) {
    let shared = Arc::new((Barrier::new(2), [AtomicU64::new(0), AtomicU64::new(0)]));
    let meet = move |shared: &(Barrier, [AtomicU64; 2]), id: usize| {
        let (barrier, values) = shared;
        for round in 1..=2 {
            values[id].store(round, Relaxed);
            assert_eq!(barrier.arrive(id), round);
            if id == 0 {
                while member_zero_gathers && !barrier.has_arrived(1, round) {
                    thread::yield_now();
                }
                // What `complete` of a barrier looks at.
                assert!(values[1].load(Relaxed) >= round, "a member passed before all had arrived");
                barrier.release_round(round);
            } else {
                while !barrier.is_released(1, round) {
                    thread::yield_now();
                }
            }
            assert!(
                values[1 - id].load(Relaxed) >= round,
                "a member passed before all had arrived"
            );
        }
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || meet(&shared, 1))
    };
    meet(&shared, 0);
    other.join().unwrap();
}

#[test]
fn a_barrier_shows_each_member_what_the_other_wrote() {
    explore(|| meet_at_barrier(true));
}

#[test]
fn each_ordering_of_a_barrier_is_needed() {
    let early = "a member passed before all had arrived";
    let tags = [("B1", early), ("B2", early), ("B3", early), ("B4", early)];
    is_needed("a_barrier_shows_each_member_what_the_other_wrote", "src/regions/barrier.rs", &tags);
}

#[test]
fn a_barrier_that_opens_early_is_caught() {
    is_refuted(
        "a_barrier_that_opens_early_is_caught",
        "a member passed before all had arrived",
        || meet_at_barrier(false),
    );
}

/// Two rounds; in the first one member 1 knows of work, which member 0 does. `says_so`: and tells;
/// `is_ahead`: member 1 arrives before it has written what the round shows.
fn meet_in_pairs(says_so: bool, is_ahead: bool) {
    let shared =
        Arc::new((Pair::new(), [AtomicU64::new(0), AtomicU64::new(0)], AtomicBool::new(false)));
    let meet = move |shared: &(Pair, [AtomicU64; 2], AtomicBool), id: usize| {
        let (pair, values, is_done) = shared;
        for number in 1..=2 {
            let has_work = id == 1 && number == 1;
            let write = || values[id].store(number, Relaxed);
            if !is_ahead || id == 0 {
                write();
            }
            let round = pair.arrive(id, number, has_work && says_so);
            if is_ahead && id == 1 {
                write();
            }
            while !pair.is_over(round) {
                if id == 0 && pair.is_met(round) && !pair.is_over(round) {
                    is_done.store(true, Relaxed);
                    pair.close(round);
                    break;
                }
                thread::yield_now();
            }
            let seen = values[1 - id].load(Relaxed);
            assert!(seen >= number, "what the other wrote before the barrier is not seen");
            assert!(is_done.load(Relaxed), "a member left before the work was complete");
        }
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || meet(&shared, 1))
    };
    meet(&shared, 0);
    other.join().unwrap();
}

/// A region with two rounds, and another one with one. Member 1 leaves its last round of the first
/// region without waiting, where member 0 knows of work.
fn leave_the_last_of_a_pair() {
    let word = || AtomicU64::new(0);
    let shared =
        Arc::new((Pair::new(), [word(), word()], AtomicBool::new(false), AtomicBool::new(false)));
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (pair, values, joined, forked) = &*shared;
            values[1].store(1, Relaxed);
            pair.arrive(1, 1, false);
            joined.store(true, Release);
            while !forked.load(Acquire) {
                thread::yield_now();
            }
            values[1].store(2, Relaxed);
            let round = pair.arrive(1, 2, false);
            while !pair.is_over(round) {
                thread::yield_now();
            }
            assert_eq!(
                values[0].load(Relaxed),
                2,
                "what the other wrote before the barrier is not seen"
            );
        })
    };
    let (pair, values, joined, forked) = &*shared;
    values[0].store(1, Relaxed);
    let round = pair.arrive(0, 1, true);
    while !pair.is_met(round) {
        thread::yield_now();
    }
    assert_eq!(values[1].load(Relaxed), 1, "what the other wrote before the barrier is not seen");
    pair.close(round);
    while !joined.load(Acquire) {
        thread::yield_now();
    }
    values[0].store(2, Relaxed);
    forked.store(true, Release);
    let round = pair.arrive(0, 2, false);
    while !pair.is_over(round) {
        thread::yield_now();
    }
    assert_eq!(values[1].load(Relaxed), 2, "what the other wrote before the barrier is not seen");
    other.join().unwrap();
}

#[test]
fn a_member_that_leaves_the_last_barrier_of_a_region_is_met_there_and_meets_the_other_in_the_next_region()
 {
    explore(leave_the_last_of_a_pair);
}

#[test]
fn two_meet_see_what_the_other_wrote_and_wait_for_work_that_one_knows_of() {
    explore(|| meet_in_pairs(true, false));
}

#[test]
fn each_ordering_of_a_pair_is_needed() {
    let (unseen, early) = (
        "what the other wrote before the barrier is not seen",
        "a member left before the work was complete",
    );
    let tags = [("P1", unseen), ("P2", unseen), ("P3", early), ("P4", early)];
    is_needed(
        "two_meet_see_what_the_other_wrote_and_wait_for_work_that_one_knows_of",
        "src/regions/barrier/pair.rs",
        &tags,
    );
}

#[test]
fn a_member_of_a_pair_that_hides_its_work_is_caught() {
    is_refuted(
        "a_member_of_a_pair_that_hides_its_work_is_caught",
        "a member left before the work was complete",
        || meet_in_pairs(false, false),
    );
}

#[test]
fn a_member_of_a_pair_that_arrives_ahead_of_its_writes_is_caught() {
    is_refuted(
        "a_member_of_a_pair_that_arrives_ahead_of_its_writes_is_caught",
        "what the other wrote before the barrier is not seen",
        || meet_in_pairs(true, true),
    );
}

#[test]
fn acquire_and_release_are_what_loom_checks() {
    // Guards the models themselves: without the pair, loom must see the old value.
    is_refuted(
        "acquire_and_release_are_what_loom_checks",
        "the store before it is not seen",
        || {
            let shared = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.0.store(1, Relaxed);
                    shared.1.store(true, Relaxed);
                })
            };
            if shared.1.load(Acquire) {
                assert_eq!(shared.0.load(Relaxed), 1, "the store before it is not seen");
            }
            writer.join().unwrap();
            shared.1.store(false, Release);
        },
    );
}
