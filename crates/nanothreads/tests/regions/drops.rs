//! What constructs drop for the program: captures, results and errors whose destructors panic.

use crate::team_of_four::schedules;
use nanothreads::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// How many of [`Counted`] live. Other tests have none.
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// Counts how many of it live, and is on the heap: dropped twice it would end the process.
struct Counted(#[expect(dead_code, reason = "freed with it")] Box<u64>);

impl Counted {
    fn new() -> Self {
        LIVE.fetch_add(1, Relaxed);
        Self(Box::new(7))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Relaxed);
    }
}

/// Panics when it is dropped, unless a panic drops it.
struct Fails(#[expect(dead_code, reason = "dropped after it")] Counted);

impl Fails {
    fn new() -> Self {
        Self(Counted::new())
    }

    /// Makes the closure keep it.
    fn keep(&self) {}
}

impl Drop for Fails {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Without a message on the terminal.
            resume_unwind(Box::new("planted"));
        }
    }
}

/// Runs `construct`, which gets a capture that fails: it panics, nothing lives afterwards, and the
/// team is whole.
#[track_caller]
fn check(name: &str, construct: impl FnOnce(Fails)) {
    assert_eq!(live_after(name, construct), 0, "{name}");
}

/// As `check`, where the result has what counts. The compiler forgets a function's result when one
/// of its arguments panics as it is dropped.
#[track_caller]
fn check_but_result(name: &str, construct: impl FnOnce(Fails)) {
    assert!(live_after(name, construct) >= 0, "{name}: dropped twice");
}

fn live_after(name: &str, construct: impl FnOnce(Fails)) -> isize {
    let caught = catch_unwind(AssertUnwindSafe(|| construct(Fails::new())));
    let payload = caught.expect_err("the destructor panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"planted"), "{name}");
    drop(payload);
    assert_eq!(par_for(0..100).reduce(0, |i| i, |a, b| a + b), 4950, "after {name}");
    LIVE.swap(0, Relaxed)
}

fn loops_over(schedule: Schedule) {
    let all = || par_for(0..50).schedule(schedule);
    check("run", |f| all().run(move |_| f.keep()));
    check("ordered", |f| {
        all().ordered(move |_, order| {
            f.keep();
            order.wait_turn(|| ());
        });
    });
    check_but_result("collect", |f| {
        drop(all().collect(move |_| {
            f.keep();
            Counted::new()
        }));
    });
    check_but_result("flat_map", |f| {
        drop(all().flat_map(move |_| {
            f.keep();
            [Counted::new(), Counted::new()]
        }));
    });
    check_but_result("reduce", |f| {
        let map = move |_| {
            f.keep();
            Counted::new()
        };
        drop(all().reduce(Counted::new(), map, |a, _| a));
    });
    check_but_result("combine", |f| {
        let combine = move |a, _| {
            f.keep();
            a
        };
        drop(all().reduce(Counted::new(), |_| Counted::new(), combine));
    });
    check("values", |_| {
        let combine = |a, b| {
            drop(b);
            a
        };
        drop(all().reduce(None, |_| Some(Fails::new()), combine));
    });
    check_but_result("try_for_each", |f| {
        drop(all().try_for_each(move |i| {
            f.keep();
            if i == 30 { Err(Counted::new()) } else { Ok(()) }
        }));
    });
    check_but_result("errors", |_| {
        drop(all().try_for_each(|_| Err(Fails::new())));
    });
    check_but_result("find_first", |f| {
        drop(all().find_first(move |i| {
            f.keep();
            (i > 20).then(Counted::new)
        }));
    });
    check("chunks", |f| {
        par_chunks_mut(&mut [0; 99], 4).schedule(schedule).run(move |_, _| f.keep())
    });
}

#[test]
fn captures_and_results_whose_destructors_panic_are_dropped_once_in_every_construct() {
    own_process!(alone);
    for size in [1, 2, 3] {
        let team = Team::exact(size).expect("the system gives threads");
        team.install(|| schedules().into_iter().for_each(loops_over));
        team.install(|| {
            check("doacross", |f| doacross(0..50).run(move |_, _| f.keep()));
            check("pipeline", |f| pipeline(0..5, 0..50).run(move |_, _| f.keep()));
            check("sections", |f| sections().add(move || drop(f)).add(|| ()).run());
            check_but_result("first half", |f| drop(join(move || f.keep(), Counted::new)));
            check_but_result("second half", |f| drop(join(Counted::new, move || f.keep())));
            check("result of a half", |f| drop(join(Counted::new, move || f)));
            check("broadcast", |f| broadcast(move |_| f.keep()));
            check("groups", |f| groups().equal(2).run(move |_| f.keep()));
            check("install", |f| team.install(move || f.keep()));
            check_but_result("team", |f| {
                drop(team.map(move |member| {
                    f.keep();
                    member.barrier();
                    Counted::new()
                }));
            });
            check("sort", |f| {
                let mut numbers: Vec<u32> = (0..20_000).rev().collect();
                par_sort_by(&mut numbers, move |a, b| {
                    f.keep();
                    a.cmp(b)
                });
            });
            check("storage", |f| {
                let only = Mutex::new(Some(f));
                let values = PerThread::new(|| (only.lock().expect("no panic").take(), 0));
                par_for(0..50).run(|_| values.with(|own| own.1 += 1));
            });
        });
    }
    #[cfg(feature = "tasks")]
    tasks();
}

#[cfg(feature = "tasks")]
fn tasks() {
    for size in [1, 2, 3] {
        Team::exact(size).expect("the system gives threads").install(|| {
            check("body", |f| {
                scope(move |s| {
                    f.keep();
                    let counted = Counted::new();
                    s.spawn(move |_| drop(counted));
                });
            });
            check("group", |f| scope(|s| s.group(move |_| f.keep())));
            check("result", |f| drop(scope(|s| (s.spawn(|_| drop(Counted::new())), f).1)));
            check("task", |f| scope(|s| s.spawn(move |_| f.keep())));
            check("cancelled task", |f| {
                scope(|s| {
                    s.cancel();
                    s.task().name("cancelled").spawn(move |_| f.keep());
                });
            });
            check("cell", |f| {
                let cell = DataCell::new(f);
                scope(|s| _ = s.task().writes(&cell).spawn(|_| drop(cell.write())));
            });
            check_but_result("detached task", |f| {
                drop(spawn(move || (f.keep(), Counted::new())).wait());
            });
            check("result of a detached task", |f| drop(spawn(move || f).wait()));
            check("result that is not taken", |f| {
                let task = spawn(move || f);
                while !task.is_finished() {
                    std::thread::yield_now();
                }
                drop(task);
            });
            check("detached task that is cancelled, or not", |f| {
                let task = spawn(move || drop(f));
                let canceller = task.canceller();
                let cancelled = catch_unwind(AssertUnwindSafe(|| canceller.cancel()));
                drop(canceller);
                if task.wait_unless_cancelled().is_none() {
                    resume_unwind(cancelled.expect_err("it dropped the capture"));
                }
            });
        });
    }
}
