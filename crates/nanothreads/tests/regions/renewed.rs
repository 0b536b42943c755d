//! Threads that go on as others have ended, with their destructors, when the call returns that
//! renews them.

use nanothreads::{Team, builder};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

static ENDED: AtomicUsize = AtomicUsize::new(0);
/// How often the program's hook was called on a thread that ends.
static EXITED: AtomicUsize = AtomicUsize::new(0);

/// Takes its time to end.
struct Slow(Cell<usize>);

impl Drop for Slow {
    fn drop(&mut self) {
        (0..1000).for_each(|_| thread::yield_now());
        ENDED.fetch_add(1, SeqCst);
    }
}

thread_local! {
    static KEPT: Slow = const { Slow(Cell::new(0)) };
}

#[test]
fn what_the_old_threads_kept_has_ended_when_the_renewal_returns() {
    own_process!();
    let hook = |_| _ = EXITED.fetch_add(1, SeqCst);
    let settings = builder().threads(4).adapt(false).on_thread_exit(hook);
    settings.install().expect("the first settings");
    let team = Team::exact(4).expect("the system gives threads");
    let own = thread::current().id();
    for round in 1..=20 {
        let found = team.map(|_| KEPT.with(|kept| (thread::current().id(), kept.0.replace(round))));
        for (thread, kept) in found {
            assert_eq!(
                kept,
                if thread == own { round - 1 } else { 0 },
                "others begin anew in round {round}"
            );
        }
        engine::renew_threads();
        assert_eq!(ENDED.load(SeqCst), 3 * round, "after {round} renewals of three threads");
        assert_eq!(EXITED.load(SeqCst), 3 * round, "hooks after {round} renewals");
    }
}
