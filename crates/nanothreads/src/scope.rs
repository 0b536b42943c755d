//! Scopes: tasks that borrow from the caller and may create more tasks; the scope ends when all have.
//!
//! First form: one queue for each scope, to which all members of its team help themselves.

use crate::engine;
use crate::engine_state::engine as state;
use crate::region;
use crate::wait_point::{Look, WaitPoint};
use crossbeam_deque::{Injector, Steal};
use platform::sync::CachePadded;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::{Acquire, Relaxed, Release}};
use std::sync::{Mutex, PoisonError};

type Task<'scope> = Box<dyn FnOnce(&Scope<'scope>) + Send + 'scope>;

/// Where tasks are spawned; made by [`scope`].
pub struct Scope<'scope> {
    ready: Injector<Task<'scope>>,
    /// Tasks that are not finished, and the body while it runs.
    pending: CachePadded<AtomicUsize>,
    /// Where members wait for a task or the end.
    idle: WaitPoint,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Tasks may hold references into `'scope` mutably: the lifetime must not shrink.
    invariant: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// Runs `body` on the caller, and the tasks that it spawns on all processors that the program has now; returns when all
/// of them, and those that they spawned, are done.
///
/// ```
/// let mut numbers = [1, 2, 3, 4];
/// let (left, right) = numbers.split_at_mut(2);
/// nanothreads::scope(|s| {
///     s.spawn(|_| left[0] = 10);
///     s.spawn(|s| {
///         right[0] = 30;
///         s.spawn(|_| right[1] = 40);
///     });
/// });
/// assert_eq!(numbers, [10, 2, 30, 40]);
/// ```
///
/// # Panics
/// With the payload of the body or the first task that panics, after all tasks are done.
pub fn scope<'scope, B, R>(body: B) -> R
where
    B: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    let scope = Scope {
        ready: Injector::new(),
        pending: CachePadded::new(AtomicUsize::new(1)),
        idle: WaitPoint::new(),
        panic: Mutex::new(None),
        invariant: PhantomData,
    };
    let body = Mutex::new(Some(body));
    let result = Mutex::new(None);
    region::run(state().wish(), |member| {
        if member.id == 0
            && let Some(body) = body.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            let value = scope.catch(|| body(&scope));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = value;
            scope.finish_one();
        }
        engine::wait_looking(&scope.idle, || scope.look());
    });
    if let Some(payload) = scope.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(payload);
    }
    result.into_inner().unwrap_or_else(PoisonError::into_inner).expect("the body returned, or its panic was resumed")
}

impl<'scope> Scope<'scope> {
    /// Adds a task. It may run on any member of the scope's team, also before this call returns. Cost: one allocation
    /// and one push to a lock-free queue.
    pub fn spawn<F: FnOnce(&Scope<'scope>) + Send + 'scope>(&self, task: F) {
        // ORDERING: Relaxed - the spawner is itself counted, so the count cannot reach 0 meanwhile.
        self.pending.fetch_add(1, Relaxed);
        self.ready.push(Box::new(task));
        self.idle.notify_all();
    }

    /// One look of an idle member: runs a task if there is one.
    fn look(&self) -> Look {
        loop {
            match self.ready.steal() {
                Steal::Success(task) => {
                    self.catch(|| task(self));
                    self.finish_one();
                    return Look::Progress;
                }
                Steal::Retry => {}
                Steal::Empty => break,
            }
        }
        // ORDERING: Acquire - pairs with the Release in `finish_one`: who sees 0 sees what all tasks did.
        (self.pending.load(Acquire) == 0).into()
    }

    fn finish_one(&self) {
        // ORDERING: Release, and Acquire for the last one, so that the end is after all tasks.
        if self.pending.fetch_sub(1, Release) == 1 {
            self.idle.notify_all();
        }
    }

    fn catch<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        // What the closure captured is seen again only by the caller of `scope`, which gets the panic.
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(value) => Some(value),
            Err(payload) => {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
                None
            }
        }
    }
}
