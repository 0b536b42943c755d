//! Children of a fork that fork in an overlap of their parent: they are told, and lose no work in silence. One test: what it
//! forks would otherwise be a copy of a process in which another test is at work.
#![cfg(all(not(loom), unix))]

use nanothreads::Team;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn says_so(outcome: std::thread::Result<()>) -> bool {
    outcome.is_err_and(|payload| {
        payload.downcast_ref::<&str>().is_some_and(|text| text.contains("exist there only"))
            || payload.downcast_ref::<String>().is_some_and(|text| text.contains("exist there only"))
    })
}

/// Ends the child.
fn leave(is_right: bool) -> ! {
    // SAFETY: - ends the child without the parent's destructors.
    unsafe { libc::_exit(i32::from(!is_right)) }
}

fn assert_right(child: i32) {
    assert!(child > 0, "fork failed: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: - `status` outlives the call; `child` is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn a_child_that_forks_in_its_parents_overlap_is_told_and_may_then_have_one_of_its_own() {
    let parent = std::process::id();
    // Alone, its own part would be all: nothing runs it either when the overlap ends.
    for size in [1, 3] {
        let team = Team::exact(size).expect("threads");
        let ran = AtomicU32::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.overlap(|o| {
                let count = |_| _ = ran.fetch_add(1, Relaxed);
                o.fork(count).join();
                // SAFETY: - the child goes on in the overlap, which is what is tested, and ends by `_exit`.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    std::panic::set_hook(Box::new(|_| ()));
                }
                // At once, not only where it is joined: a dropped handle is never asked.
                drop(o.fork(count));
                child
            })
        }));
        if std::process::id() != parent {
            let is_told = says_so(outcome.map(drop));
            let before = ran.load(Relaxed) as usize;
            let again = AtomicU32::new(0);
            team.overlap(|o| drop(o.fork(|_| _ = again.fetch_add(1, Relaxed))));
            leave(is_told && before == size && again.into_inner() as usize == size);
        }
        assert_right(outcome.expect("the parent's overlap is untouched"));
        assert_eq!(ran.into_inner() as usize, 2 * size);
    }
}
