//! FT: a heat equation in a periodic box by a fast Fourier transform in three dimensions; one
//! inverse transform and one checksum a time step.

mod class;
mod field;
mod lines;

use std::f64::consts::PI;

use crate::loops::Loops;
use crate::options::Options;
use crate::program;
use crate::report::Report;
use class::{CLASSES, Class};
use field::{Direction, Field, Plan};

const ALPHA: f64 = 1e-6;

impl Class {
    fn operations(&self) -> f64 {
        let size = self.sides.iter().product::<usize>() as f64;
        let steps = (5.23518 + 7.21113 * size.ln()) * self.sums.len() as f64;
        size * (14.8157 + 7.19641 * size.ln() + steps)
    }
}

/// exp(-4 alpha pi^2 t k^2), k running from -n/2 to n/2 - 1 in the order of the transform.
fn factors(n: usize, t: usize) -> Vec<f64> {
    let frequency = |i: usize| if i < n / 2 { i as f64 } else { i as f64 - n as f64 };
    let factor = |k: f64| (-4.0 * ALPHA * PI * PI * t as f64 * k * k).exp();
    (0..n).map(|i| factor(frequency(i))).collect()
}

/// The checksums of all time steps.
fn steps(
    loops: &impl Loops,
    class: &Class,
    frequencies: &mut Field,
    result: &mut Field,
) -> Vec<[f64; 2]> {
    frequencies.start(loops);
    let plan = Plan::new(class.sides);
    frequencies.transform_planes(loops, &plan, Direction::Forward);
    frequencies.transform_along_z(loops, &plan, Direction::Forward);
    (1..=class.sums.len())
        .map(|t| {
            let factors = class.sides.map(|n| factors(n, t));
            result.evolve(loops, frequencies, &factors);
            result.transform_along_z(loops, &plan, Direction::Backward);
            result.transform_planes(loops, &plan, Direction::Backward);
            result.checksum(loops)
        })
        .collect()
}

/// The kernel.
#[derive(Debug)]
pub struct Kernel;

impl program::Kernel for Kernel {
    fn run<L: Loops>(loops: &L, options: &Options) -> Report {
        let class = options.class.of(&CLASSES);
        let mut frequencies = Field::new(class.sides);
        let mut result = Field::new(class.sides);
        // First touch, plane by plane as the loops run later.
        result.start(loops);
        let (threads, iterations) = (loops.threads(), class.sums.len());
        let mut report = Report::begin("ft", options, threads, iterations, class.operations());
        while report.again() {
            let sums = report.time(|| steps(loops, class, &mut frequencies, &mut result));
            for (t, (sum, expected)) in (1..).zip(sums.iter().zip(class.sums)) {
                report.checks().close(format!("checksum {t} re"), sum[0], expected[0], 1e-12);
                report.checks().close(format!("checksum {t} im"), sum[1], expected[1], 1e-12);
            }
        }
        report
    }
}
