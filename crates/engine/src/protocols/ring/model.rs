//! Models of the protocols of supply and join, driven by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib ring::model`. Each has
//! a twin with a planted bug that loom must find.

use crate::protocols::arrival::{Arrival, LastSeen};
use crate::protocols::open_ring::OpenRing;
use crate::protocols::ring::{Follower, Ring, Word};
use crate::protocols::slot::{Slot, Supplied};
use crate::protocols::wait_point::{Look, WaitPoint};
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use std::ptr;

fn word(number: usize) -> Word {
    ptr::without_provenance_mut(number)
}

struct Open {
    ring: OpenRing<usize>,
    idle: WaitPoint,
    ran: AtomicUsize,
}

impl Open {
    fn new() -> Arc<Self> {
        Arc::new(Self { ring: OpenRing::new(0), idle: WaitPoint::new(), ran: AtomicUsize::new(0) })
    }

    fn offer(&self, work: usize) -> u64 {
        let ticket = loop {
            match self.ring.offer(work) {
                Some(ticket) => break ticket,
                None => thread::yield_now(),
            }
        };
        self.idle.notify_all();
        ticket
    }

    /// Runs one work as the worker, which may sleep before.
    fn run(&self, ticket: u64, copies_first: bool) {
        if !copies_first {
            // Planted: the slot is given free before the work in it was copied.
            // SAFETY: - this thread plays the worker, and is done with what it polled (but for the
            // twin).
            unsafe { self.ring.finish(ticket) };
        }
        let mut found = None;
        self.idle.sleep_until(|| {
            // SAFETY: - this thread is the worker.
            found = unsafe { self.ring.poll(ticket) };
            Look::from(found.is_some())
        });
        let work = found.unwrap();
        assert_eq!(self.ran.fetch_or(work, Relaxed) & work, 0, "a work ran twice");
        // SAFETY: - this thread plays the worker, and is done with what it polled (but for the
        // twin).
        unsafe { self.ring.finish(ticket) };
    }
}

/// Two masters offer one work each to a worker that may sleep, and join apart.
#[test]
fn works_of_two_masters_run_once_each_and_are_joined_apart() {
    explore(|| {
        let open = Open::new();
        let masters = [0b1, 0b10].map(|work| {
            let open = Arc::clone(&open);
            thread::spawn(move || {
                let ticket = open.offer(work);
                if open.ring.is_done(ticket) {
                    assert_ne!(open.ran.load(Relaxed) & work, 0, "done before it ran");
                }
            })
        });
        (0..2).for_each(|ticket| open.run(ticket, true));
        for master in masters {
            master.join().unwrap();
        }
        assert_eq!(open.ran.load(Relaxed), 0b11);
    });
}

/// Three works in a ring of two slots: the third has to wait for credit.
fn three_works_in_a_ring_of_two(copies_first: bool) {
    let open = Open::new();
    let worker = {
        let open = Arc::clone(&open);
        thread::spawn(move || (0..3).for_each(|ticket| open.run(ticket, copies_first)))
    };
    for (work, ticket) in [(0b1, 0), (0b10, 1), (0b100, 2)] {
        assert_eq!(open.offer(work), ticket);
    }
    worker.join().unwrap();
    assert!((0..3).all(|ticket| open.ring.is_done(ticket)));
}

#[test]
fn a_full_ring_is_written_again_only_when_its_work_is_done() {
    explore(|| three_works_in_a_ring_of_two(true));
}

#[test]
fn credit_that_is_given_before_the_work_was_copied_is_caught() {
    is_refuted("credit_that_is_given_before_the_work_was_copied_is_caught", RACE, || {
        three_works_in_a_ring_of_two(false)
    });
}

#[test]
fn each_ordering_of_an_open_ring_is_needed() {
    let early = "done before it ran";
    let tags = [("S1", RACE), ("S2", RACE), ("S3", early), ("S4", early)];
    is_needed(
        "works_of_two_masters_run_once_each_and_are_joined_apart",
        "src/protocols/slot.rs",
        &tags,
    );
    let tags = [("S1", RACE), ("S2", RACE), ("S3", RACE), ("S4", RACE)];
    is_needed(
        "a_full_ring_is_written_again_only_when_its_work_is_done",
        "src/protocols/slot.rs",
        &tags,
    );
}

/// The master opens works 1 to 3 in a ring of two entries; the follower takes part in number `part`
/// and is joined for it before its entry is used again. It may sleep through the others, in any
/// number.
fn broadcast_with_one_that_sits_out(first: u64, part: &'static [u64], last: u64) {
    let shared = Arc::new((Ring::<2, 2>::new(), AtomicU64::new(0), WaitPoint::new()));
    let follower = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (ring, arrived, idle) = &*shared;
            let mut follower = Follower::new(first);
            for &number in part {
                let mut found = None;
                idle.sleep_until(|| {
                    found = follower.look(ring, |words| {
                        assert_eq!(words[0].addr() + 1, words[1].addr(), "a torn work");
                        part.contains(&(words[0].addr() as u64))
                    });
                    Look::from(found.is_some())
                });
                assert_eq!(
                    found.map(|words| words[0].addr() as u64),
                    Some(number),
                    "a work was skipped"
                );
                arrived.store(number, Release);
            }
            // One more look: it must not take what is none of its business.
            assert_eq!(follower.look(ring, |words| part.contains(&(words[0].addr() as u64))), None);
        })
    };
    let (ring, arrived, idle) = &*shared;
    for number in first..=last {
        // I2: the entry's former work, if the other took part in it, is joined.
        while part.iter().any(|&open| open + 2 <= number && arrived.load(Acquire) < open) {
            thread::yield_now();
        }
        ring.publish(number, [word(number as usize), word(number as usize + 1)]);
        if part.contains(&number) {
            idle.notify_all();
        }
    }
    follower.join().unwrap();
}

#[test]
fn a_worker_that_sits_out_skips_without_tearing_or_sleeping_through_its_own() {
    explore(|| broadcast_with_one_that_sits_out(1, &[2], 3));
    explore(|| broadcast_with_one_that_sits_out(1, &[3], 3));
}

#[test]
fn two_works_are_open_at_once_for_one_that_was_lapped() {
    explore(|| broadcast_with_one_that_sits_out(1, &[3, 4], 4));
}

#[test]
fn each_ordering_of_a_broadcast_ring_is_needed() {
    let torn = "a torn work";
    let tags = [("B1", torn), ("B3", torn), ("B4", torn), ("B6", torn)];
    is_needed(
        "a_worker_that_sits_out_skips_without_tearing_or_sleeping_through_its_own",
        "src/protocols/ring.rs",
        &tags,
    );
    is_needed(
        "two_works_are_open_at_once_for_one_that_was_lapped",
        "src/protocols/ring.rs",
        &[("B1", torn), ("B6", torn)],
    );
}

#[test]
fn a_master_that_laps_a_participant_is_caught() {
    // Planted: the follower takes part in 1 and 3, but is joined for 3 alone.
    is_refuted("a_master_that_laps_a_participant_is_caught", "a work was lost", || {
        let ring = Arc::new(Ring::<2, 2>::new());
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut follower = Follower::new(1);
                for number in [1, 3] {
                    let words = loop {
                        match follower.look(&ring, |words| words[0].addr() % 2 == 1) {
                            Some(words) => break words,
                            None => thread::yield_now(),
                        }
                    };
                    assert_eq!(words[0].addr(), number, "a work was lost");
                }
            })
        };
        for number in 1..=3 {
            ring.publish(number, [word(number as usize), word(number as usize + 1)]);
        }
        other.join().unwrap();
    });
}

/// Members 1 (leader) and 2 (its cluster) end a region of master 0, which waits for the leader
/// alone; each may sleep. `leader_waits` false: planted, the leader arrives for a cluster that it
/// did not gather.
fn join_through_a_leader(leader_waits: bool) {
    struct Shared {
        lines: [Arrival<u64>; 2],
        points: [WaitPoint; 2],
        wrote: [AtomicU64; 2],
    }
    impl Shared {
        fn work_and_arrive(&self, me: usize, gather: impl FnOnce()) {
            self.wrote[me].store(1, Relaxed);
            // SAFETY: - this is the line's worker, which has not arrived.
            unsafe { self.lines[me].put(10 + me as u64) };
            gather();
            // SAFETY: - this thread plays the line's worker.
            unsafe { self.lines[me].arrive() };
            self.points[me].notify_all();
        }

        fn wait_for(&self, other: usize, last: &LastSeen) {
            self.points[other].sleep_until(|| last.is_passed(&self.lines[other]).into());
            last.record(&self.lines[other]);
        }
    }
    let shared = Arc::new(Shared {
        lines: [Arrival::new(), Arrival::new()],
        points: [WaitPoint::new(), WaitPoint::new()],
        wrote: [AtomicU64::new(0), AtomicU64::new(0)],
    });
    // Taken while no worker has work, as in the attach region.
    let [of_leader, of_member] = [0, 1].map(|at| LastSeen::of(&shared.lines[at]));
    let member = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.work_and_arrive(1, || ()))
    };
    let leader = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            shared.work_and_arrive(0, || {
                if leader_waits {
                    shared.wait_for(1, &of_member);
                }
            });
        })
    };
    shared.wait_for(0, &of_leader);
    for (at, (line, wrote)) in shared.lines.iter().zip(&shared.wrote).enumerate() {
        assert_eq!(wrote.load(Relaxed), 1, "joined before its members were done");
        // SAFETY: - the region is joined, and each member put a `u64`.
        assert_eq!(unsafe { line.take::<u64>() }, 10 + at as u64);
    }
    leader.join().unwrap();
    member.join().unwrap();
}

#[test]
fn a_leader_arrives_for_its_cluster() {
    explore(|| join_through_a_leader(true));
}

#[test]
fn each_ordering_of_an_arrival_is_needed() {
    let early = "joined before its members were done";
    is_needed(
        "a_leader_arrives_for_its_cluster",
        "src/protocols/arrival.rs",
        &[("A1", early), ("A2", early)],
    );
}

#[test]
fn a_leader_that_does_not_wait_for_its_cluster_is_caught() {
    is_refuted(
        "a_leader_that_does_not_wait_for_its_cluster_is_caught",
        "joined before its members were done",
        || join_through_a_leader(false),
    );
}

/// A worker takes part in a region of another master between two of this one's.
fn a_region_elsewhere_between_two(looks_again: bool) {
    let line = Arc::new(Arrival::<u64>::new());
    let go = Arc::new((AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false)));
    let stale = LastSeen::of(&line);
    let worker = {
        let (line, go) = (Arc::clone(&line), Arc::clone(&go));
        thread::spawn(move || {
            // SAFETY: - this thread plays the line's worker.
            unsafe { line.arrive() }; // elsewhere
            go.0.store(true, Release); // the other master joined it, and gave it back
            while !go.1.load(Acquire) {
                thread::yield_now();
            }
            go.2.store(true, Relaxed);
            // SAFETY: - this thread plays the line's worker.
            unsafe { line.arrive() }; // here
        })
    };
    while !go.0.load(Acquire) {
        thread::yield_now();
    }
    let last = if looks_again { LastSeen::of(&line) } else { stale };
    go.1.store(true, Release);
    while !last.is_passed(&line) {
        thread::yield_now();
    }
    assert!(go.2.load(Relaxed), "an arrival elsewhere was taken for one here");
    worker.join().unwrap();
}

#[test]
fn regions_elsewhere_do_not_count_as_arrivals_here() {
    explore(|| a_region_elsewhere_between_two(true));
}

#[test]
fn a_last_seen_value_from_before_regions_elsewhere_is_caught() {
    is_refuted(
        "a_last_seen_value_from_before_regions_elsewhere_is_caught",
        "an arrival elsewhere was taken for one here",
        || a_region_elsewhere_between_two(false),
    );
}

/// The cargo of two regions is used where it stands, by master and worker at once, and
/// taken out by the master afterwards. `waits` false: planted, the master takes it out and supplies
/// anew before the join.
fn cargo_is_shared(waits: bool) {
    let slot = Arc::new(Slot::with_room(0_u64, 0_u64));
    let worker = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || {
            for number in 1..=2 {
                let work = loop {
                    // SAFETY: - this thread is the worker.
                    match unsafe { slot.poll(number - 1) } {
                        Supplied::Work(_, work) => break work,
                        _ => thread::yield_now(),
                    }
                };
                // SAFETY: - polled, and not finished; a `u64` was supplied.
                assert_eq!(unsafe { slot.with_cargo(|cargo| *cargo) }, work + 1);
                // SAFETY: - this thread plays the worker, and is done with what it polled.
                unsafe { slot.finish(number) };
            }
        })
    };
    for work in [10, 20] {
        // SAFETY: - one master, which joined the last work (but for the twin).
        unsafe { slot.supply_with(work, work + 1, false) };
        // SAFETY: - this thread is the master.
        assert_eq!(unsafe { slot.with_cargo(|cargo| *cargo) }, work + 1);
        while waits && !slot.is_joined() {
            thread::yield_now();
        }
    }
    worker.join().unwrap();
}

#[test]
fn cargo_is_used_in_its_place_by_both_until_the_join() {
    explore(|| cargo_is_shared(true));
}

#[test]
fn each_ordering_of_a_line_is_needed_for_its_cargo() {
    let tags = [("S1", RACE), ("S2", RACE), ("S3", RACE), ("S4", RACE)];
    is_needed("cargo_is_used_in_its_place_by_both_until_the_join", "src/protocols/slot.rs", &tags);
}

#[test]
fn cargo_that_is_replaced_before_the_join_is_caught() {
    is_refuted("cargo_that_is_replaced_before_the_join_is_caught", RACE, || cargo_is_shared(false));
}

/// Results of two regions ride on the supply line. `waits` false: planted, the result is taken
/// before the join.
fn a_result_rides_home(waits: bool) {
    let slot = Arc::new(Slot::new(0_u64));
    let worker = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || {
            for number in 1..=2 {
                let work = loop {
                    // SAFETY: - this thread is the worker.
                    match unsafe { slot.poll(number - 1) } {
                        Supplied::Work(_, work) => break work,
                        _ => thread::yield_now(),
                    }
                };
                // SAFETY: - the descriptor was copied, and is not finished.
                unsafe { slot.put(work + 1) };
                // SAFETY: - this thread plays the worker, and is done with what it polled.
                unsafe { slot.finish(number) };
            }
        })
    };
    for work in [10, 20] {
        // SAFETY: - one master, which joined the last work.
        unsafe { slot.supply(work, false) };
        while waits && !slot.is_joined() {
            thread::yield_now();
        }
        // SAFETY: - joined (but for the twin), and the member puts a `u64`.
        assert_eq!(unsafe { slot.take::<u64>() }, work + 1, "not what the member put");
    }
    worker.join().unwrap();
}

#[test]
fn a_result_that_rides_on_the_supply_line_comes_home_whole() {
    explore(|| a_result_rides_home(true));
}

#[test]
fn each_ordering_of_a_line_is_needed_for_its_result() {
    let tags = [("S1", RACE), ("S2", RACE), ("S3", RACE), ("S4", RACE)];
    is_needed(
        "a_result_that_rides_on_the_supply_line_comes_home_whole",
        "src/protocols/slot.rs",
        &tags,
    );
}

#[test]
fn a_result_that_is_taken_before_the_join_is_caught() {
    is_refuted(
        "a_result_that_is_taken_before_the_join_is_caught",
        "not what the member put",
        || a_result_rides_home(false),
    );
}
