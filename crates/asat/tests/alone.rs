//! A program whose mask has one processor: its team is one thread, and nothing is tested.

mod support;

use asat::Settings;
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::time::Duration;
use support::{evaluations, is_own_process, until};

/// However busy the machine is, what is waited for comes earlier.
const LONGEST: Duration = Duration::from_secs(60);
/// Of the published algorithm, too.
const INTERVAL: Duration = Duration::from_millis(20);
/// A program would like to have so many threads.
const WISHED: usize = 8;

/// True in a process of the test whose mask has one processor from the start.
fn is_bound_process(test: &str) -> bool {
    let mask = affinity(None).expect("a mask");
    // A process that this thread starts has the thread's mask.
    let one = CpuSet::single(mask.first().expect("a processor"));
    set_affinity(None, &one).expect("a processor of the mask");
    is_own_process(test, &[])
}

/// Regions of a program that adapts by `settings`.
fn stays_one(settings: Settings) {
    assert!(asat::install(settings.eval_interval(INTERVAL)));
    assert_eq!(engine::processors(), 1);
    let looked = until(WISHED, LONGEST, |size| {
        assert_eq!(size, 1);
        let (seen, blind) = evaluations();
        seen + blind >= 20
    });
    let found = asat::statistics().expect("it was installed");
    assert!(looked.is_some(), "{found}");
    assert_eq!((found.threads, found.most, found.dropped, found.added), (1, 1, 0, 0), "{found}");
    assert_eq!((found.tests, found.dips, found.tested), (0, 0, Duration::ZERO), "{found}");
}

#[test]
fn by_default_it_has_one_thread_and_tests_nothing() {
    if is_bound_process("by_default_it_has_one_thread_and_tests_nothing") {
        stays_one(Settings::default());
    }
}

#[test]
fn as_published_it_has_one_thread_and_tests_nothing() {
    if is_bound_process("as_published_it_has_one_thread_and_tests_nothing") {
        stays_one(Settings::paper());
    }
}

#[test]
fn with_counts_that_begin_anew_it_has_one_thread_and_tests_nothing() {
    if is_bound_process("with_counts_that_begin_anew_it_has_one_thread_and_tests_nothing") {
        stays_one(Settings::reset());
    }
}

/// Kernel threads of the process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the kernel lists them").count()
}

#[test]
fn a_program_with_threads_of_its_own_is_told_one_and_gets_no_thread_of_the_engine() {
    const TEST: &str =
        "a_program_with_threads_of_its_own_is_told_one_and_gets_no_thread_of_the_engine";
    if !is_bound_process(TEST) {
        return;
    }
    let before = threads();
    for _ in 0..200 {
        let settings = || Settings::reset().eval_interval(INTERVAL);
        assert_eq!(asat::adjust_threads(WISHED, settings), 1);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(threads(), before);
}
