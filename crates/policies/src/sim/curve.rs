//! How much faster a parallel phase is on more processors.
//!
//! # Papers
//! Amdahl: "Validity of the single processor approach", 1967. Downey: "A model for speedup of
//! parallel programs", UC Berkeley CSD-97-933, 1997: a mean parallelism, and how much the
//! parallelism varies.
//!
//! # Invariants
//! C1  S(1) = 1, S(p) > 0 and finite for every p. A measured curve is straight between its points,
//!     and flat beyond the last one: nothing is known there, and a program's runtime would not use
//!     what does not help.

use serde::{Deserialize, Serialize};

use super::pairs::pairs;

/// More than this speedup per processor is a mistake in a table and no cache effect.
pub const MOST_SUPERLINEAR: f64 = 4.0;

/// A speedup curve.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Curve {
    /// As many times as fast as there are processors.
    #[default]
    Linear,
    /// A part of the work is serial.
    Amdahl {
        /// That part, 0 to 1.
        serial: f64,
    },
    /// Downey's model.
    Downey {
        /// The mean parallelism, at least 1; also the most speedup that there is.
        parallelism: f64,
        /// The variance of the parallelism, at least 0: 0 is linear up to the mean.
        variance: f64,
    },
    /// Measured speedups: pairs of processors and speedup, ascending, from (1, 1.0) on.
    Speedups(#[serde(deserialize_with = "pairs")] Vec<(u32, f64)>),
    /// Measured times in any unit: pairs of processors and time, ascending, from 1 processor on.
    Times(#[serde(deserialize_with = "pairs")] Vec<(u32, f64)>),
}

impl Curve {
    /// Says whether the curve is one; a fault is told as what there is and what is allowed.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Linear => Ok(()),
            Self::Amdahl { serial } if (0.0..=1.0).contains(serial) => Ok(()),
            Self::Amdahl { serial } => {
                Err(format!("serial = {serial} is no part of the work; it is from 0 to 1"))
            }
            Self::Downey { parallelism, variance } => {
                if !(1.0..=1e6).contains(parallelism) {
                    return Err(format!("parallelism = {parallelism}; it is from 1 to 1000000"));
                }
                if !(0.0..=1e6).contains(variance) {
                    return Err(format!("variance = {variance}; it is from 0 to 1000000"));
                }
                Ok(())
            }
            Self::Speedups(points) => check_points(points, |p, s| {
                if p == 1 && s != 1.0 {
                    return Err(format!("the speedup on 1 processor is {s}; it is 1.0"));
                }
                check_speedup(p, s)
            }),
            Self::Times(points) => {
                let first = points.first().map_or(1.0, |(_, time)| *time);
                check_points(points, |p, time| check_speedup(p, first / time))
            }
        }
    }

    /// The speedup on `processors`; 1 on none, because a program without its own shares one.
    /// O(number of points).
    #[must_use]
    pub fn at(&self, processors: u32) -> f64 {
        if processors <= 1 {
            return 1.0;
        }
        let n = f64::from(processors);
        match self {
            Self::Linear => n,
            Self::Amdahl { serial } => 1.0 / (serial + (1.0 - serial) / n),
            Self::Downey { parallelism, variance } => downey(*parallelism, *variance, n),
            Self::Speedups(points) => between(points, n),
            Self::Times(points) => {
                let first = points.first().map_or(1.0, |(_, time)| *time);
                let speedups: Vec<(u32, f64)> =
                    points.iter().map(|&(p, time)| (p, first / time)).collect();
                between(&speedups, n)
            }
        }
    }
}

fn check_speedup(processors: u32, speedup: f64) -> Result<(), String> {
    let most = f64::from(processors) * MOST_SUPERLINEAR;
    if speedup > 0.0 && speedup <= most {
        return Ok(());
    }
    Err(format!(
        "a speedup of {speedup} on {processors} processors; it is above 0 and at most {most}"
    ))
}

fn check_points(
    points: &[(u32, f64)],
    check: impl Fn(u32, f64) -> Result<(), String>,
) -> Result<(), String> {
    let Some(first) = points.first() else {
        return Err("no point; the first is for 1 processor".to_owned());
    };
    if first.0 != 1 {
        return Err(format!("the first point is for {} processors; it is for 1", first.0));
    }
    let mut before = 0;
    for &(processors, value) in points {
        if processors <= before {
            return Err(format!("{processors} processors after {before}; points ascend"));
        }
        if !(value.is_finite() && value > 0.0) {
            return Err(format!("{value} for {processors} processors; it is a number above 0"));
        }
        check(processors, value)?;
        before = processors;
    }
    Ok(())
}

/// The value at `n` of the line through the points.
fn between(points: &[(u32, f64)], n: f64) -> f64 {
    let mut before = (1.0, 1.0);
    for &(processors, value) in points {
        let here = (f64::from(processors), value);
        if n <= here.0 {
            let width = here.0 - before.0;
            let part = if width > 0.0 { (n - before.0) / width } else { 1.0 };
            return before.1 + (here.1 - before.1) * part;
        }
        before = here;
    }
    before.1
}

fn downey(a: f64, sigma: f64, n: f64) -> f64 {
    if sigma <= 1.0 {
        if n <= a {
            a * n / (a + sigma / 2.0 * (n - 1.0))
        } else if n <= 2.0 * a - 1.0 {
            a * n / (sigma * (a - 0.5) + n * (1.0 - sigma / 2.0))
        } else {
            a
        }
    } else if n <= a + a * sigma - sigma {
        n * a * (sigma + 1.0) / (sigma * (n + a - 1.0) + a)
    } else {
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn analytic_curves_are_those_of_the_papers() {
        near(Curve::Linear.at(7), 7.0);
        // 1 / (0.1 + 0.9 / 9) = 5.
        near(Curve::Amdahl { serial: 0.1 }.at(9), 5.0);
        // Without variance: linear up to the mean parallelism, then flat.
        let flat = Curve::Downey { parallelism: 8.0, variance: 0.0 };
        for (p, s) in [(1, 1.0), (4, 4.0), (8, 8.0), (9, 8.0), (64, 8.0)] {
            near(flat.at(p), s);
        }
        // sigma = 1, A = 8: 8 * 5 / (8 + 4 / 2) = 4; both forms agree at sigma = 1; flat from 2 A -
        // 1 on.
        let one = Curve::Downey { parallelism: 8.0, variance: 1.0 };
        near(one.at(5), 4.0);
        near(one.at(15), 8.0);
        near(downey(8.0, 1.0, 5.0), 5.0 * 8.0 * 2.0 / (5.0 + 8.0 - 1.0 + 8.0));
    }

    #[test]
    fn measured_curves_are_straight_between_points_and_flat_beyond() {
        // P0 Table 1, BT: 102.9, 53.8, 32.3 s.
        let bt = Curve::Times(vec![(1, 102.9), (2, 53.8), (4, 32.3)]);
        assert_eq!(bt.check(), Ok(()));
        near(bt.at(2), 102.9 / 53.8);
        near(bt.at(3), (102.9 / 53.8 + 102.9 / 32.3) / 2.0);
        near(bt.at(64), 102.9 / 32.3);
        let table = Curve::Speedups(vec![(1, 1.0), (4, 5.0)]);
        assert_eq!(table.check(), Ok(()));
        near(table.at(4), 5.0);
        near(table.at(0), 1.0);
    }

    #[test]
    fn what_is_no_curve_is_refused_with_what_is_allowed() {
        for (curve, text) in [
            (Curve::Amdahl { serial: 1.5 }, "from 0 to 1"),
            (Curve::Amdahl { serial: f64::NAN }, "from 0 to 1"),
            (Curve::Downey { parallelism: 0.5, variance: 0.0 }, "from 1 to"),
            (Curve::Downey { parallelism: 2.0, variance: -1.0 }, "from 0 to"),
            (Curve::Speedups(vec![]), "no point"),
            (Curve::Speedups(vec![(2, 2.0)]), "the first point"),
            (Curve::Speedups(vec![(1, 2.0)]), "it is 1.0"),
            (Curve::Speedups(vec![(1, 1.0), (4, 4.0), (4, 5.0)]), "ascend"),
            (Curve::Speedups(vec![(1, 1.0), (4, 17.0)]), "at most 16"),
            (Curve::Times(vec![(1, 10.0), (2, 0.0)]), "above 0"),
            (Curve::Times(vec![(1, 10.0), (2, f64::INFINITY)]), "above 0"),
        ] {
            let fault = curve.check().expect_err("it is no curve");
            assert!(fault.contains(text), "{fault}");
        }
    }
}
