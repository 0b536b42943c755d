//! Sorting, beside the standard library's on one thread.

use criterion::{BatchSize, Criterion};
use nanothreads::{par_sort, par_sort_unstable};

const LENGTH: u64 = 200_000;

fn input() -> Vec<u64> {
    (0..LENGTH).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17)).collect()
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sort of 200,000");
    let mut row = |name: &str, sort: fn(&mut Vec<u64>)| {
        group.bench_function(name, |bench| {
            bench.iter_batched_ref(input, sort, BatchSize::LargeInput);
        });
    };
    row("sort", |data| data.sort());
    row("par_sort", |data| par_sort(data));
    row("sort_unstable", |data| data.sort_unstable());
    row("par_sort_unstable", |data| par_sort_unstable(data));
    group.finish();
}
