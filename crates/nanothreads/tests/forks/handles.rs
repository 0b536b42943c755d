//! What a child does with handles of a scope that its parent has open (D13): cancellers,
//! completions, spawners.
//!
//! Where another thread of the parent has opened the scope, the scope's node lies on the stack of a
//! thread that the child does not have. The C library gives such a stack to a thread that the child
//! starts: what the child then reads there is that thread's, and so is what it writes.

use crate::forked::{forked, leave, status_of};
use engine::sizer::Fixed;
use nanothreads::{Canceller, Completion, Scope, Spawner, scope};
use platform::pthread::Pthread;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The default of the standard library's threads: the C library looks for a free stack of the size.
const STACK: usize = 2 << 20;

/// No count, no flag, and no address of anything.
const JUNK: u64 = 0x1010_1010_1010_1010;

/// Threads of the child, more than its parent had.
const FILLERS: u32 = 12;

static FILLED: AtomicU32 = AtomicU32::new(0);
static ASKED: AtomicBool = AtomicBool::new(false);
static ANSWERS: AtomicU32 = AtomicU32::new(0);
static CHANGED: AtomicU32 = AtomicU32::new(0);

/// Fills its stack, and looks at it again when it is asked.
fn fill(_: &'static ()) -> ! {
    let mut junk = [JUNK; STACK / 2 / 8];
    // Where the compiler does not see what becomes of it.
    black_box(&mut junk);
    // ORDERING: Release - pairs with the Acquire of `settled`, here and below.
    FILLED.fetch_add(1, Release);
    // ORDERING: Acquire - pairs with the Release of the thread that asks.
    while !ASKED.load(Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
    if black_box(&junk).iter().any(|&word| word != JUNK) {
        // ORDERING: Relaxed - published by the next one.
        CHANGED.fetch_add(1, Relaxed);
    }
    ANSWERS.fetch_add(1, Release);
    loop {
        thread::sleep(Duration::from_secs(60));
    }
}

fn settled(count: &AtomicU32) {
    // ORDERING: Acquire - pairs with `fill`.
    while count.load(Acquire) < FILLERS {
        thread::sleep(Duration::from_millis(1));
    }
}

/// In a child: has threads of its own use the stacks that its parent's threads had.
fn fill_stacks() {
    for _ in 0..FILLERS {
        Pthread::start(STACK, &(), fill).expect("a thread");
    }
    settled(&FILLED);
}

/// Whether those stacks are as the threads wrote them.
fn are_stacks_whole() -> bool {
    // ORDERING: Release - pairs with `fill`.
    ASKED.store(true, Release);
    settled(&ANSWERS);
    // ORDERING: Relaxed - `settled` orders.
    CHANGED.load(Relaxed) == 0
}

/// The status of a child that does `go_on` with what `make` made in a scope of another thread.
fn status_with<H: Send + 'static>(
    make: fn(&Scope<'static>) -> H,
    go_on: impl FnOnce(H) -> bool,
) -> i32 {
    assert!(nanothreads::builder().sizer(Fixed::new(3)).install().is_ok());
    let (give, given) = channel();
    let (go, gone) = channel::<()>();
    let opener = thread::spawn(move || {
        scope(|s| {
            give.send(make(s)).expect("the test waits");
            let _ = gone.recv();
        });
    });
    let handle = given.recv().expect("it is made");
    let pid = forked();
    if pid == 0 {
        fill_stacks();
        let went_on = catch_unwind(AssertUnwindSafe(|| go_on(handle))).unwrap_or(false);
        leave(went_on && are_stacks_whole());
    }
    let status = status_of(pid);
    drop(handle);
    drop(go);
    opener.join().expect("the scope ends");
    status
}

#[test]
fn a_canceller_of_a_parents_scope_cancels_nothing_in_a_child_and_says_so() {
    own_process!(alone);
    let is_nothing = |canceller: Canceller| {
        let before = canceller.is_cancelled();
        canceller.cancel();
        !before && !canceller.is_cancelled() && format!("{canceller:?}").contains("is_over: true")
    };
    assert_eq!(status_with(|s| s.canceller(), is_nothing), 0);
}

#[test]
fn a_completion_of_a_parents_scope_is_let_go_in_a_child() {
    own_process!(alone);
    let complete = |completion: Completion| {
        completion.complete();
        true
    };
    assert_eq!(status_with(|s| s.completion(), complete), 0);
}

#[test]
fn a_child_that_spawns_into_a_parents_scope_is_ended() {
    own_process!(alone);
    let spawn = |spawner: Spawner<'static>| {
        spawner.spawn(|_| ());
        true
    };
    assert_eq!(status_with(|s| s.spawner(), spawn) & 0x7f, libc::SIGABRT);
}

#[test]
fn a_child_that_clones_a_spawner_of_a_parents_scope_is_ended() {
    own_process!(alone);
    let clone = |spawner: Spawner<'static>| {
        let _another = spawner.clone();
        true
    };
    assert_eq!(status_with(|s| s.spawner(), clone) & 0x7f, libc::SIGABRT);
}

#[test]
fn a_spawner_of_a_parents_scope_is_dropped_in_a_child() {
    own_process!(alone);
    let dropped = |spawner: Spawner<'static>| {
        drop(spawner);
        true
    };
    assert_eq!(status_with(|s| s.spawner(), dropped), 0);
}

#[test]
fn a_canceller_in_a_child_waits_for_no_thread_of_its_parent() {
    own_process!(alone);
    let is_over = AtomicBool::new(false);
    let status = scope(|s| {
        let canceller = s.canceller();
        thread::scope(|threads| {
            threads.spawn(|| {
                // ORDERING: Relaxed - a word on its own.
                while !is_over.load(Relaxed) {
                    canceller.cancel();
                }
            });
            let mut statuses = (0..100).map(|_| match forked() {
                0 => {
                    canceller.cancel();
                    leave(!canceller.is_cancelled() && !format!("{canceller:?}").is_empty())
                }
                child => status_of(child),
            });
            let wrong = statuses.find(|&status| status != 0);
            // ORDERING: Relaxed - as above.
            is_over.store(true, Relaxed);
            wrong
        })
    });
    assert_eq!(status, None, "a child's status; {}: it hung", libc::SIGALRM);
}

/// What the forking thread has open is the child's, too: it may leave the scope.
#[test]
fn a_child_of_the_master_lets_go_of_what_it_made_and_leaves_the_scope() {
    own_process!(alone);
    assert!(nanothreads::builder().sizer(Fixed::new(3)).install().is_ok());
    let parent = std::process::id();
    let pid = scope(|s| {
        s.spawn(|_| ());
        s.wait();
        let made = (s.completion(), s.spawner(), s.canceller());
        let pid = forked();
        if pid == 0 {
            let own = s.canceller();
            own.cancel();
            s.suspend(|completion| completion.complete());
            if own.is_cancelled() || s.is_cancelled() {
                leave(false);
            }
        }
        drop(made);
        pid
    });
    if std::process::id() != parent {
        let ran = AtomicU32::new(0);
        scope(|s| {
            (0..50).for_each(|_| {
                s.spawn(|_| {
                    ran.fetch_add(1, Relaxed);
                });
            });
        });
        leave(ran.into_inner() == 50);
    }
    assert_eq!(status_of(pid), 0, "{}: it hung; {}: it was ended", libc::SIGALRM, libc::SIGABRT);
}
