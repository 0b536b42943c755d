//! The operators of the V-cycle: residual, smoother, restriction, interpolation, norm.

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
    #[inline(always)]
    fn sum(&mut self, g: &Grid, i3: usize, i2: usize) -> (&[f64], &[f64]) {
        let side = g.side();
        let beside = &mut self.beside[..side];
        let corners = &mut self.corners[..side];
        let around = [i3 - 1, i3, i3 + 1].map(|i3| g.three_lines(i3, i2));
        sum_around(around, beside, corners);
        (beside, corners)
    }
}

fn sum_around(lines: [[&[f64]; 3]; 3], beside: &mut [f64], corners: &mut [f64]) {
    let n = beside.len();
    let corners = &mut corners[..n];
    let [[a, b, c], [d, _, e], [f, g, h]] = lines.map(|lines| lines.map(|line| &line[..n]));
    for i in 0..n {
        beside[i] = d[i] + e[i] + b[i] + g[i];
        corners[i] = a[i] + c[i] + f[i] + h[i];
    }
}

/// The inner points of a line and the points before and after each, so that one index below their
/// common length leads to all three and is checked by no access.
#[derive(Clone, Copy)]
struct Three<'a> {
    back: &'a [f64],
    here: &'a [f64],
    front: &'a [f64],
}

impl<'a> Three<'a> {
    /// Of a line of `n` inner points.
    #[inline(always)]
    fn new(line: &'a [f64], n: usize) -> Self {
        Self { back: &line[..n], here: &line[1..][..n], front: &line[2..][..n] }
    }
}

/// A u at a point: -8/3 of the point, 0 of its sides, 1/6 of its edges, 1/12 of its corners.
#[inline(always)]
fn apply(centre: f64, beside: Three<'_>, corners: Three<'_>, i: usize) -> f64 {
    1.0 / 6.0 * (corners.here[i] + beside.back[i] + beside.front[i])
        + 1.0 / 12.0 * (corners.back[i] + corners.front[i])
        - 8.0 / 3.0 * centre
}

// The functions below write the inner points of a line, `n` of them. What they read begins with the
// point before the first one.

fn residual_line(
    result: &mut [f64],
    right: &[f64],
    centre: &[f64],
    beside: &[f64],
    corners: &[f64],
) {
    let n = result.len();
    let (right, centre) = (&right[1..][..n], &centre[1..][..n]);
    let (beside, corners) = (Three::new(beside, n), Three::new(corners, n));
    for i in 0..n {
        result[i] = right[i] - apply(centre[i], beside, corners, i);
    }
}

fn residual_line_in_place(result: &mut [f64], centre: &[f64], beside: &[f64], corners: &[f64]) {
    let n = result.len();
    let centre = &centre[1..][..n];
    let (beside, corners) = (Three::new(beside, n), Three::new(corners, n));
    for i in 0..n {
        result[i] -= apply(centre[i], beside, corners, i);
    }
}

fn smooth_line(
    result: &mut [f64],
    centre: &[f64],
    beside: &[f64],
    corners: &[f64],
    [c0, c1, c2]: Smoother,
) {
    let n = result.len();
    let (centre, beside) = (Three::new(centre, n), Three::new(beside, n));
    let corners = &corners[1..][..n];
    for i in 0..n {
        result[i] += c0 * centre.here[i]
            + c1 * (centre.back[i] + centre.front[i] + beside.here[i])
            + c2 * (corners[i] + beside.back[i] + beside.front[i]);
    }
}

/// The inner points of the inner lines of a plane, with the lines' numbers.
fn lines(plane: &mut [f64], side: usize) -> impl Iterator<Item = (usize, &mut [f64])> {
    let lines = plane[side..(side - 1) * side].chunks_exact_mut(side);
    (1..).zip(lines.map(move |line| &mut line[1..side - 1]))
}

/// r = v - A u.
pub(super) fn residual(loops: &impl Loops, u: &Grid, v: &Grid, r: &mut Grid) {
    r.update(loops, Across::new, |across, i3, plane| {
        for (i2, result) in lines(plane, u.side()) {
            let (beside, corners) = across.sum(u, i3, i2);
            residual_line(result, v.line(i3, i2), u.line(i3, i2), beside, corners);
        }
    });
}

/// r = r - A u.
pub(super) fn residual_in_place(loops: &impl Loops, u: &Grid, r: &mut Grid) {
    r.update(loops, Across::new, |across, i3, plane| {
        for (i2, result) in lines(plane, u.side()) {
            let (beside, corners) = across.sum(u, i3, i2);
            residual_line_in_place(result, u.line(i3, i2), beside, corners);
        }
    });
}

/// u = u + S r.
pub(super) fn smooth(loops: &impl Loops, r: &Grid, u: &mut Grid, smoother: &Smoother) {
    u.update(loops, Across::new, |across, i3, plane| {
        for (i2, result) in lines(plane, r.side()) {
            let (beside, corners) = across.sum(r, i3, i2);
            smooth_line(result, r.line(i3, i2), beside, corners, *smoother);
        }
    });
}

/// coarse = P fine: 1/2 of the point, 1/4 of its sides, 1/8 of its edges, 1/16 of its corners.
pub(super) fn restrict(loops: &impl Loops, fine: &Grid, coarse: &mut Grid) {
    let side = coarse.side();
    coarse.update(loops, Across::new, |across, i3, plane| {
        for (i2, result) in lines(plane, side) {
            let (beside, corners) = across.sum(fine, 2 * i3, 2 * i2);
            restrict_line(result, fine.line(2 * i3, 2 * i2), beside, corners);
        }
    });
}

/// In pairs: those of the points 2 i and 2 i + 1 of the fine line are at i.
fn restrict_line(result: &mut [f64], centre: &[f64], beside: &[f64], corners: &[f64]) {
    let n = result.len();
    let pairs = |line| -> [&[[f64; 2]]; 2] {
        let pairs = <[f64]>::as_chunks(line).0;
        [&pairs[..n], &pairs[1..][..n]]
    };
    let ([c, centre], [b, beside]) = (pairs(centre), pairs(beside));
    let [k, corners] = pairs(corners);
    for i in 0..n {
        let ([point, front], [b_point, b_front]) = (centre[i], beside[i]);
        let [k_point, k_front] = corners[i];
        let (back, b_back, k_back) = (c[i][1], b[i][1], k[i][1]);
        result[i] = 0.5 * point
            + 0.25 * (back + front + b_point)
            + 0.125 * (k_point + b_back + b_front)
            + 0.0625 * (k_back + k_front);
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
