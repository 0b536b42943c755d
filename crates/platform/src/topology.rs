//! The machine's processors: packages, cores, hardware threads, last-level caches, memory nodes.
//!
//! All numbers but the operating system's (`CpuId`, node) are dense: packages, cores and last-level
//! caches count from 0 in the order of their lowest processor, over the whole machine. (The
//! kernel's own core numbers repeat in each package and have holes.)
//!
//! Processors of unequal speed are in classes, the fastest first: `speed`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::affinity::{CpuId, CpuSet};

#[cfg(feature = "hwloc")]
mod hwloc;
mod speed;
mod sysfs;

/// One processor that is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The operating system's number.
    pub id: CpuId,
    /// The socket.
    pub package: u32,
    /// The core: processors of one core share its pipelines.
    pub core: u32,
    /// The place among the online processors of the core: 0 is its first hardware thread.
    pub smt_index: u32,
    /// The last-level cache.
    pub llc: u32,
    /// The memory node, by the operating system's number.
    pub node: u32,
    /// The class of speed of its core: 0 is that of the fastest ones. Cores that differ by a few
    /// per cent are of one class, so that it is 0 everywhere on most machines.
    pub speed: u32,
}

/// The processors of a machine that are online, ascending by number; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
    possible: CpuSet,
    /// From node, to node, how far.
    distances: Vec<(u32, u32, u32)>,
}

/// Why the topology could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file is there, but cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what the kernel documents.
    Garbage {
        /// The file.
        path: PathBuf,
        /// Its content, cut to 80 bytes.
        content: String,
        /// What is wrong with it.
        reason: String,
    },
    /// hwloc cannot tell, or knows of no processor.
    #[cfg(feature = "hwloc")]
    Hwloc,
    /// No processor at all.
    NoProcessors {
        /// The folder of the processors.
        path: PathBuf,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => {
                write!(f, "topology: cannot read {}: {source}", path.display())
            }
            Self::Garbage { path, content, reason } => {
                write!(f, "topology: {} holds {content:?}: {reason}", path.display())
            }
            #[cfg(feature = "hwloc")]
            Self::Hwloc => {
                f.write_str("topology: hwloc does not know this machine; use Topology::read")
            }
            Self::NoProcessors { path } => write!(
                f,
                "topology: no processor is online by {} (is /sys mounted?)",
                path.display()
            ),
        }
    }
}

impl std::error::Error for TopologyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Topology {
    /// Reads the machine that we run on.
    ///
    /// # Errors
    /// When a file under `/sys/devices/system` is unreadable or garbage, or no processor is found.
    pub fn read() -> Result<Self, TopologyError> {
        Self::read_from(Path::new("/sys/devices/system"))
    }

    /// Asks hwloc about the machine that we run on, for packages, cores and caches; nodes and
    /// distances are read as by [`Topology::read`]. What this process may not use is missing.
    ///
    /// # Errors
    /// As `read`, and when hwloc knows nothing.
    #[cfg(feature = "hwloc")]
    pub fn read_hwloc() -> Result<Self, TopologyError> {
        hwloc::read()
    }

    /// Reads a tree of the same form as `/sys/devices/system`. What is missing degrades: without
    /// cache folders a package has one last-level cache; without node folders all is node 0;
    /// without a topology folder a processor is a core of package 0; without anything on speeds, or
    /// with garbage there, all processors are equally fast.
    ///
    /// Intel's lists of cores by their kind (`cpu_core`, `cpu_atom`) are beside `root`.
    ///
    /// # Errors
    /// When a file that is there is unreadable or garbage, or no processor is found.
    pub fn read_from(root: &Path) -> Result<Self, TopologyError> {
        sysfs::read(root)
    }

    /// A machine of which nothing but the processors is known: each a core, one package, one cache,
    /// node 0. For systems without `/sys`. `None` when `cpus` is empty.
    pub fn flat(cpus: &CpuSet) -> Option<Self> {
        let flat = |(index, id)| Cpu {
            id,
            package: 0,
            core: index,
            smt_index: 0,
            llc: 0,
            node: 0,
            speed: 0,
        };
        let known: Vec<Cpu> = (0..).zip(cpus.iter()).map(flat).collect();
        (!known.is_empty()).then(|| Self {
            cpus: known,
            possible: cpus.clone(),
            distances: Vec::new(),
        })
    }

    /// The processors, ascending by number; never empty.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// What the firmware says of distances between memory nodes, as from, to, distance (10 within a
    /// node); also of nodes without processors. Empty where it says nothing.
    pub fn distances(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.distances.iter().copied()
    }

    /// The processors that are online.
    pub fn online(&self) -> CpuSet {
        self.select(|_| true)
    }

    /// The processors that may ever come online.
    pub fn possible(&self) -> &CpuSet {
        &self.possible
    }

    /// One processor; `None` when it is not online.
    pub fn get(&self, cpu: CpuId) -> Option<&Cpu> {
        let index = self.cpus.binary_search_by_key(&cpu, |known| known.id).ok()?;
        Some(&self.cpus[index])
    }

    /// The last-level cache of a processor; `None` when it is not online.
    pub fn llc_of(&self, cpu: CpuId) -> Option<u32> {
        self.get(cpu).map(|cpu| cpu.llc)
    }

    /// The memory node of a processor; `None` when it is not online.
    pub fn node_of(&self, cpu: CpuId) -> Option<u32> {
        self.get(cpu).map(|cpu| cpu.node)
    }

    /// The class of speed of a processor, 0 for the fastest; `None` when it is not online.
    pub fn speed_of(&self, cpu: CpuId) -> Option<u32> {
        self.get(cpu).map(|cpu| cpu.speed)
    }

    /// The other processors of the same core; empty for one that is not online.
    pub fn smt_siblings(&self, cpu: CpuId) -> CpuSet {
        match self.get(cpu) {
            Some(own) => self.select(|other| other.core == own.core && other.id != cpu),
            None => CpuSet::new(),
        }
    }

    /// The processors of a core.
    pub fn core_cpus(&self, core: u32) -> CpuSet {
        self.select(|cpu| cpu.core == core)
    }

    /// The processors of a last-level cache.
    pub fn llc_cpus(&self, llc: u32) -> CpuSet {
        self.select(|cpu| cpu.llc == llc)
    }

    /// The processors of a memory node.
    pub fn node_cpus(&self, node: u32) -> CpuSet {
        self.select(|cpu| cpu.node == node)
    }

    /// The processors of a package.
    pub fn package_cpus(&self, package: u32) -> CpuSet {
        self.select(|cpu| cpu.package == package)
    }

    /// How many packages have processors.
    pub fn packages(&self) -> usize {
        self.count(|cpu| cpu.package)
    }

    /// How many cores have processors.
    pub fn cores(&self) -> usize {
        self.count(|cpu| cpu.core)
    }

    /// How many last-level caches have processors.
    pub fn llcs(&self) -> usize {
        self.count(|cpu| cpu.llc)
    }

    /// How many memory nodes have processors.
    pub fn nodes(&self) -> usize {
        self.count(|cpu| cpu.node)
    }

    /// How many classes of speed processors have: 1 where all cores are equal.
    pub fn speeds(&self) -> usize {
        self.count(|cpu| cpu.speed)
    }

    fn select(&self, wanted: impl Fn(&Cpu) -> bool) -> CpuSet {
        self.cpus.iter().filter(|cpu| wanted(cpu)).map(|cpu| cpu.id).collect()
    }

    fn count(&self, group: impl Fn(&Cpu) -> u32) -> usize {
        self.cpus.iter().map(group).collect::<BTreeSet<u32>>().len()
    }
}
