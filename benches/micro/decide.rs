//! What a decision of each policy costs: 64 programs on 256 processors, as the manager asks when a
//! request has changed.

use criterion::Criterion;
use policies::{AppId, AppView, Cause, Registry, Snapshot};
use std::hint::black_box;

pub(crate) fn benches(criterion: &mut Criterion) {
    let registry = Registry::with_builtin();
    let mut group = criterion.benchmark_group("decide");
    for name in registry.names() {
        let Ok(mut policy) = registry.create(name) else { continue };
        let mut apps: Vec<_> =
            (0..64).map(|i| AppView::new(AppId(i), 1 + (i as u32 * 7) % 32)).collect();
        let mut now = 0;
        group.bench_function(name, |bench| {
            bench.iter(|| {
                now += 100_000_000;
                apps[17].request = 1 + apps[17].request % 32;
                let snapshot = Snapshot {
                    now,
                    quantum: 100_000_000,
                    processors: 256,
                    apps: &apps,
                    cause: Cause::Request,
                    master_always: true,
                };
                black_box(policy.decide(&snapshot))
            });
        });
    }
    group.finish();
}
