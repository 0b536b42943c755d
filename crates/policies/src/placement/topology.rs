//! The machine as a placement looks at it: processors, cores, caches and nodes by index.

use super::machine::{Machine, MachineCpu, Speeds};
use super::shelves::Racks;
use crate::quick::QuickMap;

/// In place of the index of a processor: none.
pub(super) const HOLE: usize = usize::MAX;

/// Made anew only when the machine changes.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Topology {
    /// What it was made from.
    machine: Vec<MachineCpu>,
    speeds: Speeds,
    /// In order of their ids, each id once.
    pub(super) cpus: Vec<Cpu>,
    pub(super) cores: Vec<Core>,
    pub(super) caches: Vec<Cache>,
    pub(super) nodes: Vec<Node>,
    /// The most hardware threads that a core has.
    pub(super) threads: usize,
    /// How many classes of speed cores have: 1 where all are equal.
    pub(super) classes: usize,
    /// With nothing on them: a rack for each cache, with a shelf for each rank of a processor.
    pub(super) of_cache: Racks,
    /// A rack for each node and one for the machine, on which caches stand by a number of
    /// processors.
    pub(super) of_node: Racks,
    pub(super) of_machine: Racks,
    /// One rack, on which nodes stand by a number of processors.
    pub(super) for_nodes: Racks,
}

/// A processor.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Cpu {
    pub(super) id: u32,
    pub(super) core: usize,
    pub(super) cache: usize,
    pub(super) node: usize,
    /// Place in its cache.
    pub(super) place: usize,
}

#[derive(Debug, Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Core {
    pub(super) cache: usize,
    /// Of speed, among those that the machine has now; 0 is the fastest.
    pub(super) class: usize,
    pub(super) members: Vec<usize>,
}

#[derive(Debug, Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Cache {
    pub(super) node: usize,
    /// Place in its node.
    pub(super) place: usize,
    pub(super) members: Vec<usize>,
}

#[derive(Debug, Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Node {
    /// Its number in the machine.
    pub(super) number: u32,
    /// Caches.
    pub(super) members: Vec<usize>,
    processors: usize,
}

impl Topology {
    pub(super) fn new(machine: &Machine) -> Self {
        let mut cpus = machine.cpus.clone();
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        let (mut core_index, mut cache_index, mut node_index) =
            (QuickMap::default(), QuickMap::default(), QuickMap::default());
        let mut all = Self {
            machine: machine.cpus.clone(),
            speeds: machine.speeds.clone(),
            threads: 1,
            ..Self::default()
        };
        for (i, cpu) in cpus.iter().enumerate() {
            let nodes = node_index.len();
            let node = *node_index.entry(cpu.node).or_insert(nodes);
            let caches = cache_index.len();
            // A cache is within one node and a core within one cache; numbers that say otherwise
            // are kept apart.
            let cache = *cache_index.entry((node, cpu.llc)).or_insert(caches);
            let cores = core_index.len();
            let core = *core_index.entry((cache, cpu.core)).or_insert(cores);
            if node == all.nodes.len() {
                all.nodes.push(Node { number: cpu.node, members: Vec::new(), processors: 0 });
            }
            if cache == all.caches.len() {
                let place = all.nodes[node].members.len();
                all.caches.push(Cache { node, place, members: Vec::new() });
                all.nodes[node].members.push(cache);
            }
            if core == all.cores.len() {
                let class = machine.speeds.class_of(cpu.id) as usize;
                all.cores.push(Core { cache, class, members: Vec::new() });
            }
            all.cores[core].members.push(i);
            all.threads = all.threads.max(all.cores[core].members.len());
            all.nodes[node].processors += 1;
            let place = all.caches[cache].members.len();
            all.caches[cache].members.push(i);
            all.cpus.push(Cpu { id: cpu.id, core, cache, node, place });
        }
        all.number_classes();
        all.make_racks();
        all
    }

    /// Classes of speed without holes, by those that cores have.
    fn number_classes(&mut self) {
        let mut known: Vec<usize> = self.cores.iter().map(|core| core.class).collect();
        known.sort_unstable();
        known.dedup();
        for core in &mut self.cores {
            core.class = known.partition_point(|class| *class < core.class);
        }
        self.classes = known.len().max(1);
    }

    fn make_racks(&mut self) {
        let ranks = self.threads * self.classes;
        let size = |cache: usize| self.caches[cache].members.len();
        let largest = |caches: &[usize]| caches.iter().map(|&cache| size(cache)).max().unwrap_or(0);
        let most = (0..self.caches.len()).map(size).max().unwrap_or(0);
        let most_of_node = self.nodes.iter().map(|node| node.processors).max().unwrap_or(0);
        let of_node =
            self.nodes.iter().map(|node| (node.members.len(), largest(&node.members) + 1));
        let of_node = Racks::new(of_node);
        self.of_cache = Racks::new(self.caches.iter().map(|cache| (cache.members.len(), ranks)));
        self.of_machine = Racks::new([(self.caches.len(), most + 1)]);
        self.for_nodes = Racks::new([(self.nodes.len(), most_of_node + 1)]);
        self.of_node = of_node;
    }

    /// Whether it is what would be made from this.
    pub(super) fn is_of(&self, machine: &Machine) -> bool {
        self.machine == machine.cpus && self.speeds == machine.speeds
    }

    /// The class of speed of a processor.
    pub(super) fn class_of(&self, cpu: usize) -> usize {
        self.cores[self.cpus[cpu].core].class
    }

    /// The index of the processor with this id.
    pub(super) fn index_of(&self, id: u32) -> Option<usize> {
        // Most machines number their processors from 0 on.
        let guess = id as usize;
        if self.cpus.get(guess).is_some_and(|cpu| cpu.id == id) {
            return Some(guess);
        }
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()
    }
}
