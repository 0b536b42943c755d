//! Children of a fork that fork in an overlap of their parent: they are told, and lose no work in
//! silence. One test: what it forks would otherwise be a copy of a process in which another test is
//! at work.

use crate::forked::{assert_right, forked, leave, says};
use nanothreads::Team;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[test]
fn a_child_that_forks_in_its_parents_overlap_is_told_and_may_then_have_one_of_its_own() {
    own_process!();
    let parent = std::process::id();
    // Alone, its own part would be all: nothing runs it either when the overlap ends.
    for size in [1, 3] {
        let team = Team::exact(size).expect("threads");
        let ran = AtomicU32::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.overlap(|o| {
                let count = |_| _ = ran.fetch_add(1, Relaxed);
                o.fork(count).join();
                let child = forked();
                // At once, not only where it is joined: a dropped handle is never asked.
                drop(o.fork(count));
                child
            })
        }));
        if std::process::id() != parent {
            let is_told = says(outcome, "exist there only");
            let before = ran.load(Relaxed) as usize;
            let again = AtomicU32::new(0);
            team.overlap(|o| drop(o.fork(|_| _ = again.fetch_add(1, Relaxed))));
            leave(is_told && before == size && again.into_inner() as usize == size);
        }
        assert_right(outcome.expect("the parent's overlap is untouched"), "is told");
        assert_eq!(ran.into_inner() as usize, 2 * size);
    }
}
