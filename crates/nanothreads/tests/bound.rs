//! A bound team keeps its size, also when the initial thread is its master. (Without the test harness, which would run
//! this on another thread.)

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    use nanothreads::{Config, broadcast, configure};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    assert!(configure(Config { adapt: false, bind: true, ..Config::default() }));
    let size = || {
        let size = AtomicU32::new(0);
        broadcast(|member| size.store(member.size, Relaxed));
        size.into_inner()
    };
    let before = size();
    // The engine looks at the mask ten times a second.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(350) {
        assert_eq!(size(), before, "a bound master was taken for a narrower mask");
    }
}
