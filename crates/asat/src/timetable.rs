//! When evaluations and tests are due, and what tests may cost: arithmetic of times, no clock.
//!
//! Times are nanoseconds since any moment. Several programs that began at once would test in step,
//! and each would find the others' threads in its way: by an option each interval is a little
//! longer or shorter, by a sequence of numbers that a seed begins.

use std::time::Duration;

/// Parts of an interval by which it is changed at most: a quarter.
const JITTER_PARTS: u64 = 4;

/// Tests may take one part of the time in so many.
pub(crate) const TEST_SHARE: u64 = 100;

/// A program that has not tested for long may spend so much at once, in nanoseconds.
const MOST_CREDIT: u64 = 20_000_000;

/// A time as this module counts it.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A sequence of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulse {
    interval: u64,
    /// State of the sequence; `None`: all intervals are equal.
    random: Option<u64>,
}

impl Pulse {
    pub(crate) fn new(interval: u64, seed: Option<u64>) -> Self {
        // The generator stays at 0.
        Self { interval: interval.max(1), random: seed.map(|seed| seed.max(1)) }
    }

    /// The length of the next interval.
    pub(crate) fn next(&mut self) -> u64 {
        let Some(state) = &mut self.random else { return self.interval };
        // Marsaglia's xorshift, 64 bits, shifts 13, 7, 17.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        let span = (self.interval / JITTER_PARTS).saturating_mul(2);
        let least = self.interval - self.interval / JITTER_PARTS;
        least.saturating_add(*state % (span + 1))
    }
}

/// What tests may cost: a share of the time that has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    last: u64,
    /// Nanoseconds that may be spent; negative: the last test cost more than there was.
    credit: i64,
}

impl Budget {
    /// Of a program that began at `now`. It may test at once.
    pub(crate) fn new(now: u64) -> Self {
        Self { last: now, credit: (MOST_CREDIT / 2).cast_signed() }
    }

    fn earn(&mut self, now: u64) {
        let earned = now.saturating_sub(self.last) / TEST_SHARE;
        // What is less than one nanosecond's worth is not lost.
        self.last += earned * TEST_SHARE;
        self.credit = self.credit.saturating_add(earned.cast_signed()).min(MOST_CREDIT as i64);
    }

    /// True when a test may begin that most likely costs `cost`.
    pub(crate) fn allows(&mut self, now: u64, cost: u64) -> bool {
        self.earn(now);
        self.credit >= i64::try_from(cost.min(MOST_CREDIT)).unwrap_or(i64::MAX)
    }

    /// A test cost so much.
    pub(crate) fn spend(&mut self, cost: u64) {
        self.credit = self.credit.saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_seed_all_intervals_are_equal_and_with_one_a_quarter_apart_at_most() {
        let mut even = Pulse::new(1000, None);
        assert!((0..9).all(|_| even.next() == 1000));
        let (mut one, mut same, mut other) =
            (Pulse::new(1000, Some(7)), Pulse::new(1000, Some(7)), Pulse::new(1000, Some(8)));
        let draw = |pulse: &mut Pulse| (0..500).map(|_| pulse.next()).collect::<Vec<_>>();
        let intervals = draw(&mut one);
        assert!(intervals.iter().all(|length| (750..=1250).contains(length)));
        let mean = intervals.iter().sum::<u64>() / 500;
        assert!((980..=1020).contains(&mean), "{mean}");
        assert_eq!(intervals, draw(&mut same));
        // A program that wants no evaluation at all names an interval without an end.
        let mut endless = Pulse::new(u64::MAX, Some(7));
        assert!((0..500).all(|_| endless.next() >= u64::MAX / 4 * 3));
        assert_ne!(intervals, draw(&mut other));
    }

    proptest! {
        /// However long tests are and whenever they are asked for: no more than the share, the
        /// first credit, and what the last one was too long.
        #[test]
        fn tests_cost_a_share_of_the_time(
            steps in prop::collection::vec((1_u64..2_000_000_000, 1_u64..30_000_000), 1..200)
        ) {
            let mut budget = Budget::new(0);
            let (mut now, mut spent, mut longest) = (0, 0, 0);
            for (gap, cost) in steps {
                now += gap;
                if budget.allows(now, cost) {
                    budget.spend(cost);
                    (spent, longest) = (spent + cost, longest.max(cost));
                }
                prop_assert!(spent <= now / TEST_SHARE + MOST_CREDIT + longest);
            }
        }
    }

    #[test]
    fn time_that_passes_in_small_steps_earns_as_much() {
        let mut budget = Budget::new(0);
        budget.spend(MOST_CREDIT / 2);
        assert!(!budget.allows(0, 1));
        for now in (0..=1_000_000).step_by(7) {
            budget.allows(now, 1);
        }
        assert!(budget.allows(1_000_000, 9_999) && !budget.allows(1_000_000, 10_001));
    }
}
