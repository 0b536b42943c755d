//! Processes that fork, and masks that change.

mod support;

use asat::Settings;
use engine::{Member, Team};
use platform::affinity::{CpuSet, Tid, affinity, set_affinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{evaluations, is_own_process, until};

/// # Safety
/// - Needs nothing.
unsafe fn nothing(_: *const (), _: Member) {}

/// However busy the machine is, what is waited for comes earlier.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs regions until `done` holds of their size; false: it never did.
fn fork_until(mut done: impl FnMut(usize) -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < LONGEST {
        let size = engine::grant_for(engine::processors());
        // SAFETY: - takes no data, and does not unwind.
        unsafe { Team::reserve(size).run(nothing, std::ptr::null()) };
        if done(size) {
            return true;
        }
    }
    false
}

/// How often this process looked at its threads.
fn looks() -> u64 {
    asat::statistics().map_or(0, |statistics| statistics.evaluations + statistics.blind)
}

/// What a child ends with: 0, or the number of the fault. The parent looked `before` times.
fn child(before: u64) -> i32 {
    // It begins anew: its counts are not the parent's plus its own.
    if looks() > before {
        return 1;
    }
    if !fork_until(|_| (1..before).contains(&looks())) {
        return 2;
    }
    0
}

/// That of the process, whose mask counts.
fn first_thread() -> Tid {
    Tid(std::process::id().cast_signed())
}

/// One test: the mask and the children are the process's.
#[test]
fn a_forked_child_evaluates_by_itself_and_a_smaller_mask_counts_at_once() {
    assert!(asat::install(Settings::default().jitter(None)));
    // More often than a child has when it looks at its count.
    assert!(fork_until(|_| looks() >= 20), "{:?}", asat::statistics());
    let before = looks();
    // SAFETY: - the child uses what this test is about, and ends, by the alarm if it hangs.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: - takes no pointers.
        unsafe { libc::alarm(100) };
        let code = child(before);
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
    let first = first_thread();
    set_affinity(Some(first), &one).expect("a processor of the mask");
    let most = || asat::statistics().map(|statistics| statistics.most);
    assert!(fork_until(|size| size == 1 && most() == Some(1)), "{:?}", asat::statistics());
    set_affinity(Some(first), &mask).expect("as before");
    let all = Some(mask.len());
    assert!(fork_until(|size| size >= 1 && most() == all), "{:?}", asat::statistics());
}

#[test]
fn a_forked_child_is_told_nothing_of_its_parent_s_evaluations_and_waits_for_no_thread_of_it() {
    const TEST: &str =
        "a_forked_child_is_told_nothing_of_its_parent_s_evaluations_and_waits_for_no_thread_of_it";
    if !is_own_process(TEST, &[]) {
        return;
    }
    // It evaluates nearly all the time: there are threads that have the lock when others fork.
    assert!(asat::install(Settings::default().eval_interval(Duration::from_micros(1))));
    let is_over = Arc::new(AtomicBool::new(false));
    let master = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || fork_until(|_| is_over.load(Relaxed))
    });
    assert!(wait_until(|| looks() > 0), "{:?}", asat::statistics());
    for _ in 0..50 {
        // SAFETY: - the child asks what this test is about, and ends, by the alarm if it hangs.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: - takes no pointers.
            unsafe { libc::alarm(20) };
            let code = i32::from(asat::statistics().is_some());
            // SAFETY: - ends the child without the parent's destructors.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: - `status` outlives the call; the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0, "{status:#x}: its statistics, or the alarm");
    }
    is_over.store(true, Relaxed);
    assert!(master.join().expect("it only forks regions"));
}

/// False: it never held.
fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < LONGEST {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

#[test]
fn what_a_team_waited_for_under_a_narrower_mask_takes_nothing_of_a_wider_one() {
    const TEST: &str = "what_a_team_waited_for_under_a_narrower_mask_takes_nothing_of_a_wider_one";
    let mask = affinity(None).expect("a mask");
    if std::env::var_os(MASK).is_none() {
        if mask.len() < 2 {
            return platform::skip!("one processor: the mask cannot become wider");
        }
        // A process that this thread starts has the thread's mask.
        let one = CpuSet::single(mask.first().expect("a processor"));
        set_affinity(None, &one).expect("a processor of the mask");
        let last = mask.last().expect("a processor").0.to_string();
        is_own_process(TEST, &[(MASK, &last)]);
        return;
    }
    assert!(is_own_process(TEST, &[]));
    let last = std::env::var(MASK).ok().and_then(|last| last.parse().ok()).expect("its number");
    let is_over = Arc::new(AtomicBool::new(false));
    let hog = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        }
    });
    assert!(asat::install(Settings::default().jitter(None)));
    let waited = until(2, LONGEST, |_| evaluations().0 >= 4);
    assert!(waited.is_some(), "{:?}", asat::statistics());
    let mut wider = mask;
    wider.insert(platform::affinity::CpuId(last));
    // The calling thread stays where the hog is: what follows it judges anew.
    set_affinity(Some(first_thread()), &wider).expect("the processors that there were");
    let took = until(2, Duration::from_secs(20), |size| size == 2);
    let found = asat::statistics().expect("it was installed");
    assert!(took.is_some() && found.added == 0, "{found}");
    is_over.store(true, Relaxed);
    hog.join().expect("it only spins");
}

/// The last processor of the mask that a process of that test is to have later.
const MASK: &str = "NANOS_TEST_MASK";
