//! The state of the flow on a cube of points, the exact solution, and norms.
//!
//! ```text
//! dU/dt = dE/dx + dF/dy + dG/dz + dT/dx + dV/dy + dW/dz + H = L(U) + H
//! ```
//!
//! U holds density, three momenta and energy. E, F, G are the flows, T, V, W the viscous ones and
//! the artificial second-order dissipation; a fourth-order dissipation is subtracted. H is chosen
//! so that a polynomial is the steady state: H = -L(exact).
//!
//! A row is a line of points in x. Each row of the state holds [`STATE`] arrays, one a quantity,
//! each over x: a loop over x reads every quantity contiguously, and what belongs to one row lies
//! together. Rows follow in y, planes of rows in z.

use std::ops::Range;

use crate::loops::Loops;
use crate::parts::Rows;

/// The unknowns, which are the first quantities of a state row.
pub(super) const UNKNOWNS: usize = 5;
pub(super) const DENSITY: usize = 0;
/// Three, by direction.
pub(super) const MOMENTUM: usize = 1;
pub(super) const ENERGY: usize = 4;
/// What is derived from the unknowns. 1 / density.
pub(super) const INVERSE: usize = 5;
/// Three, by direction.
pub(super) const VELOCITY: usize = 6;
/// Half the square of the momentum over the density.
pub(super) const KINETIC: usize = 9;
/// Half the square of the velocity.
pub(super) const HALF_SQUARE: usize = 10;
/// Quantities of a state row.
pub(super) const STATE: usize = 11;

// The constants k1 to k5 of the equations, as the papers on the benchmarks name them.
pub(super) const C1: f64 = 1.4;
pub(super) const C2: f64 = 0.4;
pub(super) const C3: f64 = 0.1;
pub(super) const C4: f64 = 1.0;
pub(super) const C5: f64 = 1.4;
pub(super) const C34: f64 = C3 * C4;
/// The artificial dissipation of second order by direction.
pub(super) const SECOND: [f64; 3] = [0.75, 0.75, 1.0];
/// That of fourth order: a quarter of the largest of those.
const FOURTH: f64 = 0.25;

/// A value for each unknown.
pub(super) type Norm = [f64; UNKNOWNS];

/// The exact solution's coefficients: for each unknown the constant, then x, y, z, their squares,
/// their cubes and their fourth powers.
const EXACT: [[f64; 13]; UNKNOWNS] = [
    [2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3],
    [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3],
    [5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2],
];

fn exact(at: [f64; 3]) -> Norm {
    EXACT.map(|c| {
        let along = |d: usize| {
            let x = at[d];
            x * (c[1 + d] + x * (c[4 + d] + x * (c[7 + d] + x * c[10 + d])))
        };
        c[0] + along(0) + along(1) + along(2)
    })
}

/// The exact solution on the boundary; inside, its interpolation between the six faces.
fn interpolated(at: [f64; 3]) -> Norm {
    if at.iter().any(|&x| x == 0.0 || x == 1.0) {
        return exact(at);
    }
    let on_face = |d: usize, end: f64| {
        let mut face = at;
        face[d] = end;
        exact(face)
    };
    let faces = [0, 1, 2].map(|d| [on_face(d, 0.0), on_face(d, 1.0)]);
    std::array::from_fn(|m| {
        let [x, y, z] = [0, 1, 2].map(|d| {
            let [first, last] = &faces[d];
            (1.0 - at[d]) * first[m] + at[d] * last[m]
        });
        x + y + z - x * y - y * z - z * x + x * y * z
    })
}

/// The weights of u[m - 2] ... u[m + 2] by position m, 1 -4 6 -4 1 inside; next to the boundary
/// what is beyond it is left out.
fn fourth_weights(n: usize) -> [Vec<f64>; 5] {
    let mut weights = [1.0, -4.0, 6.0, -4.0, 1.0].map(|weight| vec![FOURTH * weight; n]);
    for (place, m) in [(0, 1), (1, 1), (0, 2), (4, n - 3), (4, n - 2), (3, n - 2)] {
        weights[place][m] = 0.0;
    }
    weights[2][1] = FOURTH * 5.0;
    weights[2][n - 2] = FOURTH * 5.0;
    weights
}

/// What the sizes of rows and planes follow from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Points in each direction, with the boundary.
    pub(super) n: usize,
    /// From a quantity to the next one, and rows of a plane: odd, so that points above each other
    /// do not all meet in the same few sets of a cache.
    pub(super) row: usize,
}

impl Shape {
    /// The distance of two points.
    pub(super) fn h(self) -> f64 {
        1.0 / (self.n - 1) as f64
    }

    /// Where point `i` is: the last one at 1 exactly.
    fn place(self, i: usize) -> f64 {
        i as f64 / (self.n - 1) as f64
    }

    /// Elements of the state from a point to the next one in x, y, z.
    pub(super) fn state_steps(self) -> [usize; 3] {
        [1, STATE * self.row, STATE * self.row * self.row]
    }

    /// The same in the change.
    pub(super) fn change_steps(self) -> [usize; 3] {
        [1, UNKNOWNS * self.row, UNKNOWNS * self.row * self.row]
    }

    /// Where the state of a point begins: there is one plane more on either side, since the fourth
    /// difference reads it with a weight of 0.
    pub(super) fn state_at(self, [i, j, k]: [usize; 3]) -> usize {
        let [_, y, z] = self.state_steps();
        (k + 1) * z + j * y + i
    }

    /// The inner points of a line.
    pub(super) fn inner(self) -> Range<usize> {
        1..self.n - 1
    }
}

/// The grid.
pub(super) struct Grid {
    pub(super) shape: Shape,
    /// [`STATE`] quantities a row.
    pub(super) state: Vec<f64>,
    /// [`UNKNOWNS`] a row: the right-hand side, then the change of a time step.
    pub(super) change: Vec<f64>,
    /// As the change: H.
    pub(super) force: Vec<f64>,
    /// The fourth difference's five weights by position.
    pub(super) fourth: [Vec<f64>; 5],
}

impl Grid {
    /// A grid with its source term, touched first as the loops run later.
    pub(super) fn new(loops: &impl Loops, n: usize) -> Self {
        let shape = Shape { n, row: n | 1 };
        let [_, _, state_plane] = shape.state_steps();
        let [_, _, change_plane] = shape.change_steps();
        let mut grid = Self {
            shape,
            state: vec![0.0; (n + 2) * state_plane],
            change: vec![0.0; n * change_plane],
            force: vec![0.0; n * change_plane],
            fourth: fourth_weights(n),
        };
        grid.fill(loops, exact);
        grid.find_right_side(loops, -1.0);
        let Self { change, force, .. } = &mut grid;
        loops.each(Rows::new(force, change_plane), |first, mut planes| {
            let to = planes.all();
            to.copy_from_slice(&change[first * change_plane..][..to.len()]);
        });
        grid
    }

    /// Sets the state to where the steps begin.
    pub(super) fn start(&mut self, loops: &impl Loops) {
        self.fill(loops, interpolated);
    }

    /// All planes of the state.
    pub(super) fn state_planes(&mut self) -> Rows<'_, f64> {
        let [_, _, plane] = self.shape.state_steps();
        Rows::new(&mut self.state[plane..(self.shape.n + 1) * plane], plane)
    }

    /// Sets the unknowns by their places.
    fn fill(&mut self, loops: &impl Loops, value: impl Fn([f64; 3]) -> Norm + Sync) {
        let shape = self.shape;
        let Shape { n, row } = shape;
        loops.each(self.state_planes(), |first, mut planes| {
            for (k, plane) in (first..).zip(planes.iter_mut()) {
                for (j, quantities) in plane.chunks_exact_mut(STATE * row).take(n).enumerate() {
                    for i in 0..n {
                        let value = value([i, j, k].map(|i| shape.place(i)));
                        for (m, value) in value.into_iter().enumerate() {
                            quantities[m * row + i] = value;
                        }
                    }
                }
            }
        });
    }

    /// state += change at the inner points.
    pub(super) fn add_change(&mut self, loops: &impl Loops) {
        let Shape { n, row } = self.shape;
        let [_, _, state_plane] = self.shape.state_steps();
        let [_, change_row, change_plane] = self.shape.change_steps();
        let inner = self.shape.inner();
        let Self { state, change, .. } = self;
        let planes = Rows::new(&mut state[2 * state_plane..n * state_plane], state_plane);
        loops.each(planes, |first, mut planes| {
            for (k, plane) in (first + 1..).zip(planes.iter_mut()) {
                let rows = plane.chunks_exact_mut(STATE * row).enumerate();
                for (j, quantities) in rows.skip(1).take(inner.len()) {
                    let change = &change[k * change_plane + j * change_row..];
                    let lines = quantities.chunks_exact_mut(row).zip(change.chunks_exact(row));
                    for (unknown, change) in lines.take(UNKNOWNS) {
                        add(&mut unknown[inner.clone()], &change[inner.clone()]);
                    }
                }
            }
        });
    }

    /// The root mean squares of the change over the inner points.
    pub(super) fn change_norm(&self, loops: &impl Loops) -> Norm {
        let Shape { row, .. } = self.shape;
        let [_, change_row, change_plane] = self.shape.change_steps();
        self.root_mean(loops, |[i, j, k]| {
            let at = k * change_plane + j * change_row + i;
            std::array::from_fn(|m| self.change[at + m * row])
        })
    }

    /// The root mean squares of the difference between the state and the exact solution.
    pub(super) fn error_norm(&self, loops: &impl Loops) -> Norm {
        self.root_mean(loops, |point| {
            let at = self.shape.state_at(point);
            let exact = exact(point.map(|i| self.shape.place(i)));
            std::array::from_fn(|m| self.state[at + m * self.shape.row] - exact[m])
        })
    }

    fn root_mean(&self, loops: &impl Loops, value: impl Fn([usize; 3]) -> Norm + Sync) -> Norm {
        let inner = self.shape.inner();
        let add = |a: Norm, b: Norm| std::array::from_fn(|m| a[m] + b[m]);
        let planes = |planes: Range<usize>| {
            let mut sum = [0.0; UNKNOWNS];
            for k in planes {
                for j in inner.clone() {
                    for i in inner.clone() {
                        sum = add(sum, value([i, j, k]).map(|value| value * value));
                    }
                }
            }
            sum
        };
        let points = (inner.len() as f64).powi(3);
        let sum = loops.reduce(inner.clone(), [0.0; UNKNOWNS], planes, add);
        sum.map(|sum| (sum / points).sqrt())
    }
}

fn add(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_exact_on_the_faces_and_not_inside() {
        for at in [[0.0, 0.3, 0.7], [0.2, 1.0, 0.6], [0.4, 0.5, 0.0]] {
            assert_eq!(interpolated(at), exact(at));
        }
        assert_ne!(interpolated([0.5; 3]), exact([0.5; 3]));
    }

    #[test]
    fn the_fourth_difference_of_a_cubic_is_zero_inside_and_of_a_line_everywhere_but_there() {
        let weights = fourth_weights(12);
        let difference = |m: usize, u: &dyn Fn(f64) -> f64| -> f64 {
            (0..5).map(|w| weights[w][m] * u((m + w) as f64 - 2.0)).sum()
        };
        for m in 3..9 {
            assert!(difference(m, &|x| x * x * x - 2.0 * x).abs() < 1e-9);
            assert!((difference(m, &|x| x.powi(4)) - FOURTH * 24.0).abs() < 1e-9);
        }
        // 5 -4 1 and -4 6 -4 1.
        let square = |x: f64| x * x;
        assert_eq!(difference(1, &square), FOURTH * (5.0 - 16.0 + 9.0));
        assert_eq!(difference(2, &square), FOURTH * (-4.0 + 24.0 - 36.0 + 16.0));
        assert_eq!(difference(10, &square), FOURTH * (5.0 * 100.0 - 4.0 * 81.0 + 64.0));
        assert_eq!(
            difference(9, &square),
            FOURTH * (-4.0 * 100.0 + 6.0 * 81.0 - 4.0 * 64.0 + 49.0)
        );
    }
}
