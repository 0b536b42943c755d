//! Real kernels, each on one thread, on `nanothreads` and on rayon: what a user parallelises, in
//! pieces of 1 to 40 ms. Each result is compared with that of one thread before it is timed.
//!
//! `cargo bench --bench kernels -- --save-baseline before`; `-- mandelbrot` for one of them. The
//! engines share this process, each with threads of its own that sleep while the other's is timed:
//! for one's own changes and a first look. The records against peers have a process for each.

mod bodies;
mod bytes;
mod cholesky;
mod escape;
mod heat;
mod histogram;
mod kmeans;
mod mandelbrot;
mod nbody;
mod partition;
mod quicksort;
mod tiles;
mod words;

use criterion::{Criterion, criterion_group, criterion_main};
use std::fmt::Debug;
use std::hint::black_box;

/// One way to compute the kernel.
type Way<'a, R> = (&'a str, &'a dyn Fn() -> R);

/// Times the ways of kernel `name`; `is_right` compares a result with the first way's.
fn compare<R: Debug>(
    criterion: &mut Criterion,
    name: &str,
    ways: &[Way<'_, R>],
    is_right: impl Fn(&R, &R) -> bool,
) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20);
    let expected = ways[0].1();
    for (way, run) in ways {
        assert!(is_right(&run(), &expected), "{name} on {way}: a wrong result");
        group.bench_function(*way, |bench| bench.iter(|| black_box(run())));
    }
    group.finish();
}

/// Equal up to the order of summation.
fn are_near(a: &[f64], b: &[f64]) -> bool {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    a.len() == b.len() && a.iter().zip(b).all(near)
}

criterion_group!(
    benches,
    mandelbrot::bench,
    quicksort::bench,
    nbody::bench,
    heat::bench,
    histogram::bench,
    cholesky::bench,
    kmeans::bench,
    words::bench
);
criterion_main!(benches);
