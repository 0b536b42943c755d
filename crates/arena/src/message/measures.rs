//! What a manager counted and timed since it began.

use serde::{Deserialize, Serialize};

/// Buckets of a [`Histogram`]: the first ends at 1 us, each other one at twice the end of the one
/// before it, the last but one at 0.5 s; the last one has no end.
pub const BUCKETS: usize = 21;

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many were in each bucket; buckets at the end that are empty may be missing.
    pub counts: Vec<u64>,
    /// All times together.
    pub sum_ns: u64,
}

impl Histogram {
    /// Counts one that took this long.
    pub fn add(&mut self, ns: u64) {
        let at = (0..BUCKETS - 1).find(|at| ns <= Self::end(*at)).unwrap_or(BUCKETS - 1);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Where a bucket ends.
    #[must_use]
    pub fn end(bucket: usize) -> u64 {
        1000 << bucket.min(BUCKETS - 1)
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The end of the bucket below which this part of them is; `None` when there were none, or it
    /// is in the last one.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let all = self.count();
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate().take(BUCKETS - 1) {
            below += count;
            // Counts are far below 2^53.
            if all > 0 && below as f64 >= part * all as f64 {
                return Some(Self::end(bucket));
            }
        }
        None
    }
}

/// What a manager counted and timed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measures {
    /// How long the scheduler was busy each time that it woke.
    #[serde(default)]
    pub passes: Histogram,
    /// From the scheduler's waking to the moment at which all programs whose processors changed
    /// had been told so.
    #[serde(default)]
    pub grants: Histogram,
    /// Programs that came.
    #[serde(default)]
    pub arrivals: u64,
    /// Programs that left.
    #[serde(default)]
    pub exits: u64,
    /// Grants of programs that changed.
    #[serde(default)]
    pub changes: u64,
    /// Threads that were bound, since they did not leave a processor in time.
    #[serde(default)]
    pub squeezes: u64,
    /// Programs that did so again and again.
    #[serde(default)]
    pub uncooperative: u64,
    /// Programs that were put into a cpuset, since they bound themselves back.
    #[serde(default)]
    pub fenced: u64,
    /// Clients that were refused.
    #[serde(default)]
    pub refusals: u64,
    /// Processor time of the manager's process.
    #[serde(default)]
    pub processor_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_bucket_that_ends_at_or_above_them() {
        let mut histogram = Histogram::default();
        for ns in [0, 1000, 1001, 2000, 500_000_000, u64::MAX] {
            histogram.add(ns);
        }
        assert_eq!(histogram.counts[..2], [2, 2]);
        assert_eq!((histogram.counts.len(), histogram.counts[BUCKETS - 1]), (BUCKETS, 1));
        assert_eq!((histogram.count(), histogram.sum_ns), (6, u64::MAX));
        assert_eq!(Histogram::end(19), 524_288_000);
    }

    #[test]
    fn quantiles_are_ends_of_buckets() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..99).for_each(|_| histogram.add(900));
        histogram.add(70_000);
        assert_eq!(histogram.quantile(0.5), Some(1000));
        assert_eq!(histogram.quantile(1.0), Some(128_000));
        histogram.add(u64::MAX);
        assert_eq!(histogram.quantile(1.0), None);
    }
}
