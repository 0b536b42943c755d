//! Exact proportional division of whole processors among claims with a cap.
//!
//! # Why integers
//! Weights are floating-point numbers. They are rounded to multiples of 1 / 2^20 once; all that
//! follows is exact, so that ties are ties on every machine and the sum is never off by one.

use std::cmp::Reverse;

use crate::snapshot::{MAX_WEIGHT, MIN_WEIGHT};

/// Fixed-point one. The smallest weight, 0.001, is about 1049 of these: it is off by less than 0.1
/// %.
const ONE: f64 = (1 << FIXED_BITS) as f64;
/// Binary places of a weight in fixed point.
pub(crate) const FIXED_BITS: u32 = 20;

/// The claim of one participant in a division.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// In proportion to this; not 0 where `room` is not 0.
    pub(crate) key: u128,
    /// At most this many.
    pub(crate) room: u32,
}

/// The proportion of an application of this weight and request: their product in fixed point.
pub(crate) fn key(weight: f64, request: u32) -> u128 {
    // At most 1000 * 2^20 < 2^30 times a u32: 62 bits; sums and products below stay within 128
    // bits.
    fixed(weight) * u128::from(request.max(1))
}

/// A weight in fixed point; not 0.
///
/// A weight out of range counts as the nearest one in range, one that is no number as 1: a policy
/// answers every snapshot, and [`AppView::check`](crate::AppView::check) is there to refuse such a
/// weight.
pub(crate) fn fixed(weight: f64) -> u128 {
    let weight = if weight.is_nan() { 1.0 } else { weight.clamp(MIN_WEIGHT, MAX_WEIGHT) };
    (weight * ONE).round() as u128
}

/// Divides `amount` in proportion to the keys. No claim gets more than its room; what one cannot
/// take goes to the others in the same proportion. Whole numbers come from the largest remainder,
/// ties go to the earlier claim. The parts add up to the smaller of `amount` and the sum of the
/// rooms. O(n log n).
pub(crate) fn divide(amount: u64, claims: &[Claim]) -> Vec<u32> {
    let mut parts = vec![0; claims.len()];
    let room: u64 = claims.iter().map(|c| u64::from(c.room)).sum();
    let mut rest = u128::from(amount.min(room));

    // Water level: the claim that is full first, by room per key, is filled first. All others then
    // share what is left.
    let mut open: Vec<usize> = (0..claims.len()).filter(|&i| claims[i].room > 0).collect();
    open.sort_by(|&i, &j| {
        let (a, b) = (claims[i], claims[j]);
        (u128::from(a.room) * b.key).cmp(&(u128::from(b.room) * a.key))
    });
    let mut keys: u128 = open.iter().map(|&i| claims[i].key).sum();
    let mut full = 0;
    for &i in &open {
        let Claim { key, room } = claims[i];
        if u128::from(room) * keys > rest * key {
            break;
        }
        parts[i] = room;
        rest -= u128::from(room);
        keys -= key;
        full += 1;
    }
    let open = &mut open[full..];

    // Exact parts are rest * key / keys, each below its room: rounding one of them up does not pass
    // the room.
    let mut left = rest;
    for &i in open.iter() {
        let part = rest * claims[i].key / keys;
        left -= part;
        parts[i] = u32::try_from(part).expect("it is below the room, a u32");
    }
    open.sort_by_key(|&i| (Reverse(rest * claims[i].key % keys), i));
    for &i in open.iter().take(usize::try_from(left).expect("it is below the number of claims")) {
        parts[i] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim((key, room): (u128, u32)) -> Claim {
        Claim { key, room }
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
    fn nothing_to_divide_and_nobody_to_take_are_answered() {
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
        /// The oracle is the real-valued water level, found by bisection.
        #[test]
        fn parts_lie_within_one_of_the_water_level_and_add_up(
            amount in 0..3000_u64,
            claims in prop::collection::vec((1..5000_u128, 0..200_u32), 0..40),
        ) {
            let claims: Vec<_> = claims.into_iter().map(claim).collect();
            let parts = divide(amount, &claims);
            let room: u64 = claims.iter().map(|c| u64::from(c.room)).sum();
            prop_assert_eq!(parts.iter().map(|&p| u64::from(p)).sum::<u64>(), amount.min(room));
            let fill = |level: f64, c: &Claim| (level * c.key as f64).min(f64::from(c.room));
            let (mut low, mut high) = (0.0, 200.0);
            for _ in 0..100 {
                let level = (low + high) / 2.0;
                let sum: f64 = claims.iter().map(|c| fill(level, c)).sum();
                if sum < amount.min(room) as f64 { low = level } else { high = level }
            }
            for (part, c) in parts.iter().zip(&claims) {
                let exact = fill(high, c);
                prop_assert!((f64::from(*part) - exact).abs() < 1.0 + 1e-6, "{part} against {exact}");
                prop_assert!(*part <= c.room);
            }
        }
    }
}
