//! Children of a fork with the teams and the open constructs of their parent. One test: what it forks would otherwise be a
//! copy of a process in which another test is at work.
#![cfg(all(not(loom), unix))]

use nanothreads::Team;
use nanothreads::engine::{self, Member};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Runs `child` in a child process; whether that found all as it should be.
fn in_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: - the child runs `child`, which is what is tested, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let is_right = catch_unwind(AssertUnwindSafe(child)).unwrap_or(false);
            // SAFETY: - ends the child without the parent's destructors.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        child => {
            assert!(child > 0, "fork failed: {}", std::io::Error::last_os_error());
            let mut status = 0;
            // SAFETY: - `status` outlives the call; `child` is ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status == 0
        }
    }
}

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

fn says_so(outcome: std::thread::Result<()>) -> bool {
    outcome.is_err_and(|payload| {
        payload.downcast_ref::<&str>().is_some_and(|text| text.contains("exist there only"))
            || payload.downcast_ref::<String>().is_some_and(|text| text.contains("exist there only"))
    })
}

#[test]
fn a_child_has_teams_of_its_own_and_is_told_that_open_constructs_are_its_parents() {
    let kept = engine::Team::reserve(3);
    assert_eq!(members(&kept), 3);
    assert!(in_child(|| members(&kept) == 3), "made ready anew");
    assert_eq!(members(&kept), 3);
    let team = Team::exact(3).expect("threads");
    let ran = AtomicU32::new(0);
    team.overlap(|o| {
        let open = o.fork(|_| _ = ran.fetch_add(1, Relaxed));
        assert!(in_child(|| members(&kept) == 3), "a child may fork regions of its own");
        assert!(in_child(|| says_so(catch_unwind(AssertUnwindSafe(|| o.fork(|_| ()).join())))), "it cannot join");
        open.join();
    });
    assert_eq!(ran.load(Relaxed), 3);
    // A child that leaves the overlap has what the body returned.
    let is_child = team.overlap(|o| {
        drop(o.fork(|_| _ = ran.fetch_add(1, Relaxed)));
        // SAFETY: - the child leaves the overlap, which is what is tested, and ends by `_exit` below.
        unsafe { libc::fork() }
    });
    if is_child == 0 {
        let is_right = members(&kept) == 3 && team.map(|member| member.id()) == [0, 1, 2];
        // SAFETY: - ends the child without the parent's destructors.
        unsafe { libc::_exit(i32::from(!is_right)) }
    }
    let mut status = -1;
    // SAFETY: - `status` outlives the call; the child is ours.
    assert_eq!(unsafe { libc::waitpid(is_child, &raw mut status, 0) }, is_child);
    assert_eq!((status, ran.into_inner()), (0, 6));
}
