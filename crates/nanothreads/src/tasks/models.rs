//! Models of the nano-threads' shipped protocol types, driven by loom:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads --lib nano::models`. Each has a twin
//! with a planted bug that loom must find.

use crate::idle::Idle;
use crate::tasks::inputs::Inputs;
use crate::tasks::model::Team as Shipped;
use crate::tasks::ready::inbox::{Inbox, Item};
use crate::tasks::successors::{Link, Successors};
use engine::wait_point::{Look, WaitPoint};
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use loom::thread;
use platform::membarrier;
use platform::model::{DEADLOCK, RACE, explore, explore_within, is_needed, is_refuted};
use platform::sync::HandCell;
use std::ptr;

/// A plain value that a protocol hands over: loom reports accesses that nothing orders.
#[derive(Default)]
struct Data(HandCell<u32>);

// SAFETY: loom checks what the protocols under test promise.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

impl Data {
    fn set(&self, value: u32) {
        // SAFETY: checked by loom.
        unsafe { self.0.with_mut(|cell| *cell = value) };
    }

    fn get(&self) -> u32 {
        // SAFETY: checked by loom.
        unsafe { self.0.with(|cell| *cell) }
    }
}

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

/// A nano-thread in an inbox, with something that its pusher hands over.
struct Letter {
    link: HandCell<*const Letter>,
    content: Data,
}

// SAFETY: loom checks what the protocols under test promise.
unsafe impl Sync for Letter {}
// SAFETY: as above.
unsafe impl Send for Letter {}

// SAFETY: - the link is the inbox's alone.
unsafe impl Item for Letter {
    fn link(&self) -> &HandCell<*const Self> {
        &self.link
    }
}

fn two_pushers(touch_after_the_push: bool) {
    let letter = || Letter { link: HandCell::new(ptr::null()), content: Data::default() };
    let shared = Arc::new((Inbox::new(), [letter(), letter()]));
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (inbox, letters) = &*shared;
                let letter: &Letter = &letters[number];
                letter.content.set(number as u32 + 1);
                // SAFETY: - pushed once; alive until the end of the model.
                unsafe { inbox.push(letter) };
                if touch_after_the_push {
                    letter.content.set(9);
                }
            })
        })
        .collect();
    let mut sum = 0;
    let mut count = 0;
    while count < 2 {
        // SAFETY: - this thread is the owner.
        let any = unsafe {
            shared.0.drain(|letter| {
                count += 1;
                // SAFETY: - alive until the end of the model.
                sum += (*letter).content.get();
            })
        };
        if !any {
            thread::yield_now();
        }
    }
    assert_eq!((count, sum), (2, 3));
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn letters_of_two_pushers_arrive_once_each() {
    explore(|| two_pushers(false));
}

#[test]
fn each_ordering_of_an_inbox_is_needed() {
    let tags = [("B1", RACE), ("B2", RACE)];
    is_needed("letters_of_two_pushers_arrive_once_each", "src/tasks/ready/inbox.rs", &tags);
    is_needed("a_creator_goes_on_when_its_child_is_done", "src/tasks/ready/inbox.rs", &tags);
}

#[test]
fn a_pusher_that_keeps_writing_is_caught() {
    is_refuted("a_pusher_that_keeps_writing_is_caught", RACE, || two_pushers(true));
}

/// How two tasks may find their members.
#[derive(Clone, Copy, PartialEq)]
enum Pushed {
    Right,
    /// A sleeper is looked for without its bit.
    WithoutBits,
    /// A member that found work by itself keeps the wake that it also got.
    Kept,
}

/// Two members that sleep beside two tasks, each of which keeps its member.
struct Team {
    idle: Idle,
    points: [WaitPoint; 2],
    tasks: AtomicUsize,
}

impl Team {
    fn member(&self, index: usize, passes_on: bool) {
        self.points[index].sleep_until(|| {
            let found =
                self.tasks.fetch_update(Relaxed, Relaxed, |tasks| tasks.checked_sub(1)).is_ok();
            if found { Look::Ready } else { self.idle.look(index) }
        });
        if !self.idle.take(index) && passes_on && self.tasks.load(Relaxed) > 0 {
            self.idle.wake_one(0..2, |member| &self.points[member]);
        }
    }

    fn push(&self, pushed: Pushed) {
        self.tasks.fetch_add(1, Relaxed);
        if pushed != Pushed::WithoutBits {
            self.idle.wake_one(0..2, |member| &self.points[member]);
        } else {
            membarrier::light();
            // The first that sleeps, although it may have been woken already.
            if let Some(point) = self.points.iter().find(|point| point.has_sleepers()) {
                point.wake_sleepers();
            }
        }
    }
}

fn two_sleepers(pushed: Pushed) {
    let team = Arc::new(Team {
        idle: Idle::new(2),
        points: [WaitPoint::new(), WaitPoint::new()],
        tasks: AtomicUsize::new(0),
    });
    let members: Vec<_> = (0..2)
        .map(|index| {
            let team = Arc::clone(&team);
            thread::spawn(move || team.member(index, pushed != Pushed::Kept))
        })
        .collect();
    team.push(pushed);
    team.push(pushed);
    for member in members {
        member.join().unwrap();
    }
}

#[test]
fn two_pushes_wake_two_sleepers() {
    // The timed sleeps add executions that are no preemptions.
    explore_within(2, || two_sleepers(Pushed::Right));
}

#[test]
fn a_thread_that_pushes_needs_its_fence_before_it_looks_for_sleepers() {
    is_needed("two_pushes_wake_two_sleepers", "src/idle.rs", &[("K2", DEADLOCK)]);
}

#[test]
fn a_sleeper_that_is_counted_for_two_pushes_is_caught() {
    is_refuted("a_sleeper_that_is_counted_for_two_pushes_is_caught", DEADLOCK, || {
        two_sleepers(Pushed::WithoutBits)
    });
}

#[test]
fn a_member_that_was_taken_for_a_sleeper_and_keeps_the_wake_is_caught() {
    is_refuted(
        "a_member_that_was_taken_for_a_sleeper_and_keeps_the_wake_is_caught",
        DEADLOCK,
        || two_sleepers(Pushed::Kept),
    );
}

/// How members end children of a creator, by the scheduler itself.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Right,
    /// It is never given up.
    Kept,
}

/// A creator on member 0, and members each of which runs `children` in a row: the shares of all but
/// the first are kept.
fn ends_elsewhere(members: usize, children: usize, ends: Ends) {
    let team = Arc::new((Shipped::new(members + 1), <[Data; 4]>::default()));
    let threads: Vec<_> = (0..members)
        .map(|member| {
            let tasks: Vec<_> = (0..children)
                .map(|child| {
                    let own = Arc::clone(&team);
                    // SAFETY: - the main thread is member 0.
                    unsafe { team.0.spawn(move || own.1[member * children + child].set(5)) }
                })
                .collect();
            let team = Arc::clone(&team);
            thread::spawn(move || {
                for task in tasks {
                    // SAFETY: - this thread is that member.
                    unsafe { team.0.run(member + 1, task) };
                }
                if ends != Ends::Kept {
                    // SAFETY: - as above.
                    unsafe { team.0.settle(member + 1) };
                }
            })
        })
        .collect();
    // SAFETY: - the main thread is member 0.
    unsafe { team.0.wait() };
    for data in &team.1[..members * children] {
        assert_eq!(data.get(), 5);
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn children_whose_shares_are_kept_wake_their_creator_together() {
    explore_within(2, || ends_elsewhere(1, 3, Ends::Right));
}

#[test]
fn children_on_two_members_wake_their_creator_once() {
    explore_within(2, || ends_elsewhere(2, 2, Ends::Right));
}

#[test]
fn each_ordering_of_a_creators_counter_is_needed() {
    let tags = [("release", RACE), ("is_only", RACE)];
    is_needed("children_that_end_near_their_creator_count_alike", "src/tasks/inputs.rs", &tags);
    // The last child does not see that the creator waits.
    let tags = [("release", "a Running nano-thread holds a share of its own"), ("is_only", RACE)];
    is_needed(
        "children_whose_shares_are_kept_wake_their_creator_together",
        "src/tasks/inputs.rs",
        &tags,
    );
    is_needed("children_on_two_members_wake_their_creator_once", "src/tasks/inputs.rs", &tags);
    is_needed(
        "a_creator_waits_again_with_descriptors_that_come_back",
        "src/tasks/inputs.rs",
        &tags,
    );
}

#[test]
fn kept_shares_that_are_never_given_up_are_caught() {
    is_refuted("kept_shares_that_are_never_given_up_are_caught", DEADLOCK, || {
        ends_elsewhere(1, 2, Ends::Kept)
    });
}

/// Two rounds of children: the second one's descriptors may be those that member 1 gave back, and
/// the creator's counter is used again.
#[test]
fn a_creator_waits_again_with_descriptors_that_come_back() {
    explore_within(2, || {
        let team = Arc::new((Shipped::new(2), Data::default()));
        for round in 1..3 {
            let own = Arc::clone(&team);
            // SAFETY: - the main thread is member 0.
            let task = unsafe { team.0.spawn(move || own.1.set(round)) };
            let elsewhere = {
                let team = Arc::clone(&team);
                // SAFETY: - the only thread that is member 1 in this round; the next one begins
                // when it has ended.
                thread::spawn(move || unsafe {
                    team.0.run(1, task);
                    team.0.settle(1);
                })
            };
            // SAFETY: - the main thread is member 0.
            unsafe { team.0.wait() };
            assert_eq!(team.1.get(), round);
            elsewhere.join().unwrap();
        }
    });
}

/// A task that is created while its predecessor ends on another member: it runs once, after it, on
/// either.
#[test]
fn a_successor_by_descriptor_runs_once_and_after_its_predecessor() {
    explore(|| {
        let team =
            Arc::new((Shipped::new(2), [Data::default(), Data::default()], AtomicUsize::new(0)));
        let own = Arc::clone(&team);
        // SAFETY: - the main thread is member 0.
        let (first, name) = unsafe { team.0.spawn_named(move || own.1[0].set(5)) };
        let elsewhere = {
            let team = Arc::clone(&team);
            // SAFETY: - this thread is member 1.
            thread::spawn(move || unsafe {
                team.0.run(1, first);
                team.0.settle(1);
            })
        };
        let own = Arc::clone(&team);
        let second = move || {
            assert_eq!(own.2.fetch_add(1, Relaxed), 0, "started twice");
            assert_eq!(own.1[0].get(), 5);
            own.1[1].set(6);
        };
        // SAFETY: - the main thread is member 0.
        unsafe {
            if let Some(ready) = team.0.spawn_after(&[&name], second) {
                team.0.run(0, ready);
            }
            team.0.wait();
        }
        assert_eq!(team.1[1].get(), 6);
        elsewhere.join().unwrap();
    });
}

/// A thread that sees a task finished uses what it did.
fn finished() {
    let team = Arc::new((Shipped::new(2), Data::default()));
    let own = Arc::clone(&team);
    // SAFETY: - the main thread is member 0.
    let (task, name) = unsafe { team.0.spawn_named(move || own.1.set(5)) };
    let elsewhere = {
        let team = Arc::clone(&team);
        // SAFETY: - this thread is member 1.
        thread::spawn(move || unsafe {
            team.0.run(1, task);
            team.0.settle(1);
        })
    };
    if name.is_finished() {
        assert_eq!(team.1.get(), 5);
    }
    // SAFETY: - the main thread is member 0.
    unsafe { team.0.wait() };
    elsewhere.join().unwrap();
}

#[test]
fn a_thread_that_sees_a_task_finished_sees_what_it_did() {
    explore(finished);
}
