//! Masters that have no region open, and what becomes of their workers when others lack some.

use nanothreads::{Team, builder, groups, par_for};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, mpsc};
use std::thread;

const THREADS: usize = 4;

fn four() {
    // The first test of the process does it.
    let _ = builder().threads(THREADS).adapt(false).install();
}

fn sum() -> usize {
    par_for(0..1_000).reduce(0, |i| i, |a, b| a + b)
}

/// Runs `body` on `count` threads, one after the other, which all live until the last is done.
fn in_turn(count: usize, body: impl Fn(usize) + Sync) {
    let (body, ended) = (&body, &Barrier::new(count + 1));
    thread::scope(|threads| {
        for index in 0..count {
            let (done, is_done) = mpsc::channel();
            threads.spawn(move || {
                body(index);
                done.send(()).expect("it is waited for");
                ended.wait();
            });
            is_done.recv().expect("no region panics");
        }
        ended.wait();
    });
}

#[test]
fn two_hundred_threads_that_each_ran_a_loop_leave_the_workers_of_one() {
    own_process!(1);
    four();
    in_turn(200, |_| assert_eq!(sum(), 499_500));
    assert_eq!(engine::worker_count(), THREADS - 1);
    in_turn(200, |_| {
        let team = Team::exact(THREADS).expect("the system gives threads");
        assert_eq!(team.map(|member| (member.barrier(), member.id()).1), [0, 1, 2, 3]);
    });
    assert_eq!(engine::worker_count(), THREADS - 1, "teams that were kept, too");
}

#[test]
fn a_master_that_lost_its_workers_has_others_for_its_next_region() {
    own_process!();
    four();
    let team = Team::exact(THREADS).expect("the system gives threads");
    for _ in 0..20 {
        assert_eq!(team.map(|member| (member.barrier(), member.id()).1), [0, 1, 2, 3]);
        assert_eq!(sum(), 499_500);
        in_turn(3, |_| assert_eq!(sum(), 499_500));
        let sizes = groups().weights(&[1, 1]).map(|group| group.size());
        // The others that are awake count as processors in use.
        assert!((1..=THREADS).contains(&sizes.iter().sum()), "{sizes:?}");
        in_turn(1, |_| assert_eq!(sum(), 499_500));
        let inside = team.install(|| {
            in_turn(2, |_| assert_eq!(sum(), 499_500));
            team.map(|member| (member.barrier(), member.size()).1)
        });
        assert_eq!(inside, [THREADS; THREADS]);
    }
}

#[test]
fn masters_that_fork_in_turn_soon_have_workers_of_their_own() {
    own_process!(1);
    four();
    let (turn, regions) = (AtomicUsize::new(0), 2_000);
    thread::scope(|threads| {
        for own in 0..2 {
            let turn = &turn;
            threads.spawn(move || {
                let team = Team::exact(THREADS).expect("the system gives threads");
                for round in 0..regions {
                    while turn.load(Relaxed) != 2 * round + own {
                        thread::yield_now();
                    }
                    team.run(|member| member.barrier());
                    turn.store(2 * round + own + 1, Relaxed);
                }
            });
        }
    });
    let count = engine::worker_count();
    assert!((THREADS - 1..=2 * (THREADS - 1)).contains(&count), "{count} workers for two masters");
}

#[test]
fn threads_that_fork_at_once_and_in_turn_have_right_results_and_no_more_workers_than_at_once() {
    own_process!(1);
    four();
    let (masters, rounds) = (6, 300);
    thread::scope(|threads| {
        for master in 0..masters {
            threads.spawn(move || {
                let team = Team::exact(2 + master % 3).expect("the system gives threads");
                // Different pauses, so that each is idle while another one forks.
                let mut state = 0x9e37_79b9_u64.wrapping_mul(master as u64 + 1);
                for _ in 0..rounds {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let ids = team.map(|member| (member.barrier(), member.id()).1);
                    assert!(ids.into_iter().eq(0..team.size()));
                    assert_eq!(sum(), 499_500);
                    for _ in 0..state % 40 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let count = engine::worker_count();
    assert!(count <= masters * (THREADS - 1), "{count} workers for {masters} masters");
}
