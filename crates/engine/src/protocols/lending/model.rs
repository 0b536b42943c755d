//! Models of groups, on the shipped types: workers that change their master and come back, and
//! lending that grows and shrinks.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib lending::model`. Each
//! has a twin with a planted bug that loom must find.

use crate::protocols::lending::Lender;
use crate::protocols::slot::{Slot, Supplied};
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{self, Acquire, Relaxed, Release},
};
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;

/// Plays the worker of `slot` for region `number`, which works on `data`. Which thread
/// plays it changes, so that two threads are enough: what it knows is less than a thread of its own
/// would know.
fn serve(slot: &Slot<u32>, data: &SharedCell, number: u64) {
    // SAFETY: - one thread at a time plays the worker.
    let Supplied::Work(found, work) = (unsafe { slot.poll(number - 1) }) else {
        panic!("the numbers go on, whichever thread supplies");
    };
    assert_eq!(found, number, "each descriptor is seen");
    assert_eq!(u64::from(work), number * 10, "descriptors come in the order of the masters");
    data.add_one();
    // SAFETY: - this thread plays the worker, and is done with what it polled.
    unsafe { slot.finish(number) };
}

/// Waits, as the master of a group, for its own descriptor.
fn await_supply(own: &Slot<u32>) {
    // SAFETY: - the calling thread is the worker of `own`.
    while unsafe { own.poll(0) } == Supplied::Nothing {
        thread::yield_now();
    }
}

/// Memory that regions work on: loom finds accesses that nothing orders.
struct SharedCell(HandCell<u32>);

// SAFETY: - what the models are to prove: the protocol orders all accesses.
unsafe impl Sync for SharedCell {}

impl SharedCell {
    fn new() -> Self {
        Self(HandCell::new(0))
    }

    fn add_one(&self) {
        // SAFETY: - as above.
        unsafe { self.0.with_mut(|value| *value += 1) };
    }

    fn get(&self) -> u32 {
        // SAFETY: - as above.
        unsafe { self.0.with(|value| *value) }
    }
}

/// The group's master has the worker before the outer master has it again.
fn take_a_processor_back_from_a_group(group_joins: bool, arrives_in_order: bool) {
    let shared =
        Arc::new((Slot::new(0_u32), Slot::new(0_u32), SharedCell::new(), AtomicU32::new(0)));
    let group_master = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (worker, own, data, arrived) = &*shared;
            await_supply(own);
            // SAFETY: - the group's master is the worker's only one until it arrives.
            unsafe { worker.supply(10, false) };
            if group_joins {
                serve(worker, data, 1);
                assert!(worker.is_joined());
            }
            if arrives_in_order {
                // SAFETY: - this thread plays the worker, and is done with what it polled.
                unsafe { own.finish(1) };
            } else {
                arrived.store(1, Relaxed);
            }
            if !group_joins {
                serve(worker, data, 1);
            }
        })
    };
    let (worker, group, data, arrived) = &*shared;
    // SAFETY: - one outer master.
    unsafe { group.supply(1, false) };
    while !(group.is_joined() || arrived.load(Relaxed) == 1) {
        thread::yield_now();
    }
    // SAFETY: - the group has arrived; the planted twins break that on purpose.
    unsafe { worker.supply(20, false) };
    serve(worker, data, 2);
    assert_eq!(data.get(), 2);
    group_master.join().unwrap();
}

#[test]
fn a_processor_comes_back_from_a_group_with_its_numbers_in_order() {
    explore(|| take_a_processor_back_from_a_group(true, true));
}

#[test]
fn a_group_master_that_arrives_before_its_worker_is_caught() {
    is_refuted("a_group_master_that_arrives_before_its_worker_is_caught", RACE, || {
        take_a_processor_back_from_a_group(false, true);
    });
}

#[test]
fn an_arrival_without_release_is_caught() {
    is_refuted("an_arrival_without_release_is_caught", RACE, || {
        take_a_processor_back_from_a_group(true, false)
    });
}

/// The outer master used the worker before it gave it to the group.
fn give_a_used_processor_to_a_group(outer_joins: bool) {
    let shared = Arc::new((Slot::new(0_u32), Slot::new(0_u32), SharedCell::new()));
    let group_master = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (worker, own, data) = &*shared;
            await_supply(own);
            // SAFETY: - the outer master gave the worker away.
            unsafe { worker.supply(20, false) };
            serve(worker, data, 2);
            assert_eq!(data.get(), 2);
            // SAFETY: - this thread plays the worker, and is done with what it polled.
            unsafe { own.finish(1) };
        })
    };
    let (worker, group, data) = &*shared;
    // SAFETY: - the outer master is the worker's only one until it supplies the group.
    unsafe { worker.supply(10, false) };
    if outer_joins {
        serve(worker, data, 1);
        assert!(worker.is_joined());
    }
    // SAFETY: - one outer master.
    unsafe { group.supply(1, false) };
    if !outer_joins {
        serve(worker, data, 1);
    }
    while !group.is_joined() {
        thread::yield_now();
    }
    assert_eq!(data.get(), 2);
    group_master.join().unwrap();
}

#[test]
fn a_group_master_goes_on_from_the_numbers_of_the_outer_master() {
    explore(|| give_a_used_processor_to_a_group(true));
}

#[test]
fn a_processor_given_away_before_its_join_is_caught() {
    is_refuted("a_processor_given_away_before_its_join_is_caught", RACE, || {
        give_a_used_processor_to_a_group(false)
    });
}

#[test]
fn each_ordering_of_a_line_is_needed_where_masters_change() {
    let tags = [("S1", RACE), ("S2", RACE), ("S3", RACE), ("S4", RACE)];
    is_needed(
        "a_processor_comes_back_from_a_group_with_its_numbers_in_order",
        "src/protocols/slot.rs",
        &tags,
    );
    is_needed(
        "a_group_master_goes_on_from_the_numbers_of_the_outer_master",
        "src/protocols/slot.rs",
        &tags,
    );
}

/// One thing is lent to a member in the first region; in the second one the lender's team has grown
/// over it.
fn take_back_what_was_lent(looks_at_the_number: bool, supplies_in_order: bool, supply: Ordering) {
    let shared = Arc::new((
        Lender::new(),
        [SharedCell::new(), SharedCell::new()],
        AtomicU32::new(0),
        AtomicU32::new(0),
    ));
    let (lender, things, supplied, arrived) = &*shared;
    lender.lend(&[0_usize, 1], 2);
    let member = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (lender, things, supplied, arrived) = &*shared;
            let kept_number = lender.generation();
            let kept = lender.borrow(1, 0);
            kept.iter().for_each(|&thing| things[thing].add_one());
            arrived.store(1, Release);
            while supplied.load(Acquire) != 2 {
                thread::yield_now();
            }
            if !looks_at_the_number || lender.generation() == kept_number {
                kept.iter().for_each(|&thing| things[thing].add_one());
            }
        })
    };
    // The lender's own member forks, too.
    lender.borrow(1, 0).iter().for_each(|&thing| things[thing].add_one());
    while arrived.load(Acquire) != 1 {
        thread::yield_now();
    }
    if supplies_in_order {
        lender.lend(&[], 1);
        supplied.store(2, supply);
    } else {
        supplied.store(2, supply);
        lender.lend(&[], 1);
    }
    things.iter().for_each(SharedCell::add_one);
    member.join().unwrap();
    assert_eq!(things.iter().map(SharedCell::get).sum::<u32>(), 4);
}

#[test]
fn what_was_lent_is_used_by_one_at_a_time_also_after_the_team_grew() {
    explore(|| take_back_what_was_lent(true, true, Release));
}

#[test]
fn a_borrower_that_keeps_what_was_taken_back_is_caught() {
    is_refuted("a_borrower_that_keeps_what_was_taken_back_is_caught", RACE, || {
        take_back_what_was_lent(false, true, Release)
    });
}

#[test]
fn a_lender_that_forks_before_it_takes_back_is_caught() {
    is_refuted("a_lender_that_forks_before_it_takes_back_is_caught", RACE, || {
        take_back_what_was_lent(true, false, Release)
    });
}

#[test]
fn a_lender_whose_supply_orders_nothing_is_caught() {
    is_refuted("a_lender_whose_supply_orders_nothing_is_caught", RACE, || {
        take_back_what_was_lent(true, true, Relaxed);
    });
}
