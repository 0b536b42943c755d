//! Threads of the program that fork until their very end give their workers back. One
//! test, since it counts those of the process.

use nanothreads::{Team, builder, statistics};
use std::thread;

/// Forks when its thread ends.
struct LastWords;

impl Drop for LastWords {
    fn drop(&mut self) {
        assert_eq!(Team::exact(4).map(|team| team.map(|member| member.id()).len()), Ok(4));
    }
}

thread_local! {
    static EARLY: LastWords = const { LastWords };
    static LATE: LastWords = const { LastWords };
}

#[test]
fn virtual_processors_come_back_from_threads_that_fork_in_destructors() {
    own_process!();
    builder().threads(4).adapt(false).install().expect("the first settings");
    for round in 0..20 {
        thread::spawn(move || {
            // Destructors run in the opposite order: each round has one before and one after what a
            // fork sets up.
            EARLY.with(|_| ());
            if round % 2 == 0 {
                Team::exact(4).expect("the system gives threads").run(|_| ());
            }
            LATE.with(|_| ());
        })
        .join()
        .expect("the thread and its destructors run");
        assert_eq!(statistics().workers, 3, "after {} threads, one at a time", round + 1);
    }
}
