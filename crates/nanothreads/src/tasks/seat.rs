//! A member's place at its scheduler. What it runs next is in `choice`, how it runs it in
//! `execution`, and what it does with threads around its scope in `company`.
//!
//! # What touches what
//! [`Own`]: the member's thread only, through a [`Seat`], which does not leave it. Invariants: see
//! [`scheduler`](super::scheduler).

use crate::join;
use crate::tasks::descriptor::NanoPtr;
use crate::tasks::fiber::Fiber;
use crate::tasks::held::Held;
use crate::tasks::node::TaskWait;
use crate::tasks::offers::{Offers, ScopeWork};
use crate::tasks::pool::FreeLists;
use crate::tasks::ready::local::LocalQueue;
use crate::tasks::scheduler::Scheduler;
use crossbeam_deque::Stealer;
use engine::local::{ForkContext, local};
use engine::work::{Member, Work};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

mod choice;
mod company;
mod execution;

/// Turns with nothing but nano-threads that yield, between two offers of the processor to others.
const OFFER: u32 = 16;

/// Touched by the member's thread only.
pub(super) struct Own {
    local: LocalQueue,
    /// What runs on the member now; `None`: its own stack.
    current: Cell<Option<NanoPtr>>,
    /// The fiber that was resumed last; `current` is on it, or on the member's own stack.
    fiber: Cell<*const Fiber>,
    /// How many regions were open when `current` was resumed. It may be switched away from at this
    /// level only: deeper, a region that it forked is open on the same kernel thread.
    level: Cell<u32>,
    /// The thread's count of pins ([`engine::local::Local::pin`]) at that time: likewise.
    pins: Cell<u32>,
    /// Where the member's thread forks as a member of the scope: for nano-threads, on top of any
    /// stack.
    place: Cell<Option<ForkContext>>,
    /// `current` goes away because it yields.
    yields: Cell<bool>,
    /// Turns that found nothing but those that yielded.
    idle_turns: Cell<u32>,
    /// Nano-threads that were created here.
    created: Cell<u64>,
    /// Fibers without a nano-thread.
    fibers: RefCell<Vec<*const Fiber>>,
    /// What a fiber that rests leaves to the loop that resumed it.
    handover: Cell<Option<NanoPtr>>,
    /// A waiter on a kernel thread's own stack may go on: the fiber is to rest.
    attention: Cell<bool>,
    /// The member's thread has better to do elsewhere.
    leaves: Cell<bool>,
    /// Places of the scope that it has offered to threads around.
    offers: Offers,
    /// What the member owes the creator of what it ran last.
    held: Held,
    free_lists: FreeLists,
}

/// Fibers that a member keeps for later; the stacks of more go back to the thread's pool.
const FIBERS: usize = 64;

impl Own {
    pub(super) fn new() -> Self {
        Self {
            local: LocalQueue::new(),
            current: Cell::new(None),
            fiber: Cell::new(std::ptr::null()),
            level: Cell::new(0),
            pins: Cell::new(0),
            place: Cell::new(None),
            yields: Cell::new(false),
            idle_turns: Cell::new(0),
            created: Cell::new(0),
            fibers: RefCell::default(),
            handover: Cell::new(None),
            attention: Cell::new(false),
            leaves: Cell::new(false),
            offers: Offers::default(),
            held: Held::new(),
            free_lists: FreeLists::default(),
        }
    }

    /// The thieves' end of the member's queue.
    pub(super) fn stealer(&self) -> Stealer<NanoPtr> {
        self.local.stealer()
    }

    /// Makes ready for another scope: nothing runs. `trimmed`: the memory of descriptors was given
    /// back.
    pub(super) fn reset(&self, trimmed: bool) {
        self.created.set(0);
        self.attention.set(false);
        debug_assert!(self.held.allows(std::ptr::null()), "the scope has waited for all shares");
        if trimmed {
            // The slabs that they were in are gone.
            self.free_lists.forget();
        }
    }
}

/// For the models, where the stack that is left is the member's own.
#[cfg(all(test, loom))]
impl Seat<'_> {
    /// As the loop that had resumed `nano`, once that was switched away from because it waits.
    ///
    /// # Safety
    /// - It was started on this thread.
    pub(super) unsafe fn note_pause(self, nano: NanoPtr) {
        // SAFETY: - caller's contract.
        unsafe { self.own().local.push_paused(nano, false) };
    }

    /// What may go on, if any.
    pub(super) fn next_due(self) -> Option<NanoPtr> {
        self.receive();
        self.own().local.pop_due()
    }
}

/// What a nano-thread's closure is called with: which one it is, and where it runs.
pub(super) struct Start<'a> {
    pub(super) nano: NanoPtr,
    pub(super) seat: Seat<'a>,
    /// On a fiber; on another stack it keeps that while it waits.
    pub(super) is_on_fiber: bool,
}

/// A member's place at its scheduler, on the member's thread.
#[derive(Clone, Copy)]
pub(crate) struct Seat<'a> {
    scheduler: &'a Scheduler,
    index: usize,
    /// Stays on its thread.
    here: PhantomData<*const ()>,
}

impl<'a> Seat<'a> {
    /// The place of member `index`, on its thread: `Scheduler::seat`.
    pub(super) fn new(scheduler: &'a Scheduler, index: usize) -> Self {
        Self { scheduler, index, here: PhantomData }
    }

    pub(crate) fn scheduler(self) -> &'a Scheduler {
        self.scheduler
    }

    /// The member's number.
    pub(crate) fn index(self) -> usize {
        self.index
    }

    fn own(self) -> &'a Own {
        &self.scheduler.members[self.index].own
    }

    /// The member of the scope's region.
    fn member(self) -> Member {
        let number =
            |number: usize| u32::try_from(number).expect("teams have less than 2^32 members");
        Member { id: number(self.index), size: number(self.scheduler.members.len()) }
    }

    /// A number for a nano-thread that is created here.
    pub(crate) fn next_number(self) -> u64 {
        let created = &self.own().created;
        created.set(created.get() + 1);
        created.get()
    }

    /// Where the member takes memory for plain tasks.
    pub(crate) fn free_lists(self) -> &'a FreeLists {
        &self.own().free_lists
    }

    /// What the member owes the creator of what it ran last.
    #[inline]
    pub(super) fn held(self) -> &'a Held {
        &self.own().held
    }

    /// Gives up all shares that the member keeps; false when there are none.
    pub(super) fn give_up_held(self) -> bool {
        let Some((node, shares)) = self.held().take() else { return false };
        // SAFETY: - kept for children that ended here; the seat is ours.
        if let Some(ready) = unsafe { self.scheduler.release_far(self, node, shares) } {
            self.enqueue(ready);
        }
        true
    }

    /// Gives up what the member must not keep while it runs `nano`.
    #[inline]
    fn prepare_for(self, nano: NanoPtr) {
        // SAFETY: - I1: it is ours.
        if !self.held().allows(unsafe { nano.get() }.node.up) {
            self.give_up_held();
        }
    }

    /// The other members, near ones first.
    #[inline]
    fn others(self) -> impl Iterator<Item = usize> + use<'a> {
        self.scheduler.nearness.others(self.index, self.scheduler.members.len())
    }

    /// Queues a plain task, and wakes a member that sleeps, near ones first.
    #[inline]
    pub(crate) fn enqueue_plain(self, nano: NanoPtr) {
        self.own().local.push(nano);
        self.call_for_members();
    }

    /// Queues an unstarted nano-thread, and wakes a member that sleeps, near ones first.
    #[inline]
    pub(crate) fn enqueue(self, nano: NanoPtr) {
        // SAFETY: - I1: the caller moves it on.
        match unsafe { nano.get() }.priority() {
            0 => self.own().local.push(nano),
            priority => self.scheduler.global.push_ranked(nano, priority),
        }
        self.call_for_members();
    }

    /// Something was queued: wakes a member that sleeps, near ones first, and offers places that
    /// threads have left.
    #[inline]
    fn call_for_members(self) {
        let scheduler = self.scheduler;
        scheduler.wake_one(self.others());
        if scheduler.is_of_parts && scheduler.vacancies.is_any() {
            self.own().offers.add(|| scheduler.vacancies.take());
        }
    }

    /// The member's thread comes to the scope's region, to run `work` with `data` there.
    pub(crate) fn enter(self, work: Work, data: *const ()) {
        let local = local();
        let own = self.own();
        own.place.set(Some(local.place()));
        own.leaves.set(false);
        if self.scheduler.is_of_parts {
            let region = local.membership();
            let place = (region.level, region.threads);
            own.offers.begin(join::around(), ScopeWork { work, data, place, size: region.size });
        }
        self.scheduler.members[self.index].occupant.is_me(local);
        if let Some(join_seat) = self.join_seat() {
            join_seat.is_here();
        }
    }

    /// What runs on the member now; `None`: the body of its scope, or nothing, on the member's own
    /// stack.
    #[inline]
    pub(crate) fn current(self) -> Option<NanoPtr> {
        self.own().current.get()
    }

    /// The nano-thread that runs here, if it may be switched away from now and is `nano`.
    pub(crate) fn can_switch_from(self, nano: NanoPtr) -> bool {
        let own = self.own();
        let local = local();
        own.current.get() == Some(nano)
            && own.level.get() == local.membership().level
            && own.pins.get() == local.pins()
    }

    /// The fiber that runs here. For what may be switched away from: `can_switch_from`.
    pub(crate) fn resumed(self) -> *const Fiber {
        self.own().fiber.get()
    }

    /// Says that the nano-thread that is about to be switched away from wants to go on later.
    pub(crate) fn note_yield(self) {
        self.own().yields.set(true);
    }

    pub(super) fn deliver(self, wait: &TaskWait) {
        match wait.signal() {
            // SAFETY: - it was switched away from on this thread, its home.
            Some(nano) => unsafe { self.own().local.resume(nano) },
            None => self.own().attention.set(true),
        }
    }
}
