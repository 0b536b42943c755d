//! Both ways of dispatch on real threads, mixed and in large teams; visits of workers; results that
//! ride home.

use crate::team_of_four::{four, four_alone, four_answer, members, panic_of};
use engine::{Dispatch, Member, Team};
use nanothreads::par_for;
use nanothreads::workers::on_each;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

/// Runs `body` on a team that is dispatched as `dispatch` says.
fn on<F: Fn(Member) + Sync>(size: usize, dispatch: Dispatch, body: F) {
    /// # Safety
    /// - `data` points to an `F` that outlives the call.
    unsafe fn call<F: Fn(Member) + Sync>(data: *const (), member: Member) {
        // SAFETY: - `on` passes its own `F`, which outlives the join.
        let body = unsafe { &*data.cast::<F>() };
        body(member);
    }
    let team = Team::reserve(size).dispatched(dispatch);
    assert_eq!((team.size(), team.dispatch()), (size, dispatch));
    // SAFETY: - `call::<F>` takes an `F: Sync`; the bodies of these tests do not unwind.
    unsafe { team.run(call::<F>, ptr::from_ref(&body).cast()) };
}

fn count(size: usize, dispatch: Dispatch) -> u32 {
    let seen = AtomicU32::new(0);
    on(size, dispatch, |member| {
        seen.fetch_add(1 << member.id.min(31), Relaxed);
    });
    seen.into_inner()
}

#[test]
fn a_team_changes_its_dispatch_and_its_size_from_region_to_region() {
    own_process!();
    let _guard = four();
    for round in 0..400_usize {
        let size = 2 + round * 7 % 5;
        let dispatch = if round % 3 == 0 { Dispatch::Lines } else { Dispatch::Broadcast };
        assert_eq!(count(size, dispatch), (1 << size) - 1);
    }
}

#[test]
fn a_worker_that_sat_out_any_number_of_broadcasts_takes_part_again() {
    own_process!();
    let _guard = four();
    for away in [1, 3, 4, 5, 17, 300] {
        assert_eq!(count(4, Dispatch::Broadcast), 0b1111);
        for _ in 0..away {
            assert_eq!(count(2, Dispatch::Broadcast), 0b11);
        }
    }
}

#[test]
fn large_teams_arrive_through_leaders() {
    own_process!();
    let _guard = four_alone();
    for size in [17, 40, 16, 33, 40] {
        let ran: Vec<AtomicU32> = (0..size).map(|_| AtomicU32::new(0)).collect();
        for _ in 0..10 {
            on(size, Dispatch::Broadcast, |member| {
                ran[member.id as usize].fetch_add(1, Relaxed);
            });
        }
        assert!(ran.iter().all(|times| times.load(Relaxed) == 10));
    }
}

#[test]
fn inner_masters_broadcast_on_rings_of_their_own() {
    own_process!();
    let _guard = four_alone();
    let seen = AtomicUsize::new(0);
    for round in 0..60 {
        let (outer, inner) = (2 + round % 2, 2 + round % 3);
        let before = seen.load(Relaxed);
        on(outer, Dispatch::Broadcast, |_| {
            for dispatch in [Dispatch::Broadcast, Dispatch::Lines, Dispatch::Broadcast] {
                on(inner, dispatch, |_| {
                    seen.fetch_add(1, Relaxed);
                });
            }
        });
        assert_eq!(seen.load(Relaxed) - before, outer * inner * 3);
    }
}

#[test]
fn virtual_processors_of_a_master_that_ended_follow_the_next_one() {
    own_process!();
    let _guard = four();
    for _ in 0..20 {
        thread::spawn(|| assert_eq!(count(4, Dispatch::Broadcast), 0b1111)).join().unwrap();
    }
}

#[test]
fn masters_visit_all_workers_while_others_fork_and_each_has_all_its_visits() {
    own_process!();
    let _guard = four();
    members();
    let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
    thread::scope(|s| {
        for (mine, dispatch) in counts.iter().zip([Dispatch::Lines, Dispatch::Broadcast]) {
            s.spawn(move || {
                let mut visits = 0;
                for _ in 0..200 {
                    visits += on_each(|_| {
                        mine.fetch_add(1, Relaxed);
                    });
                    // A master at the same time: the workers' own one, or another.
                    assert_eq!(count(3, dispatch), 0b111);
                    assert_eq!(mine.load(Relaxed), visits);
                }
            });
        }
    });
}

#[test]
fn a_visit_waits_for_the_region_that_its_worker_is_in() {
    own_process!();
    let _guard = four_alone();
    members();
    let all = on_each(|_| ());
    let visited = Mutex::new(Vec::new());
    let inside = Barrier::new(2);
    thread::scope(|s| {
        s.spawn(|| {
            on(2, Dispatch::Lines, |member| {
                if member.id == 1 {
                    inside.wait();
                    // All others are visited, so this worker's visit waits, too.
                    while visited.lock().unwrap().len() < all - 1 {
                        thread::yield_now();
                    }
                    let visited = visited.lock().unwrap();
                    let is_own = |number: &usize| engine_thread() == format!("nanos-w-{number}");
                    assert!(!visited.iter().any(is_own), "the visit ran beside the region");
                }
            });
        });
        inside.wait();
        assert_eq!(on_each(|number| visited.lock().unwrap().push(number)), all);
    });
    assert_eq!(visited.into_inner().unwrap().len(), all);
}

fn engine_thread() -> String {
    thread::current().name().expect("workers have names").to_owned()
}

#[test]
fn more_visits_than_may_wait_at_a_worker_are_all_done() {
    own_process!();
    let _guard = four_alone();
    members();
    let (gate, count) = (Barrier::new(2), AtomicUsize::new(0));
    let all = on_each(|_| ());
    thread::scope(|s| {
        // The first worker stays in a visit, and three more wait there: all that may.
        s.spawn(|| {
            on_each(|number| {
                if number == 1 {
                    gate.wait();
                }
            })
        });
        for _ in 0..9 {
            s.spawn(|| {
                on_each(|_| {
                    count.fetch_add(1, Relaxed);
                })
            });
        }
        while count.load(Relaxed) < 3 * (all - 1) {
            thread::yield_now();
        }
        gate.wait();
    });
    assert_eq!(count.into_inner(), 9 * all);
}

#[test]
fn each_virtual_processor_is_visited_once_and_on_its_own_thread() {
    own_process!();
    let _guard = four_alone();
    members();
    let seen = Mutex::new(Vec::new());
    let visited = on_each(|number| {
        assert_eq!(engine_thread(), format!("nanos-w-{number}"));
        // The visited one may be the next one's worker: it forks alone.
        assert_eq!((members(), Team::reserve(3).size()), (1, 1));
        seen.lock().unwrap().push(number);
    });
    let mut seen = seen.into_inner().unwrap();
    assert!(visited >= 3 && seen.len() == visited);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), visited);
    assert_eq!(
        panic_of(|| {
            on_each(|_| panic!("planted"));
        }),
        "planted"
    );
    let nested = panic_of(|| {
        nanothreads::broadcast(|_| {
            on_each(|_| ());
        })
    });
    assert!(nested.contains("inside a region"));
    four_answer();
}

#[test]
fn results_that_fit_a_line_and_results_that_do_not_come_home_in_order() {
    own_process!();
    let _guard = four();
    let words = |i: usize| -> String { format!("{i},") };
    let expected: String = (0..100).map(words).collect();
    assert_eq!(par_for(0..100).reduce(String::new(), words, |a, b| a + &b), expected);
    // Forty bytes without the mark of presence, a full line with it, and more.
    assert_eq!(
        par_for(0..100).reduce(
            [0_u64; 4],
            |i| [i as u64; 4],
            |a, b| std::array::from_fn(|k| a[k] + b[k])
        ),
        [4950; 4]
    );
    assert_eq!(
        par_for(0..100).reduce(
            [0_u64; 9],
            |i| [i as u64; 9],
            |a, b| std::array::from_fn(|k| a[k] + b[k])
        ),
        [4950; 9]
    );
    assert_eq!(par_for(0..100).reduce(0, |i| i as u128, |a, b| a + b), 4950);
}

#[test]
fn combining_results_may_fork_regions_itself() {
    own_process!();
    let _guard = four();
    let combine = |a: usize, b: usize| a + par_for(0..b).reduce(0, |_| 1, |x, y| x + y);
    for _ in 0..50 {
        assert_eq!(par_for(0..40).reduce(0, |i| i, combine), 780);
    }
}

#[test]
fn results_are_dropped_once_when_a_member_panics() {
    own_process!();
    let _guard = four();
    let alive = Arc::new(());
    for guilty in [0, 99] {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            par_for(0..100).reduce(
                None,
                |i| {
                    assert_ne!(i, guilty, "planted");
                    Some(Arc::clone(&alive))
                },
                |a, b| b.or(a),
            )
        }));
        assert!(caught.is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
