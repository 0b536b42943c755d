//! Tasks: empty ones of one producer, a tree, a chain of dependences; recursion by join; detached
//! ones.

use criterion::{Criterion, Throughput};
use nanothreads::{DataCell, Scope, join, scope, spawn};

const TASKS: u64 = 1000;

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

fn joined_fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| joined_fib(n - 1), || joined_fib(n - 2));
    a + b
}

fn tree(s: &Scope<'_>, depth: u32) {
    if depth > 0 {
        (0..2).for_each(|_| s.spawn(move |s| tree(s, depth - 1)));
    }
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tasks");
    group.throughput(Throughput::Elements(TASKS));
    group.bench_function("empty, one producer", |bench| {
        bench.iter(|| scope(|s| (0..TASKS).for_each(|_| s.spawn(|_| ()))));
    });
    group.bench_function("chain by writes", |bench| {
        bench.iter(|| {
            let cell = DataCell::new(0_u64);
            scope(|s| {
                (0..TASKS).for_each(|_| drop(s.task().writes(&cell).spawn(|_| *cell.write() += 1)));
            });
            cell.into_inner()
        });
    });
    group.bench_function("detached", |bench| {
        bench.iter(|| {
            let tasks: Vec<_> = (0..TASKS).map(|i| spawn(move || i)).collect();
            tasks.into_iter().map(nanothreads::Spawned::wait).sum::<u64>()
        });
    });
    group.throughput(Throughput::Elements((1 << 11) - 2));
    group.bench_function("tree of depth 10", |bench| bench.iter(|| scope(|s| tree(s, 10))));
    group.finish();
    let mut group = criterion.benchmark_group("fib(20)");
    group.bench_function("calls", |bench| bench.iter(|| fib(std::hint::black_box(20))));
    group.bench_function("join", |bench| bench.iter(|| joined_fib(std::hint::black_box(20))));
    group.finish();
}
