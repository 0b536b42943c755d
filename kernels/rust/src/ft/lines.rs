//! The transform of [`LANES`] lines at once, element by element side by side, so that all
//! arithmetic runs over neighbours in memory.

use std::f64::consts::PI;
use std::mem;

/// Lines at a time.
pub(super) const LANES: usize = 16;
/// The longest line.
const LONGEST: usize = 512;

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

/// Real and imaginary parts.
pub(super) struct Half {
    pub(super) re: Vec<f64>,
    pub(super) im: Vec<f64>,
}

impl Half {
    fn new() -> Self {
        Self { re: vec![0.0; LONGEST * LANES], im: vec![0.0; LONGEST * LANES] }
    }
}

/// Lines beside each other, and room for the other half of each pass.
pub(super) struct Lines {
    pub(super) here: Half,
    other: Half,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { here: Half::new(), other: Half::new() }
    }

    /// Transforms the lines in `here`; the result replaces them.
    pub(super) fn forward(&mut self, roots: &Roots) {
        let Self { here, other } = self;
        let (mut l, mut m) = (roots.n(), 1);
        while l > 1 {
            if l >= 4 {
                l /= 4;
                pass_four(roots, l, m, here, other);
                m *= 4;
            } else {
                l = 1;
                pass_two(m, here, other);
                m *= 2;
            }
            mem::swap(here, other);
        }
    }

    /// The inverse, without its factor: by exchanging the parts.
    pub(super) fn backward(&mut self, roots: &Roots) {
        mem::swap(&mut self.here.re, &mut self.here.im);
        self.forward(roots);
        mem::swap(&mut self.here.re, &mut self.here.im);
    }
}

/// One pass of the self-sorting transform by four: 4 l sub-transforms' parts at distance m become
/// l.
fn pass_four(roots: &Roots, l: usize, m: usize, from: &Half, to: &mut Half) {
    let (width, quarter) = (m * LANES, l * m * LANES);
    for j in 0..l {
        let roots = [roots.root(j * m), roots.root(2 * j * m), roots.root(3 * j * m)];
        let begin = j * width;
        let [ar, br, cr, dr] = distant(&from.re, begin, quarter, width);
        let [ai, bi, ci, di] = distant(&from.im, begin, quarter, width);
        let [pr, qr, sr, tr] = quarters(&mut to.re[4 * j * width..], width);
        let [pi, qi, si, ti] = quarters(&mut to.im[4 * j * width..], width);
        butterflies(roots, ar, ai, br, bi, cr, ci, dr, di, pr, pi, qr, qi, sr, si, tr, ti);
    }
}

/// Four parts at a distance, each `width` long.
#[inline(always)]
fn distant(all: &[f64], begin: usize, distance: usize, width: usize) -> [&[f64]; 4] {
    [
        &all[begin..][..width],
        &all[begin + distance..][..width],
        &all[begin + 2 * distance..][..width],
        &all[begin + 3 * distance..][..width],
    ]
}

/// Four parts beside each other, each `width` long.
#[inline(always)]
fn quarters(all: &mut [f64], width: usize) -> [&mut [f64]; 4] {
    let (a, rest) = all.split_at_mut(width);
    let (b, rest) = rest.split_at_mut(width);
    let (c, rest) = rest.split_at_mut(width);
    [a, b, c, &mut rest[..width]]
}

/// The butterflies of one root: a, b, c, d become p, q, s, t.
#[expect(
    clippy::too_many_arguments,
    reason = "of arguments the compiler knows that they do not overlap: only then are the \
              butterflies done two at a time"
)]
#[inline]
fn butterflies(
    [[r1, i1], [r2, i2], [r3, i3]]: [[f64; 2]; 3],
    ar: &[f64],
    ai: &[f64],
    br: &[f64],
    bi: &[f64],
    cr: &[f64],
    ci: &[f64],
    dr: &[f64],
    di: &[f64],
    pr: &mut [f64],
    pi: &mut [f64],
    qr: &mut [f64],
    qi: &mut [f64],
    sr: &mut [f64],
    si: &mut [f64],
    tr: &mut [f64],
    ti: &mut [f64],
) {
    let width = ar.len();
    let (ai, br, bi) = (&ai[..width], &br[..width], &bi[..width]);
    let (cr, ci, dr, di) = (&cr[..width], &ci[..width], &dr[..width], &di[..width]);
    let (pr, pi, qr, qi) = (&mut pr[..width], &mut pi[..width], &mut qr[..width], &mut qi[..width]);
    let (sr, si, tr, ti) = (&mut sr[..width], &mut si[..width], &mut tr[..width], &mut ti[..width]);
    for k in 0..width {
        let (acr, aci) = (ar[k] + cr[k], ai[k] + ci[k]);
        let (bdr, bdi) = (br[k] + dr[k], bi[k] + di[k]);
        let (er, ei) = (ar[k] - cr[k], ai[k] - ci[k]);
        // -i (b - d)
        let (fr, fi) = (bi[k] - di[k], dr[k] - br[k]);
        pr[k] = acr + bdr;
        pi[k] = aci + bdi;
        let (gr, gi) = (er + fr, ei + fi);
        qr[k] = gr * r1 - gi * i1;
        qi[k] = gr * i1 + gi * r1;
        let (gr, gi) = (acr - bdr, aci - bdi);
        sr[k] = gr * r2 - gi * i2;
        si[k] = gr * i2 + gi * r2;
        let (gr, gi) = (er - fr, ei - fi);
        tr[k] = gr * r3 - gi * i3;
        ti[k] = gr * i3 + gi * r3;
    }
}

/// The last pass where the length is no power of four: by two, without roots.
fn pass_two(m: usize, from: &Half, to: &mut Half) {
    let width = m * LANES;
    for (from, to) in [(&from.re, &mut to.re), (&from.im, &mut to.im)] {
        let (a, b) = from[..2 * width].split_at(width);
        let (sum, difference) = to[..2 * width].split_at_mut(width);
        for k in 0..width {
            sum[k] = a[k] + b[k];
            difference[k] = a[k] - b[k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_the_sum_that_defines_it_and_backward_undoes_forward() {
        for n in [2, 4, 8, 32, 64] {
            let mut lines = Lines::new();
            let value = |i: usize, lane: usize| {
                let x = (i * 7 + lane * 3) as f64;
                [(x * 0.37).sin(), (x * 0.61).cos()]
            };
            for i in 0..n {
                for lane in 0..LANES {
                    let [re, im] = value(i, lane);
                    lines.here.re[i * LANES + lane] = re;
                    lines.here.im[i * LANES + lane] = im;
                }
            }
            let roots = Roots::new(n);
            lines.forward(&roots);
            for k in 0..n {
                for lane in 0..LANES {
                    let (mut re, mut im) = (0.0, 0.0);
                    for i in 0..n {
                        let ([a, b], [c, s]) = (value(i, lane), roots.root(i * k % n));
                        re += a * c - b * s;
                        im += a * s + b * c;
                    }
                    assert!((lines.here.re[k * LANES + lane] - re).abs() < 1e-11, "{n}, {k}");
                    assert!((lines.here.im[k * LANES + lane] - im).abs() < 1e-11, "{n}, {k}");
                }
            }
            lines.backward(&roots);
            for i in 0..n {
                for lane in 0..LANES {
                    let [re, im] = value(i, lane).map(|part| part * n as f64);
                    assert!((lines.here.re[i * LANES + lane] - re).abs() < 1e-11, "{n}, {i}");
                    assert!((lines.here.im[i * LANES + lane] - im).abs() < 1e-11, "{n}, {i}");
                }
            }
        }
    }
}
