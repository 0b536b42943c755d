//! A task and the list of those that wait for it.

use super::Data;
use crate::tasks::inputs::Inputs;
use crate::tasks::successors::{Link, Successors};
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};

/// A nano-thread with two predecessors on two other processors, created while they finish.
#[derive(Default)]
struct Dependence {
    inputs: Inputs,
    predecessors: [Successors<usize>; 2],
    results: [Data; 2],
    started: AtomicUsize,
}

impl Dependence {
    /// The last share: the successor starts, once, and sees what both predecessors did.
    fn release(&self) {
        if self.inputs.release(1) {
            assert_eq!(self.started.fetch_add(1, AcqRel), 0, "started twice");
            assert_eq!((self.results[0].get(), self.results[1].get()), (1, 2));
        }
    }

    fn finish(&self, number: usize) {
        self.results[number].set(number as u32 + 1);
        self.predecessors[number].close(|_| self.release());
    }
}

fn two_predecessors(counted_before_the_push: bool) {
    let shared = Arc::new(Dependence::default());
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.finish(number))
        })
        .collect();
    for predecessor in &shared.predecessors {
        if counted_before_the_push {
            shared.inputs.add(1);
        }
        let link = Link::boxed(7);
        // SAFETY: - a fresh box.
        let pushed = unsafe { predecessor.push(link) };
        if !counted_before_the_push && pushed {
            shared.inputs.add(1);
        }
        if !pushed {
            // SAFETY: - it was not pushed.
            unsafe { Link::discard(link) };
            if counted_before_the_push {
                shared.release();
            }
        }
    }
    shared.release();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(shared.started.load(Relaxed), 1);
}

#[test]
fn a_successor_starts_once_and_after_both_predecessors() {
    explore(|| two_predecessors(true));
}

#[test]
fn each_ordering_of_a_list_of_successors_is_needed() {
    let tags = [("P1", RACE), ("P2", RACE)];
    is_needed(
        "a_successor_starts_once_and_after_both_predecessors",
        "src/tasks/successors.rs",
        &tags,
    );
    is_needed(
        "a_successor_by_descriptor_runs_once_and_after_its_predecessor",
        "src/tasks/successors.rs",
        &tags,
    );
    is_needed(
        "a_thread_that_sees_a_task_finished_sees_what_it_did",
        "src/tasks/successors.rs",
        &[("P2", RACE), ("P3", RACE)],
    );
}

#[test]
fn a_dependence_that_is_counted_after_the_push_is_caught() {
    is_refuted("a_dependence_that_is_counted_after_the_push_is_caught", "started twice", || {
        two_predecessors(false)
    });
}
