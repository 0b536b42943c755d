//! A process that is forked inside a comparison of a sort (D13).

use crate::forked::{forked, leave, status_of};
use engine::sizer::Fixed;
use std::cmp::Ordering;
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicI32,
    Ordering::{Acquire, Release},
};
use std::time::{Duration, Instant};

/// How long another thread may take to begin with a part.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until another thread has a part of the sort, then forks, once.
struct Fork {
    main: std::thread::ThreadId,
    /// When the sort began.
    since: Instant,
    began: AtomicBool,
    child: AtomicI32,
    writes: i32,
}

impl Fork {
    fn compare(&self, one: &String, other: &String) -> Ordering {
        if std::thread::current().id() != self.main {
            self.began.store(true, Release);
            // The part is not over before the fork.
            let begin = Instant::now();
            while self.child.load(Acquire) < 0 && begin.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
        } else if !self.began.load(Acquire) {
            // The sort is not over before another thread has a processor.
            if self.since.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_micros(100));
            }
        } else if self.child.load(Acquire) < 0 {
            let pid = forked();
            if pid == 0 {
                // SAFETY: - descriptors of this process; its reports go to the parent.
                unsafe { libc::dup2(self.writes, 2) };
            }
            self.child.store(pid, Release);
        }
        one.cmp(other)
    }
}

#[test]
fn a_child_that_lacks_a_part_of_the_sort_is_ended_before_it_sees_the_slice() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(2)).install().is_ok());
    let mut ends = [0; 2];
    // SAFETY: - `ends` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [reads, writes] = ends;
    let parent = std::process::id();
    let mut words: Vec<String> =
        (0..200_000_u64).map(|i| (i * 7_919 % 200_003).to_string()).collect();
    let fork = Fork {
        main: std::thread::current().id(),
        since: Instant::now(),
        began: AtomicBool::new(false),
        child: AtomicI32::new(-1),
        writes,
    };
    let sorted = catch_unwind(AssertUnwindSafe(|| {
        nanothreads::par_sort_by(&mut words, |one, other| fork.compare(one, other));
    }));
    if std::process::id() != parent {
        leave(false);
    }
    assert!(sorted.is_ok() && words.is_sorted() && words.len() == 200_000, "the parent's is whole");
    let child = fork.child.into_inner();
    assert!(child > 0, "no other thread took part");
    // SAFETY: - made above, and closed only here, both.
    let (mut reader, writer) = unsafe { (File::from_raw_fd(reads), File::from_raw_fd(writes)) };
    drop(writer);
    let status = status_of(child);
    let mut report = String::new();
    reader.read_to_string(&mut report).expect("the child's report");
    assert_eq!(status & 0x7f, libc::SIGABRT, "status {status:#x}, report: {report:?}");
    assert!(report.contains("in a comparison of a sort"), "{report:?}");
}
