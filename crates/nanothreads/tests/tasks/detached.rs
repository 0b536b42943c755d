//! Detached tasks: what becomes of each, awaited in a runtime and without one, cancelled, panicked;
//! on many threads and on one.

use nanothreads::{Canceller, Spawned, par_for, scope, spawn, spawn_cancellable};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor of one future: as little as there can be.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
    }
}

#[test]
fn each_task_runs_once_and_its_result_comes_out_by_each_way() {
    own_process!();
    let runs = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..1000)
        .map(|i| {
            let runs = Arc::clone(&runs);
            spawn(move || {
                runs.fetch_add(1, SeqCst);
                i * 2
            })
        })
        .collect();
    for (i, task) in tasks.into_iter().enumerate() {
        let value = match i % 4 {
            0 => task.wait(),
            1 => block_on(task),
            2 => block_on(task.unless_cancelled()).expect("not cancelled"),
            _ => task.wait_unless_cancelled().expect("not cancelled"),
        };
        assert_eq!(value, i * 2);
    }
    assert_eq!(runs.load(SeqCst), 1000);
}

#[test]
fn a_task_goes_on_when_its_handle_is_dropped() {
    own_process!();
    let (done, ended) = channel();
    drop(spawn(move || done.send(7).expect("the test waits")));
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(7));
}

#[test]
fn a_panic_comes_out_of_the_await_and_ends_nothing_else() {
    own_process!();
    for round in 0..20 {
        let task = spawn(move || -> u32 { panic!("planted {round}") });
        let caught = catch_unwind(AssertUnwindSafe(|| match round % 2 {
            0 => block_on(task),
            _ => task.wait(),
        }));
        let payload = caught.expect_err("the task panics");
        assert_eq!(payload.downcast_ref(), Some(&format!("planted {round}")));
        // Not asked for.
        drop(spawn(|| panic!("planted")));
        assert_eq!(spawn(move || round).wait(), round);
    }
}

#[test]
fn a_panic_of_a_results_destructor_or_of_a_waker_ends_nothing_else() {
    own_process!();
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(thread::panicking(), "planted");
        }
    }
    struct BadWaker(AtomicBool);
    impl Wake for BadWaker {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
            panic!("planted");
        }
    }
    for _ in 0..20 {
        let (dropped, is_dropped) = channel::<()>();
        drop(spawn(move || {
            // The handle is gone: the result is the runner's to drop.
            let _ = is_dropped.recv();
            Bad
        }));
        drop(dropped);
        let waker = Arc::new(BadWaker(AtomicBool::new(false)));
        let (go, gone) = channel::<()>();
        let mut task = spawn(move || gone.recv());
        let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&Arc::clone(&waker).into()));
        assert!(polled.is_pending(), "it cannot have gone");
        drop(go);
        assert!(task.wait().is_err(), "the channel is closed");
        assert_eq!(spawn(|| 1).wait(), 1);
        // Called before, or while, the host is at the next task.
        while !waker.0.load(SeqCst) {
            thread::yield_now();
        }
    }
}

#[test]
fn a_task_that_runs_sees_that_it_was_cancelled_and_has_a_result_all_the_same() {
    own_process!();
    let (began, begin) = channel();
    let task = spawn_cancellable(move |canceller| {
        began.send(()).expect("the test waits");
        while !canceller.is_cancelled() {
            thread::yield_now();
        }
        "seen"
    });
    begin.recv_timeout(PATIENCE).expect("it begins");
    task.canceller().cancel();
    assert_eq!(task.wait_unless_cancelled(), Some("seen"));
}

#[test]
fn a_task_that_ran_to_its_end_was_not_cancelled_and_one_that_was_stays_so() {
    own_process!();
    let task = spawn(|| 1);
    let canceller = task.canceller();
    assert_eq!(task.wait(), 1);
    canceller.cancel();
    assert!(!canceller.is_cancelled(), "there was nothing to cancel");
    let (go, gone) = channel::<()>();
    let (began, begin) = channel();
    let task = spawn(move || {
        began.send(()).expect("the test waits");
        gone.recv().is_err()
    });
    begin.recv_timeout(PATIENCE).expect("it begins");
    let canceller = task.canceller();
    canceller.cancel();
    drop(go);
    assert_eq!(task.wait_unless_cancelled(), Some(true));
    assert!(canceller.is_cancelled());
}

#[test]
fn the_canceller_of_a_scopes_handle_says_whether_it_was_cancelled() {
    own_process!();
    let kept: Canceller = scope(|s| {
        let canceller = s.canceller();
        assert!(!canceller.is_cancelled());
        s.group(|s| {
            let inner = s.canceller();
            canceller.cancel();
            assert!(inner.is_cancelled(), "by the handle above");
        });
        assert!(canceller.is_cancelled());
        canceller
    });
    assert!(!kept.is_cancelled(), "it is over");
    kept.cancel();
}

#[test]
fn the_last_waker_is_called_and_a_future_that_moves_to_another_thread_ends() {
    own_process!();
    let (go, gone) = channel::<()>();
    let mut task = spawn(move || gone.recv().is_err());
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
    let elsewhere = thread::spawn(move || block_on(task));
    drop(go);
    assert!(elsewhere.join().expect("no panic"));
}

#[test]
fn a_future_that_is_polled_after_its_end_says_so() {
    own_process!();
    let ways: [fn(Spawned<i32>); 4] = [
        |task| _ = block_on(task),
        |task| _ = block_on(task.unless_cancelled()),
        |task| _ = task.wait(),
        |task| _ = task.wait_unless_cancelled(),
    ];
    for again in ways {
        let mut task = spawn(|| 1);
        assert_eq!(block_on(&mut task), 1);
        let caught = catch_unwind(AssertUnwindSafe(|| again(task))).expect_err("it is over");
        let text = caught.downcast_ref::<String>().map(String::as_str);
        let text = text.or(caught.downcast_ref::<&str>().copied()).expect("a text");
        assert!(text.contains("asked for its result again"), "{text}");
        assert!(text.contains("one result; keep it"), "{text}");
    }
}

/// Says when it is dropped.
struct Told(Sender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        // The test may have gone on.
        let _ = self.0.send(());
    }
}

#[test]
fn a_canceller_keeps_no_result_that_is_not_asked_for() {
    own_process!();
    for is_late in [false, true] {
        let (dropped, is_dropped) = channel();
        let (go, gone) = channel::<()>();
        let task = spawn(move || {
            let _ = gone.recv();
            Told(dropped)
        });
        let canceller = task.canceller();
        if is_late {
            // The result is there.
            drop(go);
            while !task.is_finished() {
                thread::yield_now();
            }
            drop(task);
        } else {
            drop(task);
            drop(go);
        }
        assert_eq!(is_dropped.recv_timeout(PATIENCE), Ok(()), "late: {is_late}");
        canceller.cancel();
        assert!(!canceller.is_cancelled(), "it had ended");
    }
}

#[test]
fn a_dropped_handle_drops_its_waker() {
    own_process!();
    struct Waiter(#[expect(dead_code, reason = "its destructor tells")] Told);
    impl Wake for Waiter {
        fn wake(self: Arc<Self>) {}
    }
    let (dropped, is_dropped) = channel();
    let (go, gone) = channel::<()>();
    let mut task = spawn(move || gone.recv());
    let waker = Waker::from(Arc::new(Waiter(Told(dropped))));
    let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending(), "it cannot have gone");
    drop(waker);
    assert!(is_dropped.try_recv().is_err(), "the task has one");
    drop(task);
    assert_eq!(is_dropped.try_recv(), Ok(()), "none waits any more");
    drop(go);
}

#[test]
fn tasks_spawn_tasks_and_use_all_of_the_library() {
    own_process!();
    let sum = spawn(|| {
        let inner = spawn(|| par_for(0..1000).reduce(0, |i| i, |a, b| a + b));
        let tasks = AtomicUsize::new(0);
        scope(|s| {
            (0..100).for_each(|_| {
                s.spawn(|_| {
                    tasks.fetch_add(1, SeqCst);
                });
            });
        });
        inner.wait() + tasks.into_inner()
    });
    assert_eq!(sum.wait(), 499_500 + 100);
}

#[test]
fn tasks_come_from_many_threads_at_once_and_after_pauses() {
    own_process!();
    let total = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let together = Barrier::new(8);
        thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    together.wait();
                    let tasks: Vec<_> = (0..50)
                        .map(|_| {
                            let total = Arc::clone(&total);
                            spawn(move || total.fetch_add(1, SeqCst))
                        })
                        .collect();
                    assert_eq!(
                        tasks.into_iter().map(|task| task.wait()).filter(|&n| n > 8000).count(),
                        0
                    );
                });
            }
        });
    }
    assert_eq!(total.load(SeqCst), 20 * 8 * 50);
}

#[test]
fn tasks_are_awaited_in_tokio_of_one_thread_and_of_several() {
    own_process!();
    let run = |runtime: tokio::runtime::Runtime| {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..100_u64)
                .map(|i| tokio::spawn(async move { spawn(move || i * i).await }))
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.expect("no panic");
            }
            assert_eq!(sum, (0..100).map(|i| i * i).sum::<u64>());
            let panicked = tokio::spawn(async { spawn(|| panic!("planted")).await }).await;
            assert!(panicked.expect_err("it panics").is_panic());
            // A future that is dropped in the middle, as by a timeout.
            let (go, gone) = channel::<()>();
            let late = spawn(move || gone.recv().is_err());
            let lost = tokio::time::timeout(Duration::from_millis(1), late).await;
            assert!(lost.is_err(), "it cannot have gone");
            drop(go);
        });
    };
    use tokio::runtime::Builder;
    run(Builder::new_current_thread().enable_time().build().expect("a runtime"));
    run(Builder::new_multi_thread().worker_threads(3).enable_time().build().expect("a runtime"));
}
