//! Nano-threads that are switched away from while they wait, and resumed at their home.
//!
//! # Stories
//! A is the home's thread, B the one that has the last share of the node at which the nano-thread
//! waits (a completion, or the member that ran the last child).
//! 1. A writes the wait, and where it is, into the node and into the nano-thread
//!    (`Node::await_children`), and gives its own shares up (`Inputs::release`).
//! 2. B gives the last share up: that pairs with A's release, so B sees phase and wait. If B comes
//!    first, A has the last share, and is never switched away from.
//! 3. B puts the wait into A's inbox (B1), and notifies. A may still be on its way out of the
//!    nano-thread: it looks into its inbox only when it has noted the pause.
//! 4. A drains its inbox (B2), signals the wait, and finds the nano-thread due. The fiber is in the
//!    wait (`Nano::fiber`), which lasts until A resumes it. `TaskWait` is A's from then on.
//! 5. Where A itself has the last share it signals the wait directly (`Seat::deliver`).
//!
//! Lost: A sleeps while the wait is in its inbox (a deadlock). Twice: the nano-thread is due once
//! more (asserted). Gone: B looks at the node, or at the wait, after B1: A writes the node's place
//! when it waits again (a race). The switch of stacks itself is by one thread, and shares nothing.

use super::Data;
use crate::tasks::model::Team as Shipped;
use loom::sync::Arc;
use loom::thread;
use platform::model::{DEADLOCK, RACE, explore, explore_within, is_needed, is_refuted};

/// How the last completion tells.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    Right,
    /// It is forgotten.
    Never,
    /// The node is looked at once more after that.
    Late,
}

/// A nano-thread that suspends twice, until a thread outside the team has completed something.
fn suspends(is_suspendable: bool, told: Told) {
    let team = Arc::new((Shipped::new(1), [Data::default(), Data::default()]));
    // SAFETY: - the main thread is member 0.
    let suspender = unsafe { team.0.start(is_suspendable) };
    let threads = [0, 1].map(|round: usize| {
        let pending = suspender.pending();
        let outside = {
            let team = Arc::clone(&team);
            thread::spawn(move || {
                team.1[round].set(5);
                match told {
                    Told::Right => team.0.complete(pending),
                    Told::Never => {}
                    Told::Late => team.0.complete_late(pending),
                }
            })
        };
        // SAFETY: - as above.
        unsafe { team.0.suspend(&suspender, None) };
        assert_eq!(team.1[round].get(), 5, "it went on too early");
        outside
    });
    // SAFETY: - as above.
    let _group = unsafe { team.0.finish(suspender) };
    // SAFETY: - as above.
    unsafe { team.0.wait() };
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_nested_nano_thread_is_resumed_once_for_each_suspension() {
    explore_within(2, || suspends(false, Told::Right));
}

#[test]
fn a_suspendable_nano_thread_is_resumed_once_for_each_suspension() {
    explore_within(2, || suspends(true, Told::Right));
}

/// Two completions at the same time: one of them is the last.
fn two_completions() {
    let team = Arc::new((Shipped::new(1), [Data::default(), Data::default()]));
    // SAFETY: - the main thread is member 0.
    let suspender = unsafe { team.0.start(true) };
    let threads = [0, 1].map(|number: usize| {
        let pending = suspender.pending();
        let team = Arc::clone(&team);
        thread::spawn(move || {
            team.1[number].set(5);
            team.0.complete(pending);
        })
    });
    // SAFETY: - as above.
    unsafe { team.0.suspend(&suspender, None) };
    for data in &team.1 {
        assert_eq!(data.get(), 5, "it went on too early");
    }
    // SAFETY: - as above.
    let _group = unsafe { team.0.finish(suspender) };
    // SAFETY: - as above.
    unsafe { team.0.wait() };
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn two_completions_resume_a_nano_thread_once() {
    explore_within(2, two_completions);
}

/// One child runs on the home, one elsewhere: either may be the last.
fn children_here_and_elsewhere() {
    let team = Arc::new((Shipped::new(2), [Data::default(), Data::default()]));
    // SAFETY: - the main thread is member 0.
    let suspender = unsafe { team.0.start(false) };
    let [here, there] = [0, 1].map(|number: usize| {
        let own = Arc::clone(&team);
        // SAFETY: - as above.
        unsafe { team.0.spawn_into(&suspender, move || own.1[number].set(5)) }
    });
    let elsewhere = {
        let team = Arc::clone(&team);
        // SAFETY: - this thread is member 1.
        thread::spawn(move || unsafe {
            team.0.run(1, there);
            team.0.settle(1);
        })
    };
    // SAFETY: - as above.
    unsafe { team.0.suspend(&suspender, Some(here)) };
    for data in &team.1 {
        assert_eq!(data.get(), 5, "it went on too early");
    }
    // SAFETY: - as above.
    let _group = unsafe { team.0.finish(suspender) };
    // SAFETY: - as above.
    unsafe { team.0.wait() };
    elsewhere.join().unwrap();
}

#[test]
fn a_suspended_creator_is_resumed_once_by_children_here_and_elsewhere() {
    explore(children_here_and_elsewhere);
}

#[test]
fn each_ordering_of_a_suspension_is_needed() {
    let name = "a_nested_nano_thread_is_resumed_once_for_each_suspension";
    is_needed(name, "src/tasks/ready/inbox.rs", &[("B1", RACE), ("B2", RACE)]);
    // The completion does not see that the owner waits.
    let tags = [("release", "a Running nano-thread holds a share of its own")];
    is_needed(name, "src/tasks/inputs.rs", &tags);
}

#[test]
fn a_completion_that_is_forgotten_is_caught() {
    is_refuted("a_completion_that_is_forgotten_is_caught", DEADLOCK, || {
        suspends(false, Told::Never)
    });
}

#[test]
fn a_completion_that_looks_at_the_node_once_more_is_caught() {
    is_refuted("a_completion_that_looks_at_the_node_once_more_is_caught", RACE, || {
        suspends(false, Told::Late)
    });
}
