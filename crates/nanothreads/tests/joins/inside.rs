//! Loops, joins and scopes inside halves of joins, bodies of scopes and tasks: threads that have
//! nothing to do take part in them.

use nanothreads::{
    Schedule, builder, current_num_threads, join, par_for, par_sort_unstable, pipeline, scope,
};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const THREADS: usize = 8;
/// More than one half of a join, or one task, would have by itself. Not all: one that forks waits.
const MANY: usize = 5;
/// As many as are left where one part of an inner region takes long: the threads that divided the
/// parts with the one that has it wait for it, and for each other, `log2(THREADS)` and it itself.
const LEFT: usize = THREADS - 4;
/// Far more than any machine needs.
const LONGEST: Duration = Duration::from_secs(60);

/// Settings of the process, for one test at a time: masters that are awake count as threads, and
/// that of the test before may be about to end.
fn eight() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The first test of the process does it.
    let _ = builder().threads(THREADS).adapt(false).install();
    let begin = Instant::now();
    while current_num_threads() < THREADS {
        assert!(begin.elapsed() < LONGEST, "{} threads", current_num_threads());
        thread::yield_now();
    }
    one
}

/// Threads that come to `visit`, each of which waits there until `wanted` have come.
struct Meeting {
    came: Mutex<HashSet<ThreadId>>,
    wanted: usize,
    begin: Instant,
    longest: Duration,
}

impl Meeting {
    fn of(wanted: usize) -> Self {
        Self::within(LONGEST, wanted)
    }

    fn within(longest: Duration, wanted: usize) -> Self {
        Self { came: Mutex::default(), wanted, begin: Instant::now(), longest }
    }

    fn count(&self) -> usize {
        self.came.lock().expect("no thread panics with it").len()
    }

    fn visit(&self) {
        self.came.lock().expect("as above").insert(thread::current().id());
        while self.count() < self.wanted && self.begin.elapsed() < self.longest {
            thread::yield_now();
        }
    }

    fn looped(&self) {
        par_for(0..THREADS).run(|_| self.visit());
    }
}

/// Runs `fork` until `wanted` threads have come to the meeting that it gets.
fn meet(wanted: usize, fork: impl FnOnce(&Meeting)) {
    let _one = eight();
    meet_now(wanted, fork);
}

fn meet_now(wanted: usize, fork: impl FnOnce(&Meeting)) {
    let meeting = Meeting::of(wanted);
    fork(&meeting);
    assert!(meeting.count() >= wanted, "{} threads of {wanted}", meeting.count());
}

#[test]
fn loops_in_both_halves_of_a_join_have_the_threads_together() {
    own_process!();
    meet(MANY, |meeting| {
        join(|| meeting.looped(), || meeting.looped());
    });
}

#[test]
fn a_loop_in_the_body_of_a_scope_has_its_members() {
    own_process!();
    meet(MANY, |meeting| scope(|_| meeting.looped()));
}

#[test]
fn loops_in_two_tasks_have_the_threads_together() {
    own_process!();
    meet(MANY, |meeting| {
        scope(|s| (0..2).for_each(|_| s.spawn(|_| meeting.looped())));
    });
}

#[test]
fn a_loop_has_the_threads_that_the_callers_queued_task_leaves() {
    own_process!();
    let _one = eight();
    let begin = Instant::now();
    let (began, may_end) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wait = |word: &AtomicUsize, wanted: usize| {
        while word.load(Relaxed) < wanted && begin.elapsed() < LONGEST {
            thread::yield_now();
        }
    };
    scope(|s| {
        let others = current_num_threads() - 1;
        assert!(others + 1 >= MANY, "{others}");
        for _ in 0..others {
            s.spawn(|_| {
                began.fetch_add(1, Relaxed);
                wait(&may_end, 1);
            });
        }
        // None is left to take what comes now.
        wait(&began, others);
        s.spawn(|_| ());
        let threads = current_num_threads();
        may_end.store(1, Relaxed);
        assert!(threads > 1, "the caller alone, with one task queued and {others} others");
    });
}

#[test]
fn joins_in_a_task_have_the_members_of_the_scope() {
    own_process!();
    fn halve(meeting: &Meeting, depth: u32) {
        match depth {
            0 => meeting.visit(),
            _ => _ = join(|| halve(meeting, depth - 1), || halve(meeting, depth - 1)),
        }
    }
    meet(4, |meeting| scope(|s| s.spawn(|_| halve(meeting, 3))));
}

#[test]
fn a_scope_in_a_half_and_one_in_a_task_have_idle_threads() {
    own_process!();
    let four = |meeting: &Meeting| scope(|s| (0..4).for_each(|_| s.spawn(|_| meeting.visit())));
    meet(4, |meeting| {
        join(|| four(meeting), || ());
    });
    meet(4, |meeting| scope(|s| s.spawn(|_| four(meeting))));
}

/// Longer than a thread waits for a task at a scope inside.
fn pause() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(5) {
        thread::yield_now();
    }
}

#[test]
fn threads_come_back_to_a_scope_inside_when_it_has_tasks_later() {
    own_process!();
    let late = |meeting: &Meeting| {
        scope(|s| {
            pause();
            (0..4).for_each(|_| s.spawn(|_| meeting.visit()));
        });
    };
    meet(4, |meeting| {
        join(|| late(meeting), || ());
    });
    meet(4, |meeting| scope(|s| s.spawn(|_| late(meeting))));
}

#[test]
fn threads_come_back_for_tasks_of_tasks_again_and_again() {
    own_process!();
    let _one = eight();
    let meetings: Vec<_> = (0..5).map(|_| Meeting::of(4)).collect();
    join(
        || {
            scope(|s| {
                // The first task runs on some member, which queues all others.
                s.spawn(|s| {
                    for meeting in &meetings {
                        pause();
                        s.group(|s| (0..4).for_each(|_| s.spawn(|_| meeting.visit())));
                    }
                });
            });
        },
        || (),
    );
    let counts: Vec<_> = meetings.iter().map(Meeting::count).collect();
    assert!(counts.iter().all(|&count| count >= 4), "{counts:?}");
}

#[test]
fn threads_leave_a_scope_that_has_no_work_for_them_to_where_there_is_some() {
    own_process!();
    let _one = eight();
    for _ in 0..20 {
        let meeting = Meeting::of(LEFT);
        let is_reached = || meeting.count() >= LEFT || meeting.begin.elapsed() >= LONGEST;
        let wait = || (0..).find(|_| (thread::yield_now(), is_reached()).1);
        let loop_may_begin = AtomicUsize::new(0);
        join(
            || {
                scope(|s| {
                    s.spawn(|_| {
                        // Threads that have nothing to do come to this scope first.
                        (0..1_000).for_each(|_| thread::yield_now());
                        loop_may_begin.store(1, Relaxed);
                        let _ = wait();
                    });
                });
            },
            || {
                while loop_may_begin.load(Relaxed) == 0 {
                    thread::yield_now();
                }
                meeting.looped();
            },
        );
        assert!(meeting.count() >= LEFT, "{} threads of {LEFT}", meeting.count());
    }
}

#[test]
fn loops_in_loops_in_halves_have_idle_threads() {
    own_process!();
    meet(4, |meeting| {
        join(|| par_for(0..1).run(|_| meeting.looped()), || ());
    });
}

#[test]
fn what_is_forked_inside_has_the_results_that_it_has_outside() {
    own_process!();
    let _one = eight();
    let check = || {
        assert_eq!(par_for(0..1_000).reduce(0, |i| i, |a, b| a + b), 499_500);
        let large = |i: usize| [i as u64; 9];
        let sum =
            par_for(0..100).reduce([0; 9], large, |a, b| std::array::from_fn(|k| a[k] + b[k]));
        assert_eq!(sum, [4_950; 9]);
        for schedule in [Schedule::PURE, Schedule::Auto, Schedule::Affinity, Schedule::Factoring] {
            let seen: Vec<_> = (0..500).map(|_| AtomicUsize::new(0)).collect();
            par_for(0..500).schedule(schedule).run(|i| _ = seen[i].fetch_add(1, Relaxed));
            assert!(seen.iter().all(|count| count.load(Relaxed) == 1), "{schedule:?}");
        }
        let order = Mutex::new(Vec::new());
        par_for(0..200).ordered(|i, turn| {
            turn.wait_turn(|| order.lock().expect("no panic").push(i));
        });
        assert!(order.into_inner().expect("no panic").into_iter().eq(0..200));
        let cells: Vec<_> = (0..64).map(|_| AtomicUsize::new(0)).collect();
        pipeline(0..8, 0..8).run(|rows, columns| {
            for row in rows {
                for column in columns.clone() {
                    let above =
                        if row > 0 { cells[8 * (row - 1) + column].load(Relaxed) } else { 0 };
                    cells[8 * row + column].store(above + 1, Relaxed);
                }
            }
        });
        assert_eq!(cells[63].load(Relaxed), 8);
        assert_eq!(par_for(0..300).collect(|i| i).len(), 300);
        let mut numbers: Vec<u32> =
            (0..5_000).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
        par_sort_unstable(&mut numbers);
        assert!(numbers.is_sorted());
    };
    for _ in 0..20 {
        join(check, check);
        scope(|s| {
            (0..3).for_each(|_| s.spawn(|_| check()));
            check();
        });
        join(|| scope(|s| s.spawn(|_| check())), || scope(|_| check()));
    }
}

#[test]
fn a_panic_inside_comes_out_of_the_half_or_the_task_and_threads_stay() {
    own_process!();
    let _one = eight();
    let text = |outcome: thread::Result<()>| {
        let payload = outcome.expect_err("it panics");
        *payload.downcast_ref::<&str>().expect("a text")
    };
    for _ in 0..50 {
        let inner = || par_for(0..100).run(|i| assert!(i != 77, "inside"));
        let joined = catch_unwind(AssertUnwindSafe(|| _ = join(inner, || ())));
        assert_eq!(text(joined), "inside");
        let scoped = catch_unwind(AssertUnwindSafe(|| scope(|s| s.spawn(move |_| inner()))));
        assert_eq!(text(scoped), "inside");
    }
    meet_now(MANY, |meeting| scope(|_| meeting.looped()));
}

#[test]
fn a_loop_inside_says_how_many_parts_it_has_and_numbers_them() {
    own_process!();
    let _one = eight();
    scope(|_| {
        let size = current_num_threads();
        assert!(size >= MANY, "{size}");
        let ids = Mutex::new(Vec::new());
        par_for(0..size).run(|i| {
            let member = nanothreads::Member::current();
            assert_eq!((member.id as usize, member.size as usize), (i, size));
            ids.lock().expect("no panic").push(i);
        });
        let mut ids = ids.into_inner().expect("no panic");
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..size));
        assert_eq!(nanothreads::Member::current().id, 0);
    });
}
