//! Processes that are forked inside a member's part and go on after it (D13). One test: what it
//! forks would otherwise be a copy of a process in which another test is at work.

use crate::forked::{forked, leave, status_of};
use nanothreads::papers::Dispatch;
use nanothreads::workers::on_each;
use nanothreads::{Schedule, Team, groups, par_for};
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicI32, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Forks a child that leaves the part that it was forked in: it must be ended, with a report.
fn child_that_leaves_is_ended() {
    let mut ends = [0; 2];
    // SAFETY: - `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [reads, writes] = ends;
    let pid = forked();
    if pid == 0 {
        // SAFETY: - descriptors of this process; its reports go to the parent.
        unsafe { libc::dup2(writes, 2) };
        return;
    }
    // SAFETY: - made above, and closed only here.
    drop(unsafe { File::from_raw_fd(writes) });
    // SAFETY: - as above.
    let mut reader = unsafe { File::from_raw_fd(reads) };
    let status = status_of(pid);
    let mut report = String::new();
    reader.read_to_string(&mut report).expect("the child's report");
    assert_eq!(status & 0x7f, libc::SIGABRT, "status {status:#x}, report: {report:?}");
    assert!(
        report.contains("must end, or exec") && report.contains("The child ends"),
        "{report:?}"
    );
}

fn threads(team: &Team) -> u32 {
    let count = AtomicU32::new(0);
    team.run(|member| {
        count.fetch_add(1, AcqRel);
        member.barrier();
        assert_eq!(count.load(Acquire), member.size() as u32, "the barrier let a member through");
        member.barrier();
    });
    count.into_inner()
}

/// A child of the master, forked while the others are at a barrier, that leaves the region (by a
/// panic or without).
fn kept_team_works_in_the_child(team: &Team, panics: bool) {
    let (arriving, child) = (AtomicU32::new(0), AtomicI32::new(-1));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        team.run(|member| {
            if member.id() == 0 {
                while arriving.load(Acquire) != 2 {
                    std::thread::yield_now();
                }
                // They have arrived soon; if not, less is tested.
                (0..1_000).for_each(|_| std::thread::yield_now());
                child.store(forked(), Relaxed);
                if child.load(Relaxed) == 0 {
                    if panics {
                        std::panic::resume_unwind(Box::new("the child's"));
                    }
                    return;
                }
            } else {
                arriving.fetch_add(1, AcqRel);
            }
            member.barrier();
        });
    }));
    let pid = child.into_inner();
    if pid == 0 {
        let is_right = outcome.is_err() == panics && (0..5).all(|_| threads(team) == 3);
        leave(is_right);
    }
    assert!(outcome.is_ok());
    assert_eq!(status_of(pid), 0, "the child's own regions (panicked before: {panics})");
    assert_eq!(threads(team), 3, "the parent's team is untouched");
}

/// What a member returns takes a while to be written.
type Long = [usize; 512];

/// A child of the master, forked while the other members return, gets what the master returns and
/// nothing of theirs.
fn child_has_what_its_master_returns(team: &Team) {
    let (arrived, child) = (AtomicU32::new(0), AtomicI32::new(-1));
    let results = team.map(|member| -> Long {
        if member.id() == 0 {
            while arrived.load(Acquire) == 0 {
                std::thread::yield_now();
            }
            child.store(forked(), Relaxed);
        } else {
            arrived.fetch_add(1, AcqRel);
        }
        [member.id(); 512]
    });
    let pid = child.into_inner();
    if pid == 0 {
        let is_right = results == [[0; 512]] && threads(team) == 3;
        leave(is_right);
    }
    assert_eq!(results, [[0; 512], [1; 512], [2; 512]]);
    assert_eq!(status_of(pid), 0, "the child has its master's result, and teams of its own");
}

/// A child of the master goes on after its part without those that its parent's other members had
/// not begun: they slept when the region was forked.
fn child_leaves_the_parts_of_others_alone(team: &Team) {
    while engine::report().contains("awake") {
        std::thread::yield_now();
    }
    let (ran, before, child) = (AtomicU32::new(0), AtomicU32::new(0), AtomicI32::new(-1));
    team.install(|| {
        par_for(0..3).schedule(Schedule::Static).run(|i| {
            if i == 0 {
                child.store(forked(), Relaxed);
                before.store(ran.load(Acquire), Relaxed);
            }
            ran.fetch_add(1, AcqRel);
        });
    });
    let pid = child.into_inner();
    if pid == 0 {
        let is_right = ran.into_inner() == before.into_inner() + 1 && threads(team) == 3;
        leave(is_right);
    }
    assert_eq!(ran.into_inner(), 3);
    assert_eq!(status_of(pid), 0, "the child");
}

#[test]
fn a_child_after_its_part_has_kept_teams_of_its_own_or_is_ended_where_its_master_would_be() {
    own_process!();
    let team = Team::exact(3).expect("threads");
    for panics in [false, true, false] {
        kept_team_works_in_the_child(&team, panics);
    }
    for _ in 0..8 {
        child_has_what_its_master_returns(&team);
        child_leaves_the_parts_of_others_alone(&team);
    }
    for dispatch in [Dispatch::Lines, Dispatch::Broadcast] {
        let team = Team::exact(3).expect("threads").dispatched(dispatch);
        for forking in 1..3 {
            team.run(|member| {
                if member.id() == forking {
                    child_that_leaves_is_ended();
                }
            });
            team.overlap(|o| {
                o.fork(|member| {
                    if member.id as usize == forking {
                        child_that_leaves_is_ended();
                    }
                })
                .join();
            });
        }
        // The child leaves an inner region alone, then the part of the outer one.
        team.run(|member| {
            if member.id() == 1 {
                Team::exact(2).expect("threads").run(|inner| {
                    if inner.id() == 0 {
                        child_that_leaves_is_ended();
                    }
                });
            }
        });
        assert_eq!(threads(&team), 3);
    }
    team.install(|| {
        groups().equal(2).run(|group| {
            if group.index() == 1 {
                child_that_leaves_is_ended();
            }
        });
    });
    let offered = AtomicU32::new(0);
    on_each(|_| {
        if offered.fetch_add(1, Relaxed) == 0 {
            child_that_leaves_is_ended();
        }
    });
    assert_eq!(threads(&team), 3, "the parent goes on");
}
