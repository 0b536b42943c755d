//! What a member has to do with the joins and scopes around its scope and inside it: it runs halves
//! that other members offer, and leaves when it is of no use here and may be elsewhere.

use super::Seat;
use crate::join;
use crate::join::join_team;
use engine::local::local;
use platform::clock::Ticks;

/// Microseconds for which a thread of a join or scope around looks for work in a scope before it
/// leaves it.
const LINGER: u64 = 50;

impl<'a> Seat<'a> {
    /// The member's place in the scope's join team: `None` where it is the only one.
    pub(crate) fn join_seat(self) -> Option<join_team::JoinSeat<'a>> {
        let join_team = self.scheduler.join_team.as_deref()?;
        let index = u32::try_from(self.index).expect("teams have less than 2^32 members");
        // SAFETY: - the seat is on the member's thread.
        Some(unsafe { join_team.seat(index) })
    }

    /// Runs what there is until the scope `has_ended`, on a member other than 0. A thread that came
    /// from a join or scope around leaves when it has found nothing for [`LINGER`], and nothing
    /// that it started waits here: those around may have work for it. When there are tasks again, a
    /// member that queues one offers the place to those around ([`offers`](crate::tasks::offers)).
    pub(crate) fn work_as_member(self, has_ended: impl Fn() -> bool) {
        self.work_until(|| has_ended() || self.own().leaves.get());
        self.retire();
        if self.own().leaves.get() {
            // The last thing that this thread does as the member.
            self.scheduler.vacancies.leave(self.index);
        }
    }

    /// True where the member's thread may leave the scope before its end: it waits for no more than
    /// work, and nothing is left here that no other thread can take.
    pub(super) fn is_free(self) -> bool {
        self.index != 0 && self.current().is_none() && self.own().local.is_vacant()
    }

    /// The member has found nothing since `begin`, and leaves when that is long ago. False when it
    /// would, and cannot: a thread is at a place that it has offered.
    pub(super) fn lingers_since(self, begin: Ticks) -> bool {
        if begin.elapsed_ticks() <= Ticks::about_us(LINGER) {
            return true;
        }
        let vacancies = &self.scheduler.vacancies;
        let leaves = self.own().offers.withdraw(|member| vacancies.leave(member));
        self.own().leaves.set(leaves);
        leaves
    }

    /// Runs a half of a join that another member offers, on the member's own stack. False when
    /// there is none.
    pub(super) fn run_half(self, is_over: impl Fn() -> bool) -> bool {
        // Fibers are too small for a recursion of unknown depth.
        let join_seat = self
            .join_seat()
            .filter(|join_seat| self.current().is_none() && join_seat.may_run_any());
        let Some(join_seat) = join_seat else { return false };
        let _visit = self.own().place.get().and_then(|place| local().go_to(place));
        let _shown = local().show_as(self.member());
        let _here = join::at(join_seat);
        // A rest after a small half ends for a task, too.
        let is_over = || is_over() || self.scheduler.has_work();
        join_seat.run_any(|| _ = self.scheduler.idle.take(self.index), is_over)
    }
}
