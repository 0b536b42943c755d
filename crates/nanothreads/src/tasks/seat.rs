//! A member's place at its scheduler: what it runs next, and how it runs it.
//!
//! # What touches what
//! [`Own`]: the member's thread only, through a [`Seat`], which does not leave it. Invariants: see
//! [`scheduler`](super::scheduler).

use crate::join;
use crate::tasks::carrier::{Carrier, Rest};
use crate::tasks::descriptor::NanoPtr;
use crate::tasks::held::Held;
use crate::tasks::node::{Node, Phase};
use crate::tasks::offers::{Offers, Part};
use crate::tasks::pool::Shelf;
use crate::tasks::ready::local::{Local, steal};
use crate::tasks::scheduler::Scheduler;
use crossbeam_deque::Stealer;
use engine::local::{Place, local};
use engine::patience;
use engine::safe_point;
use engine::wait_point::Look;
use engine::work::{Member, Work};
use platform::clock::Ticks;
use platform::message::say;
use platform::{SysError, SysResult};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

mod company;

/// Turns with nothing but nano-threads that yield, between two offers of the processor to others.
const OFFER: u32 = 16;

/// Touched by the member's thread only.
pub(super) struct Own {
    local: Local,
    /// What runs on the member now; `None`: its own stack.
    current: Cell<Option<NanoPtr>>,
    /// How many regions were open when `current` was resumed. It may be switched away from at this
    /// level only: deeper, a region that it forked is open on the same kernel thread.
    level: Cell<u32>,
    /// The thread's count of pins ([`engine::local::Local::pin`]) at that time: likewise.
    pins: Cell<u32>,
    /// Where the member's thread forks as a member of the scope: for nano-threads, on top of any
    /// stack.
    place: Cell<Option<Place>>,
    /// `current` goes away because it yields.
    yields: Cell<bool>,
    /// Turns that found nothing but those that yielded.
    idle_turns: Cell<u32>,
    /// Nano-threads that were created here.
    created: Cell<u64>,
    /// Carriers without a nano-thread.
    carriers: RefCell<Vec<*const Carrier>>,
    /// What a carrier that rests leaves to the loop that resumed it.
    handover: Cell<Option<NanoPtr>>,
    /// A waiter on a kernel thread's own stack may go on: the carrier is to rest.
    attention: Cell<bool>,
    /// The member's thread has better to do elsewhere.
    leaves: Cell<bool>,
    /// Places of the scope that it has offered to threads around.
    offers: Offers,
    /// What the member owes the creator of what it ran last.
    held: Held,
    shelf: Shelf,
}

/// Carriers that a member keeps for later; the stacks of more go back to the thread's pool.
const CARRIERS: usize = 64;

impl Own {
    pub(super) fn new() -> Self {
        Self {
            local: Local::new(),
            current: Cell::new(None),
            level: Cell::new(0),
            pins: Cell::new(0),
            place: Cell::new(None),
            yields: Cell::new(false),
            idle_turns: Cell::new(0),
            created: Cell::new(0),
            carriers: RefCell::default(),
            handover: Cell::new(None),
            attention: Cell::new(false),
            leaves: Cell::new(false),
            offers: Offers::default(),
            held: Held::new(),
            shelf: Shelf::default(),
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
            self.shelf.take_all();
        }
    }
}

/// What a nano-thread's closure is called with: which one it is, and where it runs.
pub(super) struct Start<'a> {
    pub(super) nano: NanoPtr,
    pub(super) seat: Seat<'a>,
    /// On a carrier; on another stack it keeps that while it waits.
    pub(super) is_carried: bool,
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
    pub(crate) fn shelf(self) -> &'a Shelf {
        &self.own().shelf
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

    /// Runs what there is until `done` holds; sleeps while there is nothing.
    /// What was started meanwhile on this thread has ended then, too, unless it is suspendable.
    pub(crate) fn work_until(self, done: impl Fn() -> bool) {
        let floor = self.own().local.begin_wait();
        self.work(done);
        self.own().local.end_wait(floor);
    }

    fn work(self, done: impl Fn() -> bool) {
        let own = self.own();
        let may_go = || done() && own.local.is_level();
        while !may_go() {
            if done() {
                // What ends now may be the last one in the way: its carrier is to rest.
                own.attention.set(true);
            }
            if let Some(nano) = self.pick().or_else(|| self.wait_for_work(&may_go)) {
                self.run(nano);
            }
        }
        self.give_up_held();
        self.pass_attention_on();
    }

    /// Lets one other nano-thread run on top of the caller's stack, if any is ready, and those that
    /// it lets run, to their ends.
    pub(crate) fn run_another(self) {
        let floor = self.own().local.begin_wait();
        if let Some(nano) = self.pick() {
            self.run(nano);
        }
        self.work(|| true);
        self.own().local.end_wait(floor);
    }

    /// The caller has let others run on top of its stack. On a carrier that stack is on top of
    /// another one, where a nano-thread may wait as well: a carrier above may have rested for the
    /// sake of that one, and this one is to rest, too.
    fn pass_attention_on(self) {
        let own = self.own();
        if own.current.get().is_some() {
            own.attention.set(true);
        }
    }

    #[cold]
    fn wait_for_work(self, done: &impl Fn() -> bool) -> Option<NanoPtr> {
        let mut found = None;
        let idle = &self.scheduler.idle;
        let local = local();
        let crowd = local.membership().crowd;
        let begin = self.scheduler.is_of_parts.then(Ticks::now);
        let look_around = || {
            let members =
                self.others().filter_map(|member| self.scheduler.members[member].occupant.thread());
            patience::beside(local, crowd, members)
        };
        patience::wait(
            &self.scheduler.members[self.index].point,
            local,
            crowd,
            look_around,
            || {
                found = self.pick();
                if found.is_some() || done() {
                    return Look::Ready;
                }
                if self.run_half(done) {
                    return Look::Progress;
                }
                if let Some(begin) = begin
                    && self.is_free()
                    && self.lingers_since(begin)
                {
                    return if done() { Look::Ready } else { Look::Progress };
                }
                idle.look(self.index)
            },
        );
        if !idle.take(self.index) && self.scheduler.has_work() {
            // Another member woke this one for that, and it goes on with something else (I5 of
            // `crate::idle`).
            self.scheduler.wake_one(self.others());
        }
        found
    }

    /// Delivers what others put into the member's inbox.
    #[inline]
    pub(super) fn receive(self) {
        // SAFETY: - this member's inbox, on its thread; drained nodes are live until they are
        // delivered.
        unsafe { self.scheduler.members[self.index].inbox.drain(|node| self.deliver(&*node)) };
    }

    /// What to run next; see `ready/README.md` for the order.
    fn pick(self) -> Option<NanoPtr> {
        let scheduler = self.scheduler;
        scheduler.assert_own();
        let own = self.own();
        self.receive();
        scheduler
            .global
            .pop_above(0)
            .or_else(|| own.local.pop_due())
            .or_else(|| own.local.pop())
            .or_else(|| scheduler.global.pop())
            .or_else(|| {
                self.others()
                    .find_map(|victim| steal(&scheduler.stealers[victim]))
                    .inspect(|_| engine::local::local().counters().stole())
            })
            .or_else(|| scheduler.global.pop_any_ranked())
            .or_else(|| {
                let nano = own.local.pop_yielded()?;
                own.idle_turns.set(own.idle_turns.get().wrapping_add(1));
                if own.idle_turns.get().is_multiple_of(OFFER) {
                    // Nothing else to do here for a while: perhaps for a thread that shares the
                    // processor.
                    std::thread::yield_now();
                }
                Some(nano)
            })
            .or_else(|| {
                if self.give_up_held() {
                    own.local.pop_due().or_else(|| own.local.pop())
                } else {
                    None
                }
            })
    }

    /// The member's thread comes to the scope's region, to run `work` with `data` there.
    pub(crate) fn enter(self, work: Work, data: *const ()) {
        let local = local();
        let own = self.own();
        own.place.set(Some(local.place()));
        own.leaves.set(false);
        if self.scheduler.is_of_parts {
            let region = local.membership();
            let place = (region.level, region.crowd);
            own.offers.begin(join::around(), Part { work, data, place, size: region.size });
        }
        self.scheduler.members[self.index].occupant.is_me(local);
        if let Some(mate) = self.mate() {
            mate.is_here();
        }
    }

    /// Runs `nano`, and what its carrier leaves to this loop, on top of the caller's stack.
    fn run(self, nano: NanoPtr) {
        let _visit = self.own().place.get().and_then(|place| local().go_to(place));
        // A region that is open on the caller's stack is none of the nano-thread's.
        let _shown = local().show_as(self.member());
        let _here = self.mate().map(join::at);
        let mut next = Some(nano);
        while let Some(nano) = next {
            // SAFETY: - I1: taken from a queue, or left to us by a carrier.
            let this = unsafe { nano.get() };
            next = if this.is_started() {
                self.resume(this.carrier(), nano)
            } else {
                match self.carrier(this.stack_size()) {
                    Ok(carrier) => {
                        // SAFETY: - idle, or new: ours.
                        unsafe { &*carrier }.give(nano);
                        self.resume(carrier, nano)
                    }
                    Err(error) => {
                        warn_of_stacks(&error);
                        let successor = self.run_here(nano, None);
                        self.unless_outranked(successor)
                    }
                }
            };
        }
    }

    /// A carrier for a nano-thread that asked for `size` bytes of stack.
    fn carrier(self, size: usize) -> SysResult<*const Carrier> {
        if size == 0
            && let Some(carrier) = self.own().carriers.borrow_mut().pop()
        {
            return Ok(carrier);
        }
        // SAFETY: - the seat stays on its thread; `retire` ends those that are kept, before the
        // scope ends.
        unsafe { Carrier::start(size, move |carrier| self.carry(carrier)) }
    }

    /// Lets `carrier` run until it gives control back; returns what it leaves to us.
    fn resume(self, carrier: *const Carrier, nano: NanoPtr) -> Option<NanoPtr> {
        let own = self.own();
        self.prepare_for(nano);
        let current = own.current.replace(Some(nano));
        let level = own.level.replace(local().membership().level);
        let pins = own.pins.replace(local().pins());
        // SAFETY: - idle, or that of a suspended nano-thread which is ours to move on.
        let rest = unsafe { Carrier::resume(carrier) };
        let last = own.current.replace(current);
        own.level.set(level);
        own.pins.set(pins);
        match rest {
            Rest::Suspended => {
                let yields = own.yields.take();
                if let Some(last) = last {
                    // SAFETY: - it runs on this thread, and was switched away from just now.
                    unsafe { own.local.push_paused(last, yields) };
                }
                return None;
            }
            Rest::Idle => self.keep(carrier),
            Rest::Returned => {}
        }
        own.handover.take()
    }

    fn keep(self, carrier: *const Carrier) {
        let mut carriers = self.own().carriers.borrow_mut();
        if carriers.len() < CARRIERS {
            carriers.push(carrier);
        } else {
            // SAFETY: - idle, and nothing was given to it: it returns.
            unsafe { Carrier::resume(carrier) };
        }
    }

    /// The member's thread is done with the scope, which is over or left: ends its carriers.
    pub(crate) fn retire(self) {
        self.own().offers.settle();
        for carrier in self.own().carriers.take() {
            // SAFETY: - idle, and nothing was given to it: it returns.
            unsafe { Carrier::resume(carrier) };
        }
    }

    /// What a carrier does on its stack.
    pub(super) fn carry(self, carrier: &Carrier) {
        while let Some(first) = carrier.take_next() {
            let mut next = Some(first);
            while let Some(nano) = next {
                let successor = self.run_here(nano, Some(carrier));
                next = self.next_on(carrier, successor);
            }
            if carrier.is_single() {
                return;
            }
            // SAFETY: - this is its stack.
            unsafe { carrier.rest() };
        }
    }

    /// What `carrier` runs next. `None`: it is to rest; what comes next is left to the loop that
    /// resumed it.
    #[inline]
    fn next_on(self, carrier: &Carrier, successor: Option<NanoPtr>) -> Option<NanoPtr> {
        let own = self.own();
        let next = self
            .unless_outranked(successor)
            .or_else(|| if own.attention.take() { None } else { self.pick() })?;
        // SAFETY: - I1: it is ours.
        let this = unsafe { next.get() };
        if this.is_started() || this.stack_size() != 0 || carrier.is_single() {
            own.handover.set(Some(next));
            return None;
        }
        Some(next)
    }

    /// `successor`, unless one with a higher priority waits: then it queues.
    #[inline]
    fn unless_outranked(self, successor: Option<NanoPtr>) -> Option<NanoPtr> {
        let successor = successor?;
        // SAFETY: - I1: it is ours.
        if self.scheduler.global.has_above(unsafe { successor.get() }.priority().max(0)) {
            self.enqueue(successor);
            return None;
        }
        Some(successor)
    }

    /// Runs an unstarted nano-thread to its end, on the stack of `carrier`, or on the member's own.
    /// Returns what became ready by its end.
    #[inline]
    pub(super) fn run_here(self, nano: NanoPtr, carrier: Option<&Carrier>) -> Option<NanoPtr> {
        // SAFETY: - I1: taken from a queue.
        let this = unsafe { nano.get() };
        safe_point::between_pieces();
        self.prepare_for(nano);
        #[expect(clippy::cast_possible_truncation, reason = "teams have less than 2^32 members")]
        this.node.start(self.index as u32);
        // SAFETY: - the nano-thread holds a share of the node above it.
        let cancelled =
            || self.scheduler.may_be_cancelled() && unsafe { (*this.node.up).is_cancelled() };
        if this.is_skipped() || cancelled() {
            // Destructors of what the closure captured may panic.
            // SAFETY: - ours, and not called.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unsafe { this.discard_body() }))
            {
                this.fail(payload);
            }
        } else if let Some(carrier) = carrier {
            carrier.label(this);
            this.set_carrier(carrier);
            self.own().current.set(Some(nano));
            call_body(nano, self, true);
        } else {
            let below = self.own().current.replace(Some(nano));
            call_body(nano, self, false);
            self.own().current.set(below);
        }
        // The body may have forked, and this be the child: what waits for the nano-thread waits in
        // the parent.
        self.scheduler.assert_own();
        this.node.set_phase(Phase::Ended);
        // SAFETY: - its own shares; the seat is ours.
        unsafe { self.scheduler.release(Some(self), nano.node(), this.node.own_shares()) }
    }

    /// What runs on the member now; `None`: the body of its scope, or nothing, on the member's own
    /// stack.
    #[inline]
    pub(crate) fn current(self) -> Option<NanoPtr> {
        self.own().current.get()
    }

    /// The nano-thread that runs here, if it may be switched away from now and is `strand`.
    pub(crate) fn can_switch_from(self, strand: NanoPtr) -> bool {
        let own = self.own();
        let local = local();
        own.current.get() == Some(strand)
            && own.level.get() == local.membership().level
            && own.pins.get() == local.pins()
    }

    /// Says that the nano-thread that is about to be switched away from wants to go on later.
    pub(crate) fn note_yield(self) {
        self.own().yields.set(true);
    }

    pub(super) fn deliver(self, node: &Node) {
        match node.signal() {
            // SAFETY: - it was switched away from on this thread, its home.
            Some(nano) => unsafe { self.own().local.resume(nano) },
            None => self.own().attention.set(true),
        }
    }
}

/// Calls the closure of a nano-thread that was started just now by `seat`'s member, and is current
/// there. `is_carried`: as in [`Start`].
#[inline]
fn call_body(nano: NanoPtr, seat: Seat, is_carried: bool) {
    // SAFETY: - it was started by the calling thread, and does not end before this returns.
    let this = unsafe { nano.get() };
    let start = Start { nano, seat, is_carried };
    // SAFETY: - started just now, once; the closure was made for a start (`scope::call_of`).
    let run = || unsafe { this.call_body(ptr::from_ref(&start).cast()) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        this.fail(payload);
    }
}

#[cold]
fn warn_of_stacks(error: &SysError) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !SAID.swap(true, Relaxed) {
        say(format_args!(
            "nanos: no stack for a nano-thread ({error}); such ones run on their worker's stack, \
             and keep it while they wait. Smaller stacks, or a larger vm.max_map_count, avoid that"
        ));
    }
}
