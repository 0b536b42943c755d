//! What waits beside work cost: processor time of the thread that waits, while the awaited one
//! works on the same processor.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub(crate) const ROUNDS: u32 = 20;
const WORK: Duration = Duration::from_millis(2);

/// The processor time of the calling thread.
pub(crate) fn spent() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - writes to the timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A round of work.
pub(crate) fn work() {
    let end = spent() + WORK;
    while spent() < end {}
}

/// Sums up what waits cost the threads that wait.
#[derive(Default)]
pub(crate) struct Waits(AtomicU64);

impl Waits {
    /// Of a wait that began when the calling thread had used `begin`.
    pub(crate) fn add(&self, begin: Duration) {
        self.0.fetch_add((spent() - begin).as_nanos() as u64, Relaxed);
    }

    pub(crate) fn assert_few(self, what: &str) {
        let waited = Duration::from_nanos(self.0.into_inner());
        println!(
            "{what}: waited for {waited:?} of processor time beside {:?} of work",
            WORK * ROUNDS
        );
        // A thread that keeps the processor from the other one gets as much of it as that.
        assert!(waited < WORK * ROUNDS / 2, "{what}: {waited:?}");
    }
}
