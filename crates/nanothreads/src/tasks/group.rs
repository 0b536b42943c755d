//! Groups of tasks: waited for together, cancelled together.

use crate::tasks::node::Node;
use crate::tasks::scheduler::Scheduler;
use crate::tasks::scope::Scope;
use platform::lock::Mutex;
use std::sync::{Arc, MutexGuard, PoisonError};

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
    /// nothing once all that was spawned with the handle is done.
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
    /// Cost: an allocation, and a lock at the end of each task of the scope as long as a canceller
    /// is there whose tasks are not all done; once more after the last such one was dropped.
    #[track_caller]
    pub fn canceller(&self) -> Canceller {
        self.assert_running();
        let place = (self.node() as *const Node, std::ptr::from_ref(self.scheduler()));
        let target = Arc::new(Target(Mutex::new(Some(place))));
        self.scheduler().note_target(&target);
        Canceller(Kind::Tasks(target))
    }

    /// True when this handle, or one that it descends from, was cancelled. Cost: one load as long
    /// as nothing was.
    pub fn is_cancelled(&self) -> bool {
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
    /// [`Scope::cancel`]. Nothing once they are all done. So with a detached task. May be called on
    /// any thread.
    pub fn cancel(&self) {
        let target = match &self.0 {
            Kind::Tasks(target) => target,
            Kind::Detached(task) => return task.cancel(),
        };
        if let Some((node, scheduler)) = *target.place() {
            // SAFETY: - the place is emptied, under its lock, before the node ends, and the
            //           scheduler outlives its nodes.
            let (node, scheduler) = unsafe { (&*node, &*scheduler) };
            node.cancel();
            scheduler.note_cancellation();
        }
    }

    /// True when the handle, or one that it descends from, or the detached task was cancelled: for
    /// long work that ends early then. False once all that was spawned with the handle is done.
    pub fn is_cancelled(&self) -> bool {
        match &self.0 {
            Kind::Tasks(target) => target.place().is_some_and(|(node, _)| {
                // SAFETY: - as in `cancel`; the nodes above outlive a node that has not ended.
                unsafe { (*node).is_cancelled() }
            }),
            Kind::Detached(task) => task.is_cancelled(),
        }
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Canceller");
        match &self.0 {
            Kind::Tasks(target) => text.field("is_over", &target.place().is_none()),
            Kind::Detached(task) => text.field("is_cancelled", &task.is_cancelled()),
        };
        text.finish()
    }
}

/// The node that a canceller cancels, and its scheduler; nothing once it has ended.
pub(crate) struct Target(Mutex<Option<(*const Node, *const Scheduler)>>);

// SAFETY: - what the pointers lead to is made for calls by any thread, and lives while they are
//           there (`Canceller::cancel`).
unsafe impl Send for Target {}
// SAFETY: - as above.
unsafe impl Sync for Target {}

impl Target {
    fn place(&self) -> MutexGuard<'_, Option<(*const Node, *const Scheduler)>> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all its cancellers were dropped: only the list of the scheduler has it.
    pub(crate) fn is_dropped(this: &Arc<Self>) -> bool {
        // None comes after that: cancellers are cloned from cancellers.
        Arc::strong_count(this) == 1
    }

    /// Whether `node`, which ends now, was its node. It has none afterwards.
    pub(crate) fn ends_with(&self, node: *const Node) -> bool {
        let mut place = self.place();
        let is_its = place.is_some_and(|(own, _)| std::ptr::eq(own, node));
        if is_its {
            *place = None;
        }
        is_its
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::scope;

    #[test]
    fn tasks_look_for_targets_only_while_a_canceller_may_use_one() {
        scope(|s| {
            assert!(!s.scheduler().looks_for_targets());
            let kept = s.canceller();
            drop(s.canceller());
            s.group(|g| {
                let _ended = g.canceller();
                g.spawn(|_| ());
            });
            assert!(s.scheduler().looks_for_targets(), "`kept` can cancel the scope");
            kept.clone().cancel();
            assert!(kept.is_cancelled());
            drop(kept);
            assert!(s.scheduler().looks_for_targets(), "the next end finds that it is dropped");
            s.spawn(|_| ());
            s.wait();
            assert!(!s.scheduler().looks_for_targets());
            // As before.
            let late = s.canceller();
            assert!(s.scheduler().looks_for_targets());
            assert!(late.is_cancelled());
        });
    }

    #[test]
    fn the_last_targets_end_ends_the_look_for_targets() {
        scope(|s| {
            let mut ended = s.group(|g| g.canceller());
            for _ in 0..100 {
                assert!(!s.scheduler().looks_for_targets());
                assert!(!ended.is_cancelled(), "a canceller of what is done cancels nothing");
                s.spawn(|s| drop(s.canceller()));
                ended = s.group(|g| {
                    g.spawn(|_| ());
                    g.canceller()
                });
                s.wait();
            }
        });
    }
}
