//! Programs with threads of their own: which of these call, and by what settings.

mod support;

use asat::Settings;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{evaluations, is_own_process};

/// However busy the machine is, what is waited for comes earlier.
const LONGEST: Duration = Duration::from_secs(60);
/// A program would like to have so many threads.
const WISHED: usize = 8;

fn settings() -> Settings {
    Settings::reset().eval_interval(Duration::from_millis(20))
}

/// Calls until `done`; false: it never was.
fn call_until(settings: fn() -> Settings, mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < LONGEST {
        let threads = asat::adjust_threads(WISHED, settings);
        assert!((1..=WISHED).contains(&threads));
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Kernel threads of the process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the kernel lists them").count()
}

#[test]
fn a_thread_that_was_not_the_first_to_call_evaluates_too() {
    if !is_own_process("a_thread_that_was_not_the_first_to_call_evaluates_too", &[]) {
        return;
    }
    asat::adjust_threads(WISHED, settings);
    let evaluates = || call_until(settings, || evaluations().0 >= 2);
    let second = std::thread::spawn(evaluates).join().expect("it only calls");
    assert!(second, "{:?}", asat::statistics());
}

#[test]
fn threads_that_call_once_each_evaluate_and_leave_no_thread_each() {
    if !is_own_process("threads_that_call_once_each_evaluate_and_leave_no_thread_each", &[]) {
        return;
    }
    let begin = Instant::now();
    while evaluations().0 < 10 && begin.elapsed() < LONGEST {
        let caller = std::thread::spawn(|| asat::adjust_threads(WISHED, settings));
        caller.join().expect("it only calls");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(evaluations().0 >= 10, "{:?}", asat::statistics());
    // Two of the harness; the engine's, and those of a caller that the kernel still ends.
    let most = 2 + 2 * engine::processors();
    assert!(threads() <= most, "{} threads, at most {most}", threads());
}

#[test]
fn what_threads_that_call_first_together_evaluate_is_what_is_told() {
    if !is_own_process("what_threads_that_call_first_together_evaluate_is_what_is_told", &[]) {
        return;
    }
    let (all, is_over) = (Barrier::new(WISHED), AtomicBool::new(false));
    let told = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..WISHED)
            .map(|_| {
                scope.spawn(|| {
                    all.wait();
                    let is_done = || is_over.load(Relaxed) || evaluations().0 > 0;
                    let told = call_until(settings, is_done);
                    is_over.store(true, Relaxed);
                    told
                })
            })
            .collect();
        callers.into_iter().all(|caller| caller.join().expect("it only calls"))
    });
    assert!(told && evaluations().0 > 0, "{:?}", asat::statistics());
}

#[test]
fn times_without_an_end_are_settings_like_others() {
    if !is_own_process("times_without_an_end_are_settings_like_others", &[]) {
        return;
    }
    // The watch and this are no time that a `Duration` holds.
    let settings = || Settings::default().bad_time(Duration::MAX).jitter(None);
    let some = || evaluations() != (0, 0);
    assert!(call_until(settings, some), "{:?}", asat::statistics());
}
