//! A member's place at its scheduler: what it runs next, and how it runs it.
//!
//! # Who touches what
//! [`Own`]: the member's thread only, through a [`Seat`], which does not leave it. Invariants: see
//! [`scheduler`](super::scheduler).

use crate::engine;
use crate::local::local;
use crate::nano::descriptor::NanoPtr;
use crate::nano::node::{Node, Phase};
use crate::nano::ready::local::{Local, steal};
use crate::nano::ready::steal::near_first;
use crate::nano::scheduler::Scheduler;
use crate::scope;
use crate::wait_point::Look;
use crossbeam_deque::Stealer;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Turns with nothing but nano-threads that yield, between two offers of the processor to others.
const OFFER: u32 = 16;

/// Touched by the member's thread only.
pub(super) struct Own {
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

impl Own {
    pub(super) fn new() -> Self {
        Self {
            local: Local::new(),
            current: Cell::new(None),
            level: Cell::new(0),
            yields: Cell::new(false),
            idle_turns: Cell::new(0),
            created: Cell::new(0),
        }
    }

    /// The thieves' end of the member's queue.
    pub(super) fn stealer(&self) -> Stealer<NanoPtr> {
        self.local.stealer()
    }

    /// Starts to number anew: nobody runs.
    pub(super) fn forget_numbers(&self) {
        self.created.set(0);
    }
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
            idle.look(self.index)
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
            .or_else(|| {
                near_first(self.index, scheduler.members.len())
                    .find_map(|victim| steal(&scheduler.stealers[victim]))
                    .inspect(|_| crate::local::local().counters().stole())
            })
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

    pub(super) fn deliver(self, node: &Node) {
        if let Some(nano) = node.signal() {
            self.own().local.push_resumed(nano);
        }
    }
}
