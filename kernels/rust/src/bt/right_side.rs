//! The right-hand side: scale (L(state) + H) at the inner points.
//!
//! Each function below writes one quantity of one row, so that its loop over x has one array to
//! write, which no other can overlap: the compiler makes vectors of it without looking at the
//! addresses.

#![expect(clippy::needless_range_loop, reason = "stencils read several arrays at one index")]

use super::grid::{
    C1, C2, C5, C34, DENSITY, ENERGY, Grid, HALF_SQUARE, INVERSE, KINETIC, MOMENTUM, SECOND, STATE,
    Shape, UNKNOWNS, VELOCITY,
};
use crate::loops::Loops;
use crate::parts::Rows;

impl Grid {
    /// change = scale (L(state) + H) at the inner points. Derives the state's other quantities.
    pub(super) fn find_right_side(&mut self, loops: &impl Loops, scale: f64) {
        let shape = self.shape;
        let Shape { n, row } = shape;
        loops.each(self.state_planes(), |_, mut planes| {
            for plane in planes.iter_mut() {
                plane
                    .chunks_exact_mut(STATE * row)
                    .take(n)
                    .for_each(|quantities| derive(quantities, shape));
            }
        });
        let [_, change_row, change_plane] = self.shape.change_steps();
        let inner = self.shape.inner();
        let Self { shape, state, change, force, fourth } = self;
        let planes = Rows::new(&mut change[change_plane..(n - 1) * change_plane], change_plane);
        loops.each(planes, |first, mut planes| {
            for (k, plane) in (first + 1..).zip(planes.iter_mut()) {
                let rows = plane.chunks_exact_mut(change_row).enumerate();
                for (j, to) in rows.skip(1).take(inner.len()) {
                    let from = Row { shape: *shape, state, at: shape.state_at([1, j, k]) };
                    to.copy_from_slice(&force[k * change_plane + j * change_row..][..change_row]);
                    from.add_flow::<0>(to);
                    from.add_flow::<1>(to);
                    from.add_flow::<2>(to);
                    from.dissipate(to, fourth, [j, k], scale);
                }
            }
        });
    }
}

/// What the flows need of a row's unknowns. Not of what follows the last point of each quantity,
/// which stays 0: the fourth difference reads it with a weight of 0.
fn derive(quantities: &mut [f64], Shape { n, row }: Shape) {
    let (unknowns, derived) = quantities.split_at_mut(INVERSE * row);
    let unknown = |m: usize| &unknowns[m * row..][..n];
    let momentum = [0, 1, 2].map(|d| unknown(MOMENTUM + d));
    let mut derived = derived.chunks_exact_mut(row).map(|quantity| &mut quantity[..n]);
    let mut next = || derived.next().expect("six quantities are derived");
    let inverse = next();
    reciprocals(inverse, unknown(DENSITY));
    for momentum in momentum {
        products(next(), momentum, inverse);
    }
    let kinetic = next();
    half_squares(kinetic, momentum, inverse);
    products(next(), kinetic, inverse);
}

fn reciprocals(to: &mut [f64], of: &[f64]) {
    to.iter_mut().zip(of).for_each(|(to, of)| *to = 1.0 / of);
}

fn products(to: &mut [f64], a: &[f64], b: &[f64]) {
    to.iter_mut().zip(a).zip(b).for_each(|((to, a), b)| *to = a * b);
}

fn half_squares(to: &mut [f64], [x, y, z]: [&[f64]; 3], inverse: &[f64]) {
    let n = to.len();
    let (x, y, z, inverse) = (&x[..n], &y[..n], &z[..n], &inverse[..n]);
    for i in 0..n {
        to[i] = 0.5 * (x[i] * x[i] + y[i] * y[i] + z[i] * z[i]) * inverse[i];
    }
}

/// One quantity of a row and of the rows of points before and after it in one direction.
#[derive(Clone, Copy)]
struct Three<'a> {
    back: &'a [f64],
    here: &'a [f64],
    front: &'a [f64],
}

impl<'a> Three<'a> {
    /// Each `n` long, so that an index below it is in all.
    #[inline(always)]
    fn first(self, n: usize) -> Self {
        Self { back: &self.back[..n], here: &self.here[..n], front: &self.front[..n] }
    }

    #[inline(always)]
    fn second_difference(self, i: usize) -> f64 {
        self.front[i] - 2.0 * self.here[i] + self.back[i]
    }
}

/// The inner points of a row of the state.
struct Row<'a> {
    shape: Shape,
    state: &'a [f64],
    /// Where point 1 is.
    at: usize,
}

/// What multiplies the central differences of a direction: of first order, and of second order of
/// the viscous flow and of the artificial dissipation.
#[derive(Clone, Copy)]
struct Weights {
    first: f64,
    viscous: f64,
    artificial: f64,
}

impl<'a> Row<'a> {
    /// Quantity `m` of the row and of its neighbours `step` elements away.
    fn three(&self, m: usize, step: usize) -> Three<'a> {
        let at = self.at + m * self.shape.row;
        let line = |at: usize| &self.state[at..][..self.shape.n - 2];
        Three { back: line(at - step), here: line(at), front: line(at + step) }
    }

    /// The flows of one direction: central differences of first order for E (F, G), of second order
    /// for T (V, W).
    #[inline(always)]
    fn add_flow<const DIRECTION: usize>(&self, to: &mut [f64]) {
        let Shape { n, row } = self.shape;
        let h = self.shape.h();
        let weights = Weights {
            first: 1.0 / (2.0 * h),
            viscous: C34 / (h * h),
            artificial: SECOND[DIRECTION] / (h * h),
        };
        let three = |m: usize| self.three(m, self.shape.state_steps()[DIRECTION]);
        let mut to = to.chunks_exact_mut(row).map(|to| &mut to[1..n - 1]);
        let mut next = || to.next().expect("one row for each unknown");
        let along = three(VELOCITY + DIRECTION);
        let (energy, kinetic) = (three(ENERGY), three(KINETIC));
        add_density(next(), three(DENSITY), three(MOMENTUM + DIRECTION), weights);
        for d in 0..3 {
            let (momentum, velocity) = (three(MOMENTUM + d), three(VELOCITY + d));
            if d == DIRECTION {
                add_pressed(next(), momentum, velocity, [energy, kinetic], weights);
            } else {
                add_carried(next(), momentum, velocity, along, weights);
            }
        }
        add_energy(next(), [energy, kinetic, three(HALF_SQUARE), three(INVERSE), along], weights);
    }

    /// Subtracts the fourth differences in all directions, then scales.
    fn dissipate(&self, to: &mut [f64], weights: &[Vec<f64>; 5], at: [usize; 2], scale: f64) {
        let Shape { n, row } = self.shape;
        let [_, y, z] = self.shape.state_steps();
        let along_x = weights.each_ref().map(|weights| &weights[1..n - 1]);
        let [along_y, along_z] = at.map(|at| weights.each_ref().map(|weights| weights[at]));
        for (m, to) in to.chunks_exact_mut(row).enumerate().take(UNKNOWNS) {
            let at = self.at + m * row;
            let five =
                |step: usize| [0, 1, 2, 3, 4].map(|w| &self.state[at + w * step - 2 * step..]);
            let to = &mut to[1..n - 1];
            dissipate_line(to, [five(1), five(y), five(z)], along_x, [along_y, along_z], scale);
        }
    }
}

fn add_density(to: &mut [f64], u: Three<'_>, momentum: Three<'_>, weights: Weights) {
    let n = to.len();
    let (u, momentum) = (u.first(n), momentum.first(n));
    for i in 0..n {
        to[i] += weights.artificial * u.second_difference(i)
            - weights.first * (momentum.front[i] - momentum.back[i]);
    }
}

/// A momentum across the direction: it is carried along.
fn add_carried(to: &mut [f64], p: Three<'_>, v: Three<'_>, along: Three<'_>, weights: Weights) {
    let n = to.len();
    let (p, v, along) = (p.first(n), v.first(n), along.first(n));
    for i in 0..n {
        let carried = p.front[i] * along.front[i] - p.back[i] * along.back[i];
        to[i] += weights.artificial * p.second_difference(i)
            + weights.viscous * v.second_difference(i)
            - weights.first * carried;
    }
}

/// The momentum in the direction, on which the pressure c2 (energy - kinetic energy) acts, too.
fn add_pressed(
    to: &mut [f64],
    p: Three<'_>,
    along: Three<'_>,
    [energy, kinetic]: [Three<'_>; 2],
    weights: Weights,
) {
    let n = to.len();
    let (p, along) = (p.first(n), along.first(n));
    let (energy, kinetic) = (energy.first(n), kinetic.first(n));
    for i in 0..n {
        let pressure = energy.front[i] - kinetic.front[i] - energy.back[i] + kinetic.back[i];
        let carried = p.front[i] * along.front[i] - p.back[i] * along.back[i] + C2 * pressure;
        to[i] += weights.artificial * p.second_difference(i)
            + 4.0 / 3.0 * weights.viscous * along.second_difference(i)
            - weights.first * carried;
    }
}

fn add_energy(
    to: &mut [f64],
    [energy, kinetic, half, inverse, along]: [Three<'_>; 5],
    weights: Weights,
) {
    let n = to.len();
    let (energy, kinetic, half) = (energy.first(n), kinetic.first(n), half.first(n));
    let (inverse, along) = (inverse.first(n), along.first(n));
    for i in 0..n {
        let (back, here, front) = (along.back[i], along.here[i], along.front[i]);
        let (e_back, e, e_front) = (energy.back[i], energy.here[i], energy.front[i]);
        let heat =
            e_front * inverse.front[i] - 2.0 * e * inverse.here[i] + e_back * inverse.back[i];
        let square = front * front - 2.0 * here * here + back * back;
        let viscous =
            (1.0 - C1 * C5) * half.second_difference(i) + 1.0 / 6.0 * square + C1 * C5 * heat;
        let carried = (C1 * e_front - C2 * kinetic.front[i]) * front
            - (C1 * e_back - C2 * kinetic.back[i]) * back;
        to[i] += weights.artificial * energy.second_difference(i) + weights.viscous * viscous
            - weights.first * carried;
    }
}

/// to = scale (to - fourth differences) of one quantity.
fn dissipate_line(
    to: &mut [f64],
    [x, y, z]: [[&[f64]; 5]; 3],
    along_x: [&[f64]; 5],
    [along_y, along_z]: [[f64; 5]; 2],
    scale: f64,
) {
    let n = to.len();
    let all = |lines: [_; 5]| lines.map(|line: &[f64]| &line[..n]);
    let (x, y, z, along_x) = (all(x), all(y), all(z), all(along_x));
    for i in 0..n {
        let mut value = to[i];
        for w in 0..5 {
            value -= along_x[w][i] * x[w][i] + along_y[w] * y[w][i] + along_z[w] * z[w][i];
        }
        to[i] = scale * value;
    }
}
