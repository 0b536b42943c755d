//! Children of a fork with the teams and the open constructs of their parent. One test: what it
//! forks would otherwise be a copy of a process in which another test is at work.

use crate::forked::{assert_in_child, assert_right, forked, leave, says};
use engine::{self, Member};
use nanothreads::Team;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// # Safety
/// - `data` points to a live `AtomicU32`.
unsafe fn count(data: *const (), _: Member) {
    // SAFETY: - caller's contract.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Relaxed);
}

fn members(team: &engine::Team) -> u32 {
    let sum = AtomicU32::new(0);
    // SAFETY: - `count` takes that number, on any thread, and does not unwind.
    unsafe { team.run(count, ptr::from_ref(&sum).cast()) };
    sum.into_inner()
}

#[test]
fn a_child_has_teams_of_its_own_and_is_told_that_open_constructs_are_its_parents() {
    own_process!();
    let kept = engine::Team::reserve(3);
    assert_eq!(members(&kept), 3);
    assert_in_child("has the kept team, made ready anew", || members(&kept) == 3);
    assert_eq!(members(&kept), 3);
    let team = Team::exact(3).expect("threads");
    let ran = AtomicU32::new(0);
    team.overlap(|o| {
        let open = o.fork(|_| _ = ran.fetch_add(1, Relaxed));
        assert_in_child("may fork regions of its own", || members(&kept) == 3);
        assert_in_child("is told that it cannot join", || {
            says(catch_unwind(AssertUnwindSafe(|| o.fork(|_| ()).join())), "exist there only")
        });
        open.join();
    });
    assert_eq!(ran.load(Relaxed), 3);
    // A child that leaves the overlap has what the body returned.
    let pid = team.overlap(|o| {
        drop(o.fork(|_| _ = ran.fetch_add(1, Relaxed)));
        forked()
    });
    if pid == 0 {
        leave(members(&kept) == 3 && team.map(|member| member.id()) == [0, 1, 2]);
    }
    assert_right(pid, "has what the body returned, and its teams");
    assert_eq!(ran.into_inner(), 6);
}
