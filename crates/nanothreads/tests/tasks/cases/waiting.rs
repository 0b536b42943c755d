//! Waits, suspensions, and what may be held across them.

use super::team;
use nanothreads::{Completion, Scope, par_for, scope};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

#[test]
fn an_rc_and_a_thread_local_borrow_survive_suspensions() {
    own_process!();
    team();
    thread_local! {
        static SHARED: Rc<Cell<usize>> = Rc::new(Cell::new(0));
        static NAME: RefCell<Vec<thread::ThreadId>> = const { RefCell::new(Vec::new()) };
    }
    let total = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..200 {
            s.spawn(|s| {
                // Not Send, and shared with other nano-threads of this kernel thread: a migration
                // would race on the count.
                let shared = SHARED.with(Rc::clone);
                let home = thread::current().id();
                NAME.with_borrow_mut(|names| names.push(home));
                for _ in 0..5 {
                    let twin = Rc::clone(&shared);
                    s.yield_now();
                    twin.set(twin.get() + 1);
                    s.spawn(|s| s.yield_now());
                    s.wait();
                    assert_eq!(
                        thread::current().id(),
                        home,
                        "a started nano-thread stays on its worker"
                    );
                    assert!(Rc::ptr_eq(&shared, &SHARED.with(Rc::clone)));
                }
                NAME.with_borrow(|names| assert!(names.iter().all(|name| *name == home)));
                total.fetch_add(5, Relaxed);
            });
        }
    });
    assert_eq!(total.into_inner(), 1000);
}

#[test]
fn a_creator_waits_for_its_children_and_may_create_more() {
    own_process!();
    team();
    fn fib(s: &nanothreads::Scope<'_>, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (mut a, mut b) = (0, 0);
        s.group(|s| {
            s.spawn(|s| a = fib(s, n - 1));
            b = fib(s, n - 2);
        });
        a + b
    }
    assert_eq!(scope(|s| fib(s, 17)), 1597);
    let done = AtomicUsize::new(0);
    scope(|s| {
        s.spawn(|s| {
            for round in 1..=20 {
                for _ in 0..5 {
                    s.spawn(|s| {
                        s.spawn(|_| {
                            done.fetch_add(1, Relaxed);
                        });
                    });
                }
                s.wait();
                assert_eq!(done.load(Relaxed), round * 5);
            }
        });
    });
}

#[test]
fn thousands_of_nano_threads_are_suspended_at_once() {
    own_process!();
    team();
    const COUNT: usize = 2000;
    let (arrived, open) = (AtomicUsize::new(0), Mutex::new(Vec::<Completion>::new()));
    scope(|s| {
        for _ in 0..COUNT {
            // SAFETY: - the task holds nothing while it is suspended.
            unsafe { s.task().suspendable() }.spawn(|s| {
                s.suspend(|completion| open.lock().unwrap().push(completion));
                arrived.fetch_add(1, Relaxed);
            });
        }
        while open.lock().unwrap().len() < COUNT {
            s.yield_now();
        }
        assert_eq!(arrived.load(Relaxed), 0);
        for completion in open.lock().unwrap().drain(..) {
            completion.complete();
        }
    });
    assert_eq!(arrived.into_inner(), COUNT);
}

#[test]
fn a_suspended_nano_thread_goes_on_when_another_thread_says_so() {
    own_process!();
    team();
    let (send, receive) = mpsc::channel::<Completion>();
    let resumer = thread::spawn(move || {
        let mut count = 0;
        for completion in receive {
            completion.complete();
            count += 1;
        }
        count
    });
    scope(|s| {
        for _ in 0..100 {
            let send = send.clone();
            s.spawn(move |s| {
                for _ in 0..10 {
                    let home = thread::current().id();
                    s.suspend(|completion| send.send(completion).unwrap());
                    assert_eq!(thread::current().id(), home);
                }
            });
        }
    });
    drop(send);
    assert_eq!(resumer.join().unwrap(), 1000);
}

#[test]
fn a_completion_holds_its_nano_thread_and_its_successors_back() {
    own_process!();
    team();
    let (send, receive) = mpsc::channel::<Completion>();
    let happened = AtomicBool::new(false);
    thread::scope(|threads| {
        let happened = &happened;
        threads.spawn(move || {
            for completion in receive {
                happened.store(true, Relaxed);
                drop(completion);
            }
        });
        scope(|s| {
            let detached = s.task().spawn(move |s| send.send(s.completion()).unwrap());
            s.task().depends_on(&detached).spawn(move |_| assert!(happened.load(Relaxed)));
        });
    });
}

#[test]
fn nano_threads_that_yield_let_each_other_run() {
    own_process!();
    team();
    let turn = AtomicUsize::new(0);
    let turn = &turn;
    scope(|s| {
        for me in 0..3 {
            // SAFETY: - the task holds nothing while it yields.
            unsafe { s.task().suspendable() }.spawn(move |s| {
                for round in 0..100 {
                    while turn.load(Relaxed) != round * 3 + me {
                        s.yield_now();
                    }
                    turn.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert_eq!(turn.load(Relaxed), 300);
}

/// A thread-local that is set for the time of a call, as the crate `scoped_tls` has it: it counts
/// on the calls of one thread to end in the reverse order of their beginning.
mod scoped {
    use std::cell::Cell;

    thread_local!(static VALUE: Cell<usize> = const { Cell::new(0) });

    pub(super) fn set<R>(value: usize, body: impl FnOnce() -> R) -> R {
        struct Reset(usize);
        impl Drop for Reset {
            fn drop(&mut self) {
                VALUE.set(self.0);
            }
        }
        let _reset = Reset(VALUE.replace(value));
        body()
    }

    pub(super) fn get() -> usize {
        VALUE.get()
    }
}

/// Waits in each way that there is, by turns.
fn wait_somehow(s: &Scope<'_>, way: usize, events: &mpsc::Sender<Completion>) {
    match way % 5 {
        0 => s.yield_now(),
        1 => {
            s.spawn(|s| scoped::set(1 << 40, || s.yield_now()));
            s.wait();
        }
        2 => s.group(|g| (0..3).for_each(|_| g.spawn(|g| scoped::set(1 << 41, || g.yield_now())))),
        3 => s.suspend(|completion| events.send(completion).expect("it receives")),
        _ => scope(|inner| inner.spawn(|inner| scoped::set(1 << 42, || inner.yield_now()))),
    }
}

#[test]
fn a_thread_local_that_is_set_for_the_time_of_a_call_is_the_callers_after_each_wait() {
    own_process!();
    team();
    let (events, others) = mpsc::channel::<Completion>();
    let completer = thread::spawn(move || others.into_iter().for_each(Completion::complete));
    let waits = AtomicUsize::new(0);
    for _ in 0..20 {
        scope(|s| {
            for number in 1..=40 {
                let (events, waits) = (events.clone(), &waits);
                s.spawn(move |s| {
                    scoped::set(number, || {
                        for way in 0..10 {
                            wait_somehow(s, number + way, &events);
                            assert_eq!(scoped::get(), number, "after wait {}", number + way);
                            waits.fetch_add(1, Relaxed);
                        }
                    });
                });
            }
            scoped::set(1000, || {
                for way in 0..10 {
                    wait_somehow(s, way, &events);
                    assert_eq!(scoped::get(), 1000, "in the body, after wait {way}");
                }
            });
        });
        assert_eq!(scoped::get(), 0);
    }
    drop(events);
    completer.join().unwrap();
    assert_eq!(waits.into_inner(), 20 * 40 * 10);
}

#[test]
fn a_suspendable_task_goes_on_while_one_that_started_after_it_waits_and_others_do_not() {
    own_process!();
    // One thread, on which the newest task starts first.
    let run = |is_suspendable: bool| {
        let log = Mutex::new(Vec::new());
        let say = |text| log.lock().unwrap().push(text);
        nanothreads::Team::exact(1).unwrap().install(|| {
            scope(|s| {
                s.spawn(|s| {
                    say("second waits");
                    s.yield_now();
                    s.yield_now();
                    say("second ends");
                });
                let mut first = s.task();
                if is_suspendable {
                    // SAFETY: - the task holds nothing while it yields.
                    first = unsafe { first.suspendable() };
                }
                first.spawn(|s| {
                    say("first waits");
                    s.yield_now();
                    say("first ends");
                });
            });
        });
        log.into_inner().unwrap()
    };
    assert_eq!(run(false), ["first waits", "second waits", "second ends", "first ends"]);
    assert_eq!(run(true), ["first waits", "second waits", "first ends", "second ends"]);
}

#[test]
fn a_wait_below_an_open_inner_scope_still_ends() {
    own_process!();
    team();
    // The outer handle waits while a region is open on top of it: its stack cannot be left, so its
    // member works on.
    let done = AtomicUsize::new(0);
    scope(|outer| {
        outer.spawn(|outer| {
            for _ in 0..10 {
                outer.spawn(|s| {
                    s.yield_now();
                    done.fetch_add(1, Relaxed);
                });
            }
            scope(|inner| {
                inner.spawn(|s| s.yield_now());
                outer.yield_now();
                outer.wait();
                assert_eq!(done.load(Relaxed), 10);
            });
        });
    });
}

#[test]
fn a_stack_is_not_left_while_a_region_is_open_on_it() {
    own_process!();
    team();
    // Regions of one kernel thread must close in the reverse order of their opening.
    thread_local!(static OPEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) });
    scope(|outer| {
        for number in 0..40 {
            outer.spawn(move |outer| {
                scope(|inner| {
                    OPEN.with_borrow_mut(|open| open.push(number));
                    inner.spawn(|s| s.yield_now());
                    outer.yield_now();
                    inner.yield_now();
                    outer.yield_now();
                    assert_eq!(OPEN.with_borrow_mut(Vec::pop), Some(number));
                });
                outer.yield_now();
            });
        }
    });
}

#[test]
fn a_task_without_a_stack_of_its_own_runs_all_the_same() {
    own_process!();
    team();
    let done = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..3 {
            // More than any machine has: the task runs on its member's stack.
            s.task().stack_size(1 << 60).spawn(|s| {
                for _ in 0..10 {
                    s.spawn(|s| {
                        s.yield_now();
                        done.fetch_add(1, Relaxed);
                    });
                }
                s.yield_now();
                s.wait();
                assert!(done.load(Relaxed) >= 10);
            });
        }
    });
    assert_eq!(done.into_inner(), 30);
}

#[test]
fn a_task_gets_the_stack_that_it_asks_for() {
    own_process!();
    team();
    fn deep(levels: usize) -> usize {
        let frame = std::hint::black_box([levels; 128]);
        if levels == 0 { 0 } else { 1 + deep(levels - 1) + frame[7] - levels }
    }
    // About 4 MB in a release build, more in a debug one: far over the default.
    scope(|s| {
        s.task().stack_size(64 << 20).spawn(|_| assert_eq!(deep(4000), 4000));
    });
}

#[test]
fn suspensions_are_fine_between_loops_that_fork_inner_regions() {
    own_process!();
    team();
    let count = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..20 {
            s.spawn(|s| {
                for _ in 0..5 {
                    s.yield_now();
                    par_for(0..8).run(|_| {
                        count.fetch_add(1, Relaxed);
                    });
                    s.spawn(|_| ());
                    s.wait();
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 20 * 5 * 8);
}
