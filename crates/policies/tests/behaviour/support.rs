//! Snapshots and machines for the tests.

use proptest::prelude::*;

use policies::{
    AppId, AppView, Cause, Decision, Machine, MachineCpu, Needs, Policy, Registry, Snapshot,
};

/// A snapshot of `apps` on `processors`.
pub(crate) fn snapshot(
    apps: &[AppView],
    processors: u32,
    cause: Cause,
    master_always: bool,
) -> Snapshot<'_> {
    Snapshot { now: 0, quantum: 100_000_000, processors, apps, cause, master_always }
}

/// Applications 1, 2, ... with these requests.
pub(crate) fn requests(requests: &[u32]) -> Vec<AppView> {
    (1..).zip(requests).map(|(id, &request)| AppView::new(AppId(id), request)).collect()
}

/// One decision of a new object of the policy called `name`.
pub(crate) fn decide(
    name: &str,
    apps: &[AppView],
    processors: u32,
    master_always: bool,
) -> Decision {
    create(name).decide(&snapshot(apps, processors, Cause::Arrival, master_always))
}

/// Every policy of the crate.
pub(crate) fn all() -> Registry {
    Registry::with_builtin_for(Needs::EVERYTHING)
}

/// A new object of the policy called `name`.
pub(crate) fn create(name: &str) -> Box<dyn Policy> {
    all().create(name).expect("the test names a policy that is registered")
}

/// Processors per application.
pub(crate) fn numbers(decision: &Decision) -> Vec<u32> {
    decision.allocations.iter().map(|a| a.processors).collect()
}

/// A regular machine; processors are numbered thread by thread, as Linux does: all first threads of
/// the cores come before all second ones.
pub(crate) fn machine(
    nodes: u32,
    caches_per_node: u32,
    cores_per_cache: u32,
    threads: u32,
) -> Machine {
    let cores = nodes * caches_per_node * cores_per_cache;
    let cpus = (0..cores * threads).map(|id| {
        let core = id % cores;
        let llc = core / cores_per_cache;
        MachineCpu { id, core, llc, node: llc / caches_per_node }
    });
    Machine::new(cpus.collect())
}

/// Classes of speed for the processors of a machine: none, or one for each core of a hybrid one, or
/// any for each processor.
pub(crate) fn any_speeds(most: u32) -> impl Strategy<Value = Vec<u32>> {
    let most = most as usize;
    prop_oneof![
        1 => Just(Vec::new()),
        // The first ones are fast, or the first ones are slow.
        1 => (0..most, any::<bool>()).prop_map(move |(first, fast)| {
            (0..most).map(|core| u32::from((core < first) != fast)).collect()
        }),
        1 => prop::collection::vec(prop::sample::select(vec![0, 1, 7]), most),
    ]
}

/// A hybrid machine: core i has class i of these.
pub(crate) fn slow_down(machine: &mut Machine, classes: &[u32]) {
    for cpu in &machine.cpus {
        let class = classes.get(cpu.core as usize).copied().unwrap_or(0);
        machine.speeds.set(cpu.id, class);
    }
}
