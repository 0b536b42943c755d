//! Members that do not really run, and the smaller teams that a master forks meanwhile (D16).
//!
//! Without a manager a program is not told that another one runs on its processors. A member that
//! began its part and then lost its processor keeps the whole team waiting for a time slice of the
//! other program, milliseconds for a region of microseconds; and what it has begun cannot be taken
//! back. So after such a wait a master forks smaller teams, where the program did not ask for a
//! size, until the others are likely to run again.
//!
//! # Evidence
//! A master that waits long for a member notes how long that member has waited for processors so
//! far, by the kernel's count, and again when it arrived. Half of a wait of [`HOLE`] or more spent
//! so: the member was *lost*. One that merely has much to do is not, and one that sleeps is not.
//! Only the joins of regions and of an overlap's constructs note it: waits in barriers, `join` and
//! scopes find no member lost; they only look whether the thread that they wait for waits for their
//! own processor ([`spin_policy`](crate::waits::spin_policy)), and keep what they found until the
//! next look (`beside`).
//!
//! # What follows
//! 1. Teams without a size of their own have one member less as long as the evidence counts (the
//!    *leave*), one more less for each further loss meanwhile.
//! 2. Then the next team is whole again: a member that is given no work cannot show that it would
//!    run. A loss within the length of the leave that it comes from doubles it, and all that were
//!    left out are left out again; a whole leave without a loss shows that they run, and all is
//!    forgotten.
//!
//! Only outermost teams shrink: explicit groups divide all that the program has. Those left out are
//! the last ones: thread i of a team stays thread i. Which processors the others then have is the
//! kernel's choice, as long as no thread bound them.
//!
//! Only where the size comes from mask and quota. A manager knows better, and a sizer or number
//! that the program gave is the program's word.
//!
//! Cost where no member was lost: one load of the thread's own memory for each team without a size.
//!
//! # Papers
//! P2 section 2.1: what a program asks for is changed by what it gets. There the manager says so;
//! here the kernel's run delay does.

use super::evidence::{Evidence, PastEvidence};
use super::{BESIDE, FEW, HOLE, LEAVE, LOOK_INTERVAL};
use platform::affinity::{CpuId, Tid};
use platform::clock::Ticks;
use platform::scheduling;
use std::cell::Cell;
use std::time::Duration;

/// A master's experience with its members.
#[derive(Debug)]
pub(crate) struct Stragglers {
    /// Members were lost: counts as long as their leave takes.
    losses: Evidence,
    /// How many members to leave out meanwhile.
    left_out: Cell<u32>,
    /// Ticks of the last look.
    looked: Cell<u64>,
    /// The thread that this one waited for was ready on the same processor: counts until the next
    /// look, longer where that finds the same.
    beside: Evidence,
}

impl Stragglers {
    pub(crate) const fn new() -> Self {
        Self {
            losses: Evidence::new(),
            left_out: Cell::new(0),
            looked: Cell::new(0),
            beside: Evidence::new(),
        }
    }

    /// True when no member is left out.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        !self.losses.may_hold()
    }

    /// What to fork instead of a team of `size`.
    #[cold]
    pub(crate) fn reduced(&self, size: usize) -> usize {
        self.reduced_at(size, Ticks::now().raw())
    }

    fn reduced_at(&self, size: usize, now: u64) -> usize {
        if !self.losses.holds(|| now) {
            return size;
        }
        size.saturating_sub(self.left_out.get() as usize).max(1)
    }

    /// A member was lost.
    pub(crate) fn lost_one(&self) {
        self.lost_one_at(Ticks::now().raw());
    }

    fn lost_one_at(&self, now: u64) {
        self.left_out.set(match self.losses.note(now, &LEAVE) {
            PastEvidence::Holds => self.left_out.get() + 1,
            // They are lost as soon as they come back.
            PastEvidence::JustEnded => self.left_out.get(),
            PastEvidence::Gone => 1,
        });
    }

    /// Looks at a member that is late, unless the last look of this kind was just now.
    pub(crate) fn watch(&self, member: Tid) -> Option<Watch> {
        let now = self.begin_look()?;
        Some(Watch { member, since: now, delay: scheduling::run_delay(member)? })
    }

    /// True when one of `threads`, as far as a few go, waits for processor `here`, on which the
    /// caller runs. `None`: the last look of this kind was just now.
    pub(crate) fn any_waits_for(
        &self,
        here: CpuId,
        threads: impl Iterator<Item = Tid>,
    ) -> Option<bool> {
        let mut threads = threads.take(FEW).peekable();
        if threads.peek().is_none() {
            return Some(false);
        }
        self.begin_look()?;
        let waits = threads.any(|thread| scheduling::processor_of_ready(thread) == Some(here));
        if !waits {
            self.beside.forget();
        }
        Some(waits)
    }

    /// The thread that this one waits for was found ready on the same processor.
    pub(crate) fn note_beside(&self) {
        self.beside.note(Ticks::now().raw(), &BESIDE);
    }

    /// True where that was found lately. Cost where it was not: one load of the thread's own
    /// memory.
    #[inline]
    pub(crate) fn is_beside(&self) -> bool {
        self.beside.holds(|| Ticks::now().raw())
    }

    /// The time of a look, if one is due.
    fn begin_look(&self) -> Option<Ticks> {
        let now = Ticks::now();
        if now.raw().saturating_sub(self.looked.get()) < Ticks::about_us(LOOK_INTERVAL) {
            return None;
        }
        self.looked.set(now.raw());
        Some(now)
    }
}

/// A look at a member that is late.
#[derive(Debug)]
pub(crate) struct Watch {
    member: Tid,
    since: Ticks,
    delay: Duration,
}

impl Watch {
    /// Where the member waits to run, or runs.
    pub(crate) fn processor(&self) -> Option<CpuId> {
        scheduling::processor_of_ready(self.member)
    }

    /// After the member arrived: whether it had been lost.
    pub(crate) fn was_lost(&self) -> bool {
        let waited = self.since.elapsed();
        // Most waits are short: no second look.
        waited >= Duration::from_micros(HOLE)
            && scheduling::run_delay(self.member)
                .is_some_and(|delay| is_lost(waited, delay.saturating_sub(self.delay)))
    }
}

fn is_lost(waited: Duration, delayed: Duration) -> bool {
    waited >= Duration::from_micros(HOLE) && delayed >= waited / 2
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use platform::affinity::current_tid;
    use proptest::prelude::*;

    fn us(us: u64) -> u64 {
        // Measured before the first use: the unit must not change in between.
        Ticks::per_us();
        Ticks::about_us(us)
    }

    #[test]
    fn a_loss_leaves_one_out_for_a_while_and_another_one_one_more() {
        let stragglers = Stragglers::new();
        assert_eq!(stragglers.reduced(8), 8);
        stragglers.lost_one_at(us(1000));
        assert_eq!(stragglers.reduced_at(8, us(1000)), 7);
        stragglers.lost_one_at(us(2000));
        assert_eq!(stragglers.reduced_at(8, us(51_900)), 6);
        assert_eq!(stragglers.reduced_at(2, us(51_900)), 1, "the master itself stays");
        assert_eq!(stragglers.reduced_at(8, us(52_100)), 8);
        assert_eq!(stragglers.reduced(8), 8);
    }

    #[test]
    fn a_thread_that_was_found_beside_another_one_is_so_until_a_look_finds_it_elsewhere() {
        Ticks::per_us();
        let stragglers = Stragglers::new();
        assert!(!stragglers.is_beside());
        let begin = Ticks::now();
        stragglers.note_beside();
        assert!(stragglers.is_beside() || begin.elapsed_ticks() >= us(BESIDE.first));
        // This thread runs, and on no such processor.
        let looked = stragglers.any_waits_for(CpuId(u32::MAX), [current_tid()].into_iter());
        assert_eq!(looked, Some(false));
        assert!(!stragglers.is_beside());
    }

    #[test]
    fn a_member_that_is_lost_again_is_left_out_for_longer_and_one_that_runs_is_forgiven() {
        let stragglers = Stragglers::new();
        let mut now = us(1000);
        let mut leaves = Vec::new();
        for _ in 0..8 {
            stragglers.lost_one_at(now);
            leaves.push(stragglers.losses.length() / 1000);
            now = stragglers.losses.end() + us(100);
            assert_eq!(stragglers.reduced_at(4, now), 4);
        }
        assert_eq!(leaves, [50, 100, 200, 400, 800, 1600, 1600, 1600]);
        // It ran for a whole leave.
        stragglers.lost_one_at(now + us(LEAVE.most));
        assert_eq!(stragglers.losses.length(), LEAVE.first);
    }

    #[test]
    fn all_that_were_left_out_are_again_when_one_is_lost_at_once() {
        let stragglers = Stragglers::new();
        stragglers.lost_one_at(us(1000));
        stragglers.lost_one_at(us(1100));
        stragglers.lost_one_at(us(1200));
        assert_eq!(stragglers.reduced_at(8, us(60_000)), 8);
        stragglers.lost_one_at(us(61_000));
        assert_eq!(stragglers.reduced_at(8, us(61_000)), 5);
    }

    #[test]
    fn a_member_that_works_or_sleeps_is_not_lost() {
        let [short, long] = [HOLE / 2, 10 * HOLE].map(Duration::from_micros);
        assert!(is_lost(long, long) && is_lost(long, long / 2));
        assert!(!is_lost(long, Duration::ZERO) && !is_lost(long, long / 3));
        assert!(!is_lost(short, short));
    }

    proptest! {
        #[test]
        fn a_team_keeps_its_master_and_never_grows(losses in prop::collection::vec(0_u64..3_000_000, 0..40), size in 1_usize..100) {
            let stragglers = Stragglers::new();
            let mut now = 0;
            for gap in losses {
                now += us(gap);
                stragglers.lost_one_at(now);
                let reduced = stragglers.reduced_at(size, now);
                prop_assert!((1..=size).contains(&reduced) && (size == 1 || reduced < size));
            }
        }
    }
}
