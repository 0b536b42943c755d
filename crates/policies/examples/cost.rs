//! What a decision and a placement cost:
//! `cargo run --release -p nanothreads-policies --example cost
//! [APPLICATIONS [POLICY [confined|free [PROCESSORS]]]]`.
//!
//! Claim: both together take less than 1 ms for 512 applications on 1024 processors, for every
//! policy and every topology. Each row is least, median and worst of 100 quanta in which every
//! tenth application changes its request and reports a speedup. On a machine that other programs
//! use, only the least says something. `none` places no application: it lists all processors for
//! each. `confined` after the applications: a quarter of them stay inside sets of 16 processors
//! ([`Placement::confine`]). Topologies with an `h` have as many slow cores as fast ones. To count
//! instead of timing, `valgrind --tool=callgrind --dump-after='*Placement*place*'` writes a file
//! for each placement.

use std::time::{Duration, Instant};

use policies::{
    AppId, AppView, Cause, Machine, MachineCpu, Needs, Placement, Registry, Snapshot, Speedup,
};

/// Processors of a core, of a cache, of a node; and how many in a row are equally fast, where every
/// second such row is slow.
const TOPOLOGIES: [([u32; 3], Option<u32>); 6] = [
    ([2, 16, 128], None),
    ([2, 2, 128], None),
    ([1, 1, 2], None),
    ([2, 1024, 1024], None),
    ([2, 16, 128], Some(8)),
    ([1, 1024, 1024], Some(1)),
];

fn main() -> Result<(), policies::UnknownPolicy> {
    let registry = Registry::with_builtin_for(Needs::EVERYTHING);
    // Only this number of applications, only this policy: for a short measurement.
    let only: Option<u32> = std::env::args().nth(1).and_then(|number| number.parse().ok());
    let policy = std::env::args().nth(2).filter(|policy| policy != "all");
    let confined = std::env::args().nth(3).is_some_and(|word| word == "confined");
    let only_on: Option<u32> = std::env::args().nth(4).and_then(|number| number.parse().ok());
    println!(
        "policy   applications processors core/cache/node  decide us: least, median, worst  \
         place us: least, median, worst  both: least, p99"
    );
    for name in registry
        .names()
        .into_iter()
        .filter(|name| policy.as_deref().is_none_or(|policy| policy == *name))
    {
        for processors in [64, 128, 256, 512, 1024]
            .into_iter()
            .filter(|number| only_on.is_none_or(|only| only == *number))
        {
            for applications in [16, 64, 128, 512]
                .into_iter()
                .filter(|number| only.is_none_or(|only| only == *number))
            {
                for ([core, cache, node], fast) in TOPOLOGIES {
                    let cpu =
                        |id| MachineCpu { id, core: id / core, llc: id / cache, node: id / node };
                    let mut machine = Machine::new((0..processors).map(cpu).collect());
                    for id in (0..processors).filter(|id| fast.is_some_and(|it| id / it % 2 == 1)) {
                        machine.speeds.set(id, 1);
                    }
                    let (decide, place) =
                        measure(&registry, name, &machine, applications, confined)?;
                    let both = spread(
                        decide.iter().zip(&place).map(|(decide, place)| *decide + *place).collect(),
                    );
                    let [both, _, both_late, _] = both;
                    let [[decide, decide_mid, _, decide_worst], [place, place_mid, _, place_worst]] =
                        [decide, place].map(spread);
                    println!(
                        "{name:8} {applications:12} {processors:10} {:>15} {decide:11.1} {decide_mid:8.1} \
                         {decide_worst:8.0} {place:11.1} {place_mid:8.1} {place_worst:8.0} {both:8.1} {both_late:8.1}",
                        format!("{core}/{cache}/{node}{}", if fast.is_some() { "h" } else { "" })
                    );
                }
            }
        }
    }
    Ok(())
}

/// Times of 100 decisions and placements.
fn measure(
    registry: &Registry,
    name: &str,
    machine: &Machine,
    applications: u32,
    confined: bool,
) -> Result<(Vec<Duration>, Vec<Duration>), policies::UnknownPolicy> {
    let processors = machine.cpus.len() as u32;
    let mut apps: Vec<_> =
        (0..applications).map(|i| AppView::new(AppId(i.into()), 1 + i % 64)).collect();
    let mut policy = registry.create(name)?;
    let mut placement = Placement::new();
    if confined {
        for app in (0..applications).step_by(4) {
            let begin = app * 37 % processors;
            let set: Vec<u32> = (begin..begin + 16).map(|id| id % processors).collect();
            placement.confine(AppId(app.into()), &set);
        }
    }
    let (mut decide, mut place) = (Vec::new(), Vec::new());
    for turn in 0..100 {
        for app in apps.iter_mut().skip(turn % 10).step_by(10) {
            app.request = 1 + (app.request * 7 + turn as u32) % 64;
            let speedup = f64::from(app.allocated) * 0.8;
            app.speedup =
                Some(Speedup { processors: app.allocated, speedup, at: turn as u64 * 100_000_000 });
        }
        let snapshot = Snapshot {
            now: turn as u64 * 100_000_000,
            quantum: 100_000_000,
            processors,
            apps: &apps,
            cause: Cause::Quantum,
            master_always: true,
        };
        let start = Instant::now();
        let decision = policy.decide(&snapshot);
        decide.push(start.elapsed());
        for (app, allocation) in apps.iter_mut().zip(&decision.allocations) {
            app.allocated = allocation.processors;
            app.cpu_time += u64::from(allocation.processors) * 100_000_000;
        }
        let start = Instant::now();
        let placed = placement.place(machine, &decision);
        place.push(start.elapsed());
        assert_eq!(placed.len(), apps.len());
    }
    Ok((decide, place))
}

/// The least, the median, that of 99 in 100, and the largest.
fn spread(mut times: Vec<Duration>) -> [f64; 4] {
    times.sort();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    [0, times.len() / 2, times.len() * 99 / 100 - 1, times.len() - 1].map(|at| us(times[at]))
}
