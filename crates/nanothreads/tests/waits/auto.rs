//! Idle threads fall asleep as soon as spinning cannot pay any more, and stay so. A process of its
//! own, because its settings are the engine's and a neighbour test would be load.

use engine::sizer::Fixed;
use nanothreads::broadcast;
use platform::affinity::{Tid, current_tid};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// The most microseconds of spinning without a manager.
const LONG: u64 = 190;
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a thread was switched to something else so far. It grows by one when it falls asleep,
/// and not while it sleeps.
fn switches(tid: Tid) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/self/task/{}/status", tid.0)).expect("it lives");
    let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    lines.map(|(_, count)| count.trim().parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_worker_without_work_falls_asleep_and_stays_so() {
    own_process!();
    // One worker: with more threads than processors no thread would spin, and two processors are
    // the fewest.
    assert!(nanothreads::builder().adapt(false).sizer(Fixed::new(2)).install().is_ok());
    let worker = Mutex::new(None);
    broadcast(|member| {
        assert!(engine::spin_limit() <= LONG, "{} us of spinning", engine::spin_limit());
        if member.id == 1 {
            *worker.lock().expect("no thread panics") = Some(current_tid());
        }
    });
    let worker = worker.into_inner().expect("no thread panics").expect("a team of two");
    for _ in 0..9 {
        for _ in 0..50 {
            broadcast(|_| ());
            // Long enough to be a wait, short enough to teach the worker that spinning pays.
            let joined = Instant::now();
            while joined.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
        }
        broadcast(|_| {
            assert!(engine::spin_limit() <= LONG, "{} us of spinning", engine::spin_limit())
        });
        let begin = Instant::now();
        // A sleep that is not yet without a limit ends once more, after a millisecond.
        loop {
            let before = switches(worker);
            // What is looked at, not a synchronisation.
            thread::sleep(Duration::from_millis(10));
            if switches(worker) == before && !engine::report().contains("awake") {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "the worker runs without work");
        }
    }
}
