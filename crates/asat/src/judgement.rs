//! What the numbers of an interval say of the threads that ran in it: arithmetic, no clock.
//!
//! # Rules
//! A thread was *missing* where it waited for a processor during [`DELAYED`] of the interval or
//! more, or during [`SHORTLY_DELAYED`] and lost its processor [`SWITCHES`] times or more while it
//! would have gone on. The engine's own waits count, too: [`ABSENCES`] holes or lost members are
//! evidence even where the kernel's numbers are not to be had. A team that hardly ran
//! ([`ACTIVE`]) says nothing.
//!
//! The kernel's own threads and short-lived programs push a thread aside for some milliseconds now
//! and then, on an idle machine, too. So what no thread waited for during [`LONG`] is *doubtful*:
//! it counts when the next interval says the same.
//!
//! So it is where the kernel's count of runnable threads has *room* for all of the program's: the
//! kernel may put two of its threads on one processor while another one is idle, and the time of a
//! thread does not tell them from a stranger.
//!
//! Where the threads themselves are more than the processors they wait for each other, and that is
//! evidence as well: there are too many of them.

use crate::controller::Verdict;
use std::time::Duration;

/// The share of the interval, one part of so many, that a thread waits at most.
const DELAYED: u32 = 10;
/// The same for a thread that lost its processor again and again.
const SHORTLY_DELAYED: u32 = 25;
/// A thread that waits for this share of the interval has a lasting rival: one that shares its
/// processor waits for a half of it.
const LONG: u32 = 4;
/// So often.
const SWITCHES: u64 = 3;
/// Holes and lost members.
const ABSENCES: u64 = 3;
/// A team that ran and waited for less than one part of so many of the interval hardly ran.
const ACTIVE: u32 = 50;

/// What the kernel says of one thread in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// It had a processor for so long.
    pub ran: Duration,
    /// It waited for one.
    pub delayed: Duration,
    /// It lost it so often while it would have gone on.
    pub switches: u64,
}

/// What was seen in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The interval.
    pub length: Duration,
    /// Of the threads that were looked at.
    pub shares: &'a [Share],
    /// How often the engine saw a thread without a processor ([`engine::absences`]).
    pub absences: u64,
}

impl Sample<'_> {
    /// What it says of the team; `has_room` is asked where it matters whether the kernel's count of
    /// runnable threads has room for all. `None`: there is no evidence.
    pub fn verdict(&self, has_room: impl FnOnce() -> bool) -> Option<Verdict> {
        Some(match self.missing()? {
            0 => Verdict::Good,
            missing if self.is_doubtful() || has_room() => Verdict::Doubtful { missing },
            missing => Verdict::Bad { missing },
        })
    }

    /// How many threads were missing; `None`: there is no evidence.
    pub fn missing(&self) -> Option<usize> {
        let length = self.length;
        let is_missing = |share: &&Share| {
            share.delayed >= length / DELAYED
                || (share.delayed >= length / SHORTLY_DELAYED && share.switches >= SWITCHES)
        };
        let missing = self.shares.iter().filter(is_missing).count();
        if missing > 0 || self.absences >= ABSENCES {
            return Some(missing.max(1));
        }
        let ran: Duration = self.shares.iter().map(|share| share.ran + share.delayed).sum();
        // A master alone is a team that ran.
        (ran >= length / ACTIVE).then_some(0)
    }

    /// True where threads were missing for so short a time that it may have passed.
    pub fn is_doubtful(&self) -> bool {
        let longest = self.shares.iter().map(|share| share.delayed).max().unwrap_or_default();
        self.missing().is_some_and(|missing| missing > 0) && longest < self.length / LONG
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: Duration = Duration::from_millis(50);

    fn share(ran: u64, delayed: u64, switches: u64) -> Share {
        let [ran, delayed] = [ran, delayed].map(Duration::from_micros);
        Share { ran, delayed, switches }
    }

    fn missing(shares: &[Share], absences: u64) -> Option<usize> {
        Sample { length: LENGTH, shares, absences }.missing()
    }

    #[test]
    fn each_kind_of_evidence_counts_by_itself_at_its_limit() {
        let busy = share(49_000, 100, 1);
        assert_eq!(missing(&[busy, busy], 0), Some(0));
        assert_eq!(missing(&[busy, share(40_000, 5_000, 0)], 0), Some(1));
        assert_eq!(missing(&[busy, share(40_000, 4_999, 2)], 0), Some(0));
        assert_eq!(missing(&[busy, share(40_000, 2_000, 3)], 0), Some(1));
        assert_eq!(missing(&[busy, share(40_000, 1_999, 30)], 0), Some(0));
        assert_eq!(missing(&[share(0, 25_000, 9), share(25_000, 25_000, 9)], 0), Some(2));
        assert_eq!(missing(&[busy], 3), Some(1));
        assert_eq!(missing(&[busy], 2), Some(0));
    }

    #[test]
    fn what_took_less_than_a_quarter_of_the_interval_may_have_passed() {
        let is_doubtful =
            |shares: &[Share], absences| Sample { length: LENGTH, shares, absences }.is_doubtful();
        let busy = share(49_000, 100, 1);
        assert!(is_doubtful(&[busy, share(37_501, 12_499, 9)], 0));
        assert!(!is_doubtful(&[busy, share(37_500, 12_500, 9)], 0));
        assert!(is_doubtful(&[busy, busy], 3) && is_doubtful(&[], 3));
        assert!(!is_doubtful(&[busy, busy], 0) && !is_doubtful(&[], 0));
    }

    #[test]
    fn a_team_that_hardly_ran_says_nothing_unless_it_was_kept_from_it() {
        assert_eq!(missing(&[], 0), None);
        assert_eq!(missing(&[share(400, 100, 0), share(300, 100, 0)], 0), None);
        assert_eq!(missing(&[share(900, 100, 0)], 0), Some(0));
        assert_eq!(missing(&[share(0, 5_000, 0)], 0), Some(1));
    }

    proptest! {
        #[test]
        fn more_delay_is_never_less_evidence(
            ran in 0_u64..50_000, delayed in 0_u64..50_000, more in 0_u64..50_000,
            switches in 0_u64..20, absences in 0_u64..6
        ) {
            let less = missing(&[share(ran, delayed, switches)], absences);
            let more = missing(&[share(ran, delayed + more, switches)], absences);
            prop_assert!(less <= more, "{less:?} {more:?}");
        }
    }
}
