//! Evidence that decays: until when it counts, and for how long the next one does.
//!
//! # Protocol
//! 1. [`Evidence::note`] compares the time with the end of the evidence before. What comes while
//!    that counts, counts for as long from now on. What comes back [`Soon`] after it counts twice
//!    as long, up to the rule's most: it had not gone. What comes later, or first, counts for the
//!    rule's first length.
//! 2. [`Evidence::holds`] marks evidence as ended when its time has passed, and keeps that time for
//!    the next note. From then on the answer is one load again.
//!
//! Lengths are kept in microseconds: in the first milliseconds of a process ticks are a guess.
//!
//! # Orderings
//! Relaxed throughout: these are hints, which publish nothing. Where threads note at once, the last
//! one's time holds. It may have seen the other one's length: then it counts twice as long, at most
//! the rule's most.

use platform::clock::Ticks;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Evidence was not seen to have ended.
const HOLDS: u64 = 1;

/// For how long evidence counts, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// What is new, or stayed away.
    pub(super) first: u64,
    /// What comes back again and again.
    pub(super) most: u64,
    /// What comes back so early after its end had not gone.
    pub(super) soon: Soon,
}

/// A time after the end of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Soon {
    /// As long as evidence counts first.
    First,
    /// As long as it counted last.
    Last,
}

/// What the evidence before has come to when there is new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PastEvidence {
    /// It counts.
    Holds,
    /// It ended a short time ago: what comes back so soon had not gone.
    JustEnded,
    /// It ended longer ago, or there was none.
    Gone,
}

impl Rule {
    /// How early after its end evidence that counted for `last` comes back soon.
    fn soon_after(&self, last: u64) -> u64 {
        match self.soon {
            Soon::First => self.first,
            Soon::Last => last,
        }
    }

    /// For how long new evidence counts, when the last one counted for `last`.
    fn next(&self, last: u64, before: PastEvidence) -> u64 {
        match before {
            PastEvidence::Holds => last.max(self.first),
            PastEvidence::JustEnded => last.saturating_mul(2).clamp(self.first, self.most),
            PastEvidence::Gone => self.first,
        }
    }
}

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Ticks until which the last evidence counts or counted, without their lowest bit, which is
    /// [`HOLDS`]; 0 when there was none.
    until: AtomicU64,
    /// Microseconds for which the last evidence counts.
    length: AtomicU64,
}

impl Evidence {
    pub(super) const fn new() -> Self {
        Self { until: AtomicU64::new(0), length: AtomicU64::new(0) }
    }

    /// Evidence came at `now`. Returns what the one before had come to.
    pub(super) fn note(&self, now: u64, rule: &Rule) -> PastEvidence {
        // ORDERING: Relaxed, here and below - hints (module head).
        let (end, last) = (self.until.load(Relaxed) & !HOLDS, self.length.load(Relaxed));
        let before = match now.checked_sub(end) {
            None => PastEvidence::Holds,
            Some(since) if end != 0 && since < Ticks::about_us(rule.soon_after(last)) => {
                PastEvidence::JustEnded
            }
            Some(_) => PastEvidence::Gone,
        };
        let length = rule.next(last, before);
        // ORDERING: Relaxed - as above.
        self.length.store(length, Relaxed);
        self.until.store(now.saturating_add(Ticks::about_us(length)) | HOLDS, Relaxed);
        before
    }

    /// False when there is none, or it was seen to have ended. Cost: one load.
    #[inline]
    pub(super) fn may_hold(&self) -> bool {
        // ORDERING: Relaxed - as above.
        self.until.load(Relaxed) & HOLDS != 0
    }

    /// True when it counts at the time that `now` tells. Cost where there is none: one load.
    #[inline]
    pub(super) fn holds(&self, now: impl FnOnce() -> u64) -> bool {
        // ORDERING: Relaxed - as above.
        let until = self.until.load(Relaxed);
        until & HOLDS != 0 && self.still_holds(until, now)
    }

    #[cold]
    fn still_holds(&self, until: u64, now: impl FnOnce() -> u64) -> bool {
        if now() < until {
            return true;
        }
        // ORDERING: Relaxed - as above. Fails when newer evidence came meanwhile.
        self.until.compare_exchange(until, until & !HOLDS, Relaxed, Relaxed).is_err()
    }

    /// It is as if there had been none.
    pub(super) fn forget(&self) {
        // ORDERING: Relaxed - as above.
        self.until.store(0, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
impl Evidence {
    /// Microseconds for which the last evidence counts.
    pub(super) fn length(&self) -> u64 {
        self.length.load(Relaxed)
    }

    /// Ticks at which the last evidence ends or ended.
    pub(super) fn end(&self) -> u64 {
        self.until.load(Relaxed) | HOLDS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: Rule = Rule { first: 100, most: 800, soon: Soon::First };
    const LAST: Rule = Rule { soon: Soon::Last, ..FIRST };
    const FIXED: Rule = Rule { most: 100, ..FIRST };

    fn us(us: u64) -> u64 {
        // Measured before the first use: the unit must not change in between.
        Ticks::per_us();
        Ticks::about_us(us)
    }

    /// Lengths of evidence that comes back `after` microseconds after each end.
    fn lengths(rule: &Rule, after: u64) -> Vec<u64> {
        let (evidence, mut now) = (Evidence::new(), us(1000));
        let lengths = (0..6).map(|_| {
            evidence.note(now, rule);
            now = evidence.end() + us(after);
            evidence.length()
        });
        lengths.collect()
    }

    #[test]
    fn evidence_that_comes_back_soon_counts_longer_up_to_the_most() {
        let growing = [100, 200, 400, 800, 800, 800];
        assert_eq!(lengths(&FIRST, 99), growing);
        assert_eq!(lengths(&LAST, 99), growing);
        assert_eq!(lengths(&FIXED, 99), [100; 6]);
    }

    #[test]
    fn what_soon_means_is_the_rule_s() {
        assert_eq!(lengths(&FIRST, 101), [100; 6]);
        assert_eq!(lengths(&LAST, 101), [100; 6]);
        for (rule, before, length) in
            [(FIRST, PastEvidence::Gone, 100), (LAST, PastEvidence::JustEnded, 400)]
        {
            let evidence = Evidence::new();
            evidence.note(us(1000), &rule);
            assert_eq!(evidence.note(evidence.end() + us(50), &rule), PastEvidence::JustEnded);
            assert_eq!(evidence.length(), 200);
            assert_eq!(evidence.note(evidence.end() + us(150), &rule), before, "{:?}", rule.soon);
            assert_eq!(evidence.length(), length);
        }
    }

    #[test]
    fn evidence_while_there_is_some_begins_its_time_anew() {
        let evidence = Evidence::new();
        assert_eq!(evidence.note(us(1000), &FIRST), PastEvidence::Gone);
        assert_eq!(evidence.note(us(1090), &FIRST), PastEvidence::Holds);
        assert_eq!(evidence.length(), 100);
        assert!(evidence.holds(|| us(1189)) && !evidence.holds(|| us(1191)));
        assert_eq!(
            evidence.note(us(1200), &FIRST),
            PastEvidence::JustEnded,
            "its end is known after it was seen"
        );
        assert_eq!(evidence.note(us(1300), &FIRST), PastEvidence::Holds);
        assert_eq!(evidence.length(), 200, "it keeps the length that it has");
    }

    #[test]
    fn the_clock_is_read_only_while_evidence_was_not_seen_to_end() {
        let unread = || -> u64 { panic!("there is nothing to compare") };
        let evidence = Evidence::new();
        assert!(!evidence.may_hold() && !evidence.holds(unread));
        evidence.note(us(1000), &FIRST);
        assert!(evidence.may_hold() && evidence.holds(|| us(1050)));
        assert!(!evidence.holds(|| us(1101)));
        assert!(!evidence.may_hold() && !evidence.holds(unread));
    }

    #[test]
    fn what_is_forgotten_does_not_come_back_soon() {
        let evidence = Evidence::new();
        evidence.note(us(1000), &FIRST);
        evidence.forget();
        assert!(!evidence.may_hold());
        assert_eq!(evidence.note(us(1010), &FIRST), PastEvidence::Gone);
    }

    #[test]
    fn a_thread_that_saw_evidence_end_leaves_newer_one_alone() {
        let evidence = Evidence::new();
        evidence.note(us(1000), &FIRST);
        let newer = || {
            evidence.note(us(1101), &FIRST);
            us(1101)
        };
        assert!(evidence.holds(newer), "another thread noted while this one read the clock");
        assert!(evidence.holds(|| us(1102)));
    }

    proptest! {
        #[test]
        fn evidence_counts_for_its_length_which_stays_within_the_rule(
            gaps in prop::collection::vec(0_u64..3000, 1..40), last in any::<bool>(),
        ) {
            let rule = if last { LAST } else { FIRST };
            let (evidence, mut now) = (Evidence::new(), us(1000));
            for gap in gaps {
                now += us(gap);
                evidence.note(now, &rule);
                let length = evidence.length();
                prop_assert!((rule.first..=rule.most).contains(&length));
                prop_assert_eq!(length % rule.first, 0);
                prop_assert!(evidence.holds(|| now + us(length) - 2));
                prop_assert_eq!(evidence.end() >> 1, (now + us(length)) >> 1);
            }
        }
    }
}
