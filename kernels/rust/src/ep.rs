//! EP: Gaussian pairs from uniform random numbers by the polar method, their sums, and how many lie
//! in each square ring. One parallel loop over batches.

use crate::checks::Checks;
use crate::loops::Loops;
use crate::options::Options;
use crate::program;
use crate::random::{A, Random, power, times, unit};
use crate::report::Report;

const SEED: u64 = 271_828_183;
/// A batch is 2^16 pairs.
const BATCH_LOG2: u32 = 16;
const BATCH: usize = 1 << BATCH_LOG2;
/// Pairs at a time: what they need stays in the first cache.
const STRIP: usize = 256;
/// Independent sequences, since each step of one waits for a multiplication.
const LANES: usize = 4;
const RINGS: usize = 10;

struct Class {
    log2_pairs: u32,
    sum_x: f64,
    sum_y: f64,
    /// Where they are published.
    rings: Option<[i64; 6]>,
}

const CLASSES: [Class; 4] = [
    Class {
        log2_pairs: 24,
        sum_x: -3.24783465203474e+3,
        sum_y: -6.958407078382297e+3,
        rings: Some([6_140_517, 5_865_300, 1_100_361, 68_546, 1_648, 17]),
    },
    Class {
        log2_pairs: 25,
        sum_x: -2.863319731645753e+3,
        sum_y: -6.320053679109499e+3,
        rings: None,
    },
    Class {
        log2_pairs: 28,
        sum_x: -4.295875165629892e+3,
        sum_y: -1.580732573678431e+4,
        rings: Some([98_257_395, 93_827_014, 17_611_549, 1_110_028, 26_536, 245]),
    },
    Class {
        log2_pairs: 30,
        sum_x: 4.033815542441498e+4,
        sum_y: -2.660669192809235e+4,
        rings: None,
    },
];

/// What a thread has summed.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    x: f64,
    y: f64,
    /// Pairs with l <= max(|X|, |Y|) < l + 1.
    rings: [i64; RINGS],
}

impl Sums {
    fn add(mut self, other: Self) -> Self {
        self.x += other.x;
        self.y += other.y;
        for (own, others) in self.rings.iter_mut().zip(other.rings) {
            *own += others;
        }
        self
    }

    /// Adds the pairs of the batch with this number.
    fn add_batch(&mut self, batch: usize) {
        let mut sequence = Random::skip(SEED, 2 * (BATCH * batch) as u64);
        // Lane i makes pairs i, i + LANES, ...: both numbers of a pair, then 2 LANES steps at once.
        let jump = power(A, 2 * LANES as u64);
        let mut lanes = [0; LANES];
        for lane in &mut lanes {
            *lane = sequence.next_seed();
            sequence.next_seed();
        }
        let (mut x, mut y, mut t) = ([0.0; STRIP], [0.0; STRIP], [0.0; STRIP]);
        for _ in 0..BATCH / STRIP {
            let mut accepted = 0;
            for _ in 0..STRIP / LANES {
                for lane in &mut lanes {
                    let a = 2.0 * unit(*lane) - 1.0;
                    let b = 2.0 * unit(times(A, *lane)) - 1.0;
                    *lane = times(jump, *lane);
                    let square = a * a + b * b;
                    // Always written; kept only where the point lies in the circle. There is a
                    // place left: the strip has one for each pair.
                    let place = accepted % STRIP;
                    x[place] = a;
                    y[place] = b;
                    t[place] = square;
                    accepted += usize::from(square <= 1.0);
                }
            }
            for t in &mut t[..accepted] {
                *t = (-2.0 * t.ln() / *t).sqrt();
            }
            for ((x, y), t) in x.iter().zip(&y).zip(&t[..accepted]) {
                let (gx, gy) = (x * t, y * t);
                let (ax, ay) = (gx.abs(), gy.abs());
                self.rings[if ax > ay { ax } else { ay } as i32 as usize] += 1;
                self.x += gx;
                self.y += gy;
            }
        }
    }

    /// The published sums, and the published numbers of pairs in each ring where there are any.
    fn check(&self, checks: &mut Checks, class: &Class) {
        checks.close("sum of X", self.x, class.sum_x, 1e-8);
        checks.close("sum of Y", self.y, class.sum_y, 1e-8);
        for (i, (&value, expected)) in
            self.rings.iter().zip(class.rings.unwrap_or_default()).enumerate()
        {
            if class.rings.is_some() {
                checks.equal(format!("ring {i}"), value, expected);
            }
        }
    }
}

/// The kernel.
#[derive(Debug)]
pub struct Kernel;

impl program::Kernel for Kernel {
    fn run<L: Loops>(loops: &L, options: &Options) -> Report {
        let class = options.class.of(&CLASSES);
        let batches = 1_usize << (class.log2_pairs - BATCH_LOG2);
        // The benchmark counts random numbers, two a pair.
        let operations = 2.0 * f64::from(class.log2_pairs).exp2();
        let mut report = Report::begin("ep", options, loops.threads(), 1, operations);
        while report.again() {
            let sums = report.time(|| {
                let piece = |batches: std::ops::Range<usize>| {
                    let mut own = Sums::default();
                    batches.for_each(|batch| own.add_batch(batch));
                    own
                };
                loops.reduce(0..batches, Sums::default(), piece, Sums::add)
            });
            sums.check(report.checks(), class);
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_too_many_or_another_sum_fails() {
        let class = &CLASSES[0];
        let rings = class.rings.unwrap();
        let mut right = Sums { x: class.sum_x, y: class.sum_y, rings: [0; RINGS] };
        right.rings[..6].copy_from_slice(&rings);
        let passes = |sums: Sums| {
            let mut checks = Checks::default();
            sums.check(&mut checks, class);
            checks.passed()
        };
        assert!(passes(right));
        assert!(!passes(Sums { y: right.y * (1.0 + 2e-8), ..right }));
        let mut wrong = right;
        wrong.rings[5] += 1;
        assert!(!passes(wrong));
    }
}
