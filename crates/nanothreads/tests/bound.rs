//! A bound team keeps its limit, also when the initial thread is its master. (Without the test harness, which would run
//! this on another thread.)

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    use nanothreads::{Config, broadcast, configure, engine};
    use std::time::{Duration, Instant};

    assert!(configure(Config { adapt: false, bind: true, ..Config::default() }));
    // Teams may be smaller while others use the processors; what the mask allows is the same.
    let limit = || {
        broadcast(|_| ());
        engine::team_limit()
    };
    let before = limit();
    // The engine looks at the mask ten times a second.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(350) {
        assert_eq!(limit(), before, "a bound master was taken for a narrower mask");
    }
}
