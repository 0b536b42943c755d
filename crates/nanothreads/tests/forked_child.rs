//! A forked child uses parallel regions of its own (D13): outside a region, and from inside one.
#![cfg(all(not(loom), unix))]

use nanothreads::broadcast;
use nanothreads::sizer::Fixed;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// Runs `child` in a forked process; returns its exit status.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: - the child only uses what the test allows, then leaves by _exit.
    match unsafe { fork() } {
        -1 => panic!("fork failed"),
        0 => {
            let status = child();
            // SAFETY: - ends the child without running the parent's destructors.
            unsafe { _exit(status) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: - `status` outlives the call; `pid` is our child.
            assert_eq!(unsafe { waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!(status & 0x7f, 0, "the child was ended by a signal");
            status >> 8
        }
    }
}

fn members() -> u32 {
    let count = AtomicU32::new(0);
    broadcast(|_| {
        count.fetch_add(1, Relaxed);
    });
    count.into_inner()
}

// One test: what it forks would otherwise be a copy of a process in which another test is amid a region.
#[test]
fn a_child_has_regions_of_its_own() {
    assert!(nanothreads::set_team_sizer(Box::new(Fixed::new(3))));
    assert_eq!(members(), 3);
    for _ in 0..10 {
        let status = in_child(|| i32::try_from(members()).unwrap());
        assert!(status >= 1, "the child sizes its teams by what it finds itself");
        assert_eq!(members(), 3, "the parent's team is untouched");
    }
    // From inside a region the child is a lone thread that may fork regions, too.
    broadcast(|member| {
        if member.id == 0 {
            assert!(in_child(|| i32::try_from(members()).unwrap()) >= 1);
        }
    });
}
