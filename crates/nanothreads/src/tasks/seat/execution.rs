//! How a member runs a nano-thread to its end or its next wait: on a fiber, or on its own stack.

use super::{FIBERS, Seat, Start};
use crate::join;
use crate::tasks::descriptor::NanoPtr;
use crate::tasks::fiber::{Fiber, Rest};
use crate::tasks::node::Phase;
use engine::local::local;
use engine::safe_point;
use platform::message::say;
use platform::{SysError, SysResult};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

impl Seat<'_> {
    /// Runs `nano`, and what its fiber leaves to this loop, on top of the caller's stack.
    pub(super) fn run(self, nano: NanoPtr) {
        let _visit = self.own().place.get().and_then(|place| local().go_to(place));
        // A region that is open on the caller's stack is none of the nano-thread's.
        let _shown = local().show_as(self.member());
        let _here = self.join_seat().map(join::at);
        let mut next = Some(nano);
        while let Some(nano) = next {
            // SAFETY: - I1: taken from a queue, or left to us by a fiber.
            let this = unsafe { nano.get() };
            next = if this.is_started() {
                // SAFETY: - started ones that are left to us or queued are suspended.
                self.resume(unsafe { this.fiber() }, nano)
            } else {
                match self.fiber(this.stack_size()) {
                    Ok(fiber) => {
                        // SAFETY: - idle, or new: ours.
                        unsafe { &*fiber }.give(nano);
                        self.resume(fiber, nano)
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

    /// A fiber for a nano-thread that asked for `size` bytes of stack.
    fn fiber(self, size: usize) -> SysResult<*const Fiber> {
        if size == 0
            && let Some(fiber) = self.own().fibers.borrow_mut().pop()
        {
            return Ok(fiber);
        }
        // SAFETY: - the seat stays on its thread; `retire` ends those that are kept, before the
        // scope ends.
        unsafe { Fiber::start(size, move |fiber| self.serve(fiber)) }
    }

    /// Lets `fiber` run until it gives control back; returns what it leaves to us.
    fn resume(self, fiber: *const Fiber, nano: NanoPtr) -> Option<NanoPtr> {
        let own = self.own();
        self.prepare_for(nano);
        let current = own.current.replace(Some(nano));
        let below = own.fiber.replace(fiber);
        let level = own.level.replace(local().membership().level);
        let pins = own.pins.replace(local().pins());
        // SAFETY: - idle, or that of a suspended nano-thread which is ours to move on.
        let rest = unsafe { Fiber::resume(fiber) };
        let last = own.current.replace(current);
        own.fiber.set(below);
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
            Rest::Idle => self.keep(fiber),
            Rest::Returned => {}
        }
        own.handover.take()
    }

    fn keep(self, fiber: *const Fiber) {
        let mut fibers = self.own().fibers.borrow_mut();
        if fibers.len() < FIBERS {
            fibers.push(fiber);
        } else {
            // SAFETY: - idle, and nothing was given to it: it returns.
            unsafe { Fiber::resume(fiber) };
        }
    }

    /// The member's thread is done with the scope, which is over or left: ends its fibers.
    pub(crate) fn retire(self) {
        self.own().offers.settle();
        for fiber in self.own().fibers.take() {
            // SAFETY: - idle, and nothing was given to it: it returns.
            unsafe { Fiber::resume(fiber) };
        }
    }

    /// What a fiber does on its stack.
    fn serve(self, fiber: &Fiber) {
        while let Some(first) = fiber.take_next() {
            let mut next = Some(first);
            while let Some(nano) = next {
                let successor = self.run_here(nano, Some(fiber));
                next = self.next_on(fiber, successor);
            }
            if fiber.is_single() {
                return;
            }
            // SAFETY: - this is its stack.
            unsafe { fiber.rest() };
        }
    }

    /// What `fiber` runs next. `None`: it is to rest; what comes next is left to the loop that
    /// resumed it.
    #[inline]
    fn next_on(self, fiber: &Fiber, successor: Option<NanoPtr>) -> Option<NanoPtr> {
        let own = self.own();
        let next = self
            .unless_outranked(successor)
            .or_else(|| if own.attention.take() { None } else { self.pick() })?;
        // SAFETY: - I1: it is ours.
        let this = unsafe { next.get() };
        if this.is_started() || this.stack_size() != 0 || fiber.is_single() {
            own.handover.set(Some(next));
            return None;
        }
        Some(next)
    }

    /// `successor`, unless one with a higher priority waits: then it queues.
    #[inline]
    pub(super) fn unless_outranked(self, successor: Option<NanoPtr>) -> Option<NanoPtr> {
        let successor = successor?;
        // SAFETY: - I1: it is ours.
        if self.scheduler.global.has_above(unsafe { successor.get() }.priority().max(0)) {
            self.enqueue(successor);
            return None;
        }
        Some(successor)
    }

    /// Runs an unstarted nano-thread to its end, on the stack of `fiber`, or on the member's own.
    /// Returns what became ready by its end.
    #[inline]
    pub(crate) fn run_here(self, nano: NanoPtr, fiber: Option<&Fiber>) -> Option<NanoPtr> {
        // SAFETY: - I1: taken from a queue.
        let this = unsafe { nano.get() };
        safe_point::between_pieces();
        self.prepare_for(nano);
        if let Some(fiber) = fiber {
            fiber.label(this);
        }
        #[expect(clippy::cast_possible_truncation, reason = "teams have less than 2^32 members")]
        this.node.start(self.index as u32);
        // SAFETY: - the nano-thread holds a share of the node above it.
        let cancelled =
            || self.scheduler.may_be_cancelled() && unsafe { (*this.node.up).is_cancelled() };
        if this.is_skipped() || cancelled() {
            // Destructors of what the closure captured may panic.
            // SAFETY: - ours, and not called.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unsafe { nano.discard_body() }))
            {
                this.fail(payload);
            }
        } else if fiber.is_some() {
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
}

/// Calls the closure of a nano-thread that was started just now by `seat`'s member, and is current
/// there. `is_on_fiber`: as in [`Start`].
#[inline]
fn call_body(nano: NanoPtr, seat: Seat, is_on_fiber: bool) {
    // SAFETY: - it was started by the calling thread, and does not end before this returns.
    let this = unsafe { nano.get() };
    let start = Start { nano, seat, is_on_fiber };
    // SAFETY: - started just now, once; the closure was made for a start (`scope::call_of`).
    let run = || unsafe { nano.call_body(ptr::from_ref(&start).cast()) };
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
