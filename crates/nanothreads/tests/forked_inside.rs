//! Children of the master that go on in the parts around the region in which they were forked, or in a part that their master
//! took back, or at an overlap's end (D13). One test: what it forks would otherwise be a copy of a process in which another
//! test is at work.
#![cfg(all(not(loom), unix))]

use nanothreads::sizer::Fixed;
use nanothreads::{Config, Schedule, Supply, Team, broadcast, engine, groups, par_for};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use std::thread;

/// Seconds after which a child that waits for ever ends, by `SIGALRM`.
const PATIENCE: u32 = 20;

/// Forks; the child ends if it hangs.
fn forked() -> i32 {
    // SAFETY: - what the child does is what this test is about; it ends by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: - takes no pointers.
        unsafe { libc::alarm(PATIENCE) };
        std::panic::set_hook(Box::new(|_| ()));
    }
    pid
}

/// Ends the child.
fn leave(is_right: bool) -> ! {
    // SAFETY: - ends the child without the parent's destructors.
    unsafe { libc::_exit(i32::from(!is_right)) }
}

fn assert_right(child: i32, what: &str) {
    let mut status = 0;
    // SAFETY: - `status` outlives the call; `child` is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child {what}");
}

fn members() -> u32 {
    let count = AtomicU32::new(0);
    broadcast(|_| _ = count.fetch_add(1, Relaxed));
    count.into_inner()
}

/// The child of an inner region's master goes on in the outer region's part, where a processor is lent that is its parent's.
fn child_behind_an_inner_region_has_regions_of_its_own(divided: bool) {
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
    assert_right(pid.into_inner(), "has regions of its own behind the inner region");
    assert_eq!(members(), 4);
}

/// What the child of a taken-back part panics with is the child's.
fn panic_behind_a_fork_in_a_part_that_was_taken_back_is_the_childs() {
    let (pair, master) = (Team::exact(2).expect("threads"), thread::current().id());
    static PID: AtomicI32 = AtomicI32::new(-1);
    for _ in 0..200 {
        while engine::report().contains("awake") {
            thread::yield_now();
        }
        PID.store(-1, Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pair.install(|| {
                // Small enough for the supply line.
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
            0 => leave(outcome.is_err_and(|payload| payload.downcast_ref() == Some(&"the child's")) && members() == 4),
            -1 => {}
            child => {
                assert_right(child, "gets its own panic");
                return;
            }
        }
    }
    println!("skipped: the slave was always faster than its master");
}

/// A child that is forked in the master's own part of a construct that only the end of the overlap completes.
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
            let is_told = outcome.is_err_and(|payload| {
                let text = payload.downcast_ref::<&str>().copied();
                text.is_some_and(|text| text.contains("exist there only"))
            });
            leave(is_told && members() == 4);
        }
        assert!(outcome.is_ok());
        assert_right(pid.into_inner(), "is told that the other members are its parent's");
    }
}

#[test]
fn a_child_goes_on_outside_the_region_in_which_it_was_forked() {
    assert!(nanothreads::configure(Config { supply: Supply::Local, ..Config::default() }));
    assert!(nanothreads::set_team_sizer(Box::new(Fixed::new(4))));
    assert_eq!(members(), 4);
    child_behind_an_inner_region_has_regions_of_its_own(false);
    child_behind_an_inner_region_has_regions_of_its_own(true);
    panic_behind_a_fork_in_a_part_that_was_taken_back_is_the_childs();
    child_at_the_end_of_an_overlap_is_told();
}
