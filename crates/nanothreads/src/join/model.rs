//! Models of the deque of open halves, of the hand-over of a half, and of the sleep of the members
//! that wait, driven by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads --lib join::model`. Each has a twin
//! with a planted bug that loom must find.

use crate::idle::Idle;
use crate::join::deque::Deque;
use crate::join::half::{Frame, Half, Runner, State};
use engine::wait_point::{Look, WaitPoint};
use loom::sync::Arc;
use loom::thread;
use platform::model::{DEADLOCK, RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;

/// A half: the thread that gets it writes, so that loom reports two threads that got it, and one
/// that got it unpublished.
struct Item(HandCell<u32>);

// SAFETY: loom checks what the protocols under test promise.
unsafe impl Sync for Item {}
// SAFETY: as above.
unsafe impl Send for Item {}

impl Item {
    fn new() -> Self {
        Self(HandCell::new(0))
    }

    fn publish(&self) {
        // SAFETY: checked by loom.
        unsafe { self.0.with_mut(|cell| *cell = 1) };
    }

    /// Takes what was published.
    fn run(&self) {
        // SAFETY: checked by loom.
        let before = unsafe { self.0.with_mut(|cell| std::mem::replace(&mut *cell, 2)) };
        assert_eq!(before, 1, "published, and taken once");
    }
}

/// What an owner and its thieves share.
struct Shared {
    deque: Deque<Item>,
    items: [Item; 3],
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { deque: Deque::new(), items: [Item::new(), Item::new(), Item::new()] })
    }

    fn push(&self, number: usize) {
        self.items[number].publish();
        // SAFETY: - the main thread of a model is the owner; items live as long as the deque; at
        // most three.
        unsafe { self.deque.push(&self.items[number]) };
    }

    /// Takes `number` back, or finds that it is stolen.
    fn pop(&self, number: usize) {
        // SAFETY: - by the owner, once for each push.
        if unsafe { self.deque.pop() } {
            self.items[number].run();
        }
    }

    fn steal(&self, tag: Option<u32>) -> bool {
        match self.deque.steal(tag) {
            // SAFETY: - items live as long as the deque.
            Some(item) => unsafe { (*item).run() },
            None => return false,
        }
        true
    }
}

fn thief(shared: &Arc<Shared>, attempts: usize) -> thread::JoinHandle<usize> {
    let shared = Arc::clone(shared);
    thread::spawn(move || (0..attempts).filter(|_| shared.steal(None)).count())
}

fn last_item(thieves: usize) {
    let shared = Shared::new();
    shared.push(0);
    let thieves: Vec<_> = (0..thieves).map(|_| thief(&shared, 1)).collect();
    shared.pop(0);
    for thief in thieves {
        thief.join().unwrap();
    }
}

#[test]
fn the_last_item_goes_to_the_owner_or_to_one_of_two_thieves() {
    explore(|| last_item(2));
}

fn older_and_newer() {
    let shared = Shared::new();
    let thief = thief(&shared, 2);
    shared.push(0);
    shared.push(1);
    shared.pop(1);
    shared.push(2);
    shared.pop(2);
    shared.pop(0);
    thief.join().unwrap();
}

#[test]
fn each_item_is_taken_once_while_the_owner_pushes_and_pops() {
    explore(older_and_newer);
}

#[test]
fn each_ordering_of_the_deque_is_needed() {
    let tags = [("D1", RACE), ("D3", RACE), ("D6", RACE), ("D7", RACE)];
    is_needed(
        "each_item_is_taken_once_while_the_owner_pushes_and_pops",
        "src/join/deque.rs",
        &tags,
    );
}

/// The owner ends work 1 and begins work 2; a thief that waits for work 1 must get nothing of work
/// 2.
fn two_works(retagged: bool) {
    let shared = Shared::new();
    // SAFETY: - the owner, without items.
    unsafe { shared.deque.retag(1) };
    let thief = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            if let Some(item) = shared.deque.steal(Some(1)) {
                assert!(std::ptr::eq(item, &raw const shared.items[0]), "a part of another work");
                // SAFETY: - items live as long as the deque.
                unsafe { (*item).run() };
            }
        })
    };
    shared.push(0);
    shared.pop(0);
    if retagged {
        // SAFETY: - the owner, whose items are popped or stolen.
        unsafe { shared.deque.retag(2) };
    }
    shared.push(1);
    shared.pop(1);
    thief.join().unwrap();
}

#[test]
fn a_joiner_gets_nothing_of_what_its_thief_does_next() {
    explore(|| two_works(true));
}

#[test]
fn a_thief_that_sees_an_item_before_its_owner_published_it_is_caught() {
    let tags = [("D1", "a part of another work"), ("D7", "a part of another work")];
    is_needed("a_joiner_gets_nothing_of_what_its_thief_does_next", "src/join/deque.rs", &tags);
}

#[test]
fn a_thief_that_keeps_its_tag_is_caught() {
    is_refuted("a_thief_that_keeps_its_tag_is_caught", "a part of another work", || {
        two_works(false)
    });
}

/// How an owner may tell sleepers of an item.
#[derive(Clone, Copy, PartialEq)]
enum Tell {
    Right,
    /// Before it is pushed.
    TooEarly,
    /// The sleeper is looked for without the fence between.
    WithoutFence,
}

/// A member without work sleeps; the owner, which does not take its item back, must wake it.
fn sleeper(tell: Tell) {
    let team = Arc::new((Shared::new(), Idle::new(2), WaitPoint::new()));
    let member = {
        let team = Arc::clone(&team);
        thread::spawn(move || {
            let (shared, idle, point) = &*team;
            // Sets its bit before the sleep: otherwise the first look is not the last one before
            // it, the second barrier of the model is not due, and a timed sleep gives the owner the
            // time in which its bugs heal.
            assert_ne!(idle.look(1), Look::Ready);
            // As a member of a scope looks: first without a fence.
            let finds_it = || !shared.deque.is_empty() && shared.steal(None);
            point.sleep_until(|| if finds_it() { Look::Ready } else { idle.look(1) });
            idle.take(1);
        })
    };
    let (shared, idle, point) = &*team;
    match tell {
        Tell::Right => {
            shared.push(0);
            idle.wake_one(1..2, |_| point);
        }
        Tell::TooEarly => {
            idle.wake_one(1..2, |_| point);
            shared.push(0);
        }
        Tell::WithoutFence => {
            shared.push(0);
            if point.has_sleepers() {
                point.wake_sleepers();
            }
        }
    }
    member.join().unwrap();
}

#[test]
fn a_member_that_sleeps_is_woken_by_an_item() {
    explore(|| sleeper(Tell::Right));
}

#[test]
fn an_owner_that_wakes_before_it_pushes_is_caught() {
    is_refuted("an_owner_that_wakes_before_it_pushes_is_caught", DEADLOCK, || {
        sleeper(Tell::TooEarly)
    });
}

#[test]
fn an_owner_that_looks_for_sleepers_without_a_fence_is_caught() {
    is_refuted("an_owner_that_looks_for_sleepers_without_a_fence_is_caught", DEADLOCK, || {
        sleeper(Tell::WithoutFence)
    });
}

/// A join's second half, in the frame of its joiner: what a thief reaches by a deque or by a claim.
struct Frames {
    deque: Deque<Frame>,
    half: ManuallyDrop<Half<Box<dyn FnOnce() -> u32 + Send>, u32>>,
    captured: Arc<Item>,
    point: WaitPoint,
}

// SAFETY: loom checks what the protocols under test promise.
unsafe impl Sync for Frames {}
// SAFETY: as above.
unsafe impl Send for Frames {}

/// How a half is handed over and back.
#[derive(Clone, Copy, PartialEq)]
enum Hand {
    Right,
    /// The closure panics.
    Panicking,
    /// The joiner takes the result when it sees which member runs the half.
    TooEarly,
    /// Two claim by a look and a store.
    ByLook,
    /// The joiner is told before the half is done.
    ToldTooEarly,
}

/// A thief at its first piece of work.
const THIEF: Runner = Runner { member: 1, tag: 1 };

impl Frames {
    fn new(hand: Hand) -> Arc<Self> {
        let captured = Arc::new(Item::new());
        captured.publish();
        let inside = Arc::clone(&captured);
        let closure = Box::new(move || {
            inside.run();
            if hand == Hand::Panicking {
                resume_unwind(Box::new(9_u32));
            }
            5
        });
        Arc::new(Self {
            deque: Deque::new(),
            half: Half::new(closure, 0),
            captured,
            point: WaitPoint::new(),
        })
    }

    fn frame(&self) -> &Frame {
        // SAFETY: - the first field of the half, which lives as long as `self`.
        unsafe { &*self.half.frame() }
    }

    /// What a thief does with a half that it has got.
    fn run(&self, hand: Hand) {
        if hand == Hand::ToldTooEarly {
            self.point.notify_all();
        }
        // SAFETY: - the callers got the half.
        let joiner = unsafe { Frame::run(self.half.frame()) };
        assert_eq!(joiner, 0);
        if hand != Hand::ToldTooEarly {
            self.point.notify_all();
        }
    }

    fn steal(&self, hand: Hand) {
        if let Some(frame) = self.deque.steal(None) {
            // SAFETY: - a frame of a live half.
            unsafe { &*frame }.begin(THIEF);
            self.run(hand);
        }
    }

    fn claim(&self, hand: Hand) {
        let claimed = match hand {
            Hand::ByLook => self.frame().claim_by_look(THIEF),
            _ => self.frame().claim(THIEF),
        };
        if claimed {
            self.run(hand);
        }
    }

    /// The joiner's end; `back`: no thief got the half.
    fn join(&self, back: bool, hand: Hand) {
        let result = if back {
            // SAFETY: - taken back.
            let closure = unsafe { self.half.take() };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(closure))
        } else {
            self.point.sleep_until(|| match self.frame().state() {
                State::Done => Look::Ready,
                State::Runs(runner) => {
                    assert_eq!(runner, THIEF);
                    Look::from(hand == Hand::TooEarly)
                }
                State::Open => Look::Pending,
            });
            // SAFETY: - done, unless a bug is planted.
            unsafe { self.half.result() }
        };
        match hand {
            Hand::Panicking => assert_eq!(result.unwrap_err().downcast_ref(), Some(&9_u32)),
            _ => assert_eq!(result.unwrap(), 5),
        }
        // What the closure did is seen.
        self.captured.publish();
    }
}

/// A half that is offered by the deque.
fn stolen_half(hand: Hand) {
    let frames = Frames::new(hand);
    let thief = {
        let frames = Arc::clone(&frames);
        thread::spawn(move || frames.steal(hand))
    };
    // SAFETY: - the main thread is the owner; the half lives until the end of the model.
    unsafe { frames.deque.push(frames.half.frame()) };
    // SAFETY: - once for the push.
    let back = unsafe { frames.deque.pop() };
    frames.join(back, hand);
    thief.join().unwrap();
}

/// The second half of an outermost join, which stands in no deque.
fn claimed_half(hand: Hand) {
    let frames = Frames::new(hand);
    let thief = {
        let frames = Arc::clone(&frames);
        thread::spawn(move || frames.claim(hand))
    };
    let back = match hand {
        Hand::ByLook => frames.frame().claim_by_look(Runner { member: 0, tag: 1 }),
        _ => frames.frame().claim_back(),
    };
    frames.join(back, hand);
    thief.join().unwrap();
}

#[test]
fn a_half_is_run_once_by_its_owner_or_by_a_thief() {
    explore(|| stolen_half(Hand::Right));
}

#[test]
fn a_panic_of_a_stolen_half_reaches_its_joiner() {
    explore(|| stolen_half(Hand::Panicking));
}

#[test]
fn a_half_outside_the_deques_is_claimed_once() {
    explore(|| claimed_half(Hand::Right));
}

#[test]
fn a_panic_of_a_claimed_half_reaches_its_joiner() {
    explore(|| claimed_half(Hand::Panicking));
}

#[test]
fn each_ordering_of_a_half_is_needed() {
    let tags = [("H1", RACE), ("H2", RACE)];
    is_needed("a_half_is_run_once_by_its_owner_or_by_a_thief", "src/join/half.rs", &tags);
    is_needed("a_half_outside_the_deques_is_claimed_once", "src/join/half.rs", &tags);
}

#[test]
fn a_joiner_that_takes_the_result_of_a_half_that_runs_is_caught() {
    is_refuted("a_joiner_that_takes_the_result_of_a_half_that_runs_is_caught", RACE, || {
        stolen_half(Hand::TooEarly)
    });
}

#[test]
fn a_claim_by_a_look_is_caught() {
    is_refuted("a_claim_by_a_look_is_caught", RACE, || claimed_half(Hand::ByLook));
}

#[test]
fn a_thief_that_wakes_before_it_is_done_is_caught() {
    is_refuted("a_thief_that_wakes_before_it_is_done_is_caught", DEADLOCK, || {
        claimed_half(Hand::ToldTooEarly)
    });
}
