//! Processes that fork, and masks that change.

use asat::Settings;
use engine::{Member, Team};
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::time::{Duration, Instant};

/// # Safety
/// - Needs nothing.
unsafe fn nothing(_: *const (), _: Member) {}

fn fork_for(time: Duration) -> usize {
    let begin = Instant::now();
    let mut size = 0;
    while begin.elapsed() < time {
        size = engine::grant_for(engine::processors());
        // SAFETY: - takes no data, and does not unwind.
        unsafe { Team::reserve(size).run(nothing, std::ptr::null()) };
    }
    size
}

/// What a child ends with: 0, or the number of the fault.
fn child() -> i32 {
    let begun = asat::statistics().map_or(0, |statistics| statistics.evaluations);
    fork_for(Duration::from_millis(300));
    let Some(own) = asat::statistics() else { return 1 };
    // It began anew: its counts are not the parent's plus its own.
    if own.evaluations + own.blind == 0 || own.evaluations + own.blind > 30 {
        return 2;
    }
    i32::from(begun == 0 && engine::processors() > 1) * 3
}

/// One test: the mask and the children are the process's.
#[test]
fn a_forked_child_evaluates_by_itself_and_a_smaller_mask_counts_at_once() {
    assert!(asat::install(Settings::default().jitter(None)));
    // Long enough that the parent has evaluated more often than a child can.
    let long = Duration::from_millis(2000);
    fork_for(long);
    let parents = asat::statistics().expect("installed");
    assert!(parents.evaluations + parents.blind >= 10, "{parents}");
    // SAFETY: - the child uses what this test is about, and ends, by the alarm if it hangs.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: - takes no pointers.
        unsafe { libc::alarm(20) };
        let code = child();
        // SAFETY: - ends the child without the parent's destructors.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: - `status` outlives the call; the child is ours.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "{:#x}: the child's fault in the second byte", status);

    let mask = affinity(None).expect("a mask");
    if mask.len() < 2 {
        return platform::skip!("one processor: the mask cannot become smaller");
    }
    let one = CpuSet::single(mask.first().expect("a processor"));
    // The mask that counts is that of the process's first thread, which waits for this test.
    let first = platform::affinity::Tid(std::process::id().cast_signed());
    set_affinity(Some(first), &one).expect("a processor of the mask");
    assert_eq!(fork_for(Duration::from_millis(500)), 1);
    assert_eq!(asat::statistics().expect("installed").most, 1);
    set_affinity(Some(first), &mask).expect("as before");
    let size = fork_for(Duration::from_millis(500));
    assert!(size >= 1 && asat::statistics().expect("installed").most == mask.len());
}
