//! Detached tasks of a program that has one processor.

use crate::detached::{PATIENCE, block_on};
use nanothreads::{builder, spawn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;

/// All tests of this process have one processor.
fn one() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let settings = builder().threads(1).thread_names("alone");
        settings.install().expect("first");
    });
}

/// Keeps the one thread that runs detached tasks busy until the answer is called: nothing that is
/// spawned meanwhile begins there.
fn occupied() -> impl FnOnce() {
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (release, held) = channel::<()>();
    let (began, begin) = channel();
    let task = spawn(move || {
        began.send(()).expect("the test waits");
        let _ = held.recv();
    });
    begin.recv_timeout(PATIENCE).expect("it begins");
    move || {
        drop(release);
        task.wait();
        drop(alone);
    }
}

#[test]
fn a_program_with_one_processor_runs_detached_tasks_beside_itself() {
    own_process!();
    one();
    let tasks: Vec<_> =
        (0..200).map(|i| spawn(move || (i, thread::current().name().map(String::from)))).collect();
    // Not by `wait`, which may run them here.
    while !tasks.iter().all(nanothreads::Spawned::is_finished) {
        thread::yield_now();
    }
    for (i, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait(), (i, Some("nanos-spawn".into())));
    }
}

#[test]
fn a_cancelled_task_that_has_not_begun_never_does_and_drops_what_it_captured_at_once() {
    own_process!();
    one();
    for way in 0..4 {
        let release = occupied();
        let captured = Arc::new(());
        let held = Arc::clone(&captured);
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let task = spawn(move || {
            runs.store(true, SeqCst);
            drop(held);
        });
        assert!(!task.is_finished());
        let canceller = task.canceller();
        assert!(!canceller.is_cancelled());
        canceller.cancel();
        assert!(canceller.is_cancelled() && task.is_finished());
        assert_eq!(Arc::strong_count(&captured), 1, "dropped by the canceller");
        match way {
            0 => assert_eq!(task.wait_unless_cancelled(), None),
            1 => assert_eq!(block_on(task.unless_cancelled()), None),
            2 => assert_cancelled(|| task.wait()),
            _ => assert_cancelled(|| block_on(task)),
        }
        release();
        assert!(!ran.load(SeqCst));
    }
}

fn assert_cancelled(ask: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(ask)).expect_err("there is no result");
    let text = payload.downcast_ref::<String>().expect("a text");
    assert!(text.contains("cancelled before it began"), "{text}");
    assert!(
        text.contains("`wait_unless_cancelled`") && text.contains("`unless_cancelled`"),
        "{text}"
    );
}

#[test]
fn a_waiter_runs_a_task_that_has_not_begun_itself() {
    own_process!();
    one();
    let release = occupied();
    let here = thread::current().id();
    assert_eq!(spawn(|| thread::current().id()).wait(), here);
    release();
}
