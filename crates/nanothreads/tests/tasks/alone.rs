//! Nano-threads on a team of one: a task that waits must let the others run, and the order is
//! known.

#[path = "cases/mod.rs"]
mod cases;

use engine::sizer::Fixed;
use nanothreads::{Scope, Team, scope};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once};
use std::thread;

/// All tests of this process see one processor.
fn team() -> usize {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| assert!(nanothreads::builder().sizer(Fixed::new(1)).install().is_ok()));
    1
}

#[test]
fn ready_tasks_start_in_the_order_of_their_priorities() {
    own_process!();
    team();
    let order = Mutex::new(Vec::new());
    let log = |number: i32| order.lock().unwrap().push(number);
    scope(|s| {
        for priority in [-5, 7, 0, -1, 7000, i32::MIN, i32::MAX] {
            s.task().priority(priority).spawn(move |_| log(priority));
        }
    });
    assert_eq!(order.into_inner().unwrap(), [i32::MAX, 7000, 7, 0, -1, -5, i32::MIN]);
}

#[test]
fn equal_priorities_keep_the_order_of_creation() {
    own_process!();
    team();
    let order = Mutex::new(Vec::new());
    let log = |number: usize| order.lock().unwrap().push(number);
    scope(|s| {
        for number in 0..50 {
            s.task().priority(3).spawn(move |_| log(number));
        }
    });
    assert!(order.into_inner().unwrap().into_iter().eq(0..50));
}

#[test]
fn a_successor_runs_as_soon_as_its_last_predecessor_is_done() {
    own_process!();
    team();
    let order = Mutex::new(Vec::new());
    let log = |name: &'static str| order.lock().unwrap().push(name);
    scope(|s| {
        // The queue of a member gives the newest first: without the rule, `other` would run before
        // `second`.
        let first = s.task().spawn(move |s| {
            s.spawn(move |_| log("child"));
            s.wait();
            log("first");
        });
        s.task().depends_on(&first).spawn(move |_| log("second"));
        let gate = s.task().depends_on(&first).spawn(move |_| log("third"));
        s.task().depends_on(&gate).spawn(move |_| log("fourth"));
    });
    assert_eq!(order.into_inner().unwrap(), ["child", "first", "second", "third", "fourth"]);
}

#[test]
fn a_wait_for_an_inner_scope_runs_no_task_of_the_outer_one() {
    own_process!();
    team();
    thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });
    scope(|s| {
        for _ in 0..20 {
            s.spawn(|_| {
                assert!(!INSIDE.get(), "a task of the outer scope ran on top of a waiting stack");
                INSIDE.set(true);
                scope(|s| {
                    for _ in 0..5 {
                        s.spawn(|s| s.yield_now());
                    }
                });
                INSIDE.set(false);
            });
        }
    });
}

/// Another nano-thread of the same thread gets hold of a handle, as by a thread-local that is set
/// for as long as a closure runs (the crate `scoped_tls`), and does with it what `misuses` does.
fn smuggled(misuses: fn(&Scope<'_>)) -> thread::Result<()> {
    thread_local!(static HANDLE: Cell<*const ()> = const { Cell::new(ptr::null()) });
    let is_over = AtomicBool::new(false);
    catch_unwind(AssertUnwindSafe(|| {
        scope(|s| {
            // The newest runs first.
            s.spawn(|_| {
                let handle = HANDLE.get().cast::<Scope<'_>>();
                assert!(!handle.is_null(), "the owner has begun, and let us run");
                // SAFETY: - the owner is suspended in its body; the borrow is as wrong as what is
                // tested.
                misuses(unsafe { &*handle });
            });
            s.spawn(|s| {
                HANDLE.set(ptr::from_ref(s).cast());
                // SAFETY: - the task holds nothing while it yields.
                unsafe { s.task().suspendable() }.spawn(|s| {
                    while !is_over.load(Relaxed) {
                        s.yield_now();
                    }
                });
                s.yield_now();
                HANDLE.set(ptr::null());
                is_over.store(true, Relaxed);
            });
        });
    }))
}

#[test]
fn a_handle_waits_and_groups_for_its_own_nano_thread_only() {
    own_process!();
    team();
    for misuses in [|s: &Scope<'_>| s.wait(), |s: &Scope<'_>| s.group(|g| g.spawn(|_| ()))] {
        let payload = smuggled(misuses).expect_err("it is refused");
        let said = payload.downcast_ref::<String>().expect("a text with the owner's state");
        assert!(said.contains("from another nano-thread"), "{said}");
    }
    assert!(smuggled(|_| ()).is_ok());
}

#[test]
fn a_waiter_goes_on_although_others_make_more_and_more_tasks() {
    own_process!();
    team();
    const MANY: usize = 10_000;
    fn more<'a>(s: &Scope<'a>, is_over: &'a AtomicBool, made: &'a AtomicUsize) {
        if !is_over.load(Relaxed) && made.fetch_add(1, Relaxed) < MANY {
            s.spawn(move |s| more(s, is_over, made));
        }
    }
    let (is_over, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    scope(|s| {
        s.spawn(|s| more(s, &is_over, &made));
        s.group(|g| {
            // Begins first, and cannot be left while it waits: what the group waits for ends on top
            // of it.
            let pinned = |s: &Scope<'_>| {
                Team::at_most(1).expect("the caller").install(|| s.group(|s| s.spawn(|_| ())))
            };
            s.task().priority(2).spawn(pinned);
            g.task().priority(1).spawn(|_| ());
        });
        is_over.store(true, Relaxed);
    });
    assert!(made.into_inner() < MANY, "the waiter was not looked after before the last of them");
}
