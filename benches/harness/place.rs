//! Processors and bindings of a sample.
//!
//! In a *bound* row every thread, the peers' too, has a processor of its own. We and the OpenMP
//! libraries bind by their own settings; for the others this module binds, once their threads are
//! there: an engine that counts the processors of its mask when it starts must not see a narrowed
//! one. In the *unbound* row nothing is bound.

use super::Runtime;
use platform::affinity::{CpuId, CpuSet, Tid, affinity, set_affinity};
use procfs::process::Process;
use std::sync::OnceLock;

/// Processors that a sample has, and threads of a region unless the case says otherwise.
pub(crate) const PROCESSORS: usize = 2;

/// Whether threads are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    Bound,
    Unbound,
}

impl Row {
    pub(crate) const ALL: [Row; 2] = [Row::Bound, Row::Unbound];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::Bound => "bound",
            Row::Unbound => "unbound",
        }
    }
}

/// Settings of engines that are taken from the environment.
pub(crate) fn environment(row: Row) -> Vec<(&'static str, &'static str)> {
    let bind = if row == Row::Bound { "true" } else { "false" };
    vec![
        ("OMP_NUM_THREADS", "2"),
        ("OMP_DYNAMIC", "false"),
        ("OMP_MAX_ACTIVE_LEVELS", "4"),
        ("OMP_PROC_BIND", bind),
        ("ORX_NUM_THREADS", "2"),
        ("NANOS_CPUMGR", "off"),
    ]
}

/// Narrows this process, and what it starts, to the first two processors of its mask.
pub(crate) fn use_two_processors() -> Result<(), String> {
    let own = affinity(None).map_err(|error| error.to_string())?;
    let mut two = CpuSet::default();
    for cpu in own.iter().take(PROCESSORS) {
        two.insert(cpu);
    }
    if two.len() < PROCESSORS {
        return Err("the affinity mask has one processor: give the bench two".into());
    }
    set_affinity(None, &two).map_err(|error| error.to_string())
}

/// The mask that the process was started with, not the one of the calling thread now.
fn mask() -> &'static CpuSet {
    static MASK: OnceLock<CpuSet> = OnceLock::new();
    MASK.get_or_init(|| affinity(None).expect("a thread may read its own mask"))
}

/// Remembers the process's mask; call it before anything binds the initial thread.
pub(crate) fn remember_mask() {
    mask();
}

/// The `index`-th processor of the process's mask, counted round and round.
pub(crate) fn processor(index: usize) -> CpuId {
    mask().iter().cycle().nth(index).expect("the mask of a running thread is not empty")
}

/// Binds the calling thread to the `index`-th processor.
pub(crate) fn bind_to(index: usize) {
    // A processor that went offline: the sample's round trips will not agree.
    let _ = set_affinity(None, &CpuSet::single(processor(index)));
}

/// Binds the threads that `runtime` left unbound: the initial one to the first processor, the
/// others in turn from the second on.
pub(crate) fn bind_threads(runtime: Runtime, row: Row) {
    let binds_itself =
        matches!(runtime, Runtime::Ours | Runtime::Shim | Runtime::Libgomp | Runtime::Libomp);
    if row == Row::Unbound || binds_itself {
        return;
    }
    let initial = std::process::id().cast_signed();
    bind_to(0);
    let Ok(threads) = Process::myself().and_then(|process| process.tasks()) else { return };
    let mut others: Vec<i32> =
        threads.flatten().map(|thread| thread.tid).filter(|&tid| tid != initial).collect();
    others.sort_unstable();
    for (index, tid) in others.into_iter().enumerate() {
        // A thread that ended meanwhile needs no binding.
        let _ = set_affinity(Some(Tid(tid)), &CpuSet::single(processor(index + 1)));
    }
}
