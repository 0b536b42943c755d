//! MG: V-cycles of multigrid on the Poisson equation in a periodic cube, A u = v, where v is +1 and
//! -1 at ten points each.

mod grid;
mod operators;
mod peaks;

use crate::loops::Loops;
use crate::options::Options;
use crate::program;
use crate::report::Report;
use grid::Grid;
use operators::{Smoother, interpolate, norm, residual, residual_in_place, restrict, smooth};

struct Class {
    log2_n: usize,
    iterations: usize,
    norm: f64,
    smoother: Smoother,
}

const SMALL: Smoother = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0];
const LARGE: Smoother = [-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0];

const CLASSES: [Class; 4] = [
    Class { log2_n: 5, iterations: 4, norm: 0.5307707005734e-04, smoother: SMALL },
    Class { log2_n: 7, iterations: 4, norm: 0.6467329375339e-05, smoother: SMALL },
    Class { log2_n: 8, iterations: 4, norm: 0.2433365309069e-05, smoother: SMALL },
    Class { log2_n: 8, iterations: 20, norm: 0.1800564401355e-05, smoother: LARGE },
];

/// The levels: number k has 2^k points a side, the last one is the finest. Level 0 is not used.
struct Levels {
    u: Vec<Grid>,
    r: Vec<Grid>,
    /// Of the finest level.
    v: Grid,
}

impl Levels {
    fn new(loops: &impl Loops, top: usize) -> Self {
        let grids = || (0..=top).map(|k| Grid::new(loops, 1 << k)).collect();
        let mut v = Grid::new(loops, 1 << top);
        peaks::make_charges(loops, &mut v);
        Self { u: grids(), r: grids(), v }
    }

    fn top(&self) -> usize {
        self.u.len() - 1
    }

    /// The residual of the finest level.
    fn find_residual(&mut self, loops: &impl Loops) {
        let top = self.top();
        residual(loops, &self.u[top], &self.v, &mut self.r[top]);
    }

    /// One V-cycle: u = u + M r, then r is the residual of what was smoothed last.
    fn cycle(&mut self, loops: &impl Loops, smoother: &Smoother) {
        let top = self.top();
        let Self { u, r, v } = self;
        for k in (2..=top).rev() {
            let (coarse, fine) = r.split_at_mut(k);
            restrict(loops, &fine[0], &mut coarse[k - 1]);
        }
        u[1].clear(loops);
        smooth(loops, &r[1], &mut u[1], smoother);
        for k in 2..=top {
            let (coarse, fine) = u.split_at_mut(k);
            let (coarse, fine) = (&coarse[k - 1], &mut fine[0]);
            if k < top {
                interpolate::<false>(loops, coarse, fine);
                residual_in_place(loops, fine, &mut r[k]);
            } else {
                interpolate::<true>(loops, coarse, fine);
                residual(loops, fine, v, &mut r[k]);
            }
            smooth(loops, &r[k], fine, smoother);
        }
    }
}

/// The kernel.
#[derive(Debug)]
pub struct Kernel;

impl program::Kernel for Kernel {
    fn run<L: Loops>(loops: &L, options: &Options) -> Report {
        let class = options.class.of(&CLASSES);
        let top = class.log2_n;
        let mut levels = Levels::new(loops, top);
        let points = (1_usize << (3 * top)) as f64;
        let operations = 58.0 * points * class.iterations as f64;
        let mut report =
            Report::begin("mg", options, loops.threads(), class.iterations, operations);
        while report.again() {
            levels.u[top].clear(loops);
            let norm = report.time(|| {
                levels.find_residual(loops);
                for _ in 0..class.iterations {
                    levels.cycle(loops, &class.smoother);
                    levels.find_residual(loops);
                }
                norm(loops, &levels.r[top])
            });
            report.checks().close("norm of the residual", norm, class.norm, 1e-8);
        }
        report
    }
}
