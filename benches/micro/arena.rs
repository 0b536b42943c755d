//! The words between a program and its manager: what the manager pays to publish a grant and to
//! read a request.

use arena::manager::{CheckedRequest, ProgramAreas};
use criterion::Criterion;
use platform::affinity::CpuId;
use std::hint::black_box;

pub(crate) fn benches(criterion: &mut Criterion) {
    let stated = CheckedRequest {
        requested: 8,
        max: 64,
        fixed_team: false,
        serial: false,
        lowest: 1,
        released_ns: 0,
    };
    let Ok((mut areas, _descriptors)) = ProgramAreas::create(1, stated, 2_000_000, 0) else {
        println!("arena: skipped, the system has no shared memory for it");
        return;
    };
    let mut group = criterion.benchmark_group("arena");
    for processors in [1, 8, 64] {
        let cpus: Vec<CpuId> = (0..processors).map(CpuId).collect();
        group.bench_function(format!("publish {processors}"), |bench| {
            bench.iter(|| areas.publish(black_box(&cpus).iter().copied(), true, false));
        });
    }
    group.bench_function("read the grant", |bench| bench.iter(|| black_box(areas.grant())));
    group.bench_function("read the request", |bench| bench.iter(|| black_box(areas.request())));
    group.finish();
}
