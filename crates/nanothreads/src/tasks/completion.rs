//! Events from outside that a nano-thread waits for, and tasks from outside.
//!
//! In a forked child the node of a share may lie on the stack of a thread of the parent, which the
//! child does not have: such a stack is other threads' memory there. Only what the forking thread
//! itself has open is there still, so the child lets its own shares go and leaves the others alone.
//! Tasks it cannot add to either.

use crate::tasks::description::{ScopeId, Traits};
use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::inherited::Inherited;
use crate::tasks::node::Node;
use crate::tasks::scheduler::Scheduler;
use crate::tasks::scope::{Scope, body_of, call_of};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// Holds a node open: a share of its counter.
struct Share {
    node: *const Node,
    /// Dropped with the share, but in a child.
    scheduler: ManuallyDrop<Arc<Scheduler>>,
    /// The thread of the node's owner. In a child no other thread has the number of one that its
    /// parent had.
    home: ThreadId,
}

// SAFETY: - `Node` is made for releases and additions of shares by any thread; the share keeps it
// alive.
unsafe impl Send for Share {}
// SAFETY: - as above.
unsafe impl Sync for Share {}

impl Share {
    /// One more share of the handle's node.
    #[track_caller]
    fn of(scope: &Scope<'_>) -> Self {
        scope.assert_running();
        if scope.node().up.is_null() {
            scope.scheduler().doors.opens(Location::caller());
        }
        scope.node().share_for_child();
        let scheduler = std::ptr::from_ref(scope.scheduler());
        // SAFETY: - schedulers of scopes are in an `Arc`, of which the scope holds a reference.
        unsafe { Arc::increment_strong_count(scheduler) };
        // SAFETY: - the reference counted just now.
        let scheduler = ManuallyDrop::new(unsafe { Arc::from_raw(scheduler) });
        Self { node: scope.address(), scheduler, home: thread::current().id() }
    }
}

impl Clone for Share {
    /// Ends a child, which would hold open what is its parent's.
    fn clone(&self) -> Self {
        self.scheduler.assert_own();
        // SAFETY: - the share keeps the node alive.
        let node = unsafe { &*self.node };
        node.inputs.add(1);
        if node.up.is_null() {
            self.scheduler.doors.opens_another();
        }
        Self { scheduler: ManuallyDrop::new(Arc::clone(&self.scheduler)), ..*self }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.scheduler.is_parents() {
            return self.let_go_in_child();
        }
        // SAFETY: - our share keeps it alive.
        if unsafe { &*self.node }.up.is_null() {
            self.scheduler.doors.closes();
        }
        // SAFETY: - our share; without a seat, since the caller may be on any thread, or in the
        // middle of a nano-thread.
        let ready = unsafe { self.scheduler.release(None, self.node, 1) };
        debug_assert!(ready.is_none(), "without a seat everything is queued");
        // SAFETY: - dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.scheduler) };
    }
}

impl Share {
    /// What a drop is in a child: see the module head. The scheduler is leaked, and a node of which
    /// this was the last share is not moved on: those above it need not be there.
    #[cold]
    fn let_go_in_child(&self) {
        if thread::current().id() != self.home {
            return;
        }
        // SAFETY: - the node is in memory of the scheduler's, or on a stack of the calling thread,
        //           and our share keeps it there.
        let node = unsafe { &*self.node };
        if node.up.is_null() {
            self.scheduler.doors.closes();
        }
        _ = node.inputs.release(1);
    }
}

/// Something that has to happen before a handle's wait, or its nano-thread, is over: made by
/// [`Scope::completion`]. Dropping it counts as having happened; one that is leaked is waited for
/// for ever.
#[must_use = "dropping it means that it has happened"]
pub struct Completion(#[expect(dead_code, reason = "held for its drop")] Share);

impl Completion {
    /// It has happened. May be called on any thread.
    pub fn complete(self) {}
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").finish_non_exhaustive()
    }
}

/// Spawns tasks into a scope from anywhere: made by [`Scope::spawner`]. Its handle's wait, or its
/// nano-thread, is not over as long as a spawner of it exists.
#[derive(Clone)]
pub struct Spawner<'scope> {
    share: Share,
    inherited: Inherited,
    invariant: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<'scope> Spawner<'scope> {
    /// Adds a task, as [`Scope::spawn`] does. Cost: an allocation, and a push to a queue of all
    /// members.
    ///
    /// A child that was forked since the scope began is ended by it with a report: see
    /// [`scope`](crate::scope()).
    pub fn spawn<F: FnOnce(&Scope<'scope>) + Send + 'scope>(&self, task: F) {
        let Share { node, scheduler, .. } = &self.share;
        scheduler.assert_own();
        // SAFETY: - the share keeps it alive.
        unsafe { &**node }.inputs.add(1);
        let nano = if self.inherited.is_none() {
            // SAFETY: - the node's owner waits for the task, and `'scope` outlives the owner's
            // wait.
            unsafe { NanoPtr::single(*node, u32::MAX, 0, call_of(task)) }
        } else {
            // SAFETY: - as above.
            let body = unsafe { body_of(task) };
            // SAFETY: - the share keeps the group open whose settings these are.
            let traits = unsafe { Traits::of(self.inherited) };
            let scope = ScopeId::of(Arc::as_ptr(scheduler));
            NanoPtr::new(Nano::new(*node, body, (traits, scope), u32::MAX, 0))
        };
        scheduler.enqueue_from_outside(nano);
    }
}

impl fmt::Debug for Spawner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope> {
    /// Something that has to happen, perhaps on another thread, before this handle's wait is over,
    /// and before its nano-thread counts as finished (OpenMP: a detached task's event).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// let arrived = AtomicBool::new(false);
    /// std::thread::scope(|threads| {
    ///     nanothreads::scope(|s| {
    ///         let completion = s.completion();
    ///         threads.spawn(|| {
    ///             arrived.store(true, Ordering::Relaxed);
    ///             completion.complete();
    ///         });
    ///         s.wait();
    ///         assert!(arrived.load(Ordering::Relaxed));
    ///     });
    /// });
    /// ```
    /// Complete or drop it before the handle's wait, or give it to a thread that does: one that the
    /// body of the scope, group or nano-thread returns, or keeps beyond its own end, is waited for
    /// for ever.
    #[track_caller]
    pub fn completion(&self) -> Completion {
        Completion(Share::of(self))
    }

    /// Suspends the caller until the completion that `start` gets has happened. The processor runs
    /// other nano-threads meanwhile. What must not be held then, and how many can be suspended
    /// (about 32,000, for each keeps a stack):
    /// [while a nano-thread waits](Self#while-a-nano-thread-waits).
    ///
    /// ```
    /// nanothreads::scope(|s| {
    ///     s.spawn(|s| {
    ///         let answer = std::sync::Mutex::new(0);
    ///         std::thread::scope(|threads| {
    ///             s.suspend(|completion| {
    ///                 threads.spawn(|| {
    ///                     *answer.lock().unwrap() = 42;
    ///                     completion.complete();
    ///                 });
    ///             });
    ///         });
    ///         assert_eq!(answer.into_inner().unwrap(), 42);
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn suspend(&self, start: impl FnOnce(Completion)) {
        self.group(|group| start(group.completion()));
    }

    /// A handle that travels: other threads may spawn tasks into the scope with it.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let count = AtomicU32::new(0);
    /// nanothreads::scope(|s| {
    ///     let spawner = s.spawner();
    ///     nanothreads::par_for(0..10).run(|_| spawner.spawn(|_| { count.fetch_add(1, Ordering::Relaxed); }));
    /// });
    /// assert_eq!(count.into_inner(), 10);
    /// ```
    /// The scope waits until the spawner and its clones are dropped: one that the body of the
    /// scope, group or nano-thread returns, or keeps beyond its own end, is waited for for ever.
    #[track_caller]
    pub fn spawner(&self) -> Spawner<'scope> {
        Spawner { share: Share::of(self), inherited: self.inherited(), invariant: PhantomData }
    }
}
