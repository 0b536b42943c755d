//! Idle threads use no processor, as soon as spinning cannot pay any more. A process of its own, because its processor
//! time is measured.
#![cfg(not(loom))]

mod processor_time;

use nanothreads::sizer::Fixed;
use nanothreads::{Config, broadcast, configure, set_team_sizer};
use processor_time::processor_time;
use std::thread;
use std::time::Duration;

#[test]
fn a_team_without_work_uses_no_processor_soon() {
    const IDLE: Duration = Duration::from_millis(200);
    assert!(configure(Config { adapt: false, ..Config::default() }));
    assert!(set_team_sizer(Box::new(Fixed::new(3))));
    let mut used = Vec::new();
    for _ in 0..3 {
        for _ in 0..100 {
            broadcast(|_| ());
        }
        // The time that is measured, not a synchronisation. From the join on: spinning counts.
        let begin = processor_time();
        thread::sleep(IDLE);
        used.push(processor_time() - begin);
    }
    // 190 us each, and as much again for falling asleep.
    assert!(used.iter().all(|used| *used < IDLE / 40), "{used:?} of processor time in {IDLE:?} without work");
}
