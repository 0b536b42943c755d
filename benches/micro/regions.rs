//! Empty regions by each entry, and barriers.

use criterion::Criterion;
use nanothreads::{Team, broadcast, join, par_for};
use std::hint::black_box;

/// Barriers in one region, so that the region is a small part.
const BARRIERS: usize = 100;

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("region");
    group.bench_function("broadcast", |bench| {
        bench.iter(|| {
            broadcast(|member| {
                black_box(member);
            })
        });
    });
    let team = Team::available();
    group.bench_function("Team::run", |bench| {
        bench.iter(|| {
            team.run(|member| {
                black_box(member.id());
            })
        });
    });
    group.bench_function("par_for", |bench| {
        bench.iter(|| {
            par_for(0..team.size()).run(|i| {
                black_box(i);
            })
        });
    });
    group.bench_function("join", |bench| bench.iter(|| join(|| black_box(1), || black_box(2))));
    group.bench_function(format!("Team::run, {BARRIERS} barriers"), |bench| {
        bench.iter(|| team.run(|member| (0..BARRIERS).for_each(|_| member.barrier())));
    });
    group.finish();
}
