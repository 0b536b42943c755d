//! The scheduler of one team: its ready queues, and what moves nano-threads on.
//!
//! # Who touches what
//! A member's own part (`Local`, `current`, `level`, ..) only through a [`Seat`], which exists on the member's thread only.
//! Everything else by anybody.
//!
//! # Invariants
//! I1  One nano-thread is moved on by one party at a time: the creator, then the queue that holds it, then the member that
//!     took it, then whoever gives the last share of its counter up.
//! I2  A member runs nothing but what was created below the scope whose scheduler this is: a waiter never runs strangers'
//!     work.

use crate::engine;
use crate::local::local;
use crate::nano::descriptor::{Nano, NanoPtr};
use crate::nano::exclusive;
use crate::nano::node::{Node, Phase};
use crate::nano::ready::global::Global;
use crate::nano::ready::idle::Idle;
use crate::nano::ready::inbox::Inbox;
use crate::nano::ready::local::{Local, steal};
use crate::nano::ready::steal::near_first;
use crate::scope;
use crate::wait_point::{Look, WaitPoint};
use crossbeam_deque::Stealer;
use platform::membarrier;
use platform::sync::CachePadded;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::{Acquire, Relaxed, Release}};

/// See the module head.
pub(crate) struct Scheduler {
    members: Box<[Worker]>,
    stealers: Box<[Stealer<NanoPtr>]>,
    global: Global,
    idle: Idle,
    /// The scope is over: members may go home.
    ended: AtomicBool,
    /// Somebody cancelled something: starts have to look who.
    cancelled: AtomicBool,
}

/// Turns with nothing but nano-threads that yield, between two offers of the processor to others.
const OFFER: u32 = 16;

/// What a member has at the scheduler.
struct Worker {
    own: CachePadded<Own>,
    /// Writers: those who make started nano-threads ready.
    inbox: CachePadded<Inbox<Node>>,
    /// Where the member sleeps.
    point: CachePadded<WaitPoint>,
}

/// Touched by the member's thread only.
struct Own {
    local: Local,
    /// What runs on the member now; `None`: its own stack.
    current: Cell<Option<NanoPtr>>,
    /// How many regions were open when `current` was resumed. It may be switched away from at this level only: deeper, a
    /// region that it forked is open on the same kernel thread.
    level: Cell<u32>,
    /// `current` goes away because it yields.
    yields: Cell<bool>,
    /// Turns that found nothing but those that yielded.
    idle_turns: Cell<u32>,
    /// Nano-threads that were created here.
    created: Cell<u64>,
}

// SAFETY: - `own` is touched by the member's thread only, through `Seat`; the other fields are `Sync`.
unsafe impl Sync for Worker {}
// SAFETY: - nano-threads in the queues are `Send`; started ones are there only while the team's threads run.
unsafe impl Send for Worker {}

/// A member's place at its scheduler, on the member's thread.
#[derive(Clone, Copy)]
pub(crate) struct Seat<'a> {
    scheduler: &'a Scheduler,
    index: usize,
    /// Stays on its thread.
    here: PhantomData<*const ()>,
}

impl Scheduler {
    /// The scheduler of a team of `size`.
    pub(crate) fn new(size: usize) -> Self {
        let members: Box<[Worker]> = (0..size)
            .map(|_| Worker {
                own: CachePadded::new(Own {
                    local: Local::new(),
                    current: Cell::new(None),
                    level: Cell::new(0),
                    yields: Cell::new(false),
                    idle_turns: Cell::new(0),
                    created: Cell::new(0),
                }),
                inbox: CachePadded::new(Inbox::new()),
                point: CachePadded::new(WaitPoint::new()),
            })
            .collect();
        Self {
            stealers: members.iter().map(|worker| worker.own.local.stealer()).collect(),
            members,
            global: Global::new(),
            idle: Idle::new(size),
            ended: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
        }
    }

    /// The place of member `index`.
    ///
    /// # Safety
    /// - The calling thread is that member of the team, and stays it while the seat is used.
    pub(crate) unsafe fn seat(&self, index: usize) -> Seat<'_> {
        Seat { scheduler: self, index, here: PhantomData }
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

    pub(crate) fn may_be_cancelled(&self) -> bool {
        // ORDERING: Relaxed - as above.
        self.cancelled.load(Relaxed)
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

    /// Gives up `shares` of `node`, and moves on what that makes ready. Returns what the caller should run at once.
    ///
    /// # Safety
    /// - The caller holds the shares. `seat`, if any, is the caller's.
    pub(crate) unsafe fn release(&self, seat: Option<Seat>, node: *const Node, shares: usize) -> Option<NanoPtr> {
        // SAFETY: - the shares keep it alive.
        let this = unsafe { &*node };
        if !this.inputs.release(shares) {
            return None;
        }
        match this.phase() {
            Phase::Waiting => {
                self.wake(seat, this);
                None
            }
            // SAFETY: - the last share of an ended nano-thread: we finish it.
            Phase::Ended => unsafe { self.finish(seat, Nano::of_node(node)) },
            phase => unreachable!("a {phase:?} nano-thread holds a share of its own"),
        }
    }

    /// Tells successors and parents that `first` is done, and parents of parents that are done by that. Returns a
    /// nano-thread that became ready: the caller runs it at once.
    ///
    /// # Safety
    /// - The caller had the last share of `first`, which has ended. `seat`, if any, is the caller's.
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
            // SAFETY: - it was started, or skipped: so it is inside its turnstiles, and we finish it.
            unsafe { exclusive::leave(nano, |next| self.make_ready(seat, next, &mut at_once)) };
            let skipped = this.is_skipped();
            this.successors.close(|next| {
                // SAFETY: - it waits for our share.
                let successor = unsafe { next.get() };
                if skipped {
                    successor.skip();
                }
                if successor.node.inputs.release(1) {
                    // SAFETY: - the last share of a new nano-thread: we move it on.
                    unsafe { self.inputs_are_there(seat, next, &mut at_once) };
                }
            });
            let up = this.node.up;
            // SAFETY: - we hold this nano-thread's share of its parent.
            let parent = unsafe { &*up };
            if let Some(payload) = payload {
                parent.keep_panic(payload);
            }
            // SAFETY: - it is finished, by us.
            unsafe { nano.release() };
            if !parent.inputs.release(1) {
                return at_once;
            }
            match parent.phase() {
                Phase::Waiting => {
                    self.wake(seat, parent);
                    return at_once;
                }
                // SAFETY: - an ended nano-thread's own node, of which we had the last share.
                Phase::Ended => nano = unsafe { Nano::of_node(up) },
                phase => unreachable!("a {phase:?} nano-thread holds a share of its own"),
            }
        }
    }

    /// The last input of `nano` arrived: passes its turnstiles, then makes it ready.
    ///
    /// # Safety
    /// - The caller had the last share of `nano`, which is new.
    pub(crate) unsafe fn inputs_are_there(&self, seat: Option<Seat>, nano: NanoPtr, at_once: &mut Option<NanoPtr>) {
        // SAFETY: - caller's contract: nobody else holds a share.
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

    /// The owner of `node`, which waits, goes on at its home.
    fn wake(&self, seat: Option<Seat>, node: &Node) {
        let home = node.home() as usize;
        match seat {
            Some(seat) if seat.index == home => seat.deliver(node),
            _ => {
                let worker = &self.members[home];
                // SAFETY: - the last share was ours: nobody else wakes it, and it is live until it is woken.
                unsafe { worker.inbox.push(node) };
                // It is awake for this: work that is pushed now is for others.
                self.idle.take(home);
                worker.point.notify_all();
            }
        }
    }

    /// Wakes the first of `candidates` that sleeps. After work was pushed. Cost when all are busy: two loads.
    #[inline]
    fn wake_one(&self, candidates: impl Iterator<Item = usize>) {
        membarrier::light();
        if self.idle.is_any() {
            self.wake_first_sleeper(candidates);
        }
    }

    #[cold]
    fn wake_first_sleeper(&self, mut candidates: impl Iterator<Item = usize>) {
        let point = |member: usize| &self.members[member].point;
        let is_ours = |&member: &usize| {
            self.idle.contains(member) && point(member).has_sleepers() && self.idle.take(member)
        };
        if let Some(member) = candidates.find(is_ours) {
            point(member).wake_sleepers();
        }
    }
}

impl<'a> Seat<'a> {
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

    /// A number for a nano-thread that is created here.
    pub(crate) fn next_number(self) -> u64 {
        let created = &self.own().created;
        created.set(created.get() + 1);
        created.get()
    }

    /// Queues an unstarted nano-thread, and wakes a member that sleeps, near ones first.
    #[inline]
    pub(crate) fn enqueue(self, nano: NanoPtr) {
        // SAFETY: - I1: the caller moves it on.
        match unsafe { nano.get() }.priority() {
            0 => self.own().local.push(nano),
            priority => self.scheduler.global.push_ranked(nano, priority),
        }
        self.scheduler.wake_one(near_first(self.index, self.scheduler.members.len()));
    }

    /// Runs what there is until `done` holds; sleeps while there is nothing.
    pub(crate) fn work_until(self, done: impl Fn() -> bool) {
        while !done() {
            if let Some(nano) = self.pick().or_else(|| self.wait_for_work(&done)) {
                self.run(nano);
            }
        }
    }

    /// Lets one other nano-thread run on top of the caller's stack, if any is ready.
    pub(crate) fn run_another(self) {
        if let Some(nano) = self.pick() {
            self.run(nano);
        }
    }

    #[cold]
    fn wait_for_work(self, done: &impl Fn() -> bool) -> Option<NanoPtr> {
        let mut found = None;
        let idle = &self.scheduler.idle;
        engine::wait_looking(&self.scheduler.members[self.index].point, || {
            found = self.pick();
            if found.is_some() || done() {
                return Look::Ready;
            }
            if idle.contains(self.index) {
                return Look::Pending;
            }
            // Looks once more before any sleep: I1 in `Idle`.
            idle.enter(self.index);
            Look::Progress
        });
        idle.take(self.index);
        found
    }

    /// What to run next; see `ready/README.md` for the order.
    fn pick(self) -> Option<NanoPtr> {
        let scheduler = self.scheduler;
        let own = self.own();
        // SAFETY: - this member's inbox, on its thread; drained nodes are live until they are delivered.
        unsafe { scheduler.members[self.index].inbox.drain(|node| self.deliver(&*node)) };
        scheduler
            .global
            .pop_above(0)
            .or_else(|| own.local.pop_due())
            .or_else(|| own.local.pop())
            .or_else(|| scheduler.global.pop())
            .or_else(|| near_first(self.index, scheduler.members.len()).find_map(|victim| steal(&scheduler.stealers[victim])))
            .or_else(|| scheduler.global.pop_any_ranked())
            .or_else(|| {
                let nano = own.local.pop_yielded()?;
                own.idle_turns.set(own.idle_turns.get().wrapping_add(1));
                if own.idle_turns.get().is_multiple_of(OFFER) {
                    // Nothing else to do here for a while: perhaps for who shares the processor.
                    std::thread::yield_now();
                }
                Some(nano)
            })
    }

    /// Runs `nano`, then what becomes ready by its end.
    fn run(self, nano: NanoPtr) {
        let mut next = Some(nano);
        while let Some(nano) = next {
            next = self.run_one(nano);
            if let Some(successor) = next
                // SAFETY: - I1: it is ours.
                && self.scheduler.global.has_above(unsafe { successor.get() }.priority().max(0))
            {
                self.enqueue(successor);
                return;
            }
        }
    }

    /// Runs `nano` until it suspends or ends. Returns what became ready by its end.
    fn run_one(self, nano: NanoPtr) -> Option<NanoPtr> {
        // SAFETY: - I1: taken from a queue.
        let this = unsafe { nano.get() };
        let ended = if this.is_started() || self.start(nano) { self.resume(nano) } else { true };
        if !ended {
            if self.own().yields.take() {
                self.own().local.push_yielded(nano);
            }
            return None;
        }
        this.node.set_phase(Phase::Ended);
        // SAFETY: - its own shares; the seat is ours.
        unsafe { self.scheduler.release(Some(self), nano.node(), this.node.own_shares()) }
    }

    fn resume(self, nano: NanoPtr) -> bool {
        let own = self.own();
        let current = own.current.replace(Some(nano));
        let level = own.level.replace(local().membership().level);
        // SAFETY: - started here, and taken from a queue: so it is suspended.
        let ended = unsafe { nano.get().resume() };
        own.current.set(current);
        own.level.set(level);
        ended
    }

    /// Gives `nano` a stack; false when it ended by that, because it is not to run or had to run without one.
    fn start(self, nano: NanoPtr) -> bool {
        // SAFETY: - I1: taken from a queue.
        let this = unsafe { nano.get() };
        let home = u32::try_from(self.index).expect("teams have less than 2^32 members");
        // SAFETY: - the nano-thread holds a share of the node above it.
        let cancelled = || self.scheduler.may_be_cancelled() && unsafe { (*this.node.up).is_cancelled() };
        if this.is_skipped() || cancelled() {
            this.node.start(home);
            // Destructors of what the closure captured may panic.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(this.take_body()))) {
                this.fail(payload);
            }
            return false;
        }
        // SAFETY: - taken from a queue by this member, and not started; `run_body` does not unwind.
        match unsafe { this.start(nano, home, scope::run_on_own_stack) } {
            Ok(()) => true,
            Err(error) => {
                static ONCE: Once = Once::new();
                ONCE.call_once(|| {
                    eprintln!(
                        "nanos: no stack for a nano-thread ({error}); such ones run on their virtual processor's stack, and \
                         keep it while they wait. Smaller stacks, or a larger vm.max_map_count, avoid that"
                    );
                });
                this.node.start(home);
                scope::run_on_members_stack(nano);
                false
            }
        }
    }

    /// The nano-thread that runs here, if it may be switched away from now and is `strand`.
    pub(crate) fn can_switch_from(self, strand: NanoPtr) -> bool {
        let own = self.own();
        own.current.get() == Some(strand) && own.level.get() == local().membership().level
    }

    /// Says that the nano-thread that is about to be switched away from wants to go on later.
    pub(crate) fn note_yield(self) {
        self.own().yields.set(true);
    }

    fn deliver(self, node: &Node) {
        if let Some(nano) = node.signal() {
            self.own().local.push_resumed(nano);
        }
    }
}
