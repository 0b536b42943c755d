//! Children of the master that go on in the parts around the region in which they were forked, or
//! in a part that their master took back, or at an overlap's end, or after groups (D13). One test:
//! what it forks would otherwise be a copy of a process in which another test is at work.

use crate::forked::{assert_right, forked, leave, says};
use engine::sizer::Fixed;
use nanothreads::papers::Dispatch;
use nanothreads::{Schedule, Team, broadcast, groups, par_for};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use std::thread;

fn members() -> u32 {
    let count = AtomicU32::new(0);
    broadcast(|_| _ = count.fetch_add(1, Relaxed));
    count.into_inner()
}

/// The child of an inner region's master goes on in the outer region's part, where a processor is
/// lent that is its parent's.
fn child_after_an_inner_region_has_regions_of_its_own(divided: bool) {
    // Four processors: two are left, one for each member.
    let outer = Team::exact(2).expect("threads");
    let pid = AtomicI32::new(-1);
    outer.run(|member| {
        if member.id() != 0 {
            return;
        }
        let fork = |id: usize| {
            if id == 0 {
                pid.store(forked(), Relaxed);
            }
        };
        // Leaves the other spare processor with the lender.
        if divided {
            groups().equal(2).run(|group| fork(group.index()));
        } else {
            broadcast(|inner| fork(inner.id as usize));
        }
        if pid.load(Relaxed) == 0 {
            let is_right = (0..5).all(|_| members() == 4);
            leave(is_right);
        }
    });
    assert_right(pid.into_inner(), "has regions of its own after the inner region");
    assert_eq!(members(), 4);
}

/// What the child of a taken-back part panics with is the child's.
fn panic_after_a_fork_in_a_part_that_was_taken_back_is_the_childs() {
    let (pair, master) = (Team::exact(2).expect("threads"), thread::current().id());
    static PID: AtomicI32 = AtomicI32::new(-1);
    for _ in 0..200 {
        while engine::report().contains("awake") {
            thread::yield_now();
        }
        PID.store(-1, Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pair.install(|| {
                // Small enough for the dispatch line.
                par_for(0..2).schedule(Schedule::Static).run(move |i| {
                    if i == 1 && thread::current().id() == master {
                        PID.store(forked(), Relaxed);
                        if PID.load(Relaxed) == 0 {
                            resume_unwind(Box::new("the child's"));
                        }
                    }
                });
            });
        }));
        match PID.load(Relaxed) {
            0 => leave(
                outcome.is_err_and(|payload| payload.downcast_ref() == Some(&"the child's"))
                    && members() == 4,
            ),
            -1 => {}
            child => {
                assert_right(child, "gets its own panic");
                return;
            }
        }
    }
    platform::skip!(busy: "the worker was always faster than its master");
}

/// The child of a part that its master took back has the result of that part and of the master's
/// own one, at home or in places of their own.
fn child_of_a_part_that_was_taken_back_has_what_its_thread_did<const N: usize>() {
    let (pair, master) = (Team::exact(2).expect("threads"), thread::current().id());
    for _ in 0..200 {
        while engine::report().contains("awake") {
            thread::yield_now();
        }
        let pid = AtomicI32::new(-1);
        let result = pair.install(|| {
            par_for(0..2).schedule(Schedule::Static).reduce(
                [0; N],
                |i| {
                    if i == 1 && thread::current().id() == master {
                        pid.store(forked(), Relaxed);
                    }
                    [[1, 10][i]; N]
                },
                |a, b| std::array::from_fn(|at| a[at] + b[at]),
            )
        });
        match pid.into_inner() {
            0 => leave(result == [11; N] && members() == 4),
            -1 => {}
            child => {
                assert_right(child, "has what its thread did");
                assert_eq!(result, [11; N]);
                return;
            }
        }
    }
    platform::skip!(busy: "the worker was always faster than its master");
}

/// A child that is forked in the caller's group has that group's result.
fn child_of_the_callers_group_has_its_result() {
    for groups_count in [2, 4] {
        let pid = AtomicI32::new(-1);
        let results = groups().equal(groups_count).map(|group| {
            if group.index() == 0 {
                pid.store(forked(), Relaxed);
            }
            vec![group.index(); 3]
        });
        let pid = pid.into_inner();
        if pid == 0 {
            leave(results == [[0; 3]] && members() == 4);
        }
        assert_eq!(results, (0..groups_count).map(|index| vec![index; 3]).collect::<Vec<_>>());
        assert_right(pid, "has its own group's result");
    }
}

/// A child that is forked in the master's own part of a construct that only the end of the overlap
/// completes.
fn child_at_the_end_of_an_overlap_is_told() {
    for size in [1, 3] {
        let team = Team::exact(size).expect("threads");
        let pid = AtomicI32::new(-1);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.overlap(|o| {
                drop(o.fork(|member| {
                    if member.id == 0 {
                        pid.store(forked(), Relaxed);
                    }
                }));
            });
        }));
        if pid.load(Relaxed) == 0 {
            leave(says(outcome, "exist there only") && members() == 4);
        }
        assert!(outcome.is_ok());
        assert_right(pid.into_inner(), "is told that the other members are its parent's");
    }
}

#[test]
fn a_child_goes_on_outside_the_region_in_which_it_was_forked() {
    own_process!();
    assert!(
        nanothreads::builder().dispatch(Dispatch::Lines).sizer(Fixed::new(4)).install().is_ok()
    );
    assert_eq!(members(), 4);
    child_after_an_inner_region_has_regions_of_its_own(false);
    child_after_an_inner_region_has_regions_of_its_own(true);
    panic_after_a_fork_in_a_part_that_was_taken_back_is_the_childs();
    child_at_the_end_of_an_overlap_is_told();
    child_of_the_callers_group_has_its_result();
    child_of_a_part_that_was_taken_back_has_what_its_thread_did::<1>();
    child_of_a_part_that_was_taken_back_has_what_its_thread_did::<32>();
}
