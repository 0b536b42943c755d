//! The pseudorandom numbers of the benchmarks: x(k+1) = a x(k) mod 2^46, and the uniform number
//! r(k) = x(k) / 2^46 in (0, 1).

/// 5^13, the multiplier of every benchmark.
pub(crate) const A: u64 = 1_220_703_125;
const MASK: u64 = (1 << 46) - 1;

/// a x mod 2^46. 2^46 divides 2^64, so that the product may wrap.
#[inline]
pub(crate) fn times(a: u64, x: u64) -> u64 {
    a.wrapping_mul(x) & MASK
}

/// x as a number in (0, 1): exact, since 46 bits fit an `f64`.
#[inline]
pub(crate) fn unit(x: u64) -> f64 {
    x as i64 as f64 * (1.0 / (1_u64 << 46) as f64)
}

/// a^n mod 2^46: times this is the seed after n steps.
pub(crate) fn power(a: u64, n: u64) -> u64 {
    let (mut result, mut square, mut n) = (1, a & MASK, n);
    while n > 0 {
        if n & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        n >>= 1;
    }
    result
}

/// A sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    seed: u64,
}

impl Random {
    /// The sequence after `seed`, without its first `n` numbers.
    pub(crate) fn skip(seed: u64, n: u64) -> Self {
        Self { seed: times(power(A, n), seed) }
    }

    /// The next number's seed.
    #[inline]
    pub(crate) fn next_seed(&mut self) -> u64 {
        self.seed = times(A, self.seed);
        self.seed
    }

    /// The next number.
    #[inline]
    pub(crate) fn next(&mut self) -> f64 {
        unit(self.next_seed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_sequence_goes_on_where_a_stepped_one_is() {
        let mut stepped = Random::skip(314_159_265, 0);
        for steps in 0..100 {
            assert_eq!(Random::skip(314_159_265, steps).seed, stepped.seed);
            assert_eq!(stepped.seed & !MASK, 0);
            let number = stepped.next();
            assert!(number > 0.0 && number < 1.0);
        }
    }
}
