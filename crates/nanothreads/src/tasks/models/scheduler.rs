//! Tasks from their creation to their end, by the scheduler itself.

use super::Data;
use crate::tasks::model::Team as Shipped;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use platform::model::{DEADLOCK, RACE, explore, explore_within, is_needed, is_refuted};

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
