//! The scheduler of one team: its ready queues, and what moves nano-threads on.
//!
//! # What touches what
//! A member's own part: only through a [`Seat`], which exists on the member's thread only.
//! Everything else: any thread.
//!
//! # Invariants
//! I1  One nano-thread is moved on by one party at a time: the creator, then the queue that holds
//!     it, then the member that took it, then the thread that gives the last share of its counter
//!     up.
//! I2  A member runs nothing but what was created below the scope whose scheduler this is: a waiter
//!     never runs the work of another scope.

use crate::idle::Idle;
use crate::join::join_team::{JoinTeam, ScopeHooks};
use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::doors::Doors;
use crate::tasks::exclusive;
use crate::tasks::node::{Node, Phase, TaskWait};
use crate::tasks::pool::Store;
use crate::tasks::ready::global::GlobalQueue;
use crate::tasks::ready::inbox::Inbox;
use crate::tasks::ready::local;
use crate::tasks::seat::{Own, Seat};
use crate::tasks::target::{Target, Targets};
use crate::tasks::vacancies::Vacancies;
use crossbeam_deque::Stealer;
use engine::nearness::Nearness;
use engine::occupant::Occupant;
use engine::process::Born;
use engine::wait_point::WaitPoint;
use engine::worker::Worker;
use platform::sync::CachePadded;
use platform::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

/// See the module head.
pub(crate) struct Scheduler {
    pub(super) members: Box<[MemberState]>,
    pub(super) stealers: Box<[Stealer<NanoPtr>]>,
    pub(super) global: GlobalQueue,
    pub(super) idle: Idle,
    /// The members as those of a join: what they do when they find no task. `None`: there is one.
    pub(super) join_team: Option<Box<JoinTeam>>,
    /// Members other than 0 are parts that threads of a join or scope around take, and leave when
    /// they find nothing to do.
    pub(super) is_of_parts: bool,
    /// Such members' places whose threads have left.
    pub(super) vacancies: Vacancies,
    /// From which members a member steals first. Changes between scopes.
    pub(super) nearness: Nearness,
    /// Memory of plain tasks.
    pub(crate) store: Store<Nano>,
    /// Where the scope's region was forked.
    born: Born,
    /// The scope is over: members may go home.
    ended: AtomicBool,
    /// Something was cancelled: starts have to look what.
    cancelled: AtomicBool,
    /// What cancellers cancel.
    pub(super) targets: Targets,
    /// Spawners and completions of the scope's own handle.
    pub(crate) doors: Doors,
    /// Where the program made the scope.
    pub(super) place: &'static Location<'static>,
}

/// Schedulers that a thread keeps for its next scopes: nested scopes have different team sizes.
const SPARES: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Arc<Scheduler>>> = const { RefCell::new(Vec::new()) };
}

/// What a member has at the scheduler.
pub(super) struct MemberState {
    pub(super) own: CachePadded<Own>,
    /// Writers: the threads that make started nano-threads ready.
    pub(super) inbox: CachePadded<Inbox<TaskWait>>,
    /// Where the member sleeps.
    pub(super) point: CachePadded<WaitPoint>,
    /// Read by a member that waits long.
    pub(super) occupant: Occupant,
}

// SAFETY: - `own` is touched by the member's thread only, through `Seat`; the other fields are
// `Sync`.
unsafe impl Sync for MemberState {}
// SAFETY: - nano-threads in the queues are `Send`; started ones are there only while the team's
// threads run.
unsafe impl Send for MemberState {}

/// # Safety
/// - `scope` is a live scheduler.
unsafe fn wake_other(scope: *const (), member: usize) {
    // SAFETY: - caller's contract.
    let scheduler = unsafe { &*scope.cast::<Scheduler>() };
    scheduler.wake_one(scheduler.nearness.others(member, scheduler.members.len()));
}

/// # Safety
/// - `scope` is a live scheduler.
unsafe fn tasks_of(scope: *const (), member: usize) -> usize {
    // SAFETY: - caller's contract.
    unsafe { &*scope.cast::<Scheduler>() }.stealers[member].len()
}

#[cold]
fn end_child() -> ! {
    engine::forked::end_child(
        "this process was forked inside a task, or while its parent had a scope open, and goes on \
         with its parent's tasks, whose threads it does not have; a forked child must end, or \
         exec, before it leaves or waits in the task that it was forked in, and must not spawn \
         with a spawner of its parent's",
    )
}

impl Scheduler {
    /// The scheduler of a team of `size`.
    pub(crate) fn new(size: usize) -> Self {
        let members: Box<[MemberState]> = (0..size)
            .map(|_| MemberState {
                own: CachePadded::new(Own::new()),
                inbox: CachePadded::new(Inbox::new()),
                point: CachePadded::new(WaitPoint::new()),
                occupant: Occupant::default(),
            })
            .collect();
        Self {
            stealers: members.iter().map(|worker| worker.own.stealer()).collect(),
            members,
            global: GlobalQueue::new(),
            idle: Idle::new(size),
            join_team: (size > 1).then(|| JoinTeam::new(size)),
            is_of_parts: false,
            vacancies: Vacancies::new(size),
            nearness: Nearness::default(),
            store: Store::new(),
            born: Born::now(),
            ended: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            targets: Targets::new(),
            doors: Doors::new(),
            place: Location::caller(),
        }
    }

    /// A scheduler for a team of `size`, of the caller and `workers` where these are known: one
    /// that the calling thread used before, or a new one.
    #[track_caller]
    pub(crate) fn take(size: usize, workers: &[&'static Worker]) -> Arc<Self> {
        let place = Location::caller();
        let fits =
            |scheduler: &Arc<Self>| scheduler.members.len() == size && !scheduler.is_parents();
        // The store is gone while the thread's destructors run.
        let spare = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            let at = spare.iter().position(fits)?;
            Some(spare.swap_remove(at))
        });
        let mut scheduler = spare.ok().flatten().unwrap_or_else(|| {
            local::prepare();
            Arc::new(Self::new(size))
        });
        let scope = Arc::as_ptr(&scheduler).cast();
        if let Some(unique) = Arc::get_mut(&mut scheduler) {
            if let Some(join_team) = &mut unique.join_team {
                let hooks = ScopeHooks { scope, wake: wake_other, tasks: tasks_of };
                // SAFETY: - the join team is the scheduler's, which stays where it is; both
                //           functions take a scheduler.
                unsafe { join_team.serve(hooks, workers) };
            }
            unique.is_of_parts = workers.len() + 1 < size;
            unique.born = Born::now();
            unique.place = place;
            unique.nearness.update(workers);
        }
        scheduler
    }

    /// Keeps the scheduler of a scope that is over for the calling thread's next scope.
    pub(crate) fn give_back(mut scheduler: Arc<Self>) {
        if scheduler.is_parents() {
            // Other threads of the parent may have been changing it when this copy was made.
            std::mem::forget(scheduler);
            return;
        }
        // A completion on a foreign thread may still be on its way out: then the scheduler is that
        // thread's to drop.
        let Some(unique) = Arc::get_mut(&mut scheduler) else { return };
        // ORDERING: Relaxed - no other thread has the scheduler.
        unique.ended.store(false, Relaxed);
        // ORDERING: Relaxed - as above.
        unique.cancelled.store(false, Relaxed);
        unique.vacancies.clear();
        let trimmed = unique.store.trim();
        for worker in &unique.members {
            worker.own.reset(trimmed);
        }
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() == SPARES {
                spare.remove(0);
            }
            spare.push(scheduler);
        });
    }

    /// True in a child that was forked inside the scope: queues and locks are as the parent's other
    /// threads left them, and those threads do not exist here. Cost: two loads.
    #[inline]
    pub(super) fn is_parents(&self) -> bool {
        self.born.is_parents()
    }

    /// Ends such a child, when it wants to go on with what is its parent's.
    #[inline]
    pub(super) fn assert_own(&self) {
        if self.is_parents() {
            end_child();
        }
    }

    /// The place of member `index`.
    ///
    /// # Safety
    /// - The calling thread is that member of the team, and stays it while the seat is used.
    pub(crate) unsafe fn seat(&self, index: usize) -> Seat<'_> {
        Seat::new(self, index)
    }

    /// Lets all members go home. By member 0, when nothing is left to do.
    pub(crate) fn end(&self) {
        // ORDERING: Release - pairs with `has_ended`.
        self.ended.store(true, Release);
        for worker in &self.members {
            worker.point.notify_all();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        // ORDERING: Acquire - pairs with `end`.
        self.ended.load(Acquire)
    }

    /// From now on each start looks whether it was cancelled.
    pub(crate) fn note_cancellation(&self) {
        // ORDERING: Relaxed - a request (`Node::cancel`).
        self.cancelled.store(true, Relaxed);
    }

    /// What cancellers of the handle of `node` cancel. By the node's owner.
    pub(super) fn target_of(&self, node: &Node) -> Arc<Target> {
        let make = || Target::new(node, self, self.born);
        // In a child the table's lock may be one that a thread of the parent held.
        if self.is_parents() { make() } else { self.targets.of(node, make) }
    }

    /// `node` is about to end: cancellers find it no more. Cost: one load of its own line where it
    /// had none.
    #[inline]
    pub(crate) fn end_targets(&self, node: &Node) {
        // In a child they find it no more anyway.
        if node.is_target() && !self.is_parents() {
            self.targets.end(node);
        }
    }

    /// False in a child, too, where nodes above may be gone.
    pub(crate) fn may_be_cancelled(&self) -> bool {
        // ORDERING: Relaxed - a request (`Node::cancel`).
        self.cancelled.load(Relaxed) && !self.is_parents()
    }

    /// Queues an unstarted nano-thread from a thread that has no seat here.
    pub(crate) fn enqueue_from_outside(&self, nano: NanoPtr) {
        // SAFETY: - I1: the caller moves it on.
        match unsafe { nano.get() }.priority() {
            0 => self.global.push(nano),
            priority => self.global.push_ranked(nano, priority),
        }
        self.wake_one(0..self.members.len());
    }

    /// Gives up `shares` of `node`, and moves on what that makes ready. Returns what the caller
    /// should run at once.
    ///
    /// # Safety
    /// - The caller holds the shares. `seat`, if any, is the caller's.
    pub(crate) unsafe fn release(
        &self,
        seat: Option<Seat>,
        node: *const Node,
        shares: usize,
    ) -> Option<NanoPtr> {
        // SAFETY: - the shares keep it alive.
        let this = unsafe { &*node };
        let last = match seat {
            Some(_) => this.inputs.release_near(shares),
            None => this.inputs.release(shares),
        };
        // SAFETY: - that was the last share.
        if last { unsafe { self.move_on(seat, node) } } else { None }
    }

    /// Gives up `shares` of `node`, whose home is another member most likely; else as `release`.
    ///
    /// # Safety
    /// - As `release`.
    pub(super) unsafe fn release_far(
        &self,
        seat: Seat,
        node: *const Node,
        shares: usize,
    ) -> Option<NanoPtr> {
        // SAFETY: - the shares keep it alive.
        let last = unsafe { &*node }.inputs.release(shares);
        // SAFETY: - that was the last share.
        if last { unsafe { self.move_on(Some(seat), node) } } else { None }
    }

    /// Moves on what `node` belongs to. Returns what the caller should run at once.
    ///
    /// # Safety
    /// - The caller had the last share. `seat`, if any, is the caller's.
    pub(super) unsafe fn move_on(&self, seat: Option<Seat>, node: *const Node) -> Option<NanoPtr> {
        // SAFETY: - the last one keeps it alive until it is moved on.
        let this = unsafe { &*node };
        match this.phase() {
            Phase::Waiting => {
                // SAFETY: - the last share was the caller's.
                unsafe { self.wake(seat, node) };
                None
            }
            // SAFETY: - the last share of an ended nano-thread: we finish it.
            Phase::Ended => unsafe { self.finish(seat, Nano::of_node(node)) },
            phase => unreachable!("a {phase:?} nano-thread holds a share of its own"),
        }
    }

    /// Tells successors and parents that `first` is done, and parents of parents that are done by
    /// that. Returns a nano-thread that became ready: the caller runs it at once.
    ///
    /// # Safety
    /// - The caller had the last share of `first`, which has ended. `seat`, if any, is the
    ///   caller's.
    pub(crate) unsafe fn finish(&self, seat: Option<Seat>, first: NanoPtr) -> Option<NanoPtr> {
        let mut at_once = None;
        let mut nano = first;
        loop {
            // SAFETY: - caller's contract; later ones: `up` below.
            let this = unsafe { nano.get() };
            let payload = this.node.take_panic();
            if payload.is_some() {
                // What depends on it cannot count on what it was to do.
                this.skip();
            }
            // A plain task cannot be named as a predecessor, and it has no mutexes.
            if !this.is_plain() {
                // SAFETY: - caller's contract.
                unsafe { self.release_successors(seat, nano, &mut at_once) };
            }
            let up = this.node.up;
            // SAFETY: - we hold this nano-thread's share of its parent.
            let parent = unsafe { &*up };
            if let Some(payload) = payload {
                parent.keep_panic(payload);
            }
            self.end_targets(&this.node);
            // SAFETY: - it is finished, by us.
            unsafe { nano.release(seat.map(Seat::free_lists), &self.store) };
            let last = match seat {
                Some(seat) if seat.held().keep(up) => false,
                Some(seat) if parent.home() as usize == seat.index() => {
                    parent.inputs.release_near(1)
                }
                Some(seat) => {
                    seat.held().note(up);
                    parent.inputs.release(1)
                }
                None => parent.inputs.release(1),
            };
            if !last {
                return at_once;
            }
            match parent.phase() {
                Phase::Waiting => {
                    // SAFETY: - the last share was ours.
                    unsafe { self.wake(seat, up) };
                    return at_once;
                }
                // SAFETY: - an ended nano-thread's own node, of which we had the last share.
                Phase::Ended => nano = unsafe { Nano::of_node(up) },
                phase => unreachable!("a {phase:?} nano-thread holds a share of its own"),
            }
        }
    }

    /// Lets those go on that `nano`, which is finished, was in the way of.
    ///
    /// # Safety
    /// - As `finish`.
    unsafe fn release_successors(
        &self,
        seat: Option<Seat>,
        nano: NanoPtr,
        at_once: &mut Option<NanoPtr>,
    ) {
        // SAFETY: - it was started, or skipped: so it is inside its mutexes, and we finish it.
        unsafe { exclusive::leave(nano, |next| self.make_ready(seat, next, at_once)) };
        // SAFETY: - caller's contract.
        let this = unsafe { nano.get() };
        let skipped = this.is_skipped();
        this.close_successors(|next| {
            // SAFETY: - it waits for our share.
            let successor = unsafe { next.get() };
            if skipped {
                successor.skip();
            }
            if successor.node.inputs.release(1) {
                // SAFETY: - the last share of a new nano-thread: we move it on.
                unsafe { self.inputs_are_there(seat, next, at_once) };
            }
        });
    }

    /// The last input of `nano` arrived: passes its mutexes, then makes it ready.
    ///
    /// # Safety
    /// - The caller had the last share of `nano`, which is new.
    pub(crate) unsafe fn inputs_are_there(
        &self,
        seat: Option<Seat>,
        nano: NanoPtr,
        at_once: &mut Option<NanoPtr>,
    ) {
        // SAFETY: - caller's contract: no other thread holds a share.
        unsafe { nano.get() }.node.inputs.restore();
        // SAFETY: - caller's contract.
        if unsafe { exclusive::claim(nano) } {
            self.make_ready(seat, nano, at_once);
        }
    }

    fn make_ready(&self, seat: Option<Seat>, nano: NanoPtr, at_once: &mut Option<NanoPtr>) {
        match seat {
            Some(_) if at_once.is_none() => *at_once = Some(nano),
            Some(seat) => seat.enqueue(nano),
            None => self.enqueue_from_outside(nano),
        }
    }

    /// The owner of `node`, which waits, goes on at its home. No reference to the node is held: the
    /// owner may free it before this returns (I2 of `node`).
    ///
    /// # Safety
    /// - The caller had the last share of `node`, which is in the phase `Waiting`.
    unsafe fn wake(&self, seat: Option<Seat>, node: *const Node) {
        // SAFETY: - caller's contract: it is live until its owner is woken.
        let home = unsafe { (*node).home() } as usize;
        // SAFETY: - caller's contract.
        let wait = unsafe { (*node).wait() };
        match seat {
            // SAFETY: - it lasts until it is signalled (I3 of `node`).
            Some(seat) if seat.index() == home => seat.deliver(unsafe { &*wait }),
            _ => {
                let worker = &self.members[home];
                // SAFETY: - the last share was ours: no other thread wakes it, and it is live until
                // it is woken.
                unsafe { worker.inbox.push(wait) };
                // It is awake for this: work that is pushed now is for others.
                self.idle.take(home);
                worker.point.notify_all();
            }
        }
    }

    /// True when there is something unstarted that any member could run. Cost: some loads for each
    /// member.
    #[cold]
    pub(super) fn has_work(&self) -> bool {
        !self.global.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    /// Wakes the first of `candidates` that sleeps. After work was pushed.
    #[inline]
    pub(super) fn wake_one(&self, candidates: impl Iterator<Item = usize>) {
        self.idle.wake_one(candidates, |member| &self.members[member].point);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::ptr;

    fn taken() -> *const Scheduler {
        Arc::as_ptr(&Scheduler::take(1, &[]))
    }

    #[test]
    fn a_scheduler_is_kept_for_the_next_scope_unless_it_is_the_parents() {
        let parents = || {
            let mut scheduler = Scheduler::new(1);
            scheduler.born = Born::NOWHERE;
            Arc::new(scheduler)
        };
        let own = Scheduler::take(1, &[]);
        let address = Arc::as_ptr(&own);
        Scheduler::give_back(own);
        assert!(ptr::eq(taken(), address), "kept");
        let given = parents();
        let address = Arc::as_ptr(&given);
        Scheduler::give_back(given);
        // It is leaked: nothing else can be where it is.
        assert!(!ptr::eq(taken(), address), "given back by the child");
        let spare = parents();
        SPARE.with_borrow_mut(|spares| spares.push(Arc::clone(&spare)));
        assert!(!ptr::eq(taken(), Arc::as_ptr(&spare)), "given back before the fork");
    }
}
