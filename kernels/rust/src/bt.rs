//! BT: implicit time steps of a flow problem, the three-dimensional compressible Navier-Stokes
//! equations, each by three block tridiagonal factors, one a direction.

mod class;
mod factor;
mod grid;
mod pair;
mod right_side;

use crate::checks::Checks;
use crate::loops::Loops;
use crate::options::Options;
use crate::program;
use crate::report::Report;
use class::{CLASSES, Class};
use grid::{Grid, Norm};

/// The kernel.
#[derive(Debug)]
pub struct Kernel;

impl program::Kernel for Kernel {
    fn run<L: Loops>(loops: &L, options: &Options) -> Report {
        let class = options.class.of(&CLASSES);
        let (threads, operations) = (loops.threads(), class.operations());
        let mut grid = Grid::new(loops, class.n);
        let mut report = Report::begin("bt", options, threads, class.steps, operations);
        while report.again() {
            grid.start(loops);
            report.time(|| {
                for _ in 0..class.steps {
                    grid.step(loops, class.dt);
                }
            });
            grid.find_right_side(loops, class.dt);
            let residual = grid.change_norm(loops).map(|norm| norm / class.dt);
            check(report.checks(), class, residual, grid.error_norm(loops));
        }
        report
    }
}

impl Grid {
    /// One time step.
    fn step(&mut self, loops: &impl Loops, dt: f64) {
        self.find_right_side(loops, dt);
        self.solve_along_x(loops, dt);
        self.solve_along_y(loops, dt);
        self.solve_along_z(loops, dt);
        self.add_change(loops);
    }
}

/// The published norms of the right-hand side and of the error, to one part in 10^8.
fn check(checks: &mut Checks, class: &Class, residual: Norm, error: Norm) {
    for (name, norm, expected) in
        [("residual", residual, class.residual), ("error", error, class.error)]
    {
        for (m, (value, expected)) in (1..).zip(norm.into_iter().zip(expected)) {
            checks.close(format!("{name} {m}"), value, expected, 1e-8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_norm_that_differs_fails() {
        let class = &CLASSES[0];
        let passes = |residual, error| {
            let mut checks = Checks::default();
            check(&mut checks, class, residual, error);
            checks.passed()
        };
        assert!(passes(class.residual, class.error));
        for m in 0..class.error.len() {
            let mut wrong = [class.residual, class.error];
            wrong[0][m] *= 1.0 + 2e-8;
            wrong[1][m] *= 1.0 - 2e-8;
            assert!(!passes(wrong[0], class.error) && !passes(class.residual, wrong[1]));
        }
    }
}
