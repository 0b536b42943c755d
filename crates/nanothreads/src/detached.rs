//! Detached tasks: work that no scope waits for, and whose result can be awaited.
//!
//! # Protocol
//! - T1 The closure stands in the task's state. The thread that takes it out runs it, once: a
//!   member of the host's team ([`host`]), or a thread that waits for the result and finds it
//!   there.
//! - T2 That thread puts the result, or the payload of the panic, into the state; then it wakes the
//!   threads that wait at the task's point, and calls the waker of the future.
//! - T3 A canceller sets a flag, and takes the closure out and drops it. One that comes when that
//!   has begun leaves the flag; one that comes after the end leaves nothing. So the flag, which is
//!   set under the state's lock, says what the task could still see.
//! - T4 A dropped handle leaves a flag, too: there is no other way to the result, so it is dropped
//!   at once, or by the thread that ran the task, also while there are cancellers.
//! - T5 The program's code (closures, destructors, wakers) runs outside the state's lock.
//!
//! In a forked child a task is its parent's: a handle of it panics there when it is asked for the
//! result, and a canceller does nothing. Detached tasks of the child's own run on a host of its
//! own.

mod host;

use crate::tasks::group::{Cancel, Canceller};
use engine::panics::{Payload, discard};
use engine::process::Born;
use engine::wait_point::WaitPoint;
use platform::lock::Mutex;
use std::fmt;
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

/// What the host runs.
trait Runnable: Send + Sync {
    /// Runs the task, unless another thread did, or it was cancelled.
    fn run(self: Arc<Self>);
}

type TaskClosure<T> = Box<dyn FnOnce(&Canceller) -> T + Send>;

/// See the module head.
struct DetachedTask<T> {
    state: Mutex<State<T>>,
    /// Where threads sleep that wait for the result.
    done: WaitPoint,
    is_cancelled: AtomicBool,
    born: Born,
}

struct State<T> {
    stage: TaskStage<T>,
    waker: Option<Waker>,
    /// The handle was dropped: no thread asks for the result.
    is_unwanted: bool,
}

enum TaskStage<T> {
    Waits(TaskClosure<T>),
    Runs,
    Ended(thread::Result<T>),
    Cancelled,
    /// The result was taken.
    Empty,
}

/// What became of a task.
enum Outcome<T> {
    Value(T),
    Panic(Payload),
    Cancelled,
}

/// Panics where the result of a cancelled task is asked for.
const CANCELLED: &str = "the result of a detached task that was cancelled before it began: where \
                         that can be ask by `wait_unless_cancelled`, or await \
                         `unless_cancelled`";

/// Panics where the result is asked for again.
const TAKEN: &str = "a detached task was asked for its result again, which a poll or `.await` has \
                     given before: a task has one result; keep it, and do not `wait` or poll \
                     after it";

impl<T> DetachedTask<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        assert!(
            !self.born.is_parents(),
            "this process was forked when a detached task was there already: it is the parent's, \
             which has its result"
        );
        // Nothing of the program's runs under the lock (T5).
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the stage, and tells those that wait for one that has an outcome.
    fn ends(&self, stage: TaskStage<T>) {
        let mut state = self.state();
        // T4.
        let (stage, unwanted) =
            if state.is_unwanted { (TaskStage::Empty, Some(stage)) } else { (stage, None) };
        state.stage = stage;
        let waker = state.waker.take();
        drop(state);
        self.done.notify_all();
        // A panic of the waker's, which is reported, is not the caller's.
        if let Some(waker) = waker
            && let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake()))
        {
            discard(payload);
        }
        drop(unwanted);
    }

    /// T4: the handle is dropped.
    fn abandon(&self) {
        let mut state = self.state();
        state.is_unwanted = true;
        let waker = state.waker.take();
        drop(state);
        // None while it waits or runs; where there was a waker, none later either, by the flag. So
        // at most one destructor of the program's is called here.
        let outcome = self.take();
        drop(waker);
        drop(outcome);
    }

    /// Takes what became of it, if it has an outcome.
    fn take(&self) -> Option<Outcome<T>> {
        let mut state = self.state();
        match mem::replace(&mut state.stage, TaskStage::Empty) {
            TaskStage::Ended(Ok(value)) => Some(Outcome::Value(value)),
            TaskStage::Ended(Err(payload)) => Some(Outcome::Panic(payload)),
            TaskStage::Cancelled => Some(Outcome::Cancelled),
            stage => {
                state.stage = stage;
                None
            }
        }
    }

    fn is_finished(&self) -> bool {
        !matches!(self.state().stage, TaskStage::Waits(_) | TaskStage::Runs)
    }
}

impl<T> State<T> {
    /// T1: takes the closure out, if it is there.
    fn begin(&mut self) -> Option<TaskClosure<T>> {
        match mem::replace(&mut self.stage, TaskStage::Runs) {
            TaskStage::Waits(work) => Some(work),
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}

impl<T: Send + 'static> DetachedTask<T> {
    /// T1, T2: runs it, unless another thread does, or did.
    fn run_here(self: &Arc<Self>) {
        let work = self.state().begin();
        if let Some(work) = work {
            let canceller = Canceller::of(Arc::clone(self) as Arc<dyn Cancel>);
            // What the closure captured is seen again only where the panic goes.
            let result = catch_unwind(AssertUnwindSafe(|| work(&canceller)));
            self.ends(TaskStage::Ended(result));
        }
    }
}

impl<T: Send + 'static> Runnable for DetachedTask<T> {
    fn run(self: Arc<Self>) {
        self.run_here();
    }
}

impl<T: Send + 'static> Cancel for DetachedTask<T> {
    fn cancel(&self) {
        if self.born.is_parents() {
            return;
        }
        // T3.
        let mut state = self.state();
        if !matches!(state.stage, TaskStage::Waits(_) | TaskStage::Runs) {
            return;
        }
        // ORDERING: Relaxed - a request, which the task reads when it likes.
        self.is_cancelled.store(true, Relaxed);
        let work = state.begin();
        drop(state);
        if let Some(work) = work {
            self.ends(TaskStage::Cancelled);
            drop(work);
        }
    }

    fn is_cancelled(&self) -> bool {
        // ORDERING: Relaxed - see `cancel`.
        !self.born.is_parents() && self.is_cancelled.load(Relaxed)
    }
}

/// Runs `task` on the processors of the program, at some time; the caller goes on at once. What
/// `rayon::spawn` does, with a handle: by it the result can be awaited, in any async runtime or
/// without one, or waited for.
///
/// ```
/// let answer = nanothreads::spawn(|| (1..=20_u64).product::<u64>());
/// assert_eq!(answer.wait(), 2_432_902_008_176_640_000);
/// ```
/// ```
/// # use std::{future::Future, pin::pin, sync::Arc, task::{Context, Poll, Wake}, thread};
/// # struct Unpark(thread::Thread);
/// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut future = pin!(future);
/// #     let waker = Arc::new(Unpark(thread::current())).into();
/// #     loop {
/// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
/// #             Poll::Ready(value) => return value,
/// #             Poll::Pending => thread::park(),
/// #         }
/// #     }
/// # }
/// async fn handle(request: Vec<u64>) -> u64 {
///     // Seconds of work, on other threads than those of the async runtime.
///     nanothreads::spawn(move || request.iter().sum()).await
/// }
/// assert_eq!(block_on(handle(vec![1, 2, 3])), 6);
/// ```
///
/// Tasks that are there at the same time run side by side, as many as the program has processors
/// when the first of them comes; the team ends when there are none left. They run in the order in
/// which they were spawned, as far as that can be said of several threads. What a task forks inside
/// runs on the task's own thread while all others have tasks.
///
/// It has no limit on how many tasks wait. It is not for waiting: a task that sleeps, or waits for
/// the network, holds a processor's thread. Nor for what must be done before the program ends: that
/// does not wait for detached tasks (as with rayon's, and with `std::thread`s that are not joined).
///
/// A panic of the task is reported as any, and comes out where the result is asked for.
///
/// Cost: three allocations, and two locks for a moment. The first call starts a thread, named
/// `nanos-spawn`, which is the master of the team that runs the tasks. Where the system refuses
/// that thread the task runs in the call.
pub fn spawn<T, F>(task: F) -> Spawned<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    spawn_cancellable(move |_| task())
}

/// As [`spawn`](crate::spawn()), for a task that asks now and then whether it was cancelled.
///
/// ```
/// let search = nanothreads::spawn_cancellable(|canceller| {
///     (0_u64..).take_while(|_| !canceller.is_cancelled()).count()
/// });
/// search.canceller().cancel();
/// // How far it came, if it began at all.
/// let steps = search.wait_unless_cancelled();
/// # drop(steps);
/// ```
pub fn spawn_cancellable<T, F>(task: F) -> Spawned<T>
where
    T: Send + 'static,
    F: FnOnce(&Canceller) -> T + Send + 'static,
{
    let task = Arc::new(DetachedTask {
        state: Mutex::new(State {
            stage: TaskStage::Waits(Box::new(task)),
            waker: None,
            is_unwanted: false,
        }),
        done: WaitPoint::new(),
        is_cancelled: AtomicBool::new(false),
        born: Born::now(),
    });
    host::host().take_in(Arc::clone(&task) as Arc<dyn Runnable>);
    Spawned { task: ManuallyDrop::new(task) }
}

/// A detached task: made by [`spawn`](crate::spawn()). It is a future of the task's result, which
/// needs no runtime: poll it in any one. Dropping it changes nothing for the task, which goes on
/// ([`canceller`](Self::canceller) is the way to stop one); its result is then dropped by the
/// thread that ran it, or here where it is there already.
///
/// As a future, or by [`wait`](Self::wait), it panics with the payload of the task's panic; and
/// where the task was cancelled before it began, with a text that says so:
/// [`unless_cancelled`](Self::unless_cancelled) is for where that can be. It has one result: polled
/// or waited for after it has given that, it panics.
///
/// In a child of a fork, the tasks of the parent cannot be asked for.
pub struct Spawned<T> {
    task: ManuallyDrop<Arc<DetachedTask<T>>>,
}

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        // In a child: another thread of the parent may have been changing it when this copy was
        // made.
        if !self.task.born.is_parents() {
            // Before the destructors of result and waker, which may panic.
            // SAFETY: - taken once, here.
            let task = unsafe { ManuallyDrop::take(&mut self.task) };
            task.abandon();
        }
    }
}

impl<T> fmt::Debug for Spawned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Spawned<T> {
    /// Waits for the result. A task that has not begun is run by the caller. A detached task that
    /// waits for another one keeps its thread meanwhile: for tasks that wait for each other see
    /// [`scope`](crate::scope()).
    ///
    /// # Panics
    /// With the payload of the task's panic, and when it was cancelled before it began. Also when
    /// its result was taken before: when it was polled to its end, as by `(&mut task).await`.
    #[track_caller]
    pub fn wait(self) -> T {
        self.wait_unless_cancelled().expect(CANCELLED)
    }

    /// As [`wait`](Self::wait); `None` when the task was cancelled before it began.
    ///
    /// # Panics
    /// With the payload of the task's panic, and when its result was taken before, as
    /// [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_unless_cancelled(self) -> Option<T> {
        self.task.run_here();
        engine::wait(&self.task.done, || self.task.is_finished());
        value_of(self.task.take().expect(TAKEN))
    }

    /// The future of the result; of `None` when the task is cancelled before it begins.
    ///
    /// ```
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// let task = nanothreads::spawn(|| 1);
    /// task.canceller().cancel();
    /// let mut future = pin!(task.unless_cancelled());
    /// // At once: cancelled, or, if it had begun before, at its end.
    /// let context = &mut Context::from_waker(Waker::noop());
    /// while future.as_mut().poll(context).is_pending() {}
    /// ```
    pub fn unless_cancelled(self) -> impl Future<Output = Option<T>> + Send {
        std::future::poll_fn(move |context| self.poll_outcome(context).map(value_of))
    }

    /// What cancels the task from anywhere: if it has not begun it never does, and what it captured
    /// is dropped at once; else it can ask ([`spawn_cancellable`](crate::spawn_cancellable())).
    pub fn canceller(&self) -> Canceller {
        Canceller::of(Arc::clone(&self.task) as Arc<dyn Cancel>)
    }

    /// True when the result is there, or the task was cancelled before it began.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    fn poll_outcome(&self, context: &Context<'_>) -> Poll<Outcome<T>> {
        if let Some(outcome) = self.task.take() {
            return Poll::Ready(outcome);
        }
        // T5: a waker's clone is the program's.
        let waker = context.waker().clone();
        let mut state = self.task.state();
        let before = match state.stage {
            TaskStage::Waits(_) | TaskStage::Runs => state.waker.replace(waker),
            // It ended since the look above.
            _ => Some(waker),
        };
        let is_late = !matches!(state.stage, TaskStage::Waits(_) | TaskStage::Runs);
        drop(state);
        drop(before);
        match is_late.then(|| self.task.take()) {
            Some(outcome) => Poll::Ready(outcome.expect(TAKEN)),
            None => Poll::Pending,
        }
    }
}

fn value_of<T>(outcome: Outcome<T>) -> Option<T> {
    match outcome {
        Outcome::Value(value) => Some(value),
        Outcome::Panic(payload) => resume_unwind(payload),
        Outcome::Cancelled => None,
    }
}

impl<T: Send + 'static> Future for Spawned<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.poll_outcome(context).map(|outcome| value_of(outcome).expect(CANCELLED))
    }
}

/// Runs `job` for the host, to its end whatever it does: the team of the host is no other's but its
/// own, and no panic may end it.
fn run_for_host(job: Arc<dyn Runnable>) {
    // The task's own panic is in its outcome. What else there may be (the destructor of a result
    // that is not asked for) was reported when it was thrown.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job.run())) {
        discard(payload);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Panics when it is dropped.
    struct Angry;

    impl Drop for Angry {
        fn drop(&mut self) {
            panic!("planted");
        }
    }

    impl std::task::Wake for Angry {
        fn wake(self: Arc<Self>) {
            unreachable!("it is dropped with its task's handle");
        }
    }

    /// Whether the task is gone once its handle is, whose drop panics.
    fn goes(stage: TaskStage<Angry>, waker: Option<Waker>) -> bool {
        let task = Arc::new(DetachedTask {
            state: Mutex::new(State { stage, waker, is_unwanted: false }),
            done: WaitPoint::new(),
            is_cancelled: AtomicBool::new(false),
            born: Born::now(),
        });
        let left = Arc::downgrade(&task);
        let handle = Spawned { task: ManuallyDrop::new(task) };
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(handle)));
        assert!(dropped.is_err(), "the destructor's panic comes out");
        left.strong_count() == 0
    }

    #[test]
    fn a_task_goes_with_its_handle_also_where_a_destructor_panics() {
        assert!(goes(TaskStage::Ended(Ok(Angry)), None), "the result's");
        assert!(goes(TaskStage::Runs, Some(Arc::new(Angry).into())), "the waker's");
    }
}
