//! What the engine did, in numbers.

use std::fmt;
use std::time::Duration;

/// Classes of team sizes that are counted apart.
pub(crate) const SIZES: usize = 12;

/// What the engine of this process did since it began: a snapshot, made by
/// [`statistics`](crate::statistics()).
///
/// Threads count on their own, without a lock; a snapshot sums while they go on, so that numbers of
/// the last microseconds may be missing in some fields and not in others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Regions of more than one thread that were forked, by size: entry 0 counts teams of 2
    /// threads, 1 of 3 and 4, 2 of 5 to 8, and so on by powers of two; the last one all that are
    /// larger.
    pub regions: [u64; SIZES],
    /// Waits (of idle workers, joins, barriers) that were long enough to be timed: some 30 looks.
    pub waits: u64,
    /// Time in those waits, summed over all threads, spinning and asleep. Of the short ones of
    /// teams whose threads take turns on a processor, a fifth is timed, and stands for all.
    pub waited: Duration,
    /// How often a thread went to sleep in the kernel.
    pub parks: u64,
    /// How often a master found a worker asleep and woke it.
    pub wakes: u64,
    /// Nano-threads and halves of joins that ran on another member than the one that queued them.
    pub steals: u64,
    /// How often a thread gave its processor to the one that it waited for, in a team that has
    /// processors for all.
    pub hand_overs: u64,
    /// Long waits for a member that had begun its part and lost its processor to others.
    pub lost_members: u64,
    /// Workers that were created; none is ever destroyed.
    pub workers: u64,
}

impl Statistics {
    /// The entry of [`Statistics::regions`] for teams of `size`, at least 2.
    #[inline]
    pub(crate) fn class_of(size: u32) -> usize {
        ((size.max(2) - 1).ilog2() as usize).min(SIZES - 1)
    }

    /// All regions of more than one thread.
    pub fn all_regions(&self) -> u64 {
        self.regions.iter().sum()
    }

    /// What was done between `earlier` and this snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut regions = self.regions;
        regions
            .iter_mut()
            .zip(earlier.regions)
            .for_each(|(now, then)| *now = now.saturating_sub(then));
        Self {
            regions,
            waits: self.waits.saturating_sub(earlier.waits),
            waited: self.waited.saturating_sub(earlier.waited),
            parks: self.parks.saturating_sub(earlier.parks),
            wakes: self.wakes.saturating_sub(earlier.wakes),
            steals: self.steals.saturating_sub(earlier.steals),
            hand_overs: self.hand_overs.saturating_sub(earlier.hand_overs),
            lost_members: self.lost_members.saturating_sub(earlier.lost_members),
            workers: self.workers.saturating_sub(earlier.workers),
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waits, waited, parks, wakes, steals, hand_overs, lost_members, .. } = self;
        let workers = self.workers;
        write!(f, "regions {}", self.all_regions())?;
        let mut separator = " (";
        for (class, count) in self.regions.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (from, to) = ((1_u64 << class) + 1, 2_u64 << class);
            match class {
                0 => write!(f, "{separator}{count} of 2 threads")?,
                _ if class == SIZES - 1 => write!(f, "{separator}{count} of {from} or more")?,
                _ => write!(f, "{separator}{count} of {from}-{to}")?,
            }
            separator = ", ";
        }
        if separator == ", " {
            write!(f, ")")?;
        }
        write!(
            f,
            "; waits {waits} ({waited:.3?}), parks {parks}, wakes {wakes}, steals {steals}; \
             workers {workers}; others' load: hand-overs {hand_overs}, lost members {lost_members}"
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_classed_by_powers_of_two() {
        for (size, class) in [
            (2, 0),
            (3, 1),
            (4, 1),
            (5, 2),
            (8, 2),
            (9, 3),
            (16, 3),
            (17, 4),
            (4096, 11),
            (u32::MAX, 11),
        ] {
            assert_eq!(Statistics::class_of(size), class, "{size}");
        }
    }

    #[test]
    fn a_snapshot_reads_like_a_sentence_and_differences_never_wrap() {
        let mut some = Statistics { parks: 3, workers: 7, ..Statistics::default() };
        some.regions[0] = 5;
        some.regions[3] = 2;
        let text = some.to_string();
        assert_eq!(
            text,
            "regions 7 (5 of 2 threads, 2 of 9-16); waits 0 (0.000ns), parks 3, wakes 0, steals 0; \
             workers 7; others' load: hand-overs 0, lost members 0"
        );
        assert_eq!(Statistics::default().since(&some), Statistics::default());
        assert_eq!(some.since(&Statistics::default()), some);
    }
}
