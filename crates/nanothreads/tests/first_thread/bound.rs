//! A bound team keeps its limit, also when the first thread is its master.

use nanothreads::broadcast;
use std::time::{Duration, Instant};

pub(crate) fn a_bound_team_keeps_its_limit_also_when_the_first_thread_is_its_master() {
    own_process!();
    assert_eq!(
        platform::affinity::current_tid().0,
        std::process::id().cast_signed(),
        "the first thread"
    );
    assert!(nanothreads::builder().adapt(false).bind(true).install().is_ok());
    // Teams may be smaller while others use the processors; what the mask allows is the same.
    let limit = || {
        broadcast(|_| ());
        engine::team_limit()
    };
    let before = limit();
    // The engine looks at the mask ten times a second.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(350) {
        assert_eq!(limit(), before, "a bound master was taken for a narrower mask");
    }
}
