//! What the loom models (`tasks/models.rs`) drive: a scheduler's members, without their queues and
//! stacks.
//!
//! Nodes, descriptors, the pool, ends of children and the wait of a creator are the shipped ones.
//! Models hand tasks over themselves, since loom does not see into the queues, which are a
//! library's; and tasks run on the member's own stack. So does a nano-thread that suspends: it is
//! switched away from and resumed by calls and returns, and its fiber is an address.

use crate::tasks::body::Body;
use crate::tasks::description::{ScopeId, Traits};
use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::fiber::Fiber;
use crate::tasks::node::{Node, Phase, TaskWait, Waiter};
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

/// A nano-thread that runs on member 0, and a group of its own, at which it waits.
pub(super) struct Suspender {
    nano: NanoPtr,
    group: Box<Node>,
}

/// A share of a suspender's group: what it waits for.
#[derive(Debug)]
pub(super) struct Pending(*const Node);

// SAFETY: - loom checks what the protocols under test promise.
unsafe impl Send for Pending {}

impl fmt::Debug for Suspender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suspender").finish_non_exhaustive()
    }
}

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
        let body = unsafe { Body::new(move |_| task()) };
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

    /// Starts a nano-thread on member 0.
    ///
    /// # Safety
    /// - As [`Self::spawn`].
    pub(super) unsafe fn start(&self, is_suspendable: bool) -> Suspender {
        self.creator.share_for_child();
        // SAFETY: - it borrows nothing.
        let body = unsafe { Body::new(|_| ()) };
        let traits = Traits { is_suspendable, ..Traits::default() };
        let nano = NanoPtr::new(Nano::new(&self.creator, body, (traits, NOWHERE), 0, 0));
        // SAFETY: - created just now.
        unsafe { nano.get() }.node.start(0);
        // SAFETY: - started just now: what it would do, the model does.
        unsafe { nano.discard_body() };
        Suspender { nano, group: Box::new(Node::running(nano.node(), 0)) }
    }

    /// Creates a plain task in the group.
    ///
    /// # Safety
    /// - As [`Self::spawn`]; the suspender suspends before it ends.
    pub(super) unsafe fn spawn_into(
        &self,
        suspender: &Suspender,
        task: impl FnOnce() + Send + 'static,
    ) -> Child {
        suspender.group.share_for_child();
        // SAFETY: - caller's contract.
        let seat = unsafe { self.seat(0) };
        let memory = (seat.free_lists(), &self.scheduler.store);
        let number = seat.next_number();
        // SAFETY: - the task borrows nothing.
        Child(unsafe { NanoPtr::plain(memory, &*suspender.group, 0, number, move |_| task()) })
    }

    /// `pending` has happened: by any thread, as a completion.
    pub(super) fn complete(&self, pending: Pending) {
        // SAFETY: - the share that `Suspender::pending` took.
        let ready = unsafe { self.scheduler.release(None, pending.0, 1) };
        assert!(ready.is_none(), "the owner of the group waits");
    }

    /// The same, by a thread that looks at the group once more when its owner was woken.
    pub(super) fn complete_late(&self, pending: Pending) {
        let group = pending.0;
        self.complete(pending);
        // SAFETY: - the models keep the memory; loom judges the access.
        unsafe { (*group).wait() };
    }

    /// The nano-thread waits for its group, switched away from; `meanwhile` its member runs that
    /// child. Asserts that it is resumed once, on the fiber that it left.
    ///
    /// # Safety
    /// - As [`Self::spawn`].
    pub(super) unsafe fn suspend(&self, suspender: &Suspender, meanwhile: Option<Child>) {
        // SAFETY: - caller's contract.
        let seat = unsafe { self.seat(0) };
        let nano = suspender.nano;
        // Never looked into.
        let fiber: *const Fiber = ptr::without_provenance(align_of::<Fiber>());
        let leave = |wait: &TaskWait| {
            // SAFETY: - started on this thread.
            unsafe { seat.note_pause(nano) };
            if let Some(child) = meanwhile {
                let next = seat.run_here(child.0, None);
                assert!(next.is_none(), "nothing comes after it");
                seat.give_up_held();
            }
            let mut due = None;
            self.scheduler.members[0].point.sleep_until(|| {
                due = seat.next_due();
                Look::from(due.is_some())
            });
            assert_eq!(due, Some(nano));
            assert!(wait.is_signalled(), "resumed before its wait was over");
            // SAFETY: - it is suspended.
            assert!(ptr::eq(unsafe { nano.get().fiber() }, fiber), "not where it left");
        };
        suspender.group.await_children(|| Some(Waiter { nano, fiber }), leave);
        assert_eq!(seat.next_due(), None, "resumed twice");
    }

    /// The nano-thread ends. Returns its group, which no thread may use any more.
    ///
    /// # Safety
    /// - As [`Self::spawn`].
    pub(super) unsafe fn finish(&self, suspender: Suspender) -> Box<Node> {
        let Suspender { nano, group } = suspender;
        // SAFETY: - caller's contract.
        let seat = unsafe { self.seat(0) };
        assert_eq!(seat.next_due(), None, "resumed once more than it was suspended");
        // SAFETY: - it ends below.
        let this = unsafe { nano.get() };
        this.node.set_phase(Phase::Ended);
        // SAFETY: - its own shares; the seat is ours.
        let next =
            unsafe { self.scheduler.release(Some(seat), nano.node(), this.node.own_shares()) };
        assert!(next.is_none(), "nothing comes after it");
        group
    }
}

impl Suspender {
    /// Something to wait for.
    pub(super) fn pending(&self) -> Pending {
        self.group.share_for_child();
        Pending(&raw const *self.group)
    }
}

impl Named {
    /// True when the task is finished.
    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}
