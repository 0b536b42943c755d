//! A process that is forked inside a join (D13): what is the child's, and what stays the parent's.

use crate::forked::{end, forked, status_of};
use engine::sizer::Fixed;
use nanothreads::join;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::time::{Duration, Instant};

/// Less than what `forked` leaves a child.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// True when another thread runs the second half of a join whose first half waits for that.
fn both_halves_run_at_once() -> bool {
    let (began, caller) = (AtomicBool::new(false), std::thread::current().id());
    let (met, other) = join(
        || {
            let begin = Instant::now();
            while !began.load(Acquire) && begin.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            began.load(Acquire)
        },
        || {
            began.store(true, Release);
            std::thread::current().id()
        },
    );
    met && other != caller
}

/// What the child found; 0 = all as it should be.
fn verdict(inner: u64, had_two: bool, outer: &std::thread::Result<(i32, u32)>) -> i32 {
    if inner != 5 {
        return 1;
    }
    if fib(15) != 610 {
        return 2;
    }
    if !had_two {
        return 5;
    }
    if !both_halves_run_at_once() {
        return 6;
    }
    match outer {
        Ok(_) => 3,
        Err(payload) => match payload.downcast_ref::<&str>() {
            Some(text) if text.contains("exists in the parent only") => 0,
            _ => 4,
        },
    }
}

// One test: what it forks would otherwise be a copy of a process in which another test is in a
// region.
#[test]
fn a_child_runs_the_halves_that_were_not_stolen_and_is_told_of_those_that_are_the_parents() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(2)).install().is_ok());
    let parent = std::process::id();
    for _ in 0..5 {
        let (began, has_forked) = (AtomicBool::new(false), AtomicBool::new(false));
        let (mut inner, mut had_two) = (0, false);
        let outer = catch_unwind(AssertUnwindSafe(|| {
            join(
                || {
                    wait_until(&began);
                    // The other member is busy: this second half stays here, in the child as in the
                    // parent.
                    let (pid, five) = join(forked, || 5);
                    has_forked.store(true, Release);
                    inner = five;
                    // Inside the parent's join, whose other member the child does not have.
                    had_two = pid != 0 || both_halves_run_at_once();
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
            end(verdict(inner, had_two, &outer));
        }
        let (pid, seven) = outer.expect("the parent's join is untouched");
        assert_eq!((inner, seven), (5, 7));
        let status = status_of(pid);
        assert_eq!(status, 0, "verdict of the child: {}", status >> 8);
        assert_eq!(fib(15), 610);
        assert!(both_halves_run_at_once(), "in the parent");
    }
}
