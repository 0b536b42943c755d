//! What holds for nano-threads on teams of any size; each module that uses this one fixes one size.

mod ends;
mod panics;
mod stress;
mod waiting;

use super::team;
use nanothreads::{DataCell, broadcast, par_for, scope};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

#[test]
fn all_tasks_and_their_children_run_once_before_the_scope_ends() {
    own_process!();
    team();
    let count = AtomicUsize::new(0);
    let returned = scope(|s| {
        for _ in 0..100 {
            s.spawn(|s| {
                count.fetch_add(1, Relaxed);
                for _ in 0..10 {
                    s.spawn(|s| {
                        count.fetch_add(1, Relaxed);
                        s.spawn(|_| {
                            count.fetch_add(1, Relaxed);
                        });
                    });
                }
            });
        }
        "body"
    });
    assert_eq!((returned, count.into_inner()), ("body", 100 + 1000 + 1000));
}

#[test]
fn a_chain_of_predecessors_runs_in_order_whatever_its_length() {
    own_process!();
    team();
    const LENGTH: usize = 20_000;
    let next = AtomicUsize::new(0);
    let next = &next;
    scope(|s| {
        let mut last = None;
        for number in 0..LENGTH {
            let mut task = s.task();
            if let Some(last) = &last {
                task = task.depends_on(last);
            }
            last = Some(task.spawn(move |_| assert_eq!(next.fetch_add(1, Relaxed), number)));
        }
    });
    assert_eq!(next.load(Relaxed), LENGTH);
}

#[test]
fn a_task_with_more_predecessors_than_fit_inline_waits_for_all_of_them() {
    own_process!();
    team();
    for count in [3, 4, 5, 64] {
        let done = AtomicUsize::new(0);
        let done = &done;
        scope(|s| {
            let mut last = s.task();
            for _ in 0..count {
                let before = s.task().spawn(move |s| {
                    s.yield_now();
                    done.fetch_add(1, Relaxed);
                });
                last = last.depends_on(&before);
            }
            last.spawn(move |_| assert_eq!(done.fetch_add(1, Relaxed), count));
        });
        assert_eq!(done.load(Relaxed), count + 1);
    }
}

#[test]
fn a_successor_sees_what_the_children_of_its_predecessor_did() {
    own_process!();
    team();
    let cell = DataCell::new(0);
    let cell = &cell;
    scope(|s| {
        for round in 0..50 {
            s.task().writes(cell).spawn(move |s| {
                s.spawn(move |s| {
                    s.yield_now();
                    s.spawn(move |_| *cell.write() += 1);
                });
            });
            s.task().reads(cell).spawn(move |_| assert_eq!(*cell.read(), round + 1));
        }
    });
}

#[test]
fn readers_of_a_value_may_all_run_at_the_same_time() {
    own_process!();
    // Each waits for all others: it ends only if no reader waits for another reader to finish.
    team();
    let (value, arrived) = (DataCell::new(1), AtomicUsize::new(0));
    let (value, arrived) = (&value, &arrived);
    scope(|s| {
        s.task().writes(value).spawn(move |_| *value.write() = 2);
        for _ in 0..8 {
            s.task().reads(value).spawn(move |s| {
                assert_eq!(*value.read(), 2);
                arrived.fetch_add(1, Relaxed);
                while arrived.load(Relaxed) < 8 {
                    s.yield_now();
                }
            });
        }
        s.task().writes(value).spawn(move |_| assert_eq!(arrived.load(Relaxed), 8));
    });
}

#[test]
fn members_of_a_sharing_set_may_run_at_the_same_time_and_between_writers() {
    own_process!();
    team();
    let (value, arrived) = (0_u32, AtomicUsize::new(0));
    let (value, arrived) = (&value, &arrived);
    scope(|s| {
        s.task().writes(value).spawn(move |_| assert_eq!(arrived.load(Relaxed), 0));
        for _ in 0..5 {
            s.task().shares(value).spawn(move |s| {
                arrived.fetch_add(1, Relaxed);
                while arrived.load(Relaxed) < 5 {
                    s.yield_now();
                }
            });
        }
        s.task().reads(value).spawn(move |_| assert_eq!(arrived.load(Relaxed), 5));
    });
}

#[test]
fn a_task_that_excludes_others_runs_alone_even_while_it_waits() {
    own_process!();
    team();
    let (a, b) = (DataCell::new(0), DataCell::new(0));
    let (a, b) = (&a, &b);
    scope(|s| {
        for number in 0..60 {
            let task = match number % 3 {
                0 => s.task().excludes(a),
                1 => s.task().excludes(b),
                // Both, named in either order: claimed in one order all the same.
                _ if number % 2 == 0 => s.task().excludes(a).excludes(b),
                _ => s.task().excludes(b).excludes(a),
            };
            task.spawn(move |s| {
                let mut a = (number % 3 != 1).then(|| a.write());
                let mut b = (number % 3 != 0).then(|| b.write());
                s.yield_now();
                for value in a.iter_mut().chain(&mut b) {
                    **value += 1;
                }
            });
        }
    });
    assert_eq!((*a.read(), *b.read()), (40, 40));
}

#[test]
fn a_task_may_name_one_value_several_times() {
    own_process!();
    team();
    let cell = DataCell::new(0);
    let cell = &cell;
    scope(|s| {
        for _ in 0..100 {
            s.task().reads(cell).writes(cell).reads(cell).spawn(move |_| *cell.write() += 1);
            s.task().excludes(cell).excludes(cell).spawn(move |_| *cell.write() += 1);
        }
    });
    assert_eq!(*cell.read(), 200);
}

#[test]
fn cancelled_groups_start_no_more_tasks_and_others_are_not_touched() {
    own_process!();
    team();
    let (inside, outside) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let dropped = AtomicUsize::new(0);
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    scope(|s| {
        s.spawn(|s| {
            for _ in 0..50 {
                s.spawn(|_| {
                    outside.fetch_add(1, Relaxed);
                });
            }
        });
        s.group(|g| {
            g.cancel();
            assert!(g.is_cancelled());
            for _ in 0..50 {
                let counts = Counts(&dropped);
                let (inside, outside) = (&inside, &outside);
                let task = g.task().spawn(move |_| {
                    let _counts = counts;
                    inside.fetch_add(1, Relaxed);
                });
                g.task().depends_on(&task).spawn(move |_| {
                    outside.fetch_add(1, Relaxed);
                });
            }
        });
        assert!(!s.is_cancelled());
    });
    assert_eq!((inside.into_inner(), outside.into_inner(), dropped.into_inner()), (0, 50, 50));
}

#[test]
fn a_running_task_learns_that_its_ancestor_was_cancelled() {
    own_process!();
    team();
    let seen = AtomicUsize::new(0);
    scope(|s| {
        s.group(|g| {
            g.spawn(|s| {
                // SAFETY: - the task holds nothing while it yields.
                unsafe { s.task().suspendable() }.spawn(|s| {
                    while !s.is_cancelled() {
                        s.yield_now();
                    }
                    seen.fetch_add(1, Relaxed);
                });
            });
            // SAFETY: - as above.
            unsafe { g.task().suspendable() }.spawn(|s| {
                // Let the first one start: what has not started is not started any more.
                while seen.load(Relaxed) == 0 && !s.is_cancelled() {
                    s.yield_now();
                }
            });
            for _ in 0..20 {
                g.yield_now();
            }
            g.cancel();
        });
    });
    // With a team of four the inner one may not have started before the cancellation.
    assert!(seen.into_inner() <= 1);
}

#[test]
fn scopes_work_inside_regions_loops_and_tasks() {
    own_process!();
    team();
    let count = AtomicUsize::new(0);
    let members = AtomicUsize::new(0);
    broadcast(|_| {
        members.fetch_add(1, Relaxed);
        scope(|s| {
            for _ in 0..10 {
                s.spawn(|s| {
                    s.spawn(|_| {
                        scope(|s| {
                            (0..3).for_each(|_| {
                                s.spawn(|_| {
                                    count.fetch_add(1, Relaxed);
                                })
                            })
                        });
                    });
                });
            }
        });
    });
    assert_eq!(count.into_inner(), members.into_inner() * 30);
    let sum = AtomicU64::new(0);
    scope(|s| {
        for _ in 0..10 {
            s.spawn(|s| {
                s.yield_now();
                par_for(0..100).run(|i| {
                    sum.fetch_add(i as u64, Relaxed);
                });
                s.yield_now();
            });
        }
    });
    assert_eq!(sum.into_inner(), 10 * 4950);
}

#[test]
fn many_threads_of_the_program_have_scopes_at_once() {
    own_process!();
    team();
    let count = AtomicUsize::new(0);
    thread::scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| {
                for _ in 0..20 {
                    scope(|s| {
                        (0..20).for_each(|_| {
                            s.spawn(|s| {
                                s.yield_now();
                                count.fetch_add(1, Relaxed);
                            })
                        })
                    });
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 6 * 20 * 20);
}

#[test]
fn spawners_feed_a_scope_from_other_threads() {
    own_process!();
    team();
    let log = Mutex::new(Vec::new());
    thread::scope(|threads| {
        scope(|s| {
            for feeder in 0..4 {
                let spawner = s.spawner();
                let log = &log;
                threads.spawn(move || {
                    for number in 0..25 {
                        spawner.spawn(move |s| {
                            s.yield_now();
                            log.lock().unwrap().push(feeder * 25 + number);
                        });
                    }
                });
            }
        });
        // The scope is over: so all that the feeders spawned is done.
        assert_eq!(log.lock().unwrap().len(), 100);
    });
    let mut log = log.into_inner().unwrap();
    log.sort_unstable();
    assert!(log.into_iter().eq(0..100));
}

#[test]
fn a_task_cancels_its_siblings_and_a_canceller_that_outlives_them_does_nothing() {
    own_process!();
    let size = team();
    let (ran, kept) = (AtomicUsize::new(0), Mutex::new(None));
    scope(|s| {
        s.group(|g| {
            let canceller = g.canceller();
            for number in 0..10_000 {
                let (canceller, ran) = (canceller.clone(), &ran);
                g.spawn(move |_| {
                    ran.fetch_add(1, Relaxed);
                    if number % 100 == 50 {
                        canceller.cancel();
                    }
                });
            }
            *kept.lock().unwrap() = Some(canceller);
        });
        let canceller = kept.lock().unwrap().take().unwrap();
        assert!(format!("{canceller:?}").contains("is_over: true"));
        canceller.cancel();
        assert!(!s.is_cancelled());
        // That of a task, by a child of its own, also when the task's body has ended.
        let late = AtomicUsize::new(0);
        let late = &late;
        s.group(|g| {
            g.spawn(move |s| {
                let canceller = s.canceller();
                s.task().priority(1).spawn(move |_| canceller.cancel());
                (0..1000).for_each(|_| s.spawn(move |_| _ = late.fetch_add(1, Relaxed)));
            });
        });
        assert!(late.load(Relaxed) <= 1000);
    });
    let ran = ran.into_inner();
    assert!(ran <= 10_000 - 100 && ran > 0, "{ran} of 10000 ran on {size} threads");
}
