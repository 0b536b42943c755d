//! Nano-threads that wait inside a frame which holds state of its thread: `Team::install`, and
//! where a handle was smuggled into it, `join` and regions.

use nanothreads::{Scope, Team, join, par_for, scope};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

fn assert_outside_is_as_before() {
    assert_eq!(Team::exact(3).expect("three").map(|m| m.id()), [0, 1, 2]);
    assert_eq!(par_for(0..100).reduce(0, |i| i, |a, b| a + b), 4_950);
}

#[test]
fn tasks_that_yield_inside_install_leave_the_thread_as_it_was() {
    own_process!();
    for _ in 0..100 {
        Team::exact(2).expect("two").install(|| {
            scope(|s| {
                for k in 0..4 {
                    s.spawn(move |s| {
                        Team::at_most(1)
                            .expect("one")
                            .install(|| (0..=k).for_each(|_| s.yield_now()));
                    });
                }
            });
        });
    }
    assert_outside_is_as_before();
}

#[test]
fn a_scope_body_that_yields_inside_install_leaves_the_thread_as_it_was() {
    own_process!();
    scope(|s| {
        s.spawn(|s| Team::at_most(1).expect("one").install(|| (0..3).for_each(|_| s.yield_now())));
        Team::at_most(1).expect("one").install(|| s.yield_now());
    });
    assert_outside_is_as_before();
}

/// On one thread: what is ready runs on top of what waits.
fn on_one_thread<R>(body: impl FnOnce() -> R) -> R {
    Team::exact(1).expect("one").install(body)
}

#[test]
fn a_task_that_runs_on_top_of_another_ones_install_has_the_processors_of_its_scope() {
    own_process!();
    let sizes = Mutex::new(Vec::new());
    on_one_thread(|| {
        scope(|s| {
            s.spawn(|s| {
                // The next to run on this thread.
                s.spawn(|_| {
                    sizes.lock().expect("no thread panics").push(Team::available().size());
                    assert_eq!(Team::exact(4).expect("four").map(|m| m.id()), [0, 1, 2, 3]);
                    // An install of its own, on top of the other one.
                    Team::exact(2)
                        .expect("two")
                        .install(|| assert_eq!(Team::available().size(), 2));
                });
                Team::exact(3).expect("three").install(|| {
                    assert_eq!(Team::exact(3).expect("three").map(|m| m.id()), [0, 1, 2]);
                    s.yield_now();
                    assert_eq!(sizes.lock().expect("no thread panics").len(), 1, "it ran on top");
                    // What ran on top had other masters for the same threads.
                    assert_eq!(Team::available().map(|m| m.id()), [0, 1, 2]);
                    assert_eq!(par_for(0..100).reduce(0, |i| i, |a, b| a + b), 4_950);
                });
            });
        });
    });
    assert_eq!(sizes.into_inner().expect("no thread panics"), [1]);
    assert_outside_is_as_before();
}

#[test]
fn tasks_that_a_scope_body_waits_for_inside_install_have_the_processors_of_the_scope() {
    own_process!();
    for _ in 0..20 {
        let sizes = Mutex::new(Vec::new());
        on_one_thread(|| {
            scope(|s| {
                for _ in 0..3 {
                    s.spawn(|s| {
                        sizes.lock().expect("no thread panics").push(Team::available().size());
                        s.yield_now();
                        sizes.lock().expect("no thread panics").push(Team::available().size());
                    });
                }
                Team::exact(3).expect("three").install(|| {
                    s.wait();
                    assert_eq!(Team::available().map(|m| m.id()), [0, 1, 2]);
                });
            });
        });
        assert_eq!(sizes.into_inner().expect("no thread panics"), [1; 6]);
    }
    assert_outside_is_as_before();
}

/// A safe thread-local of references, as the crate `scoped_tls` has it: it brings a handle where
/// its type cannot go.
mod smuggle {
    use nanothreads::Scope;
    use std::cell::Cell;

    thread_local! {
        static HANDLE: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
    }

    pub(super) fn set<R>(handle: &Scope<'static>, body: impl FnOnce() -> R) -> R {
        struct Reset(*const ());
        impl Drop for Reset {
            fn drop(&mut self) {
                HANDLE.set(self.0);
            }
        }
        let _reset = Reset(HANDLE.replace(std::ptr::from_ref(handle).cast()));
        body()
    }

    pub(super) fn with<R>(body: impl FnOnce(&Scope<'static>) -> R) -> Option<R> {
        // SAFETY: - set, on this thread, for as long as the handle is borrowed by `set`.
        unsafe { HANDLE.get().cast::<Scope<'static>>().as_ref() }.map(body)
    }
}

#[test]
fn a_handle_that_is_smuggled_into_join_leaves_each_half_on_its_stack() {
    own_process!();
    static RAN: AtomicU32 = AtomicU32::new(0);
    static LEFT: AtomicU32 = AtomicU32::new(0);
    for round in 1..20 {
        Team::exact(2).expect("two").install(|| {
            join(
                || {
                    scope(|s: &Scope<'static>| {
                        for task in 0..3 {
                            s.spawn(move |s: &Scope<'static>| {
                                let halves = vec![task; 10];
                                let first = || {
                                    (0..=task).for_each(|_| _ = smuggle::with(|s| s.yield_now()))
                                };
                                let second = || {
                                    RAN.fetch_add(1, SeqCst);
                                    drop(halves);
                                };
                                smuggle::set(s, || join(first, second));
                                LEFT.fetch_add(1, SeqCst);
                            });
                        }
                    });
                },
                || {
                    while LEFT.load(SeqCst) < 3 * round {
                        std::thread::yield_now();
                    }
                },
            )
        });
        assert_eq!((RAN.load(SeqCst), LEFT.load(SeqCst)), (3 * round, 3 * round));
    }
    assert_outside_is_as_before();
}

#[test]
fn a_handle_that_is_smuggled_into_a_region_runs_others_there_and_leaves_no_region_open() {
    own_process!();
    let ran = AtomicU32::new(0);
    let counts: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    Team::exact(2).expect("two").install(|| {
        scope(|s: &Scope<'static>| {
            for _ in 0..8 {
                s.spawn(|s: &Scope<'static>| {
                    smuggle::set(s, || {
                        Team::exact(2).expect("two").run(|member| {
                            // Only the master's thread has it.
                            smuggle::with(|s| (0..3).for_each(|_| s.yield_now()));
                            member.barrier();
                            smuggle::with(|s| s.wait());
                        });
                    });
                    counts.fetch_add(par_for(0..10).reduce(0, |_| 1, |a, b| a + b), SeqCst);
                });
            }
        });
        ran.store(counts.load(SeqCst), SeqCst);
    });
    assert_eq!(ran.into_inner(), 80);
    assert_outside_is_as_before();
}
