//! What the loom models (`tasks/models.rs`) drive: a scheduler's members, without their queues and
//! stacks.
//!
//! Nodes, descriptors, the pool, ends of children and the wait of a creator are the shipped ones.
//! Models hand tasks over themselves, since loom does not see into the queues, which are a
//! library's; and tasks run on the member's own stack.

use crate::tasks::description::{ScopeId, Traits};
use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::node::{Node, TaskWait};
use crate::tasks::scheduler::Scheduler;
use crate::tasks::seat::Seat;
use engine::wait_point::Look;
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// All is in one scope.
const NOWHERE: ScopeId = ScopeId::of(ptr::null::<Scheduler>());

/// A creator on member 0 of a team, and the team.
pub(super) struct Team {
    scheduler: Scheduler,
    creator: Node,
}

// SAFETY: - loom checks what the protocols under test promise.
unsafe impl Send for Team {}
// SAFETY: - as above.
unsafe impl Sync for Team {}

/// A task that was created and not run.
#[derive(Debug)]
pub(super) struct Child(NanoPtr);

/// A task that others may come after.
#[derive(Clone)]
pub(super) struct Named(Arc<Nano>);

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").finish_non_exhaustive()
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").finish_non_exhaustive()
    }
}

impl Team {
    /// A team of `size`, whose member 0 runs the creator.
    pub(super) fn new(size: usize) -> Self {
        Self { scheduler: Scheduler::new(size), creator: Node::running(ptr::null(), 0) }
    }

    /// # Safety
    /// - The calling thread is the only one that is this member.
    unsafe fn seat(&self, member: usize) -> Seat<'_> {
        // SAFETY: - caller's contract.
        unsafe { self.scheduler.seat(member) }
    }

    /// Creates a plain task.
    ///
    /// # Safety
    /// - By the only thread that is member 0, which waits before the team is dropped.
    pub(super) unsafe fn spawn(&self, task: impl FnOnce() + Send + 'static) -> Child {
        self.creator.share_for_child();
        // SAFETY: - caller's contract.
        let seat = unsafe { self.seat(0) };
        let memory = (seat.free_lists(), &self.scheduler.store);
        let number = seat.next_number();
        // SAFETY: - the task borrows nothing.
        Child(unsafe { NanoPtr::plain(memory, &self.creator, 0, number, move |_| task()) })
    }

    /// Creates a task that others may come after.
    ///
    /// # Safety
    /// - As [`Self::spawn`].
    pub(super) unsafe fn spawn_named(
        &self,
        task: impl FnOnce() + Send + 'static,
    ) -> (Child, Named) {
        let (this, nano) = self.described(task);
        let last = nano.node.inputs.release(1);
        assert!(last, "it waits for no task");
        let mut ready = None;
        // SAFETY: - caller's contract; that was the last share.
        unsafe { self.scheduler.inputs_are_there(Some(self.seat(0)), this, &mut ready) };
        (Child(ready.expect("it may start")), Named(nano))
    }

    fn described(&self, task: impl FnOnce() + Send + 'static) -> (NanoPtr, Arc<Nano>) {
        self.creator.share_for_child();
        // SAFETY: - the task borrows nothing.
        let body = unsafe { crate::tasks::body::Body::new(move |_| task()) };
        let nano = Nano::new(&self.creator, body, (Traits::default(), NOWHERE), 0, 0);
        (NanoPtr::new(Arc::clone(&nano)), nano)
    }

    /// Creates a task that comes after `predecessors`; it is returned if they are finished already.
    ///
    /// # Safety
    /// - As [`Self::spawn`].
    pub(super) unsafe fn spawn_after(
        &self,
        predecessors: &[&Named],
        task: impl FnOnce() + Send + 'static,
    ) -> Option<Child> {
        let (this, nano) = self.described(task);
        for predecessor in predecessors {
            // SAFETY: - we create it, and hold its share.
            unsafe { nano.follow(this, &predecessor.0) };
        }
        if !nano.node.inputs.release(1) {
            return None;
        }
        let mut ready = None;
        // SAFETY: - caller's contract; that was the last share.
        unsafe { self.scheduler.inputs_are_there(Some(self.seat(0)), this, &mut ready) };
        ready.map(Child)
    }

    /// Runs a task, and what becomes ready by its end, on `member`.
    ///
    /// # Safety
    /// - The calling thread is the only one that is this member.
    pub(super) unsafe fn run(&self, member: usize, child: Child) {
        // SAFETY: - caller's contract.
        let seat = unsafe { self.seat(member) };
        let mut next = Some(child.0);
        while let Some(nano) = next {
            next = seat.run_here(nano, None);
        }
    }

    /// `member` finds nothing to do: it gives up what it kept.
    ///
    /// # Safety
    /// - As [`Self::run`].
    pub(super) unsafe fn settle(&self, member: usize) {
        // SAFETY: - caller's contract.
        unsafe { self.seat(member) }.give_up_held();
    }

    /// The creator waits for its children, as a scope does ([`Node::await_children`]): it only
    /// sleeps instead of working.
    ///
    /// # Safety
    /// - As [`Self::spawn`].
    pub(super) unsafe fn wait(&self) {
        // SAFETY: - caller's contract.
        let seat = unsafe { self.seat(0) };
        let sleep = |wait: &TaskWait| {
            self.scheduler.members[0].point.sleep_until(|| {
                seat.receive();
                Look::from(wait.is_signalled())
            });
        };
        self.creator.await_children(|| None, sleep);
    }
}

impl Named {
    /// True when the task is finished.
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}
