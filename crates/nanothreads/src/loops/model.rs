//! Models of the protocols of loops, driven by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads --lib loops::model`. Each has a twin
//! with a planted bug that loom must find.

use crate::loops::ranges::{RangeWord, Ranges};
use crate::loops::stages::Stage;
use crate::loops::turns::Turns;
use engine::wait_point::Look;
use loom::sync::Arc;
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;

/// How often each iteration was dealt. Plain memory of the model's author: loom need not see it.
struct Dealt(Mutex<Vec<u32>>);

impl Dealt {
    fn new(length: usize) -> Self {
        Self(Mutex::new(vec![0; length]))
    }

    fn count<I: IntoIterator<Item = usize>>(&self, taken: I) {
        let mut times = self.0.lock().unwrap();
        taken.into_iter().for_each(|i| times[i] += 1);
    }

    fn assert_once_each(&self) {
        assert!(
            self.0.lock().unwrap().iter().all(|&times| times == 1),
            "an iteration was dealt twice or never"
        );
    }
}

fn whole(range: Range<u32>) -> impl Iterator<Item = usize> {
    range.map(|i| i as usize)
}

/// Owner and thief empty one word of four iterations.
fn owner_and_thief(thief_exchanges: bool) {
    let shared = Arc::new((RangeWord::new(0..4), Dealt::new(4)));
    let thief = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (word, dealt) = &*shared;
            if thief_exchanges {
                if let Some(taken) = word.take_back(|rest| rest.div_ceil(2)) {
                    dealt.count(whole(taken));
                }
            } else {
                // Planted: the thief stores what it thinks is left.
                let seen = word.look();
                if !seen.is_empty() {
                    let left = seen.start + (seen.end - seen.start) / 2;
                    store_over(word, seen.start..left);
                    dealt.count(whole(left..seen.end));
                }
            }
        })
    };
    let (word, dealt) = &*shared;
    while let Some(taken) = word.take_front(|rest| rest.div_ceil(2)) {
        dealt.count(whole(taken));
    }
    thief.join().unwrap();
    // What a thief that came late left.
    while let Some(taken) = word.take_front(|rest| rest) {
        dealt.count(whole(taken));
    }
    dealt.assert_once_each();
}

/// `refill` against its contract. Models run in release builds, where it does not assert it.
fn store_over(word: &RangeWord, range: Range<u32>) {
    word.refill(range);
}

#[test]
fn owner_and_thief_get_each_iteration_once() {
    explore(|| owner_and_thief(true));
}

#[test]
fn a_thief_that_stores_instead_of_exchanging_is_caught() {
    is_refuted(
        "a_thief_that_stores_instead_of_exchanging_is_caught",
        "an iteration was dealt twice or never",
        || owner_and_thief(false),
    );
}

/// Two members run a loop of four iterations: own part first, then from the fullest.
fn affinity_loop(threads: usize) {
    let shared = Arc::new((Ranges::new(4, threads), Dealt::new(4)));
    let member = move |shared: &(Ranges, Dealt), id: usize| {
        let (ranges, dealt) = shared;
        let part = |rest: usize| rest.div_ceil(threads);
        while let Some(taken) = ranges.take_own(id, part).or_else(|| ranges.steal(part)) {
            dealt.count(taken);
        }
    };
    let others: Vec<_> = (1..threads)
        .map(|id| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || member(&shared, id))
        })
        .collect();
    member(&shared, 0);
    others.into_iter().for_each(|other| other.join().unwrap());
    shared.1.assert_once_each();
}

#[test]
fn members_of_an_affinity_loop_get_each_iteration_once() {
    explore(|| affinity_loop(2));
}

/// Three members of a self-timed loop: halves of the fullest range move to the thief's own word,
/// from where the third one may take them.
fn stolen_halves(refills_when_empty: bool) {
    let shared = Arc::new((Ranges::new(4, 2), Dealt::new(4)));
    let member = move |shared: &(Ranges, Dealt), id: usize| {
        let (ranges, dealt) = shared;
        loop {
            while let Some(taken) = ranges.take_own(id, |_| 1) {
                dealt.count(taken);
                if !refills_when_empty {
                    break;
                }
            }
            // Planted: a member that refills its word while there is something left in it.
            if !ranges.steal_into(id, |rest| rest.div_ceil(2)) {
                return;
            }
        }
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || member(&shared, 1))
    };
    member(&shared, 0);
    other.join().unwrap();
    shared.1.assert_once_each();
}

#[test]
fn stolen_halves_are_dealt_once() {
    explore(|| stolen_halves(true));
}

#[test]
fn a_refill_over_what_is_left_is_caught() {
    is_refuted(
        "a_refill_over_what_is_left_is_caught",
        "an iteration was dealt twice or never",
        || stolen_halves(false),
    );
}

/// Memory that only the token's holder may touch.
struct Log(HandCell<Vec<usize>>);

// SAFETY: - the models hand it over by the protocol under test; loom checks that they do.
unsafe impl Sync for Log {}
// SAFETY: - as above.
unsafe impl Send for Log {}

impl Log {
    fn push(&self, i: usize) {
        // SAFETY: - what the model is about: the caller has the turn.
        unsafe { self.0.with_mut(|log| (*log).push(i)) };
    }

    fn read(&self) -> Vec<usize> {
        // SAFETY: - called after all threads of the model were joined.
        unsafe { self.0.with(|log| (*log).clone()) }
    }
}

/// Two members run ordered chunks 0, 1, 2 in turn.
fn ordered_chunks(waits: bool) {
    let shared = Arc::new((Turns::new(0, NonZeroUsize::MIN, 2), Log(HandCell::new(Vec::new()))));
    let run = move |shared: &(Turns, Log), chunk: usize| {
        let (turns, log) = shared;
        if waits {
            turns.point(chunk).sleep_until(|| Look::from(turns.is_turn(chunk)));
        }
        log.push(chunk);
        turns.pass(chunk + 1);
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || run(&shared, 1))
    };
    run(&shared, 0);
    run(&shared, 2);
    other.join().unwrap();
    assert_eq!(shared.1.read(), [0, 1, 2]);
}

#[test]
fn ordered_sections_run_in_order_and_no_wake_is_lost() {
    explore(|| ordered_chunks(true));
}

#[test]
fn each_ordering_of_the_token_is_needed() {
    let tags = [("T1", RACE), ("T2", RACE)];
    is_needed(
        "ordered_sections_run_in_order_and_no_wake_is_lost",
        "../engine/src/protocols/turn.rs",
        &tags,
    );
}

#[test]
fn a_section_that_does_not_wait_for_its_turn_is_caught() {
    is_refuted("a_section_that_does_not_wait_for_its_turn_is_caught", RACE, || {
        ordered_chunks(false)
    });
}

/// Two members run two blocks each; the second needs what the first wrote.
fn two_stages(finishes_after: bool) {
    let shared = Arc::new((
        Stage::default(),
        [Log(HandCell::new(Vec::new())), Log(HandCell::new(Vec::new()))],
    ));
    let second = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (stage, blocks) = &*shared;
            for (block, log) in blocks.iter().enumerate() {
                stage.point().sleep_until(|| Look::from(stage.has_finished(block + 1)));
                log.push(2);
            }
        })
    };
    let (stage, blocks) = &*shared;
    for log in blocks {
        if finishes_after {
            log.push(1);
            stage.finish_block();
        } else {
            stage.finish_block();
            log.push(1);
        }
    }
    second.join().unwrap();
    assert!(blocks.iter().all(|log| log.read() == [1, 2]));
}

#[test]
fn a_stage_sees_what_the_stage_before_wrote() {
    explore(|| two_stages(true));
}

#[test]
fn each_ordering_of_a_stage_is_needed() {
    is_needed(
        "a_stage_sees_what_the_stage_before_wrote",
        "../engine/src/protocols/stage.rs",
        &[("P1", RACE), ("P2", RACE)],
    );
}

#[test]
fn a_stage_that_reports_a_block_before_it_is_done_is_caught() {
    is_refuted("a_stage_that_reports_a_block_before_it_is_done_is_caught", RACE, || {
        two_stages(false)
    });
}
