//! Children that are forked while another thread looks up what a process looks up once (D13): they
//! look for themselves. One test: what it forks would otherwise be a copy of a process in which
//! another test is at work.

use crate::forked::{assert_in_child, assert_right, forked, leave};
use engine::sizer::Fixed;
use nanothreads::groups;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Divides the processors by cache: the first thread that does so looks up all that there is, the
/// machine's topology included, which takes a while.
fn divides() -> bool {
    let sizes = groups().by_cache().map(|group| group.size());
    !sizes.is_empty() && !sizes.contains(&0)
}

/// Forks so long after another thread began its first region.
fn forks_amid(delay: Duration) -> bool {
    assert!(nanothreads::builder().sizer(Fixed::new(2)).install().is_ok());
    let begin = Barrier::new(2);
    thread::scope(|threads| {
        let first = threads.spawn(|| {
            begin.wait();
            divides()
        });
        begin.wait();
        let start = Instant::now();
        while start.elapsed() < delay {
            std::hint::spin_loop();
        }
        let pid = forked();
        if pid == 0 {
            leave(divides());
        }
        assert_right(pid, "looks up all that itself");
        first.join().expect("it does not panic")
    })
}

#[test]
fn a_child_that_is_forked_while_another_thread_looks_things_up_does_not_wait_for_that_thread() {
    own_process!();
    for delay in (0..40).map(|step| Duration::from_micros(step * 20)) {
        // In a process that knows nothing yet.
        assert_in_child("and its own child have divided their processors", || forks_amid(delay));
    }
}
