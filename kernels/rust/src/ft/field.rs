//! A box of complex numbers: real and imaginary parts in arrays of their own, x fastest.

use super::lines::{LANES, Lines, Point, Roots};
use crate::loops::Loops;
use crate::parts::{Rows, Slabs};
use crate::random::Random;

const SEED: u64 = 314_159_265;
/// Lines are longer than a power of two, so that neighbours do not fall into the same cache set.
const PAD: usize = 8;

/// Which way a transform goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// To frequencies.
    Forward,
    /// From frequencies, without the factor of the inverse transform.
    Backward,
}

impl Direction {
    /// Real and imaginary parts as a transform takes them: exchanged, it is the inverse.
    fn order<T>(self, re: T, im: T) -> [T; 2] {
        match self {
            Self::Forward => [re, im],
            Self::Backward => [im, re],
        }
    }
}

/// The roots of unity for x, y, z.
pub(super) struct Plan([Roots; 3]);

impl Plan {
    pub(super) fn new(sides: [usize; 3]) -> Self {
        Self(sides.map(Roots::new))
    }
}

pub(super) struct Field {
    nx: usize,
    ny: usize,
    nz: usize,
    re: Vec<f64>,
    im: Vec<f64>,
}

impl Field {
    pub(super) fn new([nx, ny, nz]: [usize; 3]) -> Self {
        let size = nz * ny * (nx + PAD);
        Self { nx, ny, nz, re: vec![0.0; size], im: vec![0.0; size] }
    }

    /// From a line to the next one.
    fn line(&self) -> usize {
        self.nx + PAD
    }

    fn plane(&self) -> usize {
        self.ny * self.line()
    }

    /// The planes z of both parts.
    fn planes(&mut self) -> (Rows<'_, f64>, Rows<'_, f64>) {
        let plane = self.plane();
        (Rows::new(&mut self.re, plane), Rows::new(&mut self.im, plane))
    }

    /// Random numbers, the real part before the imaginary one.
    pub(super) fn start(&mut self, loops: &impl Loops) {
        let (nx, ny, line) = (self.nx, self.ny, self.line());
        loops.each(self.planes(), |first, (mut re, mut im)| {
            let mut random = Random::skip(SEED, (2 * nx * ny * first) as u64);
            let (re, im) = (re.all().chunks_exact_mut(line), im.all().chunks_exact_mut(line));
            for (re, im) in re.zip(im) {
                for (re, im) in re[..nx].iter_mut().zip(&mut im[..nx]) {
                    *re = random.next();
                    *im = random.next();
                }
            }
        });
    }

    /// Transforms plane by plane along x and y; backward the other way round.
    pub(super) fn transform_planes(
        &mut self,
        loops: &impl Loops,
        Plan([x_roots, y_roots, _]): &Plan,
        direction: Direction,
    ) {
        let (nx, line) = (self.nx, self.line());
        loops.each(self.planes(), |_, (mut re, mut im)| {
            let (mut x_lines, mut y_lines) = (Lines::new(x_roots), Lines::new(y_roots));
            for (re, im) in re.iter_mut().zip(im.iter_mut()) {
                let mut parts = direction.order(re, im);
                if direction == Direction::Forward {
                    along_x(&mut parts, line, x_roots, &mut x_lines);
                }
                for x in (0..nx).step_by(LANES) {
                    along_y(&mut parts, x, line, y_roots, &mut y_lines);
                }
                if direction == Direction::Backward {
                    along_x(&mut parts, line, x_roots, &mut x_lines);
                }
            }
        });
    }

    /// Transforms along z.
    pub(super) fn transform_along_z(
        &mut self,
        loops: &impl Loops,
        Plan([_, _, roots]): &Plan,
        direction: Direction,
    ) {
        let (nx, line, plane) = (self.nx, self.line(), self.plane());
        let [re, im] = direction.order(&mut self.re, &mut self.im);
        let slabs = (Slabs::new(re, plane, line), Slabs::new(im, plane, line));
        loops.each(slabs, |_, (mut re, mut im)| {
            let (re, im) = (re.planes(), im.planes());
            let mut lines = Lines::new(roots);
            for first in (0..re.first().map_or(0, |plane| plane.len())).step_by(line) {
                for first in (first..first + nx).step_by(LANES) {
                    for (point, (re, im)) in lines.here.iter_mut().zip(re.iter().zip(im.iter())) {
                        point.load(&re[first..], &im[first..]);
                    }
                    lines.transform(roots);
                    let planes = re.iter_mut().zip(im.iter_mut());
                    for (point, (re, im)) in lines.here.iter().zip(planes) {
                        point.store(&mut re[first..], &mut im[first..]);
                    }
                }
            }
        });
    }

    /// Becomes `from` after some time steps, in frequencies: a product of one factor for each
    /// dimension.
    pub(super) fn evolve(
        &mut self,
        loops: &impl Loops,
        from: &Field,
        [fx, fy, fz]: &[Vec<f64>; 3],
    ) {
        let (nx, line, plane) = (self.nx, self.line(), self.plane());
        loops.each(self.planes(), |first, (mut re, mut im)| {
            for (z, (re, im)) in (first..).zip(re.iter_mut().zip(im.iter_mut())) {
                for (y, fy) in fy.iter().enumerate() {
                    let (at, of_line) = (y * line, fz[z] * fy);
                    let there = z * plane + at;
                    scale_line(&from.re[there..][..nx], of_line, fx, &mut re[at..][..nx]);
                    scale_line(&from.im[there..][..nx], of_line, fx, &mut im[at..][..nx]);
                }
            }
        });
    }

    /// The sum of 1024 elements, divided by the size: the inverse transform's factor.
    pub(super) fn checksum(&self, loops: &impl Loops) -> [f64; 2] {
        let sum = |numbers: std::ops::Range<usize>| {
            let places = numbers.map(|j| {
                let (x, y, z) = (j % self.nx, 3 * j % self.ny, 5 * j % self.nz);
                z * self.plane() + y * self.line() + x
            });
            places.fold([0.0; 2], |sum, at| [sum[0] + self.re[at], sum[1] + self.im[at]])
        };
        let add = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
        let size = (self.nx * self.ny * self.nz) as f64;
        loops.reduce(1..1025, [0.0; 2], sum, add).map(|part| part / size)
    }
}

fn scale_line(from: &[f64], of_line: f64, factors: &[f64], to: &mut [f64]) {
    for ((to, from), factor) in to.iter_mut().zip(from).zip(factors) {
        *to = from * (of_line * factor);
    }
}

impl Point {
    #[inline(always)]
    fn load(&mut self, re: &[f64], im: &[f64]) {
        self.re.copy_from_slice(&re[..LANES]);
        self.im.copy_from_slice(&im[..LANES]);
    }

    #[inline(always)]
    fn store(&self, re: &mut [f64], im: &mut [f64]) {
        re[..LANES].copy_from_slice(&self.re);
        im[..LANES].copy_from_slice(&self.im);
    }
}

/// The lines of a plane along y that begin at `x` and beside it.
fn along_y(
    [re, im]: &mut [&mut [f64]; 2],
    x: usize,
    line: usize,
    roots: &Roots,
    lines: &mut Lines,
) {
    let rows = re.chunks_exact(line).zip(im.chunks_exact(line));
    for (point, (re, im)) in lines.here.iter_mut().zip(rows) {
        point.load(&re[x..], &im[x..]);
    }
    lines.transform(roots);
    let rows = re.chunks_exact_mut(line).zip(im.chunks_exact_mut(line));
    for (point, (re, im)) in lines.here.iter().zip(rows) {
        point.store(&mut re[x..], &mut im[x..]);
    }
}

/// All lines of a plane along x, turned on the way in and out.
fn along_x([re, im]: &mut [&mut [f64]; 2], line: usize, roots: &Roots, lines: &mut Lines) {
    let tiles = re.chunks_exact_mut(LANES * line).zip(im.chunks_exact_mut(LANES * line));
    for (re, im) in tiles {
        turn_in(re, line, &mut lines.here, |point| &mut point.re);
        turn_in(im, line, &mut lines.here, |point| &mut point.im);
        lines.transform(roots);
        turn_out(&lines.here, |point| &point.re, line, re);
        turn_out(&lines.here, |point| &point.im, line, im);
    }
}

/// Four lines at a time: their addresses stay in registers.
#[inline(always)]
fn turn_in(
    from: &[f64],
    line: usize,
    to: &mut [Point],
    part: impl Fn(&mut Point) -> &mut [f64; LANES],
) {
    let n = to.len();
    for (four, rows) in from.chunks_exact(4 * line).enumerate() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|row| &rows[row * line..][..n]);
        for (i, point) in to.iter_mut().enumerate() {
            part(point).as_chunks_mut::<4>().0[four] = [a[i], b[i], c[i], d[i]];
        }
    }
}

#[inline(always)]
fn turn_out(from: &[Point], part: impl Fn(&Point) -> &[f64; LANES], line: usize, to: &mut [f64]) {
    for (lane, to) in to.chunks_exact_mut(line).enumerate() {
        for (to, point) in to.iter_mut().zip(from) {
            *to = part(point)[lane];
        }
    }
}
