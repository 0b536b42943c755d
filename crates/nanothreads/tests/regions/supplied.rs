//! Regions on real threads: every member runs once, threads keep their identity, nested regions,
//! several masters, panics, and teams larger than the machine; supplied by lines or by broadcast,
//! as the module's name says.

use engine::sizer::Fixed;
use engine::{Barrier, Member, Team};
use nanothreads::papers::Dispatch;
use nanothreads::{Schedule, broadcast, join, par_for, scope};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::Once;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread::{self, ThreadId};

/// All tests of this process see four processors, and dispatch as the name of the module says.
fn four() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let dispatch = if module_path!().ends_with("::broadcast") {
            Dispatch::Broadcast
        } else {
            Dispatch::Lines
        };
        assert!(nanothreads::builder().dispatch(dispatch).sizer(Fixed::new(4)).install().is_ok());
    });
}

/// Runs `body` on exactly `size` threads.
fn on<F: Fn(Member) + Sync>(size: usize, body: F) {
    /// # Safety
    /// - `data` points to an `F` that outlives the call.
    unsafe fn call<F: Fn(Member) + Sync>(data: *const (), member: Member) {
        // SAFETY: - `on` passes its own `F`, which outlives the join.
        let body = unsafe { &*data.cast::<F>() };
        body(member);
    }
    let team = Team::reserve(size);
    assert_eq!(team.size(), size);
    assert!(
        size == 1
            || (team.dispatch() == engine::Dispatch::Broadcast)
                == module_path!().ends_with("::broadcast")
    );
    // SAFETY: - `call::<F>` takes an `F: Sync`; the bodies of these tests do not unwind.
    unsafe { team.run(call::<F>, std::ptr::from_ref(&body).cast()) };
}

fn ids_of(size: usize) -> Vec<ThreadId> {
    let ids = Mutex::new(vec![None; size]);
    on(size, |member| {
        ids.lock().expect("no member panics")[member.id as usize] = Some(thread::current().id())
    });
    ids.into_inner()
        .expect("no member panics")
        .into_iter()
        .map(|id| id.expect("each member ran"))
        .collect()
}

#[test]
fn each_member_runs_once_on_a_thread_of_its_own() {
    own_process!();
    four();
    for size in [1, 2, 3, 4, 9, 64] {
        let mut ids = ids_of(size);
        assert_eq!(ids[0], thread::current().id());
        ids.sort_by_key(|id| format!("{id:?}"));
        ids.dedup();
        assert_eq!(ids.len(), size);
    }
}

#[test]
fn a_thread_keeps_its_place_while_the_team_grows_and_shrinks() {
    own_process!();
    four();
    let first = ids_of(4);
    for size in [1, 2, 4, 3, 8, 2, 4] {
        let now = ids_of(size);
        let common = size.min(4);
        assert_eq!(now[..common], first[..common]);
    }
}

#[test]
fn what_the_master_wrote_is_seen_by_members_and_back_over_many_regions() {
    own_process!();
    four();
    let mut values = vec![0_u64; 4];
    for round in 1..=2000 {
        let cells: Vec<AtomicUsize> =
            values.iter().map(|&v| AtomicUsize::new(v as usize)).collect();
        on(4, |member| {
            cells[member.id as usize].fetch_add(1, Relaxed);
        });
        values = cells.iter().map(|cell| cell.load(Relaxed) as u64).collect();
        assert!(values.iter().all(|&v| v == round));
    }
}

#[test]
fn nested_regions_have_exact_sizes_and_distinct_threads() {
    own_process!();
    four();
    for (outer, inner) in [(2, 2), (4, 3), (3, 5), (2, 2)] {
        let seen = Mutex::new(Vec::new());
        on(outer, |a| {
            on(inner, |b| seen.lock().unwrap().push((a.id, b.id, thread::current().id())));
        });
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len(), outer * inner);
        let mut threads: Vec<_> = seen.iter().map(|(_, _, id)| format!("{id:?}")).collect();
        threads.sort();
        threads.dedup();
        assert_eq!(threads.len(), outer * inner, "no thread is in two inner teams at once");
    }
}

#[test]
fn three_levels_deep_and_an_outermost_region_that_takes_back_what_was_lent() {
    own_process!();
    four();
    let count = AtomicU32::new(0);
    for _ in 0..50 {
        on(2, |_| {
            on(2, |_| {
                on(2, |_| {
                    count.fetch_add(1, Relaxed);
                })
            })
        });
        on(8, |_| {
            count.fetch_add(1, Relaxed);
        });
    }
    assert_eq!(count.into_inner(), 50 * 16);
}

#[test]
fn regions_of_the_safe_api_never_use_more_threads_than_processors() {
    own_process!();
    four();
    let running = AtomicUsize::new(0);
    let most = AtomicUsize::new(0);
    broadcast(|_| {
        broadcast(|_| {
            let now = running.fetch_add(1, Relaxed) + 1;
            most.fetch_max(now, Relaxed);
            thread::yield_now();
            running.fetch_sub(1, Relaxed);
        });
    });
    assert!(most.into_inner() <= 4);
}

#[test]
fn many_threads_of_the_program_are_masters_at_once() {
    own_process!();
    four();
    let total = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for _ in 0..100 {
                    on(3, |_| {
                        total.fetch_add(1, Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(total.into_inner(), 8 * 100 * 3);
}

#[test]
fn masters_at_once_share_the_processors_of_the_program() {
    own_process!();
    four();
    // Other tests of this process are masters, too, so a bound is all that can be said: at most one
    // thread for each master beyond the four processors, once all masters are known.
    let running = AtomicUsize::new(0);
    let masters = 3;
    let known = std::sync::Barrier::new(masters);
    thread::scope(|s| {
        for _ in 0..masters {
            s.spawn(|| {
                broadcast(|_| {});
                known.wait();
                for _ in 0..200 {
                    broadcast(|_| {
                        let now = running.fetch_add(1, Relaxed) + 1;
                        assert!(now <= 4 + masters, "{now} threads at once");
                        thread::yield_now();
                        running.fetch_sub(1, Relaxed);
                    });
                }
            });
        }
    });
}

#[test]
fn threads_that_end_leave_their_virtual_processors_to_others() {
    own_process!();
    four();
    let threads_now = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let churn = |times: usize| {
        for _ in 0..times {
            thread::spawn(|| on(4, |_| {})).join().unwrap();
        }
    };
    churn(3);
    let before = threads_now();
    churn(40);
    // Other tests of this process run beside this one and have threads of their own; 40 leaks of 3
    // would show.
    assert!(threads_now() < before + 100, "{before} -> {}", threads_now());
}

#[test]
fn a_barrier_orders_what_members_wrote() {
    own_process!();
    four();
    const ROUNDS: usize = 300;
    for size in [1, 2, 4, 7] {
        let barrier = Barrier::new(size);
        let slots: Vec<AtomicUsize> = (0..size).map(|_| AtomicUsize::new(0)).collect();
        on(size, |member| {
            let id = member.id as usize;
            for round in 1..=ROUNDS {
                slots[id].store(round, Relaxed);
                barrier.wait(id);
                assert!(slots.iter().all(|slot| slot.load(Relaxed) == round));
                barrier.wait(id);
            }
        });
    }
}

/// Does one piece of work at a barrier, if any is left. The member that did the last piece says so
/// to those that sleep.
fn takes_one(left: &AtomicUsize, barrier: &Barrier) -> bool {
    let before = left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
    if before == Ok(1) {
        barrier.stir();
    }
    before.is_ok()
}

#[test]
fn members_that_wait_at_a_barrier_help_until_the_work_is_complete() {
    own_process!();
    four();
    for size in [2, 3] {
        let barrier = Barrier::new(size);
        let left = AtomicUsize::new(100);
        on(size, |member| {
            barrier.wait_with(
                member.id as usize,
                true,
                || takes_one(&left, &barrier),
                || left.load(Relaxed) == 0,
            );
            assert_eq!(left.load(Relaxed), 0);
        });
    }
}

#[test]
fn work_that_one_of_two_knows_of_keeps_both_at_the_barrier() {
    own_process!();
    four();
    let barrier = Barrier::new(2);
    let left = AtomicUsize::new(0);
    on(2, |member| {
        let id = member.id as usize;
        for round in 0..400 {
            // By turns no member, member 0, member 1 and both know of some.
            let has_work = round >> id & 1 == 1;
            left.fetch_add(if has_work { 5 } else { 0 }, Relaxed);
            barrier.wait_with(
                id,
                has_work,
                || takes_one(&left, &barrier),
                || left.load(Relaxed) == 0,
            );
            assert_eq!(left.load(Relaxed), 0, "round {round}");
            barrier.wait(id);
        }
    });
}

#[test]
fn a_panic_reaches_the_caller_and_loses_no_virtual_processor() {
    own_process!();
    four();
    let before = ids_of(4);
    for guilty in 0..4 {
        // Masters of other tests may have some of the four processors.
        let panic = |member: Member| assert_ne!(member.id, guilty.min(member.size - 1), "planted");
        let caught = catch_unwind(|| broadcast(panic));
        let payload = caught.expect_err("the panic is passed on");
        assert!(payload.downcast_ref::<String>().is_some_and(|text| text.contains("planted")));
    }
    // Masters of other tests may have borrowed some of these threads: as many are there.
    let after: std::collections::HashSet<_> = ids_of(4).into_iter().collect();
    assert_eq!(after.len(), before.len());
    let caught = catch_unwind(AssertUnwindSafe(|| par_for(0..100).run(|i| assert!(i != 57))));
    assert!(caught.is_err());
    let caught = catch_unwind(AssertUnwindSafe(|| join(|| 1, || -> i32 { panic!("second") })));
    assert_eq!(caught.expect_err("passed on").downcast_ref::<&str>(), Some(&"second"));
    let caught = catch_unwind(AssertUnwindSafe(|| scope(|s| s.spawn(|_| panic!("task")))));
    assert!(caught.is_err());
}

#[test]
fn loops_run_each_iteration_once_under_every_schedule() {
    own_process!();
    four();
    let chunk = NonZeroUsize::new(7).unwrap();
    for schedule in [
        Schedule::Static,
        Schedule::StaticChunks(chunk),
        Schedule::Dynamic(chunk),
        Schedule::Guided(chunk),
    ] {
        for length in [0, 1, 2, 1000] {
            let times: Vec<AtomicU32> = (0..length).map(|_| AtomicU32::new(0)).collect();
            par_for(5..5 + length).schedule(schedule).run(|i| {
                times[i - 5].fetch_add(1, Relaxed);
            });
            assert!(times.iter().all(|t| t.load(Relaxed) == 1), "{schedule:?} {length}");
        }
    }
}

#[test]
fn a_recursive_join_gives_the_serial_result() {
    own_process!();
    four();
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    assert_eq!(fib(20), 6765);
}

#[test]
fn a_scope_ends_after_all_tasks_including_those_that_tasks_spawned() {
    own_process!();
    four();
    let count = AtomicUsize::new(0);
    let returned = scope(|s| {
        for _ in 0..50 {
            s.spawn(|s| {
                count.fetch_add(1, Relaxed);
                for _ in 0..3 {
                    s.spawn(|_| {
                        count.fetch_add(1, Relaxed);
                    });
                }
            });
        }
        "body"
    });
    assert_eq!(returned, "body");
    assert_eq!(count.into_inner(), 200);
}

#[test]
fn members_may_spin_on_each_other_in_user_code() {
    own_process!();
    four();
    // As pipelined codes do: member i waits for member i - 1 without telling the engine.
    let turn = AtomicU32::new(0);
    for round in 0..20 {
        on(4, |member| {
            let mine = round * 4 + member.id;
            while turn.load(Acquire) != mine {
                thread::yield_now();
            }
            turn.store(mine + 1, Release);
        });
    }
    assert_eq!(turn.into_inner(), 80);
}
