//! The transform of [`LANES`] lines at once, element by element side by side, so that all
//! arithmetic runs over neighbours in memory.

use std::f64::consts::PI;
use std::mem;

/// Lines at a time.
pub(super) const LANES: usize = 16;

/// The roots of unity exp(-2 pi i k / n) of one length.
pub(super) struct Roots {
    re: Vec<f64>,
    im: Vec<f64>,
}

impl Roots {
    pub(super) fn new(n: usize) -> Self {
        let angle = |k: usize| 2.0 * PI * k as f64 / n as f64;
        Self {
            re: (0..n).map(|k| angle(k).cos()).collect(),
            im: (0..n).map(|k| -angle(k).sin()).collect(),
        }
    }

    /// How many points a line has.
    pub(super) fn n(&self) -> usize {
        self.re.len()
    }

    fn root(&self, k: usize) -> [f64; 2] {
        [self.re[k], self.im[k]]
    }
}

/// One element of each line, aligned as cache lines and vectors are: instructions take it from
/// memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Point {
    pub(super) re: [f64; LANES],
    pub(super) im: [f64; LANES],
}

impl Point {
    const ZERO: Self = Self { re: [0.0; LANES], im: [0.0; LANES] };
}

/// Lines beside each other, and room for the other half of each pass.
pub(super) struct Lines {
    pub(super) here: Vec<Point>,
    other: Vec<Point>,
}

impl Lines {
    /// Of the length that these roots are for.
    pub(super) fn new(roots: &Roots) -> Self {
        let zeros = || vec![Point::ZERO; roots.n()];
        Self { here: zeros(), other: zeros() }
    }

    /// Transforms the lines in `here`; the result replaces them. With real and imaginary parts
    /// exchanged before and after it is the inverse, without its factor.
    pub(super) fn transform(&mut self, roots: &Roots) {
        let Self { here, other } = self;
        let (mut l, mut m) = (roots.n(), 1);
        while l > 1 {
            if l >= 4 {
                l /= 4;
                pass_four(roots, m, here, other);
                m *= 4;
            } else {
                l = 1;
                pass_two(here, other);
                m *= 2;
            }
            mem::swap(here, other);
        }
    }
}

/// One pass of the self-sorting transform by four: from each quarter of the points come `m`
/// neighbours at a time, and lie beside each other afterwards.
fn pass_four(roots: &Roots, m: usize, from: &[Point], to: &mut [Point]) {
    let (first, second) = from.split_at(from.len() / 2);
    let ((a, b), (c, d)) = (first.split_at(first.len() / 2), second.split_at(second.len() / 2));
    let to = to.chunks_exact_mut(4 * m).enumerate();
    let from = a.chunks_exact(m).zip(b.chunks_exact(m));
    let from = from.zip(c.chunks_exact(m).zip(d.chunks_exact(m)));
    for ((j, to), ((a, b), (c, d))) in to.zip(from) {
        let roots = [roots.root(j * m), roots.root(2 * j * m), roots.root(3 * j * m)];
        let (first, second) = to.split_at_mut(2 * m);
        let ((p, q), (s, t)) = (first.split_at_mut(m), second.split_at_mut(m));
        for k in 0..m {
            butterfly(
                roots,
                [&a[k], &b[k], &c[k], &d[k]],
                &mut p[k],
                &mut q[k],
                &mut s[k],
                &mut t[k],
            );
        }
    }
}

/// The butterflies of one root: a, b, c, d become p, q, s, t. (Of arguments the compiler knows that
/// they do not overlap: only then are the butterflies done two at a time.)
#[inline(always)]
fn butterfly(
    [[r1, i1], [r2, i2], [r3, i3]]: [[f64; 2]; 3],
    [a, b, c, d]: [&Point; 4],
    p: &mut Point,
    q: &mut Point,
    s: &mut Point,
    t: &mut Point,
) {
    for k in 0..LANES {
        let (acr, aci) = (a.re[k] + c.re[k], a.im[k] + c.im[k]);
        let (bdr, bdi) = (b.re[k] + d.re[k], b.im[k] + d.im[k]);
        let (er, ei) = (a.re[k] - c.re[k], a.im[k] - c.im[k]);
        // -i (b - d)
        let (fr, fi) = (b.im[k] - d.im[k], d.re[k] - b.re[k]);
        p.re[k] = acr + bdr;
        p.im[k] = aci + bdi;
        let (gr, gi) = (er + fr, ei + fi);
        q.re[k] = gr * r1 - gi * i1;
        q.im[k] = gr * i1 + gi * r1;
        let (gr, gi) = (acr - bdr, aci - bdi);
        s.re[k] = gr * r2 - gi * i2;
        s.im[k] = gr * i2 + gi * r2;
        let (gr, gi) = (er - fr, ei - fi);
        t.re[k] = gr * r3 - gi * i3;
        t.im[k] = gr * i3 + gi * r3;
    }
}

/// The last pass where the length is no power of four: by two, without roots.
fn pass_two(from: &[Point], to: &mut [Point]) {
    let half = from.len() / 2;
    let (a, b) = from.split_at(half);
    let (sum, difference) = to.split_at_mut(half);
    let to = sum.iter_mut().zip(difference);
    for ((sum, difference), (a, b)) in to.zip(a.iter().zip(b)) {
        for k in 0..LANES {
            sum.re[k] = a.re[k] + b.re[k];
            sum.im[k] = a.im[k] + b.im[k];
            difference.re[k] = a.re[k] - b.re[k];
            difference.im[k] = a.im[k] - b.im[k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(lines: &mut Lines) {
        lines.here.iter_mut().for_each(|point| mem::swap(&mut point.re, &mut point.im));
    }

    #[test]
    fn a_transform_is_the_sum_that_defines_it_and_of_exchanged_parts_its_inverse() {
        for n in [2, 4, 8, 32, 64] {
            let roots = Roots::new(n);
            let mut lines = Lines::new(&roots);
            let value = |i: usize, lane: usize| {
                let x = (i * 7 + lane * 3) as f64;
                [(x * 0.37).sin(), (x * 0.61).cos()]
            };
            for i in 0..n {
                for lane in 0..LANES {
                    let [re, im] = value(i, lane);
                    lines.here[i].re[lane] = re;
                    lines.here[i].im[lane] = im;
                }
            }
            lines.transform(&roots);
            for k in 0..n {
                for lane in 0..LANES {
                    let (mut re, mut im) = (0.0, 0.0);
                    for i in 0..n {
                        let ([a, b], [c, s]) = (value(i, lane), roots.root(i * k % n));
                        re += a * c - b * s;
                        im += a * s + b * c;
                    }
                    assert!((lines.here[k].re[lane] - re).abs() < 1e-11, "{n}, {k}");
                    assert!((lines.here[k].im[lane] - im).abs() < 1e-11, "{n}, {k}");
                }
            }
            exchange(&mut lines);
            lines.transform(&roots);
            exchange(&mut lines);
            for i in 0..n {
                for lane in 0..LANES {
                    let [re, im] = value(i, lane).map(|part| part * n as f64);
                    assert!((lines.here[i].re[lane] - re).abs() < 1e-11, "{n}, {i}");
                    assert!((lines.here[i].im[lane] - im).abs() < 1e-11, "{n}, {i}");
                }
            }
        }
    }
}
