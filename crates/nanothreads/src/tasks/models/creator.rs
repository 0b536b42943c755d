//! A creator that waits for its children.

use super::Data;
use crate::tasks::inputs::Inputs;
use crate::tasks::ready::inbox::{Inbox, Item};
use engine::wait_point::{Look, WaitPoint};
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use loom::thread;
use platform::model::{DEADLOCK, RACE, explore, is_refuted};
use platform::sync::HandCell;
use std::ptr;

/// A creator that waits for its children, as members of a team do: inbox and wait point.
struct Creator {
    link: HandCell<*const Creator>,
    inputs: Inputs,
    /// In the place of `inputs` where the near look is relaxed.
    relaxed: AtomicUsize,
    inbox: Inbox<Creator>,
    point: WaitPoint,
    results: [Data; 2],
}

// SAFETY: loom checks what the protocols under test promise.
unsafe impl Sync for Creator {}
// SAFETY: as above.
unsafe impl Send for Creator {}

// SAFETY: - the link is the inbox's alone.
unsafe impl Item for Creator {
    fn link(&self) -> &HandCell<*const Self> {
        &self.link
    }
}

/// How a child's end may be reported.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Right,
    /// As by a child that ends where its creator lives.
    Near,
    /// The same, by a look that orders nothing.
    NearRelaxed,
    /// The creator takes a share of a child for its own, and so the counter for one that no other
    /// thread changes.
    NearTwice,
    /// The sleeper is looked for without the fence between.
    WithoutFence,
    /// The result is written after the share was given up.
    TooLate,
}

impl Creator {
    fn child_ends(&self, number: usize, end: End) {
        if end != End::TooLate {
            self.results[number].set(5);
        }
        let last = match end {
            End::Near => self.inputs.release_near(1),
            End::NearRelaxed => {
                self.relaxed.load(Relaxed) == 1 || self.relaxed.fetch_sub(1, AcqRel) == 1
            }
            _ => self.inputs.release(1),
        };
        if last {
            // SAFETY: - the last share: the creator waits, and no other thread pushes it.
            unsafe { self.inbox.push(self) };
            if end == End::WithoutFence {
                if self.point.has_sleepers() {
                    self.point.wake_sleepers();
                }
            } else {
                self.point.notify_all();
            }
        }
        if end == End::TooLate {
            self.results[number].set(5);
        }
    }

    fn add(&self, end: End) {
        match end {
            End::Near => self.inputs.add_near(1, 1),
            End::NearTwice => self.inputs.add_near(2, 1),
            End::NearRelaxed => {
                self.relaxed.fetch_add(1, Relaxed);
            }
            _ => self.inputs.add(1),
        }
    }

    fn wait(&self, end: End) {
        let last = match end {
            End::NearRelaxed => self.relaxed.fetch_sub(1, AcqRel) == 1,
            _ => self.inputs.release(1),
        };
        if !last {
            let mut woken = false;
            self.point.sleep_until(|| {
                // SAFETY: - this thread is the owner.
                unsafe { self.inbox.drain(|item| woken |= ptr::eq(item, self)) };
                Look::from(woken)
            });
        }
        if end != End::NearRelaxed {
            self.inputs.restore();
            assert!(self.inputs.is_only(1));
        }
    }
}

fn creator_and_children(children: usize, end: End) {
    let creator = Arc::new(Creator {
        link: HandCell::new(ptr::null()),
        inputs: Inputs::new(),
        relaxed: AtomicUsize::new(1),
        inbox: Inbox::new(),
        point: WaitPoint::new(),
        results: Default::default(),
    });
    let threads: Vec<_> = (0..children)
        .map(|number| {
            creator.add(end);
            let creator = Arc::clone(&creator);
            thread::spawn(move || creator.child_ends(number, end))
        })
        .collect();
    creator.wait(end);
    for number in 0..children {
        assert_eq!(creator.results[number].get(), 5, "the creator went on too early");
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_creator_goes_on_when_its_child_is_done() {
    explore(|| creator_and_children(1, End::Right));
}

#[test]
fn a_creator_goes_on_once_when_both_children_are_done() {
    explore(|| creator_and_children(2, End::Right));
}

#[test]
fn children_that_end_near_their_creator_count_alike() {
    explore(|| creator_and_children(2, End::Near));
}

#[test]
fn a_near_end_that_orders_nothing_is_caught() {
    is_refuted("a_near_end_that_orders_nothing_is_caught", RACE, || {
        creator_and_children(2, End::NearRelaxed)
    });
}

#[test]
fn a_near_add_beside_a_share_of_another_thread_is_caught() {
    is_refuted(
        "a_near_add_beside_a_share_of_another_thread_is_caught",
        "the creator went on too early",
        || creator_and_children(2, End::NearTwice),
    );
}

#[test]
fn a_child_that_reports_without_a_fence_leaves_its_creator_asleep() {
    is_refuted("a_child_that_reports_without_a_fence_leaves_its_creator_asleep", DEADLOCK, || {
        creator_and_children(1, End::WithoutFence);
    });
}

#[test]
fn a_result_after_the_share_is_caught() {
    is_refuted("a_result_after_the_share_is_caught", RACE, || {
        creator_and_children(2, End::TooLate)
    });
}
