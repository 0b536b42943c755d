//! Detached tasks: what becomes of each, awaited in a runtime and without one, cancelled, panicked;
//! on many threads and on one.

use nanothreads::{Canceller, Spawned, par_for, scope, spawn, spawn_cancellable};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor of one future: as little as there can be.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
    }
}

/// Keeps all threads of the host's team busy until the answer is called: nothing that is spawned
/// meanwhile begins there.
fn occupied() -> impl FnOnce() {
    let size = thread::spawn(nanothreads::current_num_threads).join().expect("a number");
    // The team may be as large as all processors by now.
    let threads = size.max(thread::available_parallelism().map_or(1, usize::from));
    let (release, held) = channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    let (began, begin) = channel();
    let tasks: Vec<_> = (0..threads)
        .map(|_| {
            let (held, began) = (Arc::clone(&held), began.clone());
            spawn(move || {
                began.send(()).expect("the test waits");
                let _ = held.lock().map(|held| held.recv());
            })
        })
        .collect();
    // One may be alone: then the others wait for it, as what the test spawns will.
    begin.recv_timeout(PATIENCE).expect("a task begins");
    move || {
        drop(release);
        tasks.into_iter().for_each(Spawned::wait);
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
        drop(spawn(|| Bad));
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
fn a_cancelled_task_that_has_not_begun_never_does_and_drops_what_it_captured_at_once() {
    own_process!();
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
}

#[test]
fn a_task_that_runs_sees_that_it_was_cancelled_and_has_a_result_all_the_same() {
    own_process!();
    let (began, begin) = sync_channel(0);
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
fn a_waiter_runs_a_task_that_has_not_begun_itself() {
    own_process!();
    let release = occupied();
    let here = thread::current().id();
    assert_eq!(spawn(|| thread::current().id()).wait(), here);
    release();
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
#[should_panic(expected = "polled again")]
fn a_future_that_is_polled_after_its_end_says_so() {
    own_process!();
    let mut task = spawn(|| 1);
    assert_eq!(block_on(&mut task), 1);
    block_on(task);
}

#[test]
fn tasks_spawn_tasks_and_use_all_of_the_library() {
    own_process!();
    let sum = spawn(|| {
        let inner = spawn(|| par_for(0..1000).reduce(0, |i| i, |a, b| a + b));
        let tasks = AtomicUsize::new(0);
        scope(|s| (0..100).for_each(|_| s.spawn(|_| drop(tasks.fetch_add(1, SeqCst)))));
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
                    tasks.into_iter().for_each(|task| drop(task.wait()));
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
            let late = spawn(|| thread::sleep(Duration::from_millis(50)));
            let lost = tokio::time::timeout(Duration::from_millis(1), late).await;
            assert!(lost.is_err());
        });
    };
    use tokio::runtime::Builder;
    run(Builder::new_current_thread().enable_time().build().expect("a runtime"));
    run(Builder::new_multi_thread().worker_threads(3).enable_time().build().expect("a runtime"));
}
