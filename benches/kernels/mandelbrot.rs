//! The Mandelbrot set: rows of very different cost.

use criterion::Criterion;
use nanothreads::par_chunks_mut;
use rayon::prelude::*;

const WIDTH: usize = 512;
const HEIGHT: usize = 512;
const MOST: u16 = 300;

fn row(y: usize, row: &mut [u16]) {
    let ci = y as f64 / HEIGHT as f64 * 1.5 - 0.2;
    for (x, pixel) in row.iter_mut().enumerate() {
        let cr = x as f64 / WIDTH as f64 * 3.0 - 2.2;
        let (mut re, mut im, mut steps) = (0.0_f64, 0.0_f64, 0);
        while steps < MOST && re * re + im * im < 4.0 {
            (re, im) = (re * re - im * im + cr, 2.0 * re * im + ci);
            steps += 1;
        }
        *pixel = steps;
    }
}

fn image(paint: impl FnOnce(&mut [u16])) -> Vec<u16> {
    let mut image = vec![0; WIDTH * HEIGHT];
    paint(&mut image);
    image
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let one = || image(|all| all.chunks_mut(WIDTH).enumerate().for_each(|(y, part)| row(y, part)));
    let ours = || image(|all| par_chunks_mut(all, WIDTH).run(row));
    let theirs =
        || image(|all| all.par_chunks_mut(WIDTH).enumerate().for_each(|(y, part)| row(y, part)));
    super::compare(
        criterion,
        "mandelbrot",
        &[("one thread", &one), ("nanothreads", &ours), ("rayon", &theirs)],
        |a, b| a == b,
    );
}
