//! The processors that nobody has yet, and which of them is nearest.
//!
//! # Order
//! `spread`: a processor of an idle core before one with busy siblings; then, in any case, the cache in which the
//! application has most processors, then the node in which it has most, then the node nearest to that one. Where it has none: a cache that suffices for
//! all that it wants, the fullest such one, so that large holes stay large; else a node that suffices; else the
//! largest hole. Of a cluster that is to stay together, a cache that has room for all of it comes before nearness.
//!
//! # Cost
//! Building is O(P log P); taking is O(log P), and moves at most what its cache has left, plus a look at each cache for each cache that is taken from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::{Distances, MachineCpu, Smt};

/// Processors by index into the machine's list, sorted by id.
pub(super) struct Free {
    smt: Smt,
    cpus: Vec<Cpu>,
    cores: Vec<Core>,
    caches: Vec<Cache>,
    /// Free processors of each node, on idle cores (`spread`) or all (`pack`).
    nodes: Vec<usize>,
    /// Between nodes, by their index here.
    distances: Vec<Vec<u32>>,
}

struct Cpu {
    id: u32,
    core: usize,
    cache: usize,
    free: bool,
}

#[derive(Default)]
struct Core {
    members: Vec<usize>,
    taken: usize,
}

struct Cache {
    node: usize,
    /// Free processors, best first: by rank of their core, then by id.
    free: Best,
    /// Idle cores with a free processor.
    idle_cores: usize,
}

/// Processors by rank, then by index, in order: a cache has few, and moving them is cheaper than a tree.
#[derive(Default)]
struct Best(Vec<(usize, usize)>);

impl Best {
    fn insert(&mut self, rank: usize, cpu: usize) {
        if let Err(place) = self.0.binary_search(&(rank, cpu)) {
            self.0.insert(place, (rank, cpu));
        }
    }

    fn remove(&mut self, rank: usize, cpu: usize) {
        if let Ok(place) = self.0.binary_search(&(rank, cpu)) {
            self.0.remove(place);
        }
    }

    fn first(&self) -> Option<&(usize, usize)> {
        self.0.first()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Free {
    /// All of `cpus`, which are in order of id.
    pub(super) fn new(cpus: &[MachineCpu], distances: &Distances, smt: Smt) -> Self {
        let (mut core_index, mut cache_index, mut node_index) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut all = Self {
            smt,
            cpus: Vec::new(),
            cores: Vec::new(),
            caches: Vec::new(),
            nodes: Vec::new(),
            distances: Vec::new(),
        };
        for (i, cpu) in cpus.iter().enumerate() {
            let nodes = node_index.len();
            let node = *node_index.entry(cpu.node).or_insert(nodes);
            let caches = cache_index.len();
            // A cache is within one node and a core within one cache; numbers that say otherwise are kept apart.
            let cache = *cache_index.entry((node, cpu.llc)).or_insert(caches);
            let cores = core_index.len();
            let core = *core_index.entry((cache, cpu.core)).or_insert(cores);
            if node == all.nodes.len() {
                all.nodes.push(0);
            }
            if cache == all.caches.len() {
                all.caches.push(Cache { node, free: Best::default(), idle_cores: 0 });
            }
            if core == all.cores.len() {
                all.cores.push(Core::default());
                all.caches[cache].idle_cores += 1;
                all.nodes[node] += 1;
            }
            all.cores[core].members.push(i);
            let rank = all.rank(all.cores[core].taken);
            all.caches[cache].free.insert(rank, i);
            all.cpus.push(Cpu { id: cpu.id, core, cache, free: true });
        }
        let mut numbers: Vec<(u32, usize)> = node_index.into_iter().collect();
        numbers.sort_by_key(|(_, index)| *index);
        let row = |from: u32| numbers.iter().map(|(to, _)| distances.between(from, *to)).collect();
        all.distances = numbers.iter().map(|(from, _)| row(*from)).collect();
        all
    }

    /// Whether this processor is free.
    pub(super) fn has(&self, cpu: usize) -> bool {
        self.cpus[cpu].free
    }

    /// Takes this processor; false if somebody has it.
    pub(super) fn take(&mut self, cpu: usize) -> bool {
        let was_free = self.cpus[cpu].free;
        if was_free {
            self.cpus[cpu].free = false;
            let Cpu { core, cache, .. } = self.cpus[cpu];
            let rank = self.rank(self.cores[core].taken);
            self.caches[cache].free.remove(rank, cpu);
            self.count_taken(core, cache, self.cores[core].taken + 1);
        }
        was_free
    }

    /// Takes the processor of this id; false if there is none or somebody has it.
    pub(super) fn take_id(&mut self, id: u32) -> bool {
        self.index(id).is_some_and(|cpu| self.take(cpu))
    }

    /// Gives back a processor that was taken.
    pub(super) fn put_back(&mut self, id: u32) {
        let Some(cpu) = self.index(id).filter(|&cpu| !self.cpus[cpu].free) else {
            return;
        };
        let Cpu { core, cache, .. } = self.cpus[cpu];
        self.count_taken(core, cache, self.cores[core].taken - 1);
        self.cpus[cpu].free = true;
        let rank = self.rank(self.cores[core].taken);
        self.caches[cache].free.insert(rank, cpu);
    }

    /// Takes `number` processors, or all that are left, as for an application that has those of `near`; `cluster` at a
    /// time, if that is more than one.
    pub(super) fn take_near(&mut self, near: &[usize], number: usize, cluster: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        if number == 0 {
            return taken;
        }
        let (mut in_cache, mut in_node) = (BTreeMap::new(), BTreeMap::new());
        for &cpu in near {
            let cache = self.cpus[cpu].cache;
            *in_cache.entry(cache).or_insert(0) += 1;
            *in_node.entry(self.caches[cache].node).or_insert(0) += 1;
        }
        while taken.len() < number {
            // How many stay together, and up to which count this piece goes.
            let left = number - taken.len();
            let whole = cluster > 1 && left >= cluster;
            let piece = if whole { cluster } else { left };
            let upto = taken.len() + piece;
            let Some((cache, level)) = self.best_cache(&in_cache, &in_node, piece, whole) else {
                break;
            };
            // It stays the best until its level changes: it has the most of the application, and more with each.
            while let Some(cpu) = self.first(cache).filter(|_| taken.len() < upto && self.level(cache) == level) {
                self.take(cpu);
                taken.push(cpu);
                *in_cache.entry(cache).or_insert(0) += 1;
                *in_node.entry(self.caches[cache].node).or_insert(0) += 1;
            }
        }
        taken
    }

    /// The same, by id, for processors without an application.
    pub(super) fn take_ids(&mut self, number: usize) -> Vec<u32> {
        let taken = self.take_near(&[], number, 1);
        taken.into_iter().map(|cpu| self.cpus[cpu].id).collect()
    }

    /// The cache to take from, of those that have a free processor, and the level that it has now.
    fn best_cache(
        &self,
        in_cache: &BTreeMap<usize, usize>,
        in_node: &BTreeMap<usize, usize>,
        number: usize,
        whole: bool,
    ) -> Option<(usize, Option<usize>)> {
        // Ties by index, so that the answer is one.
        let home = in_node.iter().max_by_key(|&(&node, &count)| (count, Reverse(node))).map(|(&node, _)| node);
        let candidates = self.caches.iter().enumerate().filter(|(_, cache)| !cache.free.is_empty());
        let best = candidates.min_by_key(|&(i, cache)| {
            let own = in_cache.get(&i).copied().unwrap_or(0);
            let own_node = in_node.get(&cache.node).copied().unwrap_or(0);
            let hole = if self.level(i) == Some(0) { cache.idle_cores } else { cache.free.len() };
            let suffices = hole >= number;
            let slack = if suffices { hole - number } else { usize::MAX - hole };
            let node_suffices = self.nodes[cache.node] >= number;
            let torn = (whole && !suffices, whole && !node_suffices);
            let distance = home.map_or(0, |home| self.distances[home][cache.node]);
            let near = (Reverse(own), Reverse(own_node), distance);
            (self.level(i), torn, near, !suffices, !node_suffices, slack, i)
        });
        best.map(|(i, _)| (i, self.level(i)))
    }

    /// What comes before nearness: with `spread`, how busy the core of the best free processor is.
    fn level(&self, cache: usize) -> Option<usize> {
        match self.smt {
            Smt::Spread => self.caches[cache].free.first().map(|&(rank, _)| rank),
            Smt::Pack => None,
        }
    }

    fn first(&self, cache: usize) -> Option<usize> {
        self.caches[cache].free.first().map(|&(_, cpu)| cpu)
    }

    fn index(&self, id: u32) -> Option<usize> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()
    }

    /// Place in the order of a processor whose core has `taken` others taken.
    fn rank(&self, taken: usize) -> usize {
        match self.smt {
            Smt::Spread => taken,
            Smt::Pack => usize::MAX - taken,
        }
    }

    /// Sets how many processors of a core are taken, and the rank of its free ones with it.
    fn count_taken(&mut self, core: usize, cache: usize, taken: usize) {
        let before = std::mem::replace(&mut self.cores[core].taken, taken);
        let (old, new) = (self.rank(before), self.rank(taken));
        for &sibling in &self.cores[core].members {
            if self.cpus[sibling].free {
                self.caches[cache].free.remove(old, sibling);
                self.caches[cache].free.insert(new, sibling);
            }
        }
        let node = self.caches[cache].node;
        if before == 0 && taken > 0 {
            self.caches[cache].idle_cores -= 1;
            self.nodes[node] -= 1;
        } else if before > 0 && taken == 0 {
            self.caches[cache].idle_cores += 1;
            self.nodes[node] += 1;
        }
    }
}
