//! Threads that are told to spin do, while their master does something else. A process of its own:
//! they never stop.

use crate::processor_time::processor_time;
use engine::sizer::Fixed;
use nanothreads::{Waiting, broadcast};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn an_active_team_stays_hot() {
    own_process!();
    assert!(
        nanothreads::builder()
            .adapt(false)
            .waiting(Waiting::Active)
            .sizer(Fixed::new(2))
            .install()
            .is_ok()
    );
    for _ in 0..100 {
        broadcast(|_| ());
    }
    let (begin, used) = (Instant::now(), processor_time());
    // Much more than a thread spins that is not told to. The master sleeps, so that it is the other
    // one that uses it; how long that takes depends on what else runs here.
    while processor_time() - used < Duration::from_millis(20) {
        assert!(begin.elapsed() < Duration::from_secs(30), "the worker sleeps");
        thread::sleep(Duration::from_millis(1));
    }
    broadcast(|_| ());
}
