//! The Mandelbrot set: rows of very different cost.

use crate::escape;
use criterion::Criterion;
use nanothreads::par_chunks_mut;
use rayon::prelude::*;

const WIDTH: usize = 512;
const HEIGHT: usize = 512;

fn row(y: usize, row: &mut [u16]) {
    escape::row(y, HEIGHT, row);
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
