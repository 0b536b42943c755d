//! Models of the constructs of an overlap, driven by loom: several open at once on the same rings
//! of lines, and on the same broadcast ring.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads --lib papers::overlap::model`. Each
//! has a twin with a planted bug that loom must find.

use crate::papers::overlap::constructs::{Constructs, Follower, Leader, OPEN, WorkWords};
use engine::Member;
use engine::wait_point::{Look, WaitPoint};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;
use platform::model::{RACE, explore_within, is_needed, is_refuted};
use std::ptr;

/// What may be wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A worker arrives before it has done its part.
    EarlyArrival,
    /// The master supplies a place again that it has not recorded.
    FullRing,
    /// The master takes the worker's last arrival for that of the oldest construct.
    Skipped,
}

struct Shared {
    constructs: Constructs,
    news: WaitPoint,
    arrivals: WaitPoint,
    /// What the worker's part of each construct wrote: plain but for the type.
    wrote: [AtomicU64; 4],
}

/// # Safety
/// - None: it is not called.
unsafe fn nothing(_: *const (), _: Member) {}

/// Construct `number`, told by its data.
fn part(number: usize) -> WorkWords {
    WorkWords::new(nothing, ptr::without_provenance(number + 1))
}

/// One worker, `total` constructs, of which two may be open; both sides may sleep.
fn overlap(is_global: bool, total: usize, planted: Planted) {
    assert_eq!(OPEN, 2);
    let shared = Arc::new(Shared {
        constructs: Constructs::new(1, is_global),
        news: WaitPoint::new(),
        arrivals: WaitPoint::new(),
        wrote: std::array::from_fn(|_| AtomicU64::new(0)),
    });
    let mut leader = Leader::new(&shared.constructs);
    let worker = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let mut follower = Follower::new(0);
            for number in 0..total {
                let mut found = None;
                shared.news.sleep_until(|| {
                    // SAFETY: - this thread is the worker, which has arrived from what it found
                    // before.
                    found = unsafe { follower.look(&shared.constructs) };
                    Look::from(found.is_some())
                });
                let data = found.and_then(WorkWords::work).map(|(_, data)| data.addr());
                assert_eq!(data, Some(number + 1), "a construct was lost, or came twice");
                if planted == Planted::EarlyArrival {
                    // SAFETY: - not so: the twin.
                    unsafe { follower.arrive(&shared.constructs) };
                    shared.wrote[number].store(1, Relaxed);
                } else {
                    shared.wrote[number].store(1, Relaxed);
                    // SAFETY: - this thread is the worker, and is done with what it found.
                    unsafe { follower.arrive(&shared.constructs) };
                }
                shared.arrivals.notify_all();
            }
        })
    };
    let open = if planted == Planted::FullRing { total } else { OPEN };
    let complete = |leader: &mut Leader| {
        let number = leader.oldest() as usize;
        shared.arrivals.sleep_until(|| leader.has_arrived(&shared.constructs, 0).into());
        assert_eq!(shared.wrote[number].load(Relaxed), 1, "joined before it was done");
        leader.record_oldest();
        if planted == Planted::Skipped && number == 0 {
            // As if an arrival counted for all that was forked before it.
            leader.record_oldest();
            assert_eq!(shared.wrote[1].load(Relaxed), 1, "joined before it was done");
        }
    };
    for number in 0..total {
        if number >= open {
            complete(&mut leader);
        }
        // SAFETY: - one leader; fewer than OPEN are open, but for the twin; the parts are never
        // run.
        unsafe { leader.supply(&shared.constructs, part(number)) };
        shared.news.notify_all();
    }
    while (leader.oldest() as usize) < total {
        complete(&mut leader);
    }
    worker.join().unwrap();
}

#[test]
fn two_constructs_are_open_on_the_same_lines() {
    explore_within(2, || overlap(false, 2, Planted::Nothing));
}

#[test]
fn two_constructs_are_open_on_the_same_broadcast_ring() {
    explore_within(2, || overlap(true, 2, Planted::Nothing));
}

#[test]
fn places_on_the_lines_are_used_again_only_when_they_are_recorded() {
    explore_within(2, || overlap(false, 3, Planted::Nothing));
}

#[test]
fn places_in_the_broadcast_ring_are_used_again_only_when_they_are_recorded() {
    explore_within(2, || overlap(true, 3, Planted::Nothing));
}

#[test]
fn each_ordering_of_the_lines_is_needed() {
    let joined = "joined before it was done";
    let tags = [("S1", RACE), ("S2", RACE), ("S3", joined), ("S4", joined)];
    is_needed(
        "two_constructs_are_open_on_the_same_lines",
        "../engine/src/protocols/slot.rs",
        &tags,
    );
    is_needed(
        "places_on_the_lines_are_used_again_only_when_they_are_recorded",
        "../engine/src/protocols/slot.rs",
        &tags,
    );
}

#[test]
fn each_ordering_of_the_broadcast_ring_is_needed() {
    let (lost, joined) = ("a construct was lost, or came twice", "joined before it was done");
    let models = [
        "two_constructs_are_open_on_the_same_broadcast_ring",
        "places_in_the_broadcast_ring_are_used_again_only_when_they_are_recorded",
    ];
    for model in models {
        is_needed(model, "../engine/src/protocols/ring.rs", &[("B3", lost), ("B4", lost)]);
        is_needed(model, "../engine/src/protocols/arrival.rs", &[("A1", joined), ("A2", joined)]);
    }
}

#[test]
fn a_line_that_is_supplied_while_its_construct_is_open_is_caught() {
    is_refuted(
        "a_line_that_is_supplied_while_its_construct_is_open_is_caught",
        "a construct was lost, or came twice",
        || {
            overlap(false, 3, Planted::FullRing);
        },
    );
}

#[test]
fn an_entry_that_is_published_over_an_open_construct_is_caught() {
    is_refuted(
        "an_entry_that_is_published_over_an_open_construct_is_caught",
        "a construct was lost, or came twice",
        || overlap(true, 3, Planted::FullRing),
    );
}

#[test]
fn a_worker_that_arrives_before_it_is_done_is_caught_on_lines() {
    is_refuted(
        "a_worker_that_arrives_before_it_is_done_is_caught_on_lines",
        "joined before it was done",
        || {
            overlap(false, 2, Planted::EarlyArrival);
        },
    );
}

#[test]
fn a_worker_that_arrives_before_it_is_done_is_caught_on_the_ring() {
    is_refuted(
        "a_worker_that_arrives_before_it_is_done_is_caught_on_the_ring",
        "joined before it was done",
        || {
            overlap(true, 2, Planted::EarlyArrival);
        },
    );
}

#[test]
fn one_arrival_that_is_counted_for_two_constructs_is_caught() {
    is_refuted(
        "one_arrival_that_is_counted_for_two_constructs_is_caught",
        "joined before it was done",
        || overlap(true, 2, Planted::Skipped),
    );
}
