//! The operators of the V-cycle: residual, smoother, restriction, interpolation, norm.

#![expect(clippy::needless_range_loop, reason = "stencils read neighbours by their indices")]

use super::grid::{Grid, MOST};
use crate::loops::Loops;

/// The coefficients of the point, its sides and its edges; that of the corners is 0 in all classes.
pub(super) type Smoother = [f64; 3];

/// Sums over the neighbours of a line in the plane across it, of each point of the line.
struct Across {
    /// The four beside it.
    beside: [f64; MOST],
    /// The four at the corners.
    corners: [f64; MOST],
}

impl Across {
    fn new() -> Self {
        Self { beside: [0.0; MOST], corners: [0.0; MOST] }
    }

    /// The sums of the line (i3, i2).
    #[inline]
    fn sum(&mut self, g: &Grid, i3: usize, i2: usize) -> (&[f64], &[f64]) {
        let side = g.side();
        let beside = &mut self.beside[..side];
        let corners = &mut self.corners[..side];
        let lines =
            [g.line(i3, i2 - 1), g.line(i3, i2 + 1), g.line(i3 - 1, i2), g.line(i3 + 1, i2)];
        sum_of_four(lines, beside);
        let lines = [
            g.line(i3 - 1, i2 - 1),
            g.line(i3 - 1, i2 + 1),
            g.line(i3 + 1, i2 - 1),
            g.line(i3 + 1, i2 + 1),
        ];
        sum_of_four(lines, corners);
        (beside, corners)
    }
}

#[inline]
fn sum_of_four([a, b, c, d]: [&[f64]; 4], to: &mut [f64]) {
    let n = to.len();
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    for i in 0..n {
        to[i] = a[i] + b[i] + c[i] + d[i];
    }
}

/// A u at a point: -8/3 of the point, 0 of its sides, 1/6 of its edges, 1/12 of its corners.
#[inline(always)]
fn apply(centre: &[f64], beside: &[f64], corners: &[f64], i: usize) -> f64 {
    1.0 / 6.0 * (corners[i] + beside[i - 1] + beside[i + 1])
        + 1.0 / 12.0 * (corners[i - 1] + corners[i + 1])
        - 8.0 / 3.0 * centre[i]
}

fn residual_line(
    result: &mut [f64],
    right: &[f64],
    centre: &[f64],
    beside: &[f64],
    corners: &[f64],
) {
    let side = result.len();
    let (right, centre) = (&right[..side], &centre[..side]);
    let (beside, corners) = (&beside[..side], &corners[..side]);
    for i in 1..side - 1 {
        result[i] = right[i] - apply(centre, beside, corners, i);
    }
}

fn residual_line_in_place(result: &mut [f64], centre: &[f64], beside: &[f64], corners: &[f64]) {
    let side = result.len();
    let (centre, beside, corners) = (&centre[..side], &beside[..side], &corners[..side]);
    for i in 1..side - 1 {
        result[i] -= apply(centre, beside, corners, i);
    }
}

fn smooth_line(
    result: &mut [f64],
    centre: &[f64],
    beside: &[f64],
    corners: &[f64],
    [c0, c1, c2]: Smoother,
) {
    let side = result.len();
    let (centre, beside, corners) = (&centre[..side], &beside[..side], &corners[..side]);
    for i in 1..side - 1 {
        result[i] += c0 * centre[i]
            + c1 * (centre[i - 1] + centre[i + 1] + beside[i])
            + c2 * (corners[i] + beside[i - 1] + beside[i + 1]);
    }
}

/// The inner lines of a plane with their numbers.
fn lines(plane: &mut [f64], side: usize) -> impl Iterator<Item = (usize, &mut [f64])> {
    (1..).zip(plane[side..(side - 1) * side].chunks_exact_mut(side))
}

/// r = v - A u.
pub(super) fn residual(loops: &impl Loops, u: &Grid, v: &Grid, r: &mut Grid) {
    r.update(loops, |i3, plane| {
        let mut across = Across::new();
        for (i2, result) in lines(plane, u.side()) {
            let (beside, corners) = across.sum(u, i3, i2);
            residual_line(result, v.line(i3, i2), u.line(i3, i2), beside, corners);
        }
    });
}

/// r = r - A u.
pub(super) fn residual_in_place(loops: &impl Loops, u: &Grid, r: &mut Grid) {
    r.update(loops, |i3, plane| {
        let mut across = Across::new();
        for (i2, result) in lines(plane, u.side()) {
            let (beside, corners) = across.sum(u, i3, i2);
            residual_line_in_place(result, u.line(i3, i2), beside, corners);
        }
    });
}

/// u = u + S r.
pub(super) fn smooth(loops: &impl Loops, r: &Grid, u: &mut Grid, smoother: &Smoother) {
    u.update(loops, |i3, plane| {
        let mut across = Across::new();
        for (i2, result) in lines(plane, r.side()) {
            let (beside, corners) = across.sum(r, i3, i2);
            smooth_line(result, r.line(i3, i2), beside, corners, *smoother);
        }
    });
}

/// coarse = P fine: 1/2 of the point, 1/4 of its sides, 1/8 of its edges, 1/16 of its corners.
pub(super) fn restrict(loops: &impl Loops, fine: &Grid, coarse: &mut Grid) {
    let side = coarse.side();
    coarse.update(loops, |i3, plane| {
        let mut across = Across::new();
        for (i2, result) in lines(plane, side) {
            let (beside, corners) = across.sum(fine, 2 * i3, 2 * i2);
            restrict_line(result, fine.line(2 * i3, 2 * i2), beside, corners);
        }
    });
}

fn restrict_line(result: &mut [f64], centre: &[f64], beside: &[f64], corners: &[f64]) {
    let n = result.len() - 2;
    let count = 2 * n + 2;
    let (centre, beside, corners) = (&centre[..count], &beside[..count], &corners[..count]);
    for i in 1..=n {
        let f = 2 * i;
        result[i] = 0.5 * centre[f]
            + 0.25 * (centre[f - 1] + centre[f + 1] + beside[f])
            + 0.125 * (corners[f] + beside[f - 1] + beside[f + 1])
            + 0.0625 * (corners[f - 1] + corners[f + 1]);
    }
}

/// One line of Q z: the even points take `from` as it is, the odd ones the mean of two.
#[inline(always)]
fn spread_line<const ADD: bool>(from: &[f64], scale: f64, to: &mut [f64]) {
    for (pair, from) in to.chunks_exact_mut(2).zip(from.windows(2)) {
        let (even, odd) = (scale * from[0], 0.5 * scale * (from[0] + from[1]));
        if ADD {
            pair[0] += even;
            pair[1] += odd;
        } else {
            pair[0] = even;
            pair[1] = odd;
        }
    }
}

/// fine = Q coarse, or fine = fine + Q coarse; the copies too, so that nothing is wrapped after it.
pub(super) fn interpolate<const ADD: bool>(loops: &impl Loops, coarse: &Grid, fine: &mut Grid) {
    let (n, side) = (coarse.side(), fine.side());
    loops.each(fine.planes(2), |first, mut pairs| {
        let (mut up, mut over, mut both) = ([0.0; MOST], [0.0; MOST], [0.0; MOST]);
        let (up, over, both) = (&mut up[..n], &mut over[..n], &mut both[..n]);
        for (i3, pair) in (first..).zip(pairs.iter_mut()) {
            let (lower, upper) = pair.split_at_mut(side * side);
            let lines = lower.chunks_exact_mut(2 * side).zip(upper.chunks_exact_mut(2 * side));
            for (i2, (lower, upper)) in lines.enumerate() {
                let z00 = coarse.line(i3, i2);
                add_two(z00, coarse.line(i3, i2 + 1), up);
                add_two(z00, coarse.line(i3 + 1, i2), over);
                let rest = [up, coarse.line(i3 + 1, i2), coarse.line(i3 + 1, i2 + 1)];
                add_three(rest, both);
                let (lower_0, lower_1) = lower.split_at_mut(side);
                let (upper_0, upper_1) = upper.split_at_mut(side);
                spread_line::<ADD>(z00, 1.0, lower_0);
                spread_line::<ADD>(up, 0.5, lower_1);
                spread_line::<ADD>(over, 0.5, upper_0);
                spread_line::<ADD>(both, 0.25, upper_1);
            }
        }
    });
}

#[inline]
fn add_two(a: &[f64], b: &[f64], to: &mut [f64]) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = a + b;
    }
}

#[inline]
fn add_three([a, b, c]: [&[f64]; 3], to: &mut [f64]) {
    for (((to, a), b), c) in to.iter_mut().zip(a).zip(b).zip(c) {
        *to = a + b + c;
    }
}

/// The root of the mean square of the interior points.
pub(super) fn norm(loops: &impl Loops, r: &Grid) -> f64 {
    let n = r.n();
    let planes = |planes: std::ops::Range<usize>| {
        let lines = planes.flat_map(|i3| (1..=n).map(move |i2| &r.line(i3, i2)[1..=n]));
        lines.map(square).sum()
    };
    let sum: f64 = loops.reduce(1..n + 1, 0.0, planes, |left, right| left + right);
    (sum / n as f64 / n as f64 / n as f64).sqrt()
}

/// The sum of the squares, by four sums side by side.
fn square(line: &[f64]) -> f64 {
    let (fours, rest) = line.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        for (sum, value) in sums.iter_mut().zip(four) {
            *sum += value * value;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|value| value * value).sum::<f64>()
}
