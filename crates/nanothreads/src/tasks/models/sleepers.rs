//! Tasks, and the members that sleep beside them.

use crate::idle::Idle;
use engine::wait_point::{Look, WaitPoint};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use platform::membarrier;
use platform::model::{DEADLOCK, explore_within, is_needed, is_refuted};

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
