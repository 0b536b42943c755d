//! Loops by each schedule over equal and unequal iterations, and reductions.

use criterion::{BenchmarkId, Criterion};
use nanothreads::{PerThread, Schedule, par_for};
use std::hint::black_box;
use std::ops::Range;

const LENGTH: usize = 4096;

/// Some arithmetic for `steps` steps.
fn work(i: usize, steps: usize) -> u64 {
    (0..steps).fold(i as u64, |x, step| x.rotate_left(7) ^ (x.wrapping_add(step as u64) * 5))
}

/// A loop whose iterations are equal, or longer and longer.
fn steps(triangular: bool, i: usize) -> usize {
    if triangular { i / 32 } else { 64 }
}

pub(crate) fn benches(criterion: &mut Criterion) {
    for triangular in [false, true] {
        let kind = if triangular { "triangular" } else { "uniform" };
        let mut group = criterion.benchmark_group(format!("loop {kind}"));
        group.bench_function("one thread", |bench| {
            bench.iter(|| {
                (0..LENGTH).for_each(|i| {
                    black_box(work(i, steps(triangular, i)));
                })
            });
        });
        for name in ["static", "dynamic,16", "guided", "auto", "affinity"] {
            let Ok(schedule) = name.parse::<Schedule>() else { continue };
            group.bench_function(BenchmarkId::new("par_for", name), |bench| {
                bench.iter(|| {
                    par_for(0..LENGTH).schedule(schedule).run(|i| {
                        black_box(work(i, steps(triangular, i)));
                    });
                });
            });
        }
        group.finish();
    }
    let mut group = criterion.benchmark_group("sum of a million");
    let numbers: Vec<u64> = (0..1_000_000).collect();
    group.bench_function("one thread", |bench| {
        bench.iter(|| black_box(&numbers).iter().sum::<u64>());
    });
    group.bench_function("reduce", |bench| {
        bench.iter(|| par_for(0..numbers.len()).reduce(0, |i| numbers[i], |a, b| a + b));
    });
    group.bench_function("reduce_chunks", |bench| {
        bench.iter(|| {
            let sum = |chunk: Range<usize>| numbers[chunk].iter().sum::<u64>();
            par_for(0..numbers.len()).reduce_chunks(0_u64, sum, |a, b| a + b)
        });
    });
    group.bench_function("PerThread in run_chunks", |bench| {
        bench.iter(|| {
            let sums = PerThread::new(|| 0_u64);
            par_for(0..numbers.len()).run_chunks(|chunk| {
                sums.with(|sum| *sum += numbers[chunk].iter().sum::<u64>());
            });
            black_box(sums);
        });
    });
    group.finish();
}
