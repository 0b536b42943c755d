//! The factor of the approximate factorisation in one direction: a block tridiagonal system a line
//! of points, with blocks of 5 x 5.
//!
//! ```text
//! [I - dt (dA/dx + d2N/dx2)] change = change
//! ```
//!
//! A is the Jacobian matrix of the flow, N of the viscous flow with the artificial second-order
//! dissipation; on the boundary the change is zero. Solved by elimination from the first point to
//! the last one, then substitution backwards, of two lines at a time.

use super::grid::{
    C1, C2, C5, C34, ENERGY, Grid, HALF_SQUARE, INVERSE, SECOND, Shape, UNKNOWNS, VELOCITY,
};
use super::pair::Pair;
use crate::loops::Loops;
use crate::parts::{Parts, Rows, Slabs};

const C1345: f64 = C1 * C34 * C5;

type Block = [[Pair; UNKNOWNS]; UNKNOWNS];
type Vector = [Pair; UNKNOWNS];

/// The body once for each unknown, its number a constant: so that no element's place is calculated
/// while the program runs, and what is zero in a block costs nothing.
macro_rules! for_unknowns {
    ($m:ident => $body:block) => {
        for_unknowns!($m => $body, 0, 1, 2, 3, 4)
    };
    ($m:ident => $body:block, $($number:literal),*) => {
        $({
            let $m: usize = $number;
            $body
        })*
    };
}

impl Grid {
    /// Solves all lines in x.
    pub(super) fn solve_along_x(&mut self, loops: &impl Loops, dt: f64) {
        self.solve_in_planes::<0, 1>(loops, dt);
    }

    /// Solves all lines in y.
    pub(super) fn solve_along_y(&mut self, loops: &impl Loops, dt: f64) {
        self.solve_in_planes::<1, 0>(loops, dt);
    }

    /// Solves all lines in `DIRECTION` that lie in a plane z, which follow each other in the
    /// direction `ACROSS`.
    fn solve_in_planes<const DIRECTION: usize, const ACROSS: usize>(
        &mut self,
        loops: &impl Loops,
        dt: f64,
    ) {
        let Self { shape, state, change, .. } = self;
        let steps = shape.change_steps();
        let plane = steps[2];
        let planes = Rows::new(&mut change[plane..(shape.n - 1) * plane], plane);
        loops.each(planes, |first, mut planes| {
            let mut lines = Lines::<DIRECTION>::new(*shape, dt, state);
            for (k, plane) in (first + 1..).zip(planes.iter_mut()) {
                for (a, to_next) in pairs(*shape) {
                    let mut begin = [0, 0, k];
                    begin[ACROSS] = a;
                    let first = a * steps[ACROSS];
                    let mut change = InPlane { plane, first, step: steps[DIRECTION] };
                    lines.solve(begin, ACROSS, to_next, &mut change);
                }
            }
        });
    }

    /// Solves all lines in z.
    pub(super) fn solve_along_z(&mut self, loops: &impl Loops, dt: f64) {
        let Self { shape, state, change, .. } = self;
        let [_, row, plane] = shape.change_steps();
        let inner = shape.inner();
        let (_, rest) = Slabs::new(change, plane, row).cut(inner.start);
        let (slab, _) = rest.cut(inner.len());
        loops.each(slab, |first, mut slab| {
            let mut lines = Lines::<2>::new(*shape, dt, state);
            let count = slab.count();
            for local in 0..count {
                for (i, to_next) in pairs(*shape) {
                    let planes = slab.planes();
                    let mut change = Across { planes, first: local * row + i };
                    lines.solve([i, inner.start + first + local, 0], 0, to_next, &mut change);
                }
            }
        });
    }
}

/// The numbers of the first lines of pairs, and how far the second one is: 0 for the last line of
/// an odd number, which is its own partner.
fn pairs(shape: Shape) -> impl Iterator<Item = (usize, usize)> {
    let inner = shape.inner();
    let last = inner.end - 1;
    inner.step_by(2).map(move |a| (a, usize::from(a < last)))
}

/// The change at the points of a line: slices that begin at its first unknown.
trait Line {
    fn at(&self, m: usize) -> &[f64];

    fn at_mut(&mut self, m: usize) -> &mut [f64];
}

/// A line in a plane z.
struct InPlane<'a> {
    plane: &'a mut [f64],
    first: usize,
    step: usize,
}

impl Line for InPlane<'_> {
    #[inline(always)]
    fn at(&self, m: usize) -> &[f64] {
        &self.plane[self.first + m * self.step..]
    }

    #[inline(always)]
    fn at_mut(&mut self, m: usize) -> &mut [f64] {
        &mut self.plane[self.first + m * self.step..]
    }
}

/// A line in z.
struct Across<'a, 'b> {
    planes: &'a mut [&'b mut [f64]],
    first: usize,
}

impl Line for Across<'_, '_> {
    #[inline(always)]
    fn at(&self, m: usize) -> &[f64] {
        &self.planes[m][self.first..]
    }

    #[inline(always)]
    fn at_mut(&mut self, m: usize) -> &mut [f64] {
        &mut self.planes[m][self.first..]
    }
}

/// Whether an element of A or N can differ from zero.
const fn is_filled(direction: usize, row: usize, column: usize) -> bool {
    if row == 0 {
        return column == 0 || column == 1 + direction;
    }
    if row == 1 + direction || row == 4 {
        return true;
    }
    column == 0 || column == row || column == 1 + direction
}

/// A point's three parts: what multiplies its change in its own block row, in the row of the point
/// after it (`lower` there), and in the row of the point before it (`upper` there).
#[derive(Clone, Copy)]
struct Point {
    lower: Block,
    own: Block,
    upper: Block,
}

/// What solves two lines at a time, with its memory.
struct Lines<'a, const DIRECTION: usize> {
    shape: Shape,
    state: &'a [f64],
    /// dt / h^2 and dt / (2 h).
    weights: [f64; 2],
    /// The points m - 1, m, m + 1, each at its number modulo 3.
    window: [Point; 3],
    /// What elimination leaves of a point's block row for the substitution: change(m) is the
    /// eliminated right-hand side minus this times change(m + 1).
    upper: Vec<Block>,
}

impl<'a, const DIRECTION: usize> Lines<'a, DIRECTION> {
    fn new(shape: Shape, dt: f64, state: &'a [f64]) -> Self {
        let h = shape.h();
        let zero = [[Pair::both(0.0); UNKNOWNS]; UNKNOWNS];
        Self {
            shape,
            state,
            weights: [dt / (h * h), dt / (2.0 * h)],
            window: [Point { lower: zero, own: zero, upper: zero }; 3],
            upper: vec![zero; shape.n],
        }
    }

    /// Solves the line that begins at `begin`, and the one `to_next` after it in the direction
    /// `across`.
    #[inline(always)]
    fn solve(&mut self, begin: [usize; 3], across: usize, to_next: usize, change: &mut impl Line) {
        let state = &self.state[self.shape.state_at(begin)..];
        let state_next = to_next * self.shape.state_steps()[across];
        let change_next = to_next * self.shape.change_steps()[across];
        self.eliminate(state, state_next, change, change_next);
        self.substitute(change, change_next);
    }

    /// Sets the parts of point `m`. `next` leads to the second line.
    #[inline(always)]
    fn find_point(&mut self, state: &[f64], next: usize, m: usize) {
        let row = self.shape.row;
        let state = &state[m * self.shape.state_steps()[DIRECTION]..];
        let load = |quantity: usize| Pair::load(state, quantity * row, next);
        let zero = Pair::both(0.0);
        let (inverse, half) = (load(INVERSE), load(HALF_SQUARE));
        let energy = load(ENERGY) * inverse;
        let v = [load(VELOCITY), load(VELOCITY + 1), load(VELOCITY + 2)];
        let along = v[DIRECTION];

        // The flow of density is the momentum; of a momentum it is that times the velocity, and the
        // pressure c2 (energy - kinetic energy) in this direction; of energy it is energy and
        // pressure times the velocity.
        let mut a = [[zero; UNKNOWNS]; UNKNOWNS];
        a[0][1 + DIRECTION] = Pair::both(1.0);
        for d in 0..3 {
            a[1 + d][0] = zero - v[d] * along;
            a[1 + d][1 + d] = along;
            if d != DIRECTION {
                a[1 + d][1 + DIRECTION] = v[d];
            }
            a[4][1 + d] = -C2 * (v[d] * along);
        }
        a[1 + DIRECTION][0] += C2 * half;
        for d in 0..3 {
            a[1 + DIRECTION][1 + d] -= C2 * v[d];
        }
        a[1 + DIRECTION][1 + DIRECTION] += along;
        a[1 + DIRECTION][4] = Pair::both(C2);
        a[4][0] = along * (2.0 * C2 * half - C1 * energy);
        a[4][1 + DIRECTION] += C1 * energy - C2 * half;
        a[4][4] = C1 * along;
        // The viscous flow of a momentum is the difference of the velocity, times 4/3 in this
        // direction; of energy those of half the square of the velocity and of the inner energy.
        let mut n = [[zero; UNKNOWNS]; UNKNOWNS];
        n[4][0] = -C1345 * (energy * inverse);
        for d in 0..3 {
            let c = if d == DIRECTION { 4.0 / 3.0 * C34 } else { C34 };
            let carried = v[d] * inverse;
            n[1 + d][0] = -c * carried;
            n[1 + d][1 + d] = c * inverse;
            n[4][0] -= (c - C1345) * (v[d] * carried);
            n[4][1 + d] = (c - C1345) * carried;
        }
        n[4][4] = C1345 * inverse;
        for (r, n) in n.iter_mut().enumerate() {
            n[r] += Pair::both(SECOND[DIRECTION]);
        }

        let [t1, t2] = self.weights.map(Pair::both);
        let point = &mut self.window[m % 3];
        for_unknowns!(r => {
            for_unknowns!(c => {
                if is_filled(DIRECTION, r, c) {
                    let (flow, viscous) = (t2 * a[r][c], t1 * n[r][c]);
                    point.lower[r][c] = zero - flow - viscous;
                    point.upper[r][c] = flow - viscous;
                    let one = Pair::both(if r == c { 1.0 } else { 0.0 });
                    point.own[r][c] = viscous + viscous + one;
                }
            });
        });
    }

    /// From the first inner point to the last one.
    #[inline(always)]
    fn eliminate(
        &mut self,
        state: &[f64],
        state_next: usize,
        change: &mut impl Line,
        change_next: usize,
    ) {
        let row = self.shape.row;
        self.find_point(state, state_next, 1);
        let mut before: Option<Vector> = None;
        for m in self.shape.inner() {
            self.find_point(state, state_next, m + 1);
            let [behind, here, ahead] = [m + 2, m, m + 1].map(|m| &self.window[m % 3]);
            // The block row [own, upper | right], after subtraction of `lower` times the row
            // before.
            let mut b = here.own;
            let mut u = ahead.upper;
            let change = change.at_mut(m);
            let mut right =
                std::array::from_fn(|quantity| Pair::load(change, quantity * row, change_next));
            let (done, rest) = self.upper.split_at_mut(m);
            if let Some(before) = before {
                let upper = &done[m - 1];
                for_unknowns!(e => {
                    for_unknowns!(a => {
                        if is_filled(DIRECTION, a, e) {
                            let factor = behind.lower[a][e];
                            right[a] -= factor * before[e];
                            for_unknowns!(c => { b[a][c] -= factor * upper[e][c]; });
                        }
                    });
                });
            }
            // Gaussian elimination without pivots: the diagonal dominates.
            for_unknowns!(p => {
                let pivot = b[p][p].reciprocal();
                for_unknowns!(c => {
                    if c > p {
                        b[p][c] *= pivot;
                    }
                    u[p][c] *= pivot;
                });
                right[p] *= pivot;
                for_unknowns!(a => {
                    if a > p {
                        let factor = b[a][p];
                        for_unknowns!(c => {
                            if c > p {
                                b[a][c] -= factor * b[p][c];
                            }
                            u[a][c] -= factor * u[p][c];
                        });
                        right[a] -= factor * right[p];
                    }
                });
            });
            for_unknowns!(q => {
                let p = UNKNOWNS - 1 - q;
                for_unknowns!(a => {
                    if a < p {
                        let factor = b[a][p];
                        for_unknowns!(c => { u[a][c] -= factor * u[p][c]; });
                        right[a] -= factor * right[p];
                    }
                });
            });
            for (quantity, right) in right.into_iter().enumerate() {
                right.store(change, quantity * row, change_next);
            }
            rest[0] = u;
            before = Some(right);
        }
    }

    /// From the last inner point, after which the change is zero, to the first one.
    #[inline(always)]
    fn substitute(&self, change: &mut impl Line, change_next: usize) {
        let row = self.shape.row;
        let inner = self.shape.inner();
        let load = |change: &[f64]| -> Vector {
            std::array::from_fn(|quantity| Pair::load(change, quantity * row, change_next))
        };
        let mut after = load(change.at(inner.end - 1));
        for m in (inner.start..inner.end - 1).rev() {
            let change = change.at_mut(m);
            let mut right = load(change);
            let upper = &self.upper[m];
            for_unknowns!(e => {
                for_unknowns!(a => { right[a] -= upper[a][e] * after[e]; });
            });
            for (quantity, right) in right.into_iter().enumerate() {
                right.store(change, quantity * row, change_next);
            }
            after = right;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::{DENSITY, MOMENTUM, Norm};
    use super::*;
    use crate::loops::Rayon;

    /// The flow in one direction.
    fn flow(d: usize, u: Norm) -> Norm {
        let v = u[MOMENTUM + d] / u[DENSITY];
        let square = (1..4).map(|m| u[m] * u[m]).sum::<f64>() / u[DENSITY];
        let pressure = C2 * (u[ENERGY] - 0.5 * square);
        let mut flow = u.map(|u| u * v);
        flow[MOMENTUM + d] += pressure;
        flow[ENERGY] += pressure * v;
        flow
    }

    /// What the second differences of the direction are of.
    fn viscous(d: usize, u: Norm) -> Norm {
        let v = [1, 2, 3].map(|m| u[m] / u[DENSITY]);
        let square = v.iter().map(|v| v * v).sum::<f64>();
        let inner = u[ENERGY] / u[DENSITY] - 0.5 * square;
        let mut flow = [0.0; UNKNOWNS];
        for (e, v) in v.into_iter().enumerate() {
            flow[MOMENTUM + e] = C34 * v;
        }
        flow[MOMENTUM + d] *= 4.0 / 3.0;
        flow[ENERGY] = C34 * (0.5 * square + v[d] * v[d] / 6.0) + C1345 * inner;
        std::array::from_fn(|m| flow[m] + SECOND[d] * u[m])
    }

    /// The derivative of `of` at `u` in the direction of `x`.
    fn derivative(of: impl Fn(Norm) -> Norm, u: Norm, x: Norm) -> Norm {
        let step = 1e-5;
        let at = |step: f64| of(std::array::from_fn(|m| u[m] + step * x[m]));
        let (front, back) = (at(step), at(-step));
        std::array::from_fn(|m| (front[m] - back[m]) / (2.0 * step))
    }

    #[test]
    fn a_solution_put_into_the_system_gives_its_right_side() {
        let dt = 0.01;
        // An even and an odd number of lines.
        for n in [6, 7] {
            let mut grid = Grid::new(&Rayon, n);
            grid.start(&Rayon);
            grid.find_right_side(&Rayon, 1.0);
            let Shape { row, .. } = grid.shape;
            let [t1, t2] = [dt * ((n - 1) * (n - 1)) as f64, dt * (n - 1) as f64 / 2.0];
            let place = |[i, j, k]: [usize; 3]| k * 5 * row * row + j * 5 * row + i;
            let inner = || {
                let all = move |k| (1..n - 1).map(move |j| (k, j));
                (1..n - 1).flat_map(all).flat_map(|(k, j)| (1..n - 1).map(move |i| [i, j, k]))
            };
            // Nothing on the boundary.
            let solution = |point: [usize; 3]| -> Norm {
                let is_inner = point.iter().all(|i| (1..n - 1).contains(i));
                let [i, j, k] = point.map(|i| i as f64);
                let value = |m: f64| (0.9 * i + 2.3 * j + 3.1 * k + 1.7 * m).sin();
                std::array::from_fn(|m| if is_inner { value(m as f64) } else { 0.0 })
            };
            for direction in 0..3 {
                for point in inner() {
                    let beside = |front: bool| {
                        let mut beside = point;
                        beside[direction] =
                            if front { point[direction] + 1 } else { point[direction] - 1 };
                        beside
                    };
                    let parts = |at: [usize; 3]| {
                        let first = grid.shape.state_at(at);
                        let u = std::array::from_fn(|m| grid.state[first + m * row]);
                        let of = |of: fn(usize, Norm) -> Norm| {
                            derivative(|u| of(direction, u), u, solution(at))
                        };
                        (of(flow), of(viscous))
                    };
                    let (back, here, front) =
                        (parts(beside(false)), parts(point), parts(beside(true)));
                    for (m, own) in solution(point).into_iter().enumerate() {
                        let flows = t2 * (front.0[m] - back.0[m]);
                        let viscous = t1 * (front.1[m] - 2.0 * here.1[m] + back.1[m]);
                        grid.change[place(point) + m * row] = own + flows - viscous;
                    }
                }
                match direction {
                    0 => grid.solve_along_x(&Rayon, dt),
                    1 => grid.solve_along_y(&Rayon, dt),
                    _ => grid.solve_along_z(&Rayon, dt),
                }
                for point in inner() {
                    for (m, expected) in solution(point).into_iter().enumerate() {
                        let found = grid.change[place(point) + m * row];
                        assert!(
                            (found - expected).abs() < 1e-7,
                            "{n}, direction {direction}, {point:?}, {m}: {found}, {expected}"
                        );
                    }
                }
            }
        }
    }
}
