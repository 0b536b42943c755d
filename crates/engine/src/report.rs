//! What the engine did so far, and what each worker is at: for questions why a program is slow, or
//! does not go on.

use crate::manager::source::source;
use crate::program::program;
use crate::program::statistics::Statistics;
use crate::workers::pool::pool;
use std::fmt::Write;

/// What the engine did so far. Cost: a lock, and a few cache lines for each thread.
///
/// ```
/// # unsafe fn nothing(_: *const (), _: nanothreads_engine::Member) {}
/// let before = nanothreads_engine::statistics();
/// let team = nanothreads_engine::Team::reserve(2);
/// for _ in 0..10 {
///     // SAFETY: - `nothing` takes no data, and does not unwind.
///     unsafe { team.run(nothing, std::ptr::null()) };
/// }
/// let during = nanothreads_engine::statistics().since(&before);
/// assert!(during.regions[0] >= 10);
/// println!("{during}");
/// ```
pub fn statistics() -> Statistics {
    Statistics { workers: pool().created() as u64, ..program().counters().sum() }
}

/// What each worker of the process is at, a line for each: whether it sleeps, and the
/// numbers of its last work in its supply line (supplied, claimed, done: `supplied` above `done` is
/// work that it has, or that waits for it), and how often it arrived from works that were
/// broadcast. The numbers change while they are read. For reports of programs that hang.
///
/// ```
/// # unsafe fn nothing(_: *const (), _: nanothreads_engine::Member) {}
/// // SAFETY: - `nothing` takes no data, and does not unwind.
/// unsafe { nanothreads_engine::Team::reserve(2).run(nothing, std::ptr::null()) };
/// let report = nanothreads_engine::report();
/// assert_eq!(report.lines().count(), nanothreads_engine::worker_count() + 1);
/// ```
pub fn report() -> String {
    let sizer = source();
    let mut text = format!(
        "{} processors, {} granted, lease {:?}, epoch {}\n",
        program().processors(),
        sizer.limit(),
        sizer.lease(),
        sizer.epoch()
    );
    for worker in pool().all().iter() {
        let _ = writeln!(text, "{worker}");
    }
    text
}
