//! Models of two members that run ordered chunks, on the shipped type.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib turn::model`. Each has
//! a twin with a planted bug, or a weakened ordering, that loom must find.

use crate::protocols::turn::OrderedTurn;
use loom::sync::Arc;
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;

/// Two words, and memory that only the token's holder may touch.
struct Loop {
    turns: [OrderedTurn; 2],
    log: HandCell<Vec<u64>>,
}

// SAFETY: - the models hand `log` over by the protocol under test; loom checks that they do.
unsafe impl Sync for Loop {}
// SAFETY: - as above.
unsafe impl Send for Loop {}

impl Loop {
    fn of(&self, chunk: u64) -> &OrderedTurn {
        &self.turns[chunk as usize % 2]
    }

    fn run(&self, chunk: u64, waits: bool) {
        while waits && !self.of(chunk).is_at(chunk) {
            thread::yield_now();
        }
        // SAFETY: - what the model is about: the caller has the turn.
        unsafe { self.log.with_mut(|log| (*log).push(chunk)) };
        self.of(chunk + 1).pass_on(chunk + 1);
    }
}

/// Chunks 0 and 2 on one member, 1 on the other.
fn chunks(waits: bool) {
    let turns = [0, 0].map(OrderedTurn::new);
    let shared = Arc::new(Loop { turns, log: HandCell::new(Vec::new()) });
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.run(1, waits))
    };
    shared.run(0, waits);
    shared.run(2, waits);
    other.join().unwrap();
    // SAFETY: - the other member is gone.
    assert_eq!(unsafe { shared.log.with(|log| (*log).clone()) }, [0, 1, 2]);
}

#[test]
fn ordered_chunks_take_their_turns() {
    explore(|| chunks(true));
}

#[test]
fn each_ordering_of_the_turn_is_needed() {
    let tags = [("T1", RACE), ("T2", RACE)];
    is_needed("ordered_chunks_take_their_turns", "src/protocols/turn.rs", &tags);
}

#[test]
fn a_chunk_that_does_not_wait_for_its_turn_is_caught() {
    is_refuted("a_chunk_that_does_not_wait_for_its_turn_is_caught", RACE, || chunks(false));
}
