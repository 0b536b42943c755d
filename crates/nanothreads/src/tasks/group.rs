//! Groups of tasks: waited for together, cancelled together.
//!
//! What a canceller has of a handle is a [`target`](super::target), whose protocol stands there.

use crate::tasks::scope::Scope;
use crate::tasks::target::Target;
use std::sync::Arc;

impl Scope<'_> {
    /// Runs `body` on the caller, and waits for all tasks that it spawns with its own handle, and
    /// theirs. They may borrow what lives outside this call, and run on the whole team of the
    /// scope: a scope inside a nano-thread that costs no fork.
    ///
    /// ```
    /// nanothreads::scope(|s| {
    ///     s.spawn(|s| {
    ///         let mut halves = [0, 0];
    ///         let [low, high] = &mut halves;
    ///         s.group(|s| {
    ///             s.spawn(|_| *low = (0..50).sum());
    ///             s.spawn(|_| *high = (50..100).sum());
    ///         });
    ///         assert_eq!(halves[0] + halves[1], 4950);
    ///     });
    /// });
    /// ```
    /// Dependences by address are those among the tasks of the group. The caller waits at the end:
    /// what it must not hold then is said in
    /// [while a nano-thread waits](Self#while-a-nano-thread-waits).
    ///
    /// # Panics
    /// With the payload of `body`, or of the first task that panicked, after all are done.
    #[track_caller]
    pub fn group<'group, B, R>(&self, body: B) -> R
    where
        B: FnOnce(&Scope<'group>) -> R,
    {
        self.group_in(self.inherited(), body)
    }

    /// Asks that descendants of this handle that have not started are not started: their closures
    /// are dropped. Those that run go on, and can ask [`Scope::is_cancelled`]. What is spawned with
    /// this handle later does not start either.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let tried = AtomicU32::new(0);
    /// nanothreads::scope(|s| {
    ///     s.cancel();
    ///     (0..100).for_each(|_| s.spawn(|_| { tried.fetch_add(1, Ordering::Relaxed); }));
    /// });
    /// assert_eq!(tried.into_inner(), 0);
    /// ```
    pub fn cancel(&self) {
        self.node().cancel();
        self.scheduler().note_cancellation();
    }

    /// What cancels this handle from anywhere: its tasks, other threads. As [`Scope::cancel`]; and
    /// nothing once the handle has ended: its scope's body, its group or its task, and all that was
    /// spawned with it.
    ///
    /// ```
    /// // The first error stops the rest.
    /// let texts: Vec<String> = (0..1000).map(|i| if i == 7 { "x".into() } else { i.to_string() }).collect();
    /// let error = std::sync::OnceLock::new();
    /// nanothreads::scope(|s| {
    ///     let canceller = s.canceller();
    ///     for text in &texts {
    ///         let (canceller, error) = (canceller.clone(), &error);
    ///         s.spawn(move |_| {
    ///             if let Err(found) = text.parse::<u32>() {
    ///                 error.get_or_init(|| found);
    ///                 canceller.cancel();
    ///             }
    ///         });
    ///     }
    /// });
    /// assert!(error.into_inner().is_some());
    /// ```
    /// Cost: a lock, now and when the handle ends; the first one of a handle also allocates. Other
    /// tasks pay nothing.
    #[track_caller]
    pub fn canceller(&self) -> Canceller {
        self.assert_running();
        Canceller(Kind::Tasks(self.scheduler().target_of(self.node())))
    }

    /// True when this handle, or one that it descends from, was cancelled. False in a child that
    /// was forked since the scope began. Cost: one load as long as nothing was.
    pub fn is_cancelled(&self) -> bool {
        // In a child the nodes above may be gone: G4 of `target`.
        // SAFETY: - the handle belongs to the node's owner.
        self.scheduler().may_be_cancelled() && unsafe { self.node().is_cancelled() }
    }
}

/// Cancels what was spawned with a handle, or a detached task: made by [`Scope::canceller`] and
/// [`Spawned::canceller`](crate::Spawned::canceller).
#[derive(Clone)]
pub struct Canceller(Kind);

#[derive(Clone)]
enum Kind {
    Tasks(Arc<Target>),
    Detached(Arc<dyn Cancel>),
}

/// Something that can be cancelled, and that belongs to no scope.
pub(crate) trait Cancel: Send + Sync {
    fn cancel(&self);
    fn is_cancelled(&self) -> bool;
}

impl Canceller {
    /// Of a detached task.
    pub(crate) fn of(task: Arc<dyn Cancel>) -> Self {
        Self(Kind::Detached(task))
    }

    /// Asks that descendants of the handle that have not started are not started: see
    /// [`Scope::cancel`]. Nothing once the handle has ended (its scope's body, its group or task,
    /// and all that was spawned with it). So with a detached task. May be called on any thread.
    /// Nothing in a child of a fork, for what its parent began.
    pub fn cancel(&self) {
        let target = match &self.0 {
            Kind::Tasks(target) => target,
            Kind::Detached(task) => return task.cancel(),
        };
        target.with(|node, scheduler| {
            node.cancel();
            scheduler.note_cancellation();
        });
    }

    /// True when the handle, or one that it descends from, or the detached task was cancelled: for
    /// long work that ends early then. False once the handle has ended (see
    /// [`cancel`](Self::cancel)), which is not before its body has. A detached task that was
    /// cancelled before its end stays so. False in a child of a fork, for what its parent began.
    pub fn is_cancelled(&self) -> bool {
        match &self.0 {
            Kind::Tasks(target) => target
                // SAFETY: - the nodes above outlive a node that has not ended.
                .with(|node, _| unsafe { node.is_cancelled() })
                .unwrap_or(false),
            Kind::Detached(task) => task.is_cancelled(),
        }
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Canceller");
        match &self.0 {
            Kind::Tasks(target) => text.field("is_over", &target.with(|_, _| ()).is_none()),
            Kind::Detached(task) => text.field("is_cancelled", &task.is_cancelled()),
        };
        text.finish()
    }
}
