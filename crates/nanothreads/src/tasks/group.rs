//! Groups of tasks: waited for together, cancelled together.

use crate::tasks::node::{Node, ScopeId};
use crate::tasks::scope::{Scope, run_and_join};
use std::panic::resume_unwind;

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
    pub fn group<'group, B, R>(&self, body: B) -> R
    where
        B: FnOnce(&Scope<'group>) -> R,
    {
        // The group's node lies below the owner's, without a share of it.
        self.assert_current();
        let seat = self.seat();
        let home = u32::try_from(seat.index()).expect("teams have less than 2^32 members");
        let node = Node::running(self.node(), ScopeId::of(seat.scheduler()), home);
        // SAFETY: - the node is on this frame until its children are done; the handle's owner is
        // current, on this seat.
        let result = unsafe { run_and_join(&node, seat, self.is_carried(), body) };
        result.unwrap_or_else(|payload| resume_unwind(payload))
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

    /// True when this handle, or one that it descends from, was cancelled. Cost: one load as long
    /// as nothing was.
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: - the handle belongs to the node's owner.
        self.scheduler().may_be_cancelled() && unsafe { self.node().is_cancelled() }
    }
}
