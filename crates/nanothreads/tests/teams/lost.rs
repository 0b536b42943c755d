//! Members that lose their processor: noticed, given way to, left out, and taken back. By counters,
//! not by times.

use nanothreads::{Statistics, Team, broadcast, statistics};
use platform::affinity::{CpuId, CpuSet, affinity, current_tid, set_affinity};
use platform::scheduling::run_delay;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than any of it takes.
const LIMIT: Duration = Duration::from_secs(40);

/// Repeats `step` until it is true.
fn until(what: &str, mut step: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !step() {
        assert!(begin.elapsed() < LIMIT, "{what} did not happen in {LIMIT:?}; {}", statistics());
    }
}

/// A part that is long enough to be interrupted in.
fn work() {
    for i in 0..100_000_u32 {
        black_box(i);
    }
}

/// Threads of a team of the default size.
fn default_size() -> usize {
    let size = AtomicUsize::new(0);
    broadcast(|member| size.store(member.size as usize, Relaxed));
    size.into_inner()
}

/// One after the other: the engine and the calling thread's processors are the process's.
#[test]
fn members_without_processor_are_given_way_to_and_left_out_until_they_run() {
    own_process!();
    assert!(nanothreads::builder().bind(true).adapt(false).install().is_ok());
    let mask = affinity(None).unwrap();
    let all = engine::processors();
    if all < 2 || mask.len() < 2 {
        return platform::skip!("needs two processors");
    }
    if run_delay(current_tid()).is_none() {
        return platform::skip!("this kernel does not count run delays");
    }
    let worker: CpuId = mask.iter().nth(1).unwrap();
    let team = Team::exact(2).unwrap();
    team.run(|_| ());
    let own = affinity(None).unwrap();
    assert_eq!(own.len(), 1, "the team is bound, its master too");
    let before = statistics();
    let now = || -> Statistics { statistics().since(&before) };

    // A neighbour that never stops.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            set_affinity(None, &CpuSet::single(worker)).unwrap();
            while !stop.load(Relaxed) {
                spin_loop();
            }
        });
        until("a lost member", || {
            team.run(|_| work());
            now().lost_members > 0
        });
        until("a smaller team", || {
            team.run(|_| work());
            default_size() < all
        });
        stop.store(true, Relaxed);
    });
    until("a whole team", || default_size() == all);

    // The master moves to its worker's processor.
    set_affinity(None, &CpuSet::single(worker)).unwrap();
    until("a hand-over", || {
        team.run(|_| work());
        now().hand_overs > 0
    });
    let so_far = now().hand_overs;
    until("a hand-over at the join of a construct", || {
        // One region: its own join comes once, after all of them.
        team.overlap(|o| {
            (0..50).any(|_| {
                o.fork(|_| work()).join();
                now().hand_overs > so_far
            })
        })
    });
}
