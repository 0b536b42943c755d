//! Several regions of one master open at once: what each computes, in which order, and what becomes
//! of panics.

use nanothreads::papers::{Dispatch, Overlap, Pending};
use nanothreads::{Member, Team, TeamError, join, par_for, scope};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// Teams of some sizes, by lines and by broadcast.
fn teams() -> Result<Vec<Team>, TeamError> {
    let shapes = [1, 2, 3, 6]
        .into_iter()
        .flat_map(|size| [(size, Dispatch::Lines), (size, Dispatch::Broadcast)]);
    shapes.map(|(size, dispatch)| Ok(Team::exact(size)?.dispatched(dispatch))).collect()
}

fn text(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().expect("a message")).to_owned(),
    }
}

#[test]
fn each_member_runs_each_construct_once_however_many_are_forked_and_however_they_are_joined() {
    own_process!();
    for team in teams().expect("threads") {
        for joined in 0..4 {
            // More than may be open.
            let counts: Vec<Vec<AtomicU32>> =
                (0..11).map(|_| (0..team.size()).map(|_| AtomicU32::new(0)).collect()).collect();
            let size = team.overlap(|o| {
                let mut pending: Vec<_> = counts
                    .iter()
                    .map(|counts| {
                        o.fork(|member| {
                            assert_eq!(member.size as usize, counts.len());
                            assert_eq!(Member::current(), member);
                            counts[member.id as usize].fetch_add(1, Relaxed);
                        })
                    })
                    .collect();
                let is_done = |at: usize| counts[at].iter().all(|count| count.load(Relaxed) == 1);
                match joined {
                    // By the end of the overlap.
                    0 => pending.clear(),
                    1 => pending.into_iter().enumerate().for_each(|(at, construct)| {
                        construct.join();
                        assert!(is_done(at));
                    }),
                    // The younger ones first: the older ones are done then.
                    2 => pending.into_iter().enumerate().rev().for_each(|(at, construct)| {
                        construct.join();
                        assert!((0..=at).all(is_done));
                    }),
                    _ => pending.into_iter().for_each(std::mem::forget),
                }
                o.size()
            });
            assert_eq!(size, team.size());
            assert!(
                counts.iter().flatten().all(|count| count.load(Relaxed) == 1),
                "{joined}: {counts:?}"
            );
        }
    }
}

#[test]
fn workers_are_at_several_constructs_before_the_master_joins_any() {
    own_process!();
    for team in teams().expect("threads") {
        let begun: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        let order = Mutex::new(Vec::new());
        team.overlap(|o| {
            for (number, begun) in begun.iter().enumerate() {
                let order = &order;
                let work = move |member: Member| {
                    order.lock().expect("no thread panics").push((member.id, number));
                    begun.fetch_add(1, Release);
                };
                drop(o.fork(work));
            }
            // Without the master: it is here.
            for begun in &begun {
                while begun.load(Acquire) < team.size() - 1 {
                    std::thread::yield_now();
                }
            }
            assert!(order.lock().expect("no thread panics").iter().all(|&(id, _)| id != 0));
        });
        let mut order = order.into_inner().expect("no thread panics");
        assert_eq!(order.len(), 4 * team.size());
        order.sort_by_key(|&(id, _)| id);
        assert!(
            order.chunks(4).all(|own| own.iter().map(|&(_, number)| number).eq(0..4)),
            "in the order of the forks"
        );
    }
}

#[test]
fn members_of_a_construct_may_wait_for_each_other_the_master_included() {
    own_process!();
    for team in teams().expect("threads") {
        let here: Vec<AtomicUsize> = (0..6).map(|_| AtomicUsize::new(0)).collect();
        team.overlap(|o| {
            let mut last = None;
            for here in &here {
                last = Some(o.fork(|member| {
                    here.fetch_add(1, SeqCst);
                    while here.load(SeqCst) < member.size as usize {
                        std::thread::yield_now();
                    }
                }));
            }
            // The youngest: the master does its parts of the older ones on the way.
            if let Some(last) = last {
                last.join();
            }
        });
    }
}

#[test]
fn what_members_wrote_is_seen_after_the_join_and_plain_data_travels() {
    own_process!();
    for team in teams().expect("threads") {
        let size = team.size();
        let cells: Vec<Mutex<Vec<usize>>> = (0..size).map(|_| Mutex::default()).collect();
        let name = String::from("what it captures lives as long as the construct");
        let lengths = team.overlap(|o| {
            let (name, copy) = (&name, name.clone());
            let first = o.fork(move |member| {
                cells[member.id as usize].lock().expect("whole").push(copy.len() + name.len())
            });
            first.join();
            let second = o.fork(move |member| assert_eq!(name.len(), 47, "{member:?}"));
            second.join();
            name.len()
        });
        assert_eq!(lengths, 47);
    }
}

#[test]
fn a_panic_reaches_the_join_of_the_construct_or_the_end_of_the_overlap() {
    own_process!();
    for team in teams().expect("threads") {
        let last = u32::try_from(team.size() - 1).expect("small");
        for who in [0, last] {
            let ran = AtomicUsize::new(0);
            let work = |member: Member| {
                ran.fetch_add(1, Relaxed);
                if member.id == who {
                    panic_any(who);
                }
            };
            let fine = |_: Member| _ = ran.fetch_add(1, Relaxed);
            // Joined: the overlap goes on.
            team.overlap(|o| {
                let (bad, good) = (o.fork(work), o.fork(fine));
                let payload = catch_unwind(AssertUnwindSafe(|| bad.join())).expect_err("planted");
                assert_eq!(payload.downcast_ref::<u32>(), Some(&who));
                good.join();
            });
            // Dropped or forgotten, while it is open and when it is done.
            for (keeps, forgets) in [(false, false), (true, false), (false, true), (true, true)] {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    team.overlap(|o| {
                        let lose = |bad: Option<Pending<'_>>| {
                            if forgets { std::mem::forget(bad) } else { drop(bad) }
                        };
                        let mut bad = Some(o.fork(work));
                        if !keeps {
                            lose(bad.take());
                        }
                        o.fork(fine).join();
                        lose(bad);
                    });
                }));
                assert_eq!(
                    outcome.expect_err("planted").downcast_ref::<u32>(),
                    Some(&who),
                    "{keeps} {forgets}"
                );
            }
            assert_eq!(ran.into_inner(), 10 * team.size());
        }
    }
}

#[test]
fn a_panic_of_the_body_goes_first_when_all_constructs_are_done() {
    own_process!();
    for team in teams().expect("threads") {
        let ran = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.overlap(|o| {
                for _ in 0..3 {
                    drop(o.fork(|_| {
                        ran.fetch_add(1, Relaxed);
                        panic!("of a construct");
                    }));
                }
                panic!("of the body");
            });
        }));
        assert_eq!(text(outcome.expect_err("planted")), "of the body");
        assert_eq!(ran.into_inner(), 3 * team.size());
        assert_eq!(team.map(|member| member.id()), (0..team.size()).collect::<Vec<_>>());
    }
}

#[test]
fn a_construct_that_joins_inside_the_masters_part_of_another_is_told_so() {
    own_process!();
    thread_local! {
        /// As the crate `scoped_tls` would hold it.
        static HANDLE: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
    }
    let team = Team::exact(2).expect("threads");
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        team.overlap(|o| {
            HANDLE.set(std::ptr::from_ref(o).cast());
            let reenter = |member: Member| {
                if member.id == 0 {
                    // SAFETY: - set above on this thread, and the overlap is open.
                    let o = unsafe { &*HANDLE.get().cast::<Overlap<'static, 'static>>() };
                    o.fork(|_| ()).join();
                }
            };
            o.fork(reenter).join();
        });
    }));
    assert!(text(outcome.expect_err("refused")).contains("fork and join outside"));
}

#[test]
fn constructs_fork_inside_and_overlaps_nest_and_stand_in_tasks_and_halves() {
    own_process!();
    let total = AtomicUsize::new(0);
    let inner = || {
        Team::exact(2).expect("threads").overlap(|o| {
            let sums = o.fork(|_| {
                _ = total.fetch_add(par_for(0..10).reduce(0, |i| i, |a, b| a + b), Relaxed)
            });
            let nested = o.fork(|_| {
                Team::exact(2)
                    .expect("threads")
                    .overlap(|o| o.fork(|_| _ = total.fetch_add(1, Relaxed)).join());
            });
            total.fetch_add(Team::available().map(|_| 0).len().min(1), Relaxed);
            sums.join();
            nested.join();
        });
    };
    // 2 * 45 + 2 * 2 + 1.
    inner();
    join(inner, inner);
    scope(|s| (0..3).for_each(|_| s.spawn(|_| inner())));
    Team::exact(3).expect("threads").run(|_| inner());
    assert_eq!(total.into_inner(), 9 * 95);
}

#[test]
fn workers_that_slept_are_woken_for_the_next_construct() {
    own_process!();
    let team = Team::exact(4).expect("threads");
    for round in 0..10 {
        let seen = AtomicUsize::new(0);
        let slept = AtomicBool::new(false);
        team.overlap(|o| {
            for _ in 0..3 {
                o.fork(|_| _ = seen.fetch_add(1, Relaxed)).join();
                // Longer than any thread spins.
                let begin = std::time::Instant::now();
                while begin.elapsed().as_millis() < 3 * (round % 2) {
                    std::thread::yield_now();
                }
                slept.store(true, Relaxed);
            }
        });
        assert_eq!(seen.into_inner(), 12);
    }
}
