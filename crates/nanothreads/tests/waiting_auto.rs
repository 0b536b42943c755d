//! Idle threads use no processor, as soon as spinning cannot pay any more. A process of its own, because its settings are
//! the engine's and a neighbour test would be load.
#![cfg(not(loom))]

use nanothreads::sizer::Fixed;
use nanothreads::{Config, broadcast, configure, set_team_sizer};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// What a slave may use when it has no work: it is idle within 200 us, and half as much again goes to falling asleep.
const SOON: Duration = Duration::from_micros(200 + 100);

/// The clock of the calling thread's processor time. Unlike that of the process it is exact while the thread runs
/// elsewhere: the sum leaves out what other threads used since the last tick, and counts it later.
fn own_clock() -> libc::clockid_t {
    let mut clock = 0;
    // SAFETY: - writes to `clock`.
    assert_eq!(unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) }, 0);
    clock
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - writes to the timespec.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_slave_without_work_uses_no_processor_soon() {
    const IDLE: Duration = Duration::from_millis(50);
    assert!(configure(Config { adapt: false, ..Config::default() }));
    // One slave: with more threads than processors nobody would spin, and two processors are the fewest.
    assert!(set_team_sizer(Box::new(Fixed::new(2))));
    let slave = Mutex::new(None);
    broadcast(|member| {
        if member.id == 1 {
            *slave.lock().expect("nobody panics") = Some(own_clock());
        }
    });
    let slave = slave.into_inner().expect("nobody panics").expect("a team of two");
    let mut used = Vec::new();
    for _ in 0..9 {
        for _ in 0..50 {
            broadcast(|_| ());
            // Long enough to be a wait, short enough to teach the slave that spinning pays.
            let joined = Instant::now();
            while joined.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
        }
        broadcast(|_| ());
        // The time that is measured, not a synchronisation. From the join on: spinning counts.
        let begin = read(slave);
        thread::sleep(IDLE);
        used.push(read(slave) - begin);
    }
    used.sort_unstable();
    // Two rounds may be worse, by interrupts and page faults that are accounted to the slave. The better ones prove little: where
    // others are seen on the processors it spins for less.
    assert!(used[used.len() - 3] < SOON, "{used:?} of processor time in {IDLE:?} without work");
}
