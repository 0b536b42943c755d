//! What a member runs next, and how it waits until there is something.

use super::{OFFER, Seat};
use crate::tasks::descriptor::NanoPtr;
use crate::tasks::ready::local::steal;
use engine::local::local;
use engine::spin_policy;
use engine::wait_point::Look;
use platform::clock::Ticks;

impl Seat<'_> {
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
                // What ends now may be the last one in the way: its fiber is to rest.
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

    /// The caller has let others run on top of its stack. On a fiber that stack is on top of
    /// another one, where a nano-thread may wait as well: a fiber above may have rested for the
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
        let threads = local.membership().threads;
        let begin = self.scheduler.is_of_parts.then(Ticks::now);
        let look_around = || {
            let members =
                self.others().filter_map(|member| self.scheduler.members[member].occupant.thread());
            spin_policy::beside(local, threads, members)
        };
        spin_policy::wait(
            &self.scheduler.members[self.index].point,
            local,
            threads,
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
    pub(crate) fn receive(self) {
        // SAFETY: - this member's inbox, on its thread; drained waits last until they are
        // delivered.
        unsafe { self.scheduler.members[self.index].inbox.drain(|wait| self.deliver(&*wait)) };
    }

    /// What to run next; see `ready/README.md` for the order.
    pub(super) fn pick(self) -> Option<NanoPtr> {
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
}
