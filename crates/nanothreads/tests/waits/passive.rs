//! Threads that never spin: every fork finds sleepers, and masters run what these have not begun
//! when it is their turn.

use crate::processor_time::processor_time;
use nanothreads::{Schedule, Waiting, broadcast, join, par_for, scope};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The engine's settings are the process's: one test.
#[test]
fn every_part_runs_once_whichever_thread_starts_it() {
    own_process!();
    assert!(nanothreads::builder().adapt(false).waiting(Waiting::Passive).install().is_ok());
    let ran: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < 300 && (rounds < 50 || begin.elapsed() < Duration::from_secs(10)) {
        par_for(0..64).run(|i| {
            ran[i].fetch_add(1, Relaxed);
        });
        par_for(0..64).schedule(Schedule::PURE).run(|i| {
            ran[i].fetch_add(1, Relaxed);
        });
        assert_eq!(par_for(0..64).reduce(0, |i| i, |a, b| a + b), 2016);
        assert_eq!(join(|| 1, || 2), (1, 2));
        scope(|s| {
            for times in &ran {
                s.spawn(|_| {
                    times.fetch_add(1, Relaxed);
                });
            }
        });
        rounds += 1;
        assert!(ran.iter().all(|times| times.load(Relaxed) == 3 * rounds));
    }
    for _ in 0..20 {
        meet();
    }
    // No thread spins after the join. Each goes to sleep once, which takes emulated processors a
    // while, and others a while where the machine is busy. One that spins does so after each join.
    const IDLE: Duration = Duration::from_millis(100);
    let begin = Instant::now();
    loop {
        let threads = meet();
        let used = processor_time();
        thread::sleep(IDLE);
        let used = processor_time() - used;
        if used < IDLE * threads / 100 {
            return;
        }
        let is_late = begin.elapsed() >= Duration::from_secs(20);
        assert!(!is_late, "{used:?} of processor time in {IDLE:?} without work, each time");
    }
}

/// What is promised to run at the same time is not taken back: each member is a thread of its own.
/// Returns how many there are.
fn meet() -> u32 {
    let present = AtomicU32::new(0);
    broadcast(|member| {
        present.fetch_add(1, Relaxed);
        while present.load(Relaxed) < member.size {
            thread::yield_now();
        }
    });
    present.into_inner()
}
