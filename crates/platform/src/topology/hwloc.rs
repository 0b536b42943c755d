//! The topology as hwloc sees it: a second opinion on the files of `/sys` (feature `hwloc`).
//!
//! # What of hwloc2 is used
//! hwloc2 2.2 was written for hwloc 2.0, and some of its calls are unsound with later ones: names
//! are freed that belong to hwloc, printing writes beyond its buffer, memory nodes are looked for
//! at a depth that panics, and the type of an object that is newer than the crate is read into an
//! enum that has no such value. Used here are only `Topology::new`, `depth_for_type` (a type goes
//! in and a number comes out), `objects_at_depth` of a depth so found, `os_index` and `cpuset`.
//! Memory nodes, distances and speeds come from `/sys` in any case.

use hwloc2::{ObjectType, Topology as Tree};

use super::sysfs::Dense;
use super::{Cpu, Topology, TopologyError};
use crate::affinity::{CpuId, CpuSet};

/// Caches that hold data, the farthest first.
const CACHES: [ObjectType; 5] = [
    ObjectType::L5Cache,
    ObjectType::L4Cache,
    ObjectType::L3Cache,
    ObjectType::L2Cache,
    ObjectType::L1Cache,
];

pub(super) fn read() -> Result<Topology, TopologyError> {
    let files = Topology::read()?;
    let tree = Tree::new().ok_or(TopologyError::Hwloc)?;
    let processors = tree.depth_for_type(&ObjectType::PU).map_err(|_| TopologyError::Hwloc)?;
    let mut ids: Vec<CpuId> =
        tree.objects_at_depth(processors).iter().map(|unit| CpuId(unit.os_index())).collect();
    ids.retain(|id| id.0 < CpuSet::LIMIT);
    ids.sort_unstable();
    let (packages, cores) = (groups(&tree, &ObjectType::Package), groups(&tree, &ObjectType::Core));
    let caches: Vec<Vec<CpuSet>> = CACHES.iter().map(|kind| groups(&tree, kind)).collect();

    let (mut package, mut core, mut llc) = (Dense::default(), Dense::default(), Dense::default());
    let everybody = ids.first().copied().ok_or(TopologyError::Hwloc)?;
    let mut cpus: Vec<Cpu> = Vec::with_capacity(ids.len());
    for id in ids {
        let in_package = lowest(&packages, id).unwrap_or(everybody);
        let in_core = core.number(lowest(&cores, id).unwrap_or(id));
        let smt_index = cpus.iter().filter(|earlier| earlier.core == in_core).count();
        cpus.push(Cpu {
            id,
            package: package.number(in_package),
            core: in_core,
            smt_index: u32::try_from(smt_index)
                .expect("a core has fewer processors than CpuSet::LIMIT"),
            llc: llc
                .number(caches.iter().find_map(|level| lowest(level, id)).unwrap_or(in_package)),
            node: files.node_of(id).unwrap_or(0),
            speed: files.speed_of(id).unwrap_or(0),
        });
    }
    Ok(Topology { cpus, ..files })
}

/// The sets of processors of all objects of a kind; none where the machine has no such objects.
fn groups(tree: &Tree, kind: &ObjectType) -> Vec<CpuSet> {
    let Ok(depth) = tree.depth_for_type(kind) else { return Vec::new() };
    let sets = tree.objects_at_depth(depth).into_iter().filter_map(|object| object.cpuset());
    // A set without end is none of processors.
    sets.map(|set| set.into_iter().take_while(|id| *id < CpuSet::LIMIT).map(CpuId).collect())
        .collect()
}

/// The lowest processor of the group that holds this one.
fn lowest(groups: &[CpuSet], id: CpuId) -> Option<CpuId> {
    groups.iter().find(|group| group.contains(id)).and_then(CpuSet::first)
}
