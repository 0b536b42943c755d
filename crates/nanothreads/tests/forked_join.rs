//! A process that is forked inside a join (D13): what is the child's, and what stays the parent's.
#![cfg(all(not(loom), unix))]

mod forked;

use forked::{end, forked, status_of};
use nanothreads::join;
use nanothreads::sizer::Fixed;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::time::{Duration, Instant};

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn wait_until(flag: &AtomicBool) {
    let begin = Instant::now();
    while !flag.load(Acquire) {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
}

/// What the child found; 0 = all as it should be.
fn verdict(inner: u64, outer: &std::thread::Result<(i32, u32)>) -> i32 {
    if inner != 5 {
        return 1;
    }
    if fib(15) != 610 {
        return 2;
    }
    match outer {
        Ok(_) => 3,
        Err(payload) => match payload.downcast_ref::<&str>() {
            Some(text) if text.contains("exists in the parent only") => 0,
            _ => 4,
        },
    }
}

// One test: what it forks would otherwise be a copy of a process in which another test is amid a region.
#[test]
fn a_child_runs_the_halves_that_nobody_stole_and_is_told_of_those_that_are_the_parents() {
    assert!(nanothreads::set_team_sizer(Box::new(Fixed::new(2))));
    let parent = std::process::id();
    for _ in 0..5 {
        let (began, has_forked) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut inner = 0;
        let outer = catch_unwind(AssertUnwindSafe(|| {
            join(
                || {
                    wait_until(&began);
                    // The other member is busy: this second half stays here, in the child as in the parent.
                    let (pid, five) = join(forked, || 5);
                    has_forked.store(true, Release);
                    inner = five;
                    pid
                },
                || {
                    began.store(true, Release);
                    wait_until(&has_forked);
                    7
                },
            )
        }));
        if std::process::id() != parent {
            end(verdict(inner, &outer));
        }
        let (pid, seven) = outer.expect("the parent's join is untouched");
        assert_eq!((inner, seven), (5, 7));
        let status = status_of(pid);
        assert_eq!(status, 0, "verdict of the child: {}", status >> 8);
        assert_eq!(fib(15), 610);
    }
}
