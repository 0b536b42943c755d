//! A process that is forked inside a task (D13): the child has scopes of its own, its parent's
//! tasks it has not.

use crate::forked::{assert_in_child, assert_right, forked, leave, status_of};
use engine::sizer::Fixed;
use nanothreads::{Team, scope};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Tasks that ran in a scope of 50.
fn tasks() -> u32 {
    let count = AtomicU32::new(0);
    scope(|s| {
        for _ in 0..50 {
            s.spawn(|_| {
                count.fetch_add(1, Relaxed);
            });
        }
    });
    count.into_inner()
}

/// A task that is the last one of its scope: what its child leaves it for is only the scope's end.
fn child_that_leaves_the_last_task_is_ended(team: &Team) {
    for deep in [false, true] {
        let fork = || {
            let pid = forked();
            if pid != 0 {
                assert_eq!(status_of(pid) & 0x7f, libc::SIGABRT, "the child left the last task");
            }
        };
        let parent = std::process::id();
        team.install(|| {
            scope(|s| {
                s.spawn(move |s| if deep { s.group(|s| s.spawn(move |_| fork())) } else { fork() });
            });
        });
        if std::process::id() != parent {
            leave(true);
        }
    }
}

/// There are no tasks of the parent's that it could wait for.
fn child_that_is_forked_in_a_body_after_all_tasks_leaves_the_scope() {
    for _ in 0..5 {
        let parent = std::process::id();
        let pid = scope(|s| {
            for _ in 0..10 {
                s.spawn(|_| ());
            }
            s.wait();
            forked()
        });
        if std::process::id() != parent {
            leave((0..5).all(|_| tasks() == 50));
        }
        assert_right(pid, "leaves its parent's scope, and has scopes of its own");
    }
}

// One test: what it forks would otherwise be a copy of a process in which another test is in a
// region.
#[test]
fn a_child_has_scopes_of_its_own_and_is_ended_when_it_goes_on_with_its_parents_tasks() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(3)).install().is_ok());
    for _ in 0..5 {
        let ran = AtomicU32::new(0);
        scope(|s| {
            s.spawn(|_| {
                assert_in_child("has scopes of its own", || tasks() == 50);
            });
            s.spawn(|_| {
                let pid = forked();
                if pid != 0 {
                    assert_eq!(status_of(pid) & 0x7f, libc::SIGABRT, "the child left the task");
                }
            });
            for _ in 0..20 {
                s.spawn(|_| {
                    ran.fetch_add(1, Relaxed);
                });
            }
        });
        assert_eq!(ran.into_inner(), 20, "the parent's scope is untouched");
    }
    for size in [1, 3] {
        child_that_leaves_the_last_task_is_ended(&Team::exact(size).expect("threads"));
    }
    child_that_is_forked_in_a_body_after_all_tasks_leaves_the_scope();
}
