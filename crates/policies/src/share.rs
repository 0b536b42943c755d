//! Exact proportional division of whole processors among claims with a floor and a cap.
//!
//! ```
//! use policies::share::{Claim, divide};
//!
//! // 10 by 1 : 3, and the second has room for 6 only.
//! let claim = |key, room| Claim { key, floor: 1, room };
//! assert_eq!(divide(10, &[claim(1, 10), claim(3, 6)]), [4, 6]);
//! ```
//!
//! # Why integers
//! Weights are floating-point numbers. They are rounded to multiples of 1 / 2^20 once; all that
//! follows is exact, so that ties are ties on every machine and the sum is never off by one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::snapshot::{MAX_WEIGHT, MIN_WEIGHT};

/// Fixed-point one. The smallest weight, 0.001, is about 1049 of these: it is off by less than 0.1
/// %.
const ONE: f64 = (1 << FIXED_BITS) as f64;
/// Binary places of a weight in fixed point.
pub const FIXED_BITS: u32 = 20;

/// The claim of one participant in a division.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// In proportion to this: below 2^64, and not 0 where `room` is not 0. See [`key`].
    pub key: u128,
    /// At least this many; no more than `room`.
    pub floor: u32,
    /// At most this many.
    pub room: u32,
}

/// The proportion of an application of this weight and request: their product in fixed point.
#[must_use]
pub fn key(weight: f64, request: u32) -> u128 {
    // At most 1000 * 2^20 < 2^30 times a u32: 62 bits; sums and products below stay within 128
    // bits.
    fixed(weight) * u128::from(request.max(1))
}

/// A weight in fixed point; not 0.
///
/// A weight out of range counts as the nearest one in range, one that is no number as 1: a policy
/// answers every snapshot, and [`AppView::check`](crate::AppView::check) is there to refuse such a
/// weight.
#[must_use]
pub fn fixed(weight: f64) -> u128 {
    let weight = if weight.is_nan() { 1.0 } else { weight.clamp(MIN_WEIGHT, MAX_WEIGHT) };
    (weight * ONE).round() as u128
}

/// Divides `amount` in proportion to the keys, within floors and rooms. The parts add up to
/// `amount`, as far as the sums of floors and rooms allow that. O(n log n).
///
/// By Webster's divisor method: processors are given out one after the other, each to the claim
/// with the largest key / (2 x part + 1) of those that have room, ties to the earlier claim. A
/// floor lies inside the proportion: a claim that is below its floor by that order begins there,
/// and gets the next one when its turn comes. What a claim leaves (because it is gone, or smaller)
/// takes nothing from any other one, which quotas with largest remainders do not have.
#[must_use]
pub fn divide(amount: u64, claims: &[Claim]) -> Vec<u32> {
    let floor = |claim: &Claim| claim.floor.min(claim.room);
    let rooms: u64 = claims.iter().map(|c| u64::from(c.room)).sum();
    if rooms <= amount {
        return claims.iter().map(|claim| claim.room).collect();
    }
    let floors: u64 = claims.iter().map(|c| u64::from(floor(c))).sum();
    if amount <= floors {
        return claims.iter().map(floor).collect();
    }
    // A scale on which whole numbers tell all thresholds apart well; a power of two changes none
    // of the comparisons.
    let largest = claims.iter().map(|claim| claim.key).max().unwrap_or(1).max(1);
    let scale = largest.leading_zeros().saturating_sub(66);
    let keys: Vec<u64> = claims
        .iter()
        .map(|claim| u64::try_from(claim.key.max(1) << scale).unwrap_or(u64::MAX))
        .collect();
    // All with a quotient of at least `threshold`, which must not be too many.
    let part = |i: usize, threshold: u64| {
        let by_key = (keys[i] / threshold).div_ceil(2);
        let room = claims[i].room;
        u32::try_from(by_key).unwrap_or(u32::MAX).clamp(floor(&claims[i]), room)
    };
    let sum =
        |threshold: u64| -> u64 { (0..claims.len()).map(|i| u64::from(part(i, threshold))).sum() };
    let (mut low, mut high) = (0, u64::MAX);
    let near = claims.len() as u64 / 4 + 1;
    // What all keys together would need: close to the threshold, unless floors and rooms matter.
    let total: u128 = keys.iter().map(|key| u128::from(*key)).sum();
    let mut guess = u64::try_from(total / (2 * u128::from(amount))).unwrap_or(u64::MAX / 2).max(1);
    while high - low > 1 {
        let given = sum(guess);
        if given > amount {
            low = guess;
        } else {
            high = guess;
            if amount - given <= near {
                break;
            }
        }
        guess = match (low, high) {
            (0, high) => (high / 2).max(1),
            (low, u64::MAX) => low.saturating_mul(2),
            (low, high) => low + (high - low) / 2,
        };
        if guess == low || guess == high {
            break;
        }
    }
    let mut parts: Vec<u32> = (0..claims.len()).map(|i| part(i, high)).collect();
    let left = amount - parts.iter().map(|part| u64::from(*part)).sum::<u64>();
    let turn = |i: usize, part: u32| Turn { key: keys[i], odd: 2 * u64::from(part) + 1, at: i };
    let mut turns: BinaryHeap<Turn> = (0..claims.len())
        .filter(|&i| parts[i] < claims[i].room)
        .map(|i| turn(i, parts[i]))
        .collect();
    for _ in 0..left {
        let Some(Turn { at, .. }) = turns.pop() else { break };
        parts[at] += 1;
        if parts[at] < claims[at].room {
            turns.push(turn(at, parts[at]));
        }
    }
    parts
}

/// A claim that may get the next one; the largest comes first.
#[derive(PartialEq, Eq)]
struct Turn {
    key: u64,
    odd: u64,
    at: usize,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, its) = (u128::from(self.key), u128::from(other.key));
        let by_quotient = (own * u128::from(other.odd)).cmp(&(its * u128::from(self.odd)));
        by_quotient.then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim((key, room): (u128, u32)) -> Claim {
        Claim { key, floor: 0, room }
    }

    #[test]
    fn surplus_of_the_full_goes_to_the_others_in_proportion() {
        // 30 by 40 : 60 is 12 : 18; the first has room for 3 only, so that 27 go to the second.
        assert_eq!(divide(30, &[(40, 3), (60, 59)].map(claim)), [3, 27]);
        // 10 by 1 : 1 : 2 is 2.5 : 2.5 : 5; remainders tie, the earlier one is rounded up.
        assert_eq!(divide(10, &[(1, 9), (1, 9), (2, 9)].map(claim)), [3, 2, 5]);
        // Two rounds: 12 by 1 : 1 : 1 is 4 each; room 1 leaves 11 for two, 5.5 each; room 5 leaves
        // 6 for the last.
        assert_eq!(divide(12, &[(1, 1), (1, 5), (1, 9)].map(claim)), [1, 5, 6]);
    }

    #[test]
    fn nothing_to_divide_and_none_to_take_are_answered() {
        assert_eq!(divide(0, &[(1, 4), (1, 4)].map(claim)), [0, 0]);
        assert_eq!(divide(5, &[(1, 0), (0, 0)].map(claim)), [0, 0]);
        assert_eq!(divide(5, &[]), [0; 0]);
        let huge =
            [(key(f64::MAX, u32::MAX), u32::MAX), (key(f64::NAN, u32::MAX), u32::MAX)].map(claim);
        assert_eq!(divide(u64::MAX, &huge), [u32::MAX, u32::MAX]);
    }

    #[test]
    fn weights_out_of_range_count_as_the_nearest_and_no_number_as_one() {
        assert_eq!(key(f64::NAN, 3), key(1.0, 3));
        assert_eq!(key(-4.0, 3), key(MIN_WEIGHT, 3));
        assert_eq!(key(f64::INFINITY, 3), key(MAX_WEIGHT, 3));
        assert_eq!(key(2.0, 0), key(2.0, 1));
    }

    proptest! {
        /// The oracle gives out one processor after the other.
        #[test]
        fn parts_are_those_of_one_processor_after_the_other(
            amount in 0..3000_u64,
            claims in prop::collection::vec((1..5000_u128, 0..200_u32, 0..4_u32), 0..40),
            scale in 0..50_u32,
        ) {
            let claims: Vec<_> = claims
                .into_iter()
                .map(|(key, room, floor)| Claim { key: key << scale, floor: floor.min(room), room })
                .collect();
            let parts = divide(amount, &claims);
            let mut slow: Vec<u32> = claims.iter().map(|claim| claim.floor).collect();
            let floors: u64 = slow.iter().map(|part| u64::from(*part)).sum();
            for _ in floors..amount {
                let open = (0..claims.len()).filter(|&i| slow[i] < claims[i].room);
                let quotient = |&i: &usize| (claims[i].key, u128::from(2 * slow[i] + 1));
                let best = open.max_by(|i, j| {
                    let ((a, b), (c, d)) = (quotient(i), quotient(j));
                    (a * d).cmp(&(c * b)).then(j.cmp(i))
                });
                let Some(best) = best else { break };
                slow[best] += 1;
            }
            prop_assert_eq!(&parts, &slow);

            // One that leaves takes nothing from any other.
            if let Some((gone, rest)) = claims.split_first() {
                let after = divide(amount.max(u64::from(gone.floor)), rest);
                for (before, after) in parts[1..].iter().zip(after) {
                    prop_assert!(after >= *before);
                }
            }
        }
    }
}
