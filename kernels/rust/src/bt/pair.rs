//! Two numbers side by side, one for each of two lines of points: one vector register.

use std::ops::{Add, AddAssign, Mul, MulAssign, Sub, SubAssign};

/// A number of each of two lines. Aligned as vectors are, so that instructions take it from memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Pair([f64; 2]);

impl Pair {
    /// The same number twice.
    #[inline(always)]
    pub(super) fn both(value: f64) -> Self {
        Self([value; 2])
    }

    #[inline(always)]
    pub(super) fn new(first: f64, second: f64) -> Self {
        Self([first, second])
    }

    /// The element `at` and the one `next` elements after it.
    #[inline(always)]
    pub(super) fn load(from: &[f64], at: usize, next: usize) -> Self {
        Self::new(from[at], from[at + next])
    }

    /// The reverse of [`Pair::load`].
    #[inline(always)]
    pub(super) fn store(self, to: &mut [f64], at: usize, next: usize) {
        to[at] = self.first();
        to[at + next] = self.second();
    }

    #[inline(always)]
    pub(super) fn first(self) -> f64 {
        self.0[0]
    }

    #[inline(always)]
    pub(super) fn second(self) -> f64 {
        self.0[1]
    }

    /// 1 / this.
    #[inline(always)]
    pub(super) fn reciprocal(self) -> Self {
        Self(self.0.map(|number| 1.0 / number))
    }
}

impl Add for Pair {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self([self.0[0] + other.0[0], self.0[1] + other.0[1]])
    }
}

impl Sub for Pair {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self([self.0[0] - other.0[0], self.0[1] - other.0[1]])
    }
}

impl Mul for Pair {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self([self.0[0] * other.0[0], self.0[1] * other.0[1]])
    }
}

impl Mul<Pair> for f64 {
    type Output = Pair;

    #[inline(always)]
    fn mul(self, other: Pair) -> Pair {
        Pair::both(self) * other
    }
}

impl AddAssign for Pair {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Pair {
    #[inline(always)]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl MulAssign for Pair {
    #[inline(always)]
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_is_calculated_by_itself() {
        let numbers = [1.0, 2.0, 3.0, 4.0, 5.0];
        let (a, b) = (Pair::load(&numbers, 1, 2), Pair::new(8.0, 0.5));
        let halves = |pair: Pair| [pair.first(), pair.second()];
        assert_eq!(halves(a), [2.0, 4.0]);
        assert_eq!(halves(a + b), [10.0, 4.5]);
        assert_eq!(halves(a - b), [-6.0, 3.5]);
        assert_eq!(halves(a * b), [16.0, 2.0]);
        assert_eq!(halves(3.0 * b.reciprocal()), [0.375, 6.0]);
        let mut to = [0.0; 4];
        a.store(&mut to, 0, 3);
        assert_eq!(to, [2.0, 0.0, 0.0, 4.0]);
        // One line twice.
        Pair::both(7.0).store(&mut to, 1, 0);
        assert_eq!(to, [2.0, 7.0, 0.0, 4.0]);
    }
}
