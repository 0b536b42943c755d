//! Ranges of iterations that members own and others may take from: the shared state of affinity and
//! automatic scheduling.
//!
//! # Protocol
//! Each member has one word: where its range begins (bits 0-31) and ends (bits 32-63).
//! 1. `take_front` (the owner): exchanges (begin, end) for (begin + n, end): A1.
//! 2. `take_back` (a thief): exchanges (begin, end) for (begin, end - n): A2.
//! 3. `refill` (the owner, only when its word is empty): stores a range that it took elsewhere: A3.
//!
//! # Invariants
//! R1  An iteration is in one word, or taken, never both: a word changes only by an exchange of
//!     what was seen (A1, A2), or by its owner while it is empty (A3), when no exchange of another
//!     member can succeed, since thieves never exchange an empty word.
//! R2  No A-B-A: a word that holds (begin, end) again still holds these iterations untaken, by R1.
//!     The exchange is right also then.
//! R3  What a member takes from its own word is after all that it took from it since the last
//!     refill; thieves take from the end. Hence the first iteration of a loop that is not done is
//!     never after one that waits for it (ordered loops).
//!
//! # Orderings
//! All relaxed: the words deal numbers, and no data. What iterations read and write travels by fork
//! and join.
//!
//! # Races
//! *A thief between A2 and A3* holds iterations that no other member sees: a third member may find
//! all words empty and leave the loop. That costs its help, not an iteration: the thief runs what
//! it holds.
//!
//! # Papers
//! Markatos & LeBlanc 1992. Deviations: thieves take from the end, which leaves the owner what is
//! next to its own (and R3). The lock of the published queue is an exchange of the word.

use super::chunk::static_block;
use platform::sync::CachePadded;
use platform::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::ops::Range;

/// One member's range, in one word; see the module head.
#[derive(Debug, Default)]
pub(crate) struct RangeWord(AtomicU64);

/// Bits of the begin; those of the end are above.
const BEGIN_BITS: u32 = 32;

fn pack(range: &Range<u32>) -> u64 {
    u64::from(range.end) << BEGIN_BITS | u64::from(range.start)
}

fn unpack(word: u64) -> Range<u32> {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
    let range = word as u32..(word >> BEGIN_BITS) as u32;
    range
}

impl RangeWord {
    /// A word that holds `range`.
    pub(crate) fn new(range: Range<u32>) -> Self {
        Self(AtomicU64::new(pack(&range)))
    }

    /// What is left now. Cost: one load.
    #[inline]
    pub(crate) fn look(&self) -> Range<u32> {
        // ORDERING: Relaxed - see the module head.
        unpack(self.0.load(Relaxed))
    }

    /// Takes `count(rest)` iterations, at least one, from the front; `None` when the word is empty.
    /// For the owner.
    #[inline]
    pub(crate) fn take_front(&self, count: impl Fn(u32) -> u32) -> Option<Range<u32>> {
        self.take(count, |range, count| {
            (range.start..range.start + count, range.start + count..range.end)
        })
    }

    /// Takes `count(rest)` iterations, at least one, from the back; `None` when the word is empty.
    /// For thieves.
    pub(crate) fn take_back(&self, count: impl Fn(u32) -> u32) -> Option<Range<u32>> {
        self.take(count, |range, count| {
            (range.end - count..range.end, range.start..range.end - count)
        })
    }

    /// Steps A1 and A2. `split` says what is taken and what is left.
    #[inline]
    fn take(
        &self,
        count: impl Fn(u32) -> u32,
        split: impl Fn(Range<u32>, u32) -> (Range<u32>, Range<u32>),
    ) -> Option<Range<u32>> {
        let mut seen = self.look();
        while !seen.is_empty() {
            let rest = seen.end - seen.start;
            let (taken, left) = split(seen.clone(), count(rest).clamp(1, rest));
            // ORDERING: Relaxed/Relaxed (A1, A2) - see the module head.
            match self.0.compare_exchange_weak(pack(&seen), pack(&left), Relaxed, Relaxed) {
                Ok(_) => return Some(taken),
                Err(now) => seen = unpack(now),
            }
        }
        None
    }

    /// Step A3: gives the word a new range. Only by the owner, and only while the word is empty:
    /// else iterations run twice or never.
    pub(crate) fn refill(&self, range: Range<u32>) {
        debug_assert!(
            self.look().is_empty(),
            "R1: a word is refilled by its owner while it is empty"
        );
        // ORDERING: Relaxed (A3) - see the module head.
        self.0.store(pack(&range), Relaxed);
    }
}

/// The iterations `0..length` of one loop, dealt to the words of its members.
///
/// A word counts in units of iterations: one iteration, or for ranges beyond 32 bits as many as
/// make the range fit. A chunk of such a range differs from the exact one by less than a 2^-31 part
/// of the range.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// On lines of their own: their owners are different members.
    words: Box<[CachePadded<RangeWord>]>,
    length: usize,
    unit: usize,
}

impl Ranges {
    /// Gives each of `size` members its block of `0..length`.
    pub(crate) fn new(length: usize, size: usize) -> Self {
        let unit = length.div_ceil(u32::MAX as usize).max(1);
        let units = length.div_ceil(unit);
        let word = |id| {
            let block = static_block(units, id, size);
            CachePadded::new(RangeWord::new(as_units(block.start)..as_units(block.end)))
        };
        Self { words: (0..size).map(word).collect(), length, unit }
    }

    /// Takes about `count(rest)` iterations of member `id`'s own range; `None` when it is empty.
    #[inline]
    pub(crate) fn take_own(
        &self,
        id: usize,
        count: impl Fn(usize) -> usize,
    ) -> Option<Range<usize>> {
        let taken = self.words[id].take_front(|rest| self.units(&count, rest))?;
        Some(self.iterations(&taken))
    }

    /// Takes about `count(rest)` iterations from the end of the fullest range; `None` when all are
    /// empty.
    pub(crate) fn steal(&self, count: impl Fn(usize) -> usize) -> Option<Range<usize>> {
        self.steal_units(count).map(|taken| self.iterations(&taken))
    }

    /// Takes about `count(rest)` iterations from the end of the fullest range into member `id`'s
    /// own range, which is empty. False when all are empty.
    pub(crate) fn steal_into(&self, id: usize, count: impl Fn(usize) -> usize) -> bool {
        match self.steal_units(count) {
            Some(taken) => {
                self.words[id].refill(taken);
                true
            }
            None => false,
        }
    }

    fn steal_units(&self, count: impl Fn(usize) -> usize) -> Option<Range<u32>> {
        loop {
            let rests = self.words.iter().map(|word| word.look().len()).enumerate();
            let (fullest, rest) = rests.max_by_key(|&(_, rest)| rest)?;
            if rest == 0 {
                return None;
            }
            // Nothing when others were faster; then another one may be the fullest.
            if let Some(taken) = self.words[fullest].take_back(|rest| self.units(&count, rest)) {
                return Some(taken);
            }
        }
    }

    fn units(&self, count: impl Fn(usize) -> usize, rest: u32) -> u32 {
        as_units((count((rest as usize).saturating_mul(self.unit)) / self.unit).min(rest as usize))
    }

    fn iterations(&self, units: &Range<u32>) -> Range<usize> {
        let at = |unit: u32| (unit as usize).saturating_mul(self.unit).min(self.length);
        at(units.start)..at(units.end)
    }
}

fn as_units(count: usize) -> u32 {
    u32::try_from(count).expect("`unit` was chosen so that all counts of units fit")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The published algorithm on plain queues: removes from the front of the own, from the back of
    /// the fullest.
    struct Queues(Vec<Range<usize>>);

    impl Queues {
        fn new(length: usize, size: usize) -> Self {
            Self((0..size).map(|id| static_block(length, id, size)).collect())
        }

        fn next(&mut self, id: usize) -> Option<Range<usize>> {
            let size = self.0.len();
            let part = |rest: usize| rest.div_ceil(size);
            let own = self.0[id].clone();
            if !own.is_empty() {
                self.0[id].start += part(own.len());
                return Some(own.start..self.0[id].start);
            }
            let (victim, rest) =
                self.0.iter().map(Range::len).enumerate().max_by_key(|&(_, rest)| rest)?;
            let end = self.0[victim].end;
            self.0[victim].end -= part(rest);
            (rest > 0).then_some(self.0[victim].end..end)
        }
    }

    proptest! {
        #[test]
        fn affinity_deals_what_the_published_queues_would(
            length in 0_usize..3_000, size in 1_usize..12, turns in prop::collection::vec(0_usize..12, 0..400),
        ) {
            let (ranges, mut oracle) = (Ranges::new(length, size), Queues::new(length, size));
            let part = |rest: usize| rest.div_ceil(size);
            for id in turns.into_iter().map(|turn| turn % size) {
                let taken = ranges.take_own(id, part).or_else(|| ranges.steal(part));
                prop_assert_eq!(taken, oracle.next(id));
            }
        }

        #[test]
        fn halves_that_were_stolen_are_still_dealt_once(
            length in 0_usize..2_000, size in 1_usize..9, turns in prop::collection::vec((0_usize..9, 1_usize..40), 0..300),
        ) {
            let ranges = Ranges::new(length, size);
            let mut dealt = vec![0; length];
            let everybody = (0..size).map(|id| (id, usize::MAX));
            for (id, grain) in turns.into_iter().map(|(turn, grain)| (turn % size, grain)).chain(everybody) {
                while let Some(taken) = ranges.take_own(id, |rest| grain.min(rest)) {
                    taken.for_each(|i| dealt[i] += 1);
                    if grain < 20 {
                        break;
                    }
                }
                if ranges.words[id].look().is_empty() {
                    ranges.steal_into(id, |rest| rest.div_ceil(2));
                }
            }
            for id in 0..size {
                while let Some(taken) = ranges.take_own(id, |rest| rest) {
                    taken.for_each(|i| dealt[i] += 1);
                }
            }
            prop_assert!(dealt.iter().all(|&times| times == 1));
        }

        #[test]
        fn ranges_beyond_thirty_two_bits_are_dealt_without_gap_or_overlap(
            length in u64::from(u32::MAX) - 5..=u64::MAX, size in 1_usize..9,
        ) {
            let length = usize::try_from(length).unwrap();
            let ranges = Ranges::new(length, size);
            let mut taken = Vec::new();
            for id in 0..size {
                while let Some(chunk) = ranges.take_own(id, |rest| rest / 2) {
                    taken.push(chunk);
                }
            }
            let mut end = 0;
            for chunk in taken {
                prop_assert_eq!(chunk.start, end);
                prop_assert!(!chunk.is_empty());
                end = chunk.end;
            }
            prop_assert_eq!(end, length);
        }
    }

    #[test]
    fn a_thief_takes_from_the_fullest_and_leaves_the_owner_its_front() {
        let ranges = Ranges::new(12, 3);
        assert_eq!(ranges.take_own(1, |_| 1), Some(4..5));
        assert_eq!(ranges.take_own(2, |_| 2), Some(8..10));
        assert_eq!(ranges.steal(|_| 2), Some(2..4));
        assert_eq!(ranges.take_own(0, |_| 9), Some(0..2));
        assert_eq!(ranges.steal(|rest| rest), Some(5..8));
    }
}
