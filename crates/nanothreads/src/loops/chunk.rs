//! How long the next chunk of a loop is, as pure arithmetic.
//!
//! # Papers
//! N iterations, P members, R not dealt yet. Named by P3 section 3; the formulas are those of their
//! own papers.
//! | schedule | chunk | paper |
//! |---|---|---|
//! | `Schedule::PURE` (PSS) | 1 | |
//! | `Schedule::Dynamic` (CSS) | k | |
//! | `Schedule::Guided` (GSS) | ceil(R / P) | Polychronopoulos & Kuck 1987 |
//! | `Schedule::Trapezoid` (TSS) | from f = ceil(N / 2P) down to l = 1 in n = ceil(2N / (f + l)) chunks, each (f - l) / (n - 1) shorter | Tzen & Ni 1991 |
//! | `Schedule::Safe` (SSS) | the i-th of each member: ceil((1 - alpha)^i N alpha / P), at least 1 | Liu, Saletore & Lewis 1992 |
//! | `Schedule::Factoring` | batches of P chunks of ceil(R / 2P) | Hummel, Schonberg & Flynn 1992 |
//! | `Schedule::Affinity` | ceil(1 / P) of the own rest, then of the fullest member's rest | Markatos & LeBlanc 1992 |
//!
//! The step of the trapezoid is a fraction: its chunks end at the rounded-up sums of the exact
//! lengths, so that each is within one iteration of its exact length (the last ones are cut at N).

use super::schedule::Alpha;
use std::num::NonZeroUsize;
use std::ops::Range;

/// The block of member `id` of `size` under `Schedule::Static`: sizes differ by at most one.
pub(crate) fn static_block(length: usize, id: usize, size: usize) -> Range<usize> {
    let (quotient, rest) = (length / size, length % size);
    let begin = id * quotient + id.min(rest);
    begin..begin + quotient + usize::from(id < rest)
}

/// The next chunk length of guided self-scheduling: ceil(R / P), at least `least`, at most what is
/// left.
pub(crate) fn guided_chunk(remaining: usize, size: usize, least: NonZeroUsize) -> usize {
    remaining.div_ceil(size).max(least.get()).min(remaining)
}

/// The length of a member's chunk number `index` (from 0) in safe self-scheduling; at least 1.
pub(crate) fn safe_chunk(length: usize, index: u32, size: usize, alpha: Alpha) -> usize {
    let alpha = alpha.get();
    let power = i32::try_from(index).map_or(0.0, |index| (1.0 - alpha).powi(index));
    let exact = power * length as f64 * alpha / size as f64;
    // A hair above an integer is that integer: it is the arithmetic that put it there. A hair is
    // less than an iteration, and where numbers have no fractions left chunks are rounded up:
    // otherwise all together would be shorter than the loop.
    const WHOLE: f64 = (1_u64 << 52) as f64;
    let hair = if exact < WHOLE { (exact * 1e-12).min(1e-3) } else { -exact * f64::EPSILON };
    let chunk = (exact - hair).ceil();
    // The conversion saturates.
    (chunk as usize).max(1)
}

/// The chunks of trapezoid self-scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trapezoid {
    length: usize,
    first: usize,
    last: usize,
    count: usize,
}

impl Trapezoid {
    /// Chunks of `0..length` from ceil(N / 2P) down to 1.
    pub(crate) fn new(length: usize, size: usize) -> Self {
        let first = length.div_ceil(size.saturating_mul(2)).max(1);
        Self::between(length, first, 1)
    }

    /// Chunks of `0..length` from `first` down to `last`. 0 counts as 1, a `last` longer than
    /// `first` as `first`.
    pub(crate) fn between(length: usize, first: usize, last: usize) -> Self {
        let first = first.max(1);
        let last = last.clamp(1, first);
        let count = (2 * length as u128).div_ceil(first as u128 + last as u128);
        let count = usize::try_from(count)
            .expect("2 * length / (first + last), which is at least 2, is at most length");
        Self { length, first, last, count }
    }

    /// Where chunk `number` begins: the length of the range when there are no more.
    pub(crate) fn begin(&self, number: usize) -> usize {
        if number >= self.count {
            return self.length;
        }
        let [number, first, last, count] =
            [number, self.first, self.last, self.count].map(|n| n as u128);
        // The sum of an arithmetic progression. No overflow: number * first stays below twice the
        // length, and so does count * first, so that the product exceeds 128 bits only after 2^60
        // chunks.
        let shrinkage = (first - last) * number * number.saturating_sub(1);
        let exact_times_steps = 2 * (count - 1) * number * first - shrinkage;
        let begin = exact_times_steps.div_ceil((2 * (count - 1)).max(1));
        usize::try_from(begin).map_or(self.length, |begin| begin.min(self.length))
    }

    /// Chunk `number`, empty when there are no more.
    pub(crate) fn chunk(&self, number: usize) -> Range<usize> {
        self.begin(number)..self.begin(number.saturating_add(1))
    }
}

/// The chunks of factoring, to be asked for in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factoring {
    length: usize,
    size: usize,
    /// Number of the first chunk of the current batch.
    first: usize,
    /// Where the current batch begins.
    begin: usize,
}

impl Factoring {
    /// Chunks of `0..length` for `size` members.
    pub(crate) fn new(length: usize, size: usize) -> Self {
        Self { length, size, first: 0, begin: 0 }
    }

    /// Chunk `number`, not lower than any asked for before; empty when there are no more.
    pub(crate) fn chunk(&mut self, number: usize) -> Range<usize> {
        loop {
            let remaining = self.length - self.begin;
            let chunk = remaining.div_ceil(self.size.saturating_mul(2));
            let place = number - self.first;
            if remaining == 0 || place < self.size {
                let begin = self.begin.saturating_add(place.saturating_mul(chunk)).min(self.length);
                return begin..begin.saturating_add(chunk).min(self.length);
            }
            self.first += self.size;
            self.begin =
                self.begin.saturating_add(chunk.saturating_mul(self.size)).min(self.length);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Asks `chunk` for numbers 0, 1, ... until it returns an empty range.
    fn lengths(mut chunk: impl FnMut(usize) -> Range<usize>) -> Vec<usize> {
        let mut expected = 0;
        (0..)
            .map(&mut chunk)
            .take_while(|range| !range.is_empty())
            .map(|range| {
                assert_eq!(range.start, expected, "no gap and no overlap");
                expected = range.end;
                range.len()
            })
            .collect()
    }

    /// The trapezoid by adding exact fractions: (f - l) / (n - 1) less each time, in units of 1 /
    /// (n - 1).
    fn trapezoid_oracle(length: i64, first: i64, last: i64) -> Vec<usize> {
        let count = (2 * length + first + last - 1) / (first + last);
        let unit = (count - 1).max(1);
        let (mut end, mut exact, mut begin) = (0, first * unit, 0);
        let mut lengths = Vec::new();
        for _ in 0..count {
            end += exact;
            let rounded = ((end + unit - 1) / unit).min(length);
            if rounded > begin {
                lengths.push((rounded - begin) as usize);
            }
            begin = rounded;
            exact -= first - last;
        }
        lengths
    }

    /// Factoring by its definition: batch after batch.
    fn factoring_oracle(length: usize, size: usize) -> Vec<usize> {
        let mut remaining = length;
        let mut lengths = Vec::new();
        while remaining > 0 {
            let chunk = remaining.div_ceil(2 * size);
            for _ in 0..size {
                let dealt = chunk.min(remaining);
                if dealt > 0 {
                    lengths.push(dealt);
                }
                remaining -= dealt;
            }
        }
        lengths
    }

    proptest! {
        #[test]
        fn static_blocks_are_contiguous_and_differ_by_at_most_one(length in 0_usize..10_000, size in 1_usize..70) {
            let mut end = 0;
            for id in 0..size {
                let block = static_block(length, id, size);
                prop_assert_eq!(block.start, end);
                prop_assert!(block.len() == length / size || block.len() == length.div_ceil(size));
                end = block.end;
            }
            prop_assert_eq!(end, length);
        }

        #[test]
        fn trapezoid_chunks_follow_the_published_formula(length in 1_usize..20_000, size in 1_usize..65) {
            let trapezoid = Trapezoid::new(length, size);
            let first = length.div_ceil(2 * size);
            prop_assert_eq!(lengths(|n| trapezoid.chunk(n)), trapezoid_oracle(length as i64, first as i64, 1));
        }

        #[test]
        fn trapezoid_chunks_follow_the_formula_for_given_ends(
            length in 1_usize..20_000, first in 1_usize..500, last in 1_usize..500,
        ) {
            let trapezoid = Trapezoid::between(length, first, last);
            let oracle = trapezoid_oracle(length as i64, first as i64, last.min(first) as i64);
            prop_assert_eq!(lengths(|n| trapezoid.chunk(n)), oracle);
        }

        #[test]
        fn factoring_chunks_follow_the_published_formula(length in 0_usize..20_000, size in 1_usize..65) {
            let mut factoring = Factoring::new(length, size);
            prop_assert_eq!(lengths(|n| factoring.chunk(n)), factoring_oracle(length, size));
        }

        #[test]
        fn a_member_that_skips_numbers_of_factoring_gets_the_same_chunks(
            length in 0_usize..5_000, size in 1_usize..20, stride in 1_usize..40,
        ) {
            let (mut whole, mut skipping) = (Factoring::new(length, size), Factoring::new(length, size));
            let all: Vec<_> = (0..length + 50).map(|number| whole.chunk(number)).collect();
            for number in (0..all.len()).step_by(stride) {
                prop_assert_eq!(skipping.chunk(number), all[number].clone());
            }
        }

        #[test]
        fn safe_chunks_follow_the_published_formula(
            length in 1_u128..5_000, size in 1_u128..65, index in 0_u32..12, (a, b) in (1_u128..11, 11_u128..21),
        ) {
            // Exactly: ceil(N a (b - a)^i / (P b^(i + 1))) for alpha = a / b.
            let oracle = (length * a * (b - a).pow(index)).div_ceil(size * b.pow(index + 1)).max(1);
            let alpha = Alpha::new(a as f64 / b as f64).unwrap();
            prop_assert_eq!(safe_chunk(length as usize, index, size as usize, alpha) as u128, oracle);
        }
    }

    #[test]
    fn a_thousand_iterations_for_four_members_are_cut_as_the_formulas_say() {
        let mut factoring = Factoring::new(1000, 4);
        assert_eq!(
            lengths(|n| factoring.chunk(n))[..12],
            [125, 125, 125, 125, 63, 63, 63, 63, 31, 31, 31, 31]
        );
        let trapezoid = Trapezoid::new(1000, 4);
        // 125, then 124 / 15 less each time: 125, 241.7, 350.2, 450.4, ... rounded up; 15 chunks
        // are 1007 already, so that the last one is cut and the sixteenth empty.
        let lengths = lengths(|n| trapezoid.chunk(n));
        assert_eq!(lengths[..4], [125, 117, 109, 100]);
        assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (15, 1000));
        let safe: Vec<_> = (0..5).map(|index| safe_chunk(1000, index, 4, Alpha::HALF)).collect();
        assert_eq!(safe, [125, 63, 32, 16, 8]);
    }

    #[test]
    fn ranges_as_long_as_memory_do_not_overflow() {
        let trapezoid = Trapezoid::new(usize::MAX, 2);
        assert_eq!(trapezoid.chunk(0).len(), usize::MAX / 4 + 1);
        assert_eq!(trapezoid.chunk(usize::MAX), usize::MAX..usize::MAX);
        let mut factoring = Factoring::new(usize::MAX, 2);
        assert_eq!(factoring.chunk(0).len(), usize::MAX / 4 + 1);
        assert!(factoring.chunk(usize::MAX).is_empty());
        assert_eq!(safe_chunk(usize::MAX, u32::MAX, 2, Alpha::HALF), 1);
        let whole = Alpha::new(1.0).unwrap();
        for size in [1, 2, 3, 7, 64] {
            assert!(
                safe_chunk(usize::MAX, 0, size, whole) >= usize::MAX / size,
                "{size} chunks are the whole loop"
            );
        }
    }
}
