//! Children that are forked while other threads of the program start and end (D13): the standard
//! library has a lock for that, which such a child finds taken now and then, for ever. One test:
//! what it forks would otherwise be a copy of a process in which another test is at work.

use crate::forked::{forked, leave, status_of};
use engine::sizer::Fixed;
use nanothreads::broadcast;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;

/// Child processes. With threads of the standard library as workers, four of six runs have one that
/// hangs.
const CHILDREN: u32 = 300;

/// The members of a region that ran.
fn members() -> u32 {
    let members = AtomicU32::new(0);
    // ORDERING: Relaxed - the join orders.
    broadcast(|_| _ = members.fetch_add(1, Relaxed));
    members.load(Relaxed)
}

#[test]
fn a_child_that_is_forked_while_threads_start_and_end_has_its_own_virtual_processors() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(4)).install().is_ok());
    assert_eq!(members(), 4);
    let is_over = AtomicBool::new(false);
    let wrong = thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                // ORDERING: Relaxed - a word on its own.
                while !is_over.load(Relaxed) {
                    thread::scope(|threads| {
                        for _ in 0..4 {
                            threads.spawn(|| ());
                        }
                    });
                }
            });
        }
        let mut statuses = (0..CHILDREN).map(|_| match forked() {
            0 => leave(members() == 4),
            child => status_of(child),
        });
        let wrong = statuses.find(|&status| status != 0);
        // ORDERING: Relaxed - as above.
        is_over.store(true, Relaxed);
        wrong
    });
    assert_eq!(
        wrong,
        None,
        "a child's status: 256: it has no team of four; {}: it hung",
        libc::SIGALRM
    );
}
