//! Models of two threads, one of which waits for what the other has done, on the shipped type.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib stage::model`. Each has
//! a twin with a planted bug, or a weakened ordering, that loom must find.

use crate::protocols::stage::Stage;
use loom::sync::Arc;
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;

/// A stage, and what it hands over.
#[derive(Default)]
struct Pipeline {
    stage: Stage,
    blocks: [HandCell<u32>; 2],
}

// SAFETY: - the models hand the blocks over by the protocol under test; loom checks that they do.
unsafe impl Sync for Pipeline {}
// SAFETY: - as above.
unsafe impl Send for Pipeline {}

/// Two blocks; the second thread needs what the first wrote.
fn blocks(finishes_after: bool) {
    let shared = Arc::new(Pipeline::default());
    let second = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            for (block, needed) in shared.blocks.iter().zip(1..) {
                while !shared.stage.has_finished(needed) {
                    thread::yield_now();
                }
                // SAFETY: - what the model is about: the first thread is done with it.
                unsafe { block.with_mut(|block| *block = *block * 10 + 2) };
            }
        })
    };
    for block in &shared.blocks {
        if !finishes_after {
            shared.stage.finish_next();
        }
        // SAFETY: - as above: the second thread waits for it.
        unsafe { block.with_mut(|block| *block = *block * 10 + 1) };
        if finishes_after {
            shared.stage.finish_next();
        }
    }
    second.join().unwrap();
    for block in &shared.blocks {
        // SAFETY: - the second thread is gone.
        assert_eq!(unsafe { block.with(|block| *block) }, 12);
    }
}

#[test]
fn a_thread_sees_what_it_waited_for() {
    explore(|| blocks(true));
}

#[test]
fn each_ordering_of_a_stage_is_needed() {
    let tags = [("P1", RACE), ("P2", RACE)];
    is_needed("a_thread_sees_what_it_waited_for", "src/protocols/stage.rs", &tags);
}

#[test]
fn a_block_that_is_reported_before_it_is_done_is_caught() {
    is_refuted("a_block_that_is_reported_before_it_is_done_is_caught", RACE, || blocks(false));
}
