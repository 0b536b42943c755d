//! The processors that no application has yet, and which of them is nearest.
//!
//! # Order
//! `spread`: a processor of an idle core before one with busy siblings; then, in any case, the
//! cache in which the application has most processors, then the node in which it has most, then the
//! node nearest to that one. Where it has none: a cache that suffices for all that it wants, the
//! fullest such one, so that large holes stay large; else the fullest node that suffices, in it the
//! largest hole; else the largest hole. Of a cluster that is to stay together, a cache that has
//! room for all of it comes before nearness.
//!
//! # Index
//! Caches stand in [`Shelves`] by the size of their hole, those of a node and all, and nodes by
//! theirs; but only caches whose best processor is as idle as the best of the machine, since
//! nothing comes before that. The best cache is one of few: those in which the application has
//! processors; of each node in which it has some, the best by its hole; of all the others, the best
//! by its hole, or where distances between nodes are known, the best of each of the nearest. A
//! cache that is better than its hole says (it belongs to two of these groups) wins in the group of
//! the more telling key, so that no cache is missed.
//!
//! # Cost
//! Building is O(P log P). Taking a given processor is O(threads of its core). Taking near is, for
//! each cache that is taken from, O(caches and nodes in which the application has processors and
//! something is free, + P / 64), and where distances between nodes are known and its own nodes are
//! full, O(nodes).

use std::cmp::Reverse;

use super::quick::QuickMap;
use super::shelves::Shelves;
use super::{Distances, MachineCpu, Smt};

/// Processors by index into the machine's list, sorted by id.
pub(super) struct Free<'a> {
    smt: Smt,
    cpus: Vec<Cpu>,
    cores: Vec<Core>,
    caches: Vec<Cache>,
    nodes: Vec<Node>,
    /// The most hardware threads that a core has.
    threads: usize,
    distances: &'a Distances,
    /// Between nodes, by their index here: the rows that were asked for.
    rows: Vec<Option<Vec<u32>>>,
    index: Option<Index>,
    /// Between two calls without contents.
    near: Near,
}

struct Cpu {
    id: u32,
    core: usize,
    cache: usize,
    /// Place in its cache.
    place: usize,
    free: bool,
}

#[derive(Default)]
struct Core {
    members: Vec<usize>,
    taken: usize,
}

struct Cache {
    node: usize,
    /// Place in its node.
    place: usize,
    members: Vec<usize>,
    /// Free processors by rank of their core; best first.
    best: Shelves,
    free: usize,
    /// Idle cores.
    idle_cores: usize,
}

struct Node {
    /// Its number in the machine.
    number: u32,
    members: Vec<usize>,
    /// Free processors.
    free: usize,
    /// Idle cores.
    idle_cores: usize,
}

/// The caches of one rank, by hole.
struct Index {
    /// Rank of the best free processor of the machine.
    rank: usize,
    all: Shelves,
    of_node: Vec<Shelves>,
    nodes: Shelves,
    /// Of each cache the hole by which it stands on shelves; of each node, too.
    cache_at: Vec<Option<usize>>,
    node_at: Vec<usize>,
}

/// What an application has where.
#[derive(Default)]
struct Near {
    in_cache: Vec<usize>,
    in_node: Vec<usize>,
    /// Caches and nodes in which it has some.
    touched: (Vec<usize>, Vec<usize>),
    /// Those of them in which something may be free.
    caches: Vec<usize>,
    nodes: Vec<usize>,
    /// The node in which it has most.
    home: Option<usize>,
}

impl Near {
    /// Of an application that has nothing.
    fn clear(&mut self) {
        self.touched.0.drain(..).for_each(|cache| self.in_cache[cache] = 0);
        self.touched.1.drain(..).for_each(|node| self.in_node[node] = 0);
        self.caches.clear();
        self.nodes.clear();
        self.home = None;
    }

    fn add(&mut self, cache: usize, node: usize) {
        self.in_cache[cache] += 1;
        self.in_node[node] += 1;
        if self.in_cache[cache] == 1 {
            self.touched.0.push(cache);
            self.caches.push(cache);
        }
        if self.in_node[node] == 1 {
            self.touched.1.push(node);
            self.nodes.push(node);
        }
        // Ties by index, so that the answer is one.
        let order = |&node: &usize| (self.in_node[node], Reverse(node));
        self.home = self.home.into_iter().chain([node]).max_by_key(order);
    }
}

/// The order of caches, least first.
type Key = (
    (bool, bool),
    (Reverse<usize>, Reverse<usize>, u32),
    (bool, bool),
    (usize, usize),
    usize,
    usize,
);

impl<'a> Free<'a> {
    /// All of `cpus`, which are in order of id.
    pub(super) fn new(cpus: &[MachineCpu], distances: &'a Distances, smt: Smt) -> Self {
        let (mut core_index, mut cache_index, mut node_index) =
            (QuickMap::default(), QuickMap::default(), QuickMap::default());
        core_index.reserve(cpus.len());
        let mut all = Self {
            smt,
            cpus: Vec::with_capacity(cpus.len()),
            cores: Vec::new(),
            caches: Vec::new(),
            nodes: Vec::new(),
            threads: 1,
            distances,
            rows: Vec::new(),
            index: None,
            near: Near::default(),
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
                all.nodes.push(Node {
                    number: cpu.node,
                    members: Vec::new(),
                    free: 0,
                    idle_cores: 0,
                });
            }
            if cache == all.caches.len() {
                let place = all.nodes[node].members.len();
                let (members, best) = (Vec::new(), Shelves::default());
                all.caches.push(Cache { node, place, members, best, free: 0, idle_cores: 0 });
                all.nodes[node].members.push(cache);
            }
            if core == all.cores.len() {
                all.cores.push(Core::default());
                all.caches[cache].idle_cores += 1;
                all.nodes[node].idle_cores += 1;
            }
            all.cores[core].members.push(i);
            all.threads = all.threads.max(all.cores[core].members.len());
            all.nodes[node].free += 1;
            let place = all.caches[cache].members.len();
            all.caches[cache].members.push(i);
            all.cpus.push(Cpu { id: cpu.id, core, cache, place, free: true });
        }
        let rank = all.rank(0);
        for cache in &mut all.caches {
            cache.free = cache.members.len();
            cache.best = Shelves::new(cache.free, all.threads);
            (0..cache.free).for_each(|place| cache.best.put(rank, place));
        }
        all.rows = vec![None; all.nodes.len()];
        (all.near.in_cache, all.near.in_node) =
            (vec![0; all.caches.len()], vec![0; all.nodes.len()]);
        all
    }

    /// Whether this processor is free.
    pub(super) fn has(&self, cpu: usize) -> bool {
        self.cpus[cpu].free
    }

    /// Takes this processor; false if an application has it.
    pub(super) fn take(&mut self, cpu: usize) -> bool {
        let was_free = self.cpus[cpu].free;
        if was_free {
            let cache = self.cpus[cpu].cache;
            self.move_out(cpu);
            self.index_again(cache);
        }
        was_free
    }

    /// Takes the processor of this id; false if there is none or an application has it.
    pub(super) fn take_id(&mut self, id: u32) -> bool {
        self.index_of(id).is_some_and(|cpu| self.take(cpu))
    }

    /// Gives back a processor that was taken.
    pub(super) fn put_back(&mut self, id: u32) {
        let Some(cpu) = self.index_of(id).filter(|&cpu| !self.cpus[cpu].free) else {
            return;
        };
        let Cpu { core, cache, place, .. } = self.cpus[cpu];
        self.count_taken(core, cache, self.cores[core].taken - 1);
        self.cpus[cpu].free = true;
        let rank = self.rank(self.cores[core].taken);
        self.caches[cache].best.put(rank, place);
        self.caches[cache].free += 1;
        let node = self.caches[cache].node;
        self.nodes[node].free += 1;
        // It may be better than all that were left.
        self.index = None;
    }

    /// Takes `number` processors, or all that are left, as for an application that has those of
    /// `near`; `cluster` at a time, if that is more than one.
    pub(super) fn take_near(
        &mut self,
        near: &[usize],
        number: usize,
        cluster: usize,
    ) -> Vec<usize> {
        let mut taken = Vec::with_capacity(number);
        if number == 0 {
            return taken;
        }
        let mut has = std::mem::take(&mut self.near);
        has.clear();
        for &cpu in near {
            let cache = self.cpus[cpu].cache;
            has.add(cache, self.caches[cache].node);
        }
        while taken.len() < number {
            // How many stay together, and up to which count this piece goes.
            let left = number - taken.len();
            let whole = cluster > 1 && left >= cluster;
            let piece = if whole { cluster } else { left };
            let upto = taken.len() + piece;
            let Some(cache) = self.best_cache(&mut has, piece, whole) else {
                break;
            };
            // It stays the best until its level changes: it has the most of the application, and
            // more with each.
            let level = self.level(cache);
            while let Some(cpu) =
                self.first(cache).filter(|_| taken.len() < upto && self.level(cache) == level)
            {
                self.move_out(cpu);
                taken.push(cpu);
                has.add(cache, self.caches[cache].node);
            }
            self.index_again(cache);
        }
        self.near = has;
        taken
    }

    /// Takes up to `number` of those that are `inside`, as for an application that has those of
    /// `near`. O(number x `inside`).
    pub(super) fn take_inside(
        &mut self,
        near: &[usize],
        number: usize,
        inside: &[usize],
    ) -> Vec<usize> {
        let mut left: Vec<usize> = Vec::new();
        if number > 0 {
            left.extend(inside.iter().copied().filter(|&cpu| self.has(cpu)));
        }
        if left.is_empty() {
            return left;
        }
        let (mut in_cache, mut in_node) =
            (vec![0_usize; self.caches.len()], vec![0_usize; self.nodes.len()]);
        let mut taken = Vec::with_capacity(number);
        let mut has = near.to_vec();
        while taken.len() < number {
            for cpu in has.drain(..) {
                let cache = self.cpus[cpu].cache;
                in_cache[cache] += 1;
                in_node[self.caches[cache].node] += 1;
            }
            let key = |&cpu: &usize| {
                let Cpu { core, cache, .. } = self.cpus[cpu];
                let rank = self.rank(self.cores[core].taken);
                let (before, after) = if self.smt == Smt::Spread { (rank, 0) } else { (0, rank) };
                (
                    before,
                    Reverse(in_cache[cache]),
                    Reverse(in_node[self.caches[cache].node]),
                    after,
                    cpu,
                )
            };
            let Some(at) = (0..left.len()).min_by_key(|&at| key(&left[at])) else {
                break;
            };
            let best = left.swap_remove(at);
            self.take(best);
            has.push(best);
            taken.push(best);
        }
        taken
    }

    /// The same as [`Free::take_near`], by id, for processors without an application.
    pub(super) fn take_ids(&mut self, number: usize) -> Vec<u32> {
        let taken = self.take_near(&[], number, 1);
        taken.into_iter().map(|cpu| self.cpus[cpu].id).collect()
    }

    /// The cache to take from, of those that have a free processor; see `# Index`. Forgets where
    /// nothing is free.
    fn best_cache(&mut self, has: &mut Near, number: usize, whole: bool) -> Option<usize> {
        if self.index.as_ref().is_none_or(|index| index.all.highest().is_none()) {
            self.index = self.make_index();
        }
        let uniform = self.distances.0.is_empty();
        if let Some(home) = has.home.filter(|_| !uniform) {
            let from = self.nodes[home].number;
            let (nodes, distances) = (&self.nodes, self.distances);
            let row = || nodes.iter().map(|to| distances.between(from, to.number)).collect();
            self.rows[home].get_or_insert_with(row);
        }
        let index = self.index.as_ref()?;
        has.caches.retain(|&cache| self.caches[cache].free > 0);
        has.nodes.retain(|&node| self.nodes[node].free > 0);
        let row = has.home.and_then(|home| self.rows[home].as_deref());

        let key = |cache: usize, hole: usize| self.key(has, row, cache, hole, number, whole);
        let own = has
            .caches
            .iter()
            .filter_map(|&cache| index.cache_at[cache].map(|hole| key(cache, hole)));
        let best_of = |node: usize| {
            index
                .best_of(node, number)
                .map(|(hole, place)| key(self.nodes[node].members[place], hole))
        };
        let own_nodes = has.nodes.iter().filter_map(|&node| best_of(node));
        let mut best = own.chain(own_nodes).min();
        // Nearness decides where nothing is torn: others cannot be better.
        if best.is_none_or(|((torn, _), ..)| torn) {
            let others = match row {
                Some(row) => {
                    let mut nearest: Option<Key> = None;
                    for (node, &to) in row.iter().enumerate() {
                        if whole || nearest.is_none_or(|(_, (_, _, distance), ..)| to <= distance) {
                            nearest = nearest.into_iter().chain(best_of(node)).min();
                        }
                    }
                    nearest
                }
                None => {
                    index.best_of_all(number, &self.nodes).map(|(hole, cache)| key(cache, hole))
                }
            };
            best = best.into_iter().chain(others).min();
        }
        best.map(|(.., cache)| cache)
    }

    /// The place in the order of a cache with a hole of this size.
    fn key(
        &self,
        has: &Near,
        row: Option<&[u32]>,
        cache: usize,
        hole: usize,
        number: usize,
        whole: bool,
    ) -> Key {
        let node = self.caches[cache].node;
        let suffices = hole >= number;
        let node_hole = self.node_hole(node);
        let node_suffices = suffices || node_hole >= number;
        let torn = (whole && !suffices, whole && !node_suffices);
        let distance = row.map_or_else(|| u32::from(has.home != Some(node)), |row| row[node]);
        let near = (Reverse(has.in_cache[cache]), Reverse(has.in_node[node]), distance);
        let node_slack =
            if node_suffices && !suffices { (node_hole - number, node) } else { (0, 0) };
        let slack = if suffices { hole - number } else { usize::MAX - hole };
        (torn, near, (!suffices, !node_suffices), node_slack, slack, cache)
    }

    /// The index of the caches that have the best free processors; `None` when nothing is free.
    fn make_index(&self) -> Option<Index> {
        let ranks: Vec<Option<usize>> =
            (0..self.caches.len()).map(|cache| self.level(cache)).collect();
        let rank = ranks.iter().flatten().copied().min()?;
        let largest =
            |members: &[usize]| members.iter().map(|&cache| self.caches[cache].members.len()).max();
        let shelves =
            |members: &[usize]| Shelves::new(members.len(), largest(members).unwrap_or(0) + 1);
        let most = self.caches.iter().map(|cache| cache.members.len()).max().unwrap_or(0);
        let node_at: Vec<usize> = (0..self.nodes.len()).map(|node| self.node_hole(node)).collect();
        let largest_node = node_at.iter().copied().max().unwrap_or(0);
        let mut index = Index {
            rank,
            all: Shelves::new(self.caches.len(), most + 1),
            of_node: self.nodes.iter().map(|node| shelves(&node.members)).collect(),
            nodes: Shelves::new(self.nodes.len(), largest_node + 1),
            cache_at: vec![None; self.caches.len()],
            node_at,
        };
        for (node, &hole) in index.node_at.iter().enumerate() {
            index.nodes.put(hole, node);
        }
        for cache in (0..self.caches.len()).filter(|&cache| ranks[cache] == Some(rank)) {
            let hole = self.hole(cache);
            index.put(&self.caches[cache], cache, hole);
        }
        Some(index)
    }

    /// Something of this cache was taken.
    fn index_again(&mut self, cache: usize) {
        let (level, hole) = (self.level(cache), self.hole(cache));
        let at = &self.caches[cache];
        let node_hole = self.node_hole(at.node);
        let Some(index) = &mut self.index else { return };
        if let Some(before) = index.cache_at[cache].take() {
            index.all.remove(before, cache);
            index.of_node[at.node].remove(before, at.place);
        }
        if level == Some(index.rank) {
            index.put(at, cache, hole);
        }
        let before = std::mem::replace(&mut index.node_at[at.node], node_hole);
        index.nodes.remove(before, at.node);
        index.nodes.put(node_hole, at.node);
    }

    /// What comes before nearness: with `spread`, how busy the core of the best free processor is.
    /// `None` when nothing is free.
    fn level(&self, cache: usize) -> Option<usize> {
        let (rank, _) = self.caches[cache].best.at_least(0)?;
        Some(if self.smt == Smt::Spread { rank } else { 0 })
    }

    /// The processors of a cache that are as good as its best one.
    fn hole(&self, cache: usize) -> usize {
        let cache = &self.caches[cache];
        if self.smt == Smt::Spread && cache.idle_cores > 0 { cache.idle_cores } else { cache.free }
    }

    /// The processors of a node that are as good as any, as far as they count for an application
    /// that fits no cache: those on idle cores, or all.
    fn node_hole(&self, node: usize) -> usize {
        let node = &self.nodes[node];
        if self.smt == Smt::Spread { node.idle_cores } else { node.free }
    }

    fn first(&self, cache: usize) -> Option<usize> {
        let cache = &self.caches[cache];
        cache.best.at_least(0).map(|(_, place)| cache.members[place])
    }

    fn index_of(&self, id: u32) -> Option<usize> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()
    }

    /// Place in the order of a processor whose core has `taken` others taken.
    fn rank(&self, taken: usize) -> usize {
        match self.smt {
            Smt::Spread => taken,
            Smt::Pack => self.threads - 1 - taken,
        }
    }

    /// Takes a free processor; the index does not know yet.
    fn move_out(&mut self, cpu: usize) {
        self.cpus[cpu].free = false;
        let Cpu { core, cache, place, .. } = self.cpus[cpu];
        let rank = self.rank(self.cores[core].taken);
        self.caches[cache].best.remove(rank, place);
        self.caches[cache].free -= 1;
        let node = self.caches[cache].node;
        self.nodes[node].free -= 1;
        self.count_taken(core, cache, self.cores[core].taken + 1);
    }

    /// Sets how many processors of a core are taken, and the rank of its free ones with it.
    fn count_taken(&mut self, core: usize, cache: usize, taken: usize) {
        let before = std::mem::replace(&mut self.cores[core].taken, taken);
        for &sibling in &self.cores[core].members {
            let Cpu { free, place, .. } = self.cpus[sibling];
            if free {
                let (old, new) = (self.rank(before), self.rank(taken));
                self.caches[cache].best.remove(old, place);
                self.caches[cache].best.put(new, place);
            }
        }
        let node = self.caches[cache].node;
        if before == 0 && taken > 0 {
            self.caches[cache].idle_cores -= 1;
            self.nodes[node].idle_cores -= 1;
        } else if before > 0 && taken == 0 {
            self.caches[cache].idle_cores += 1;
            self.nodes[node].idle_cores += 1;
        }
    }
}

impl Index {
    fn put(&mut self, at: &Cache, cache: usize, hole: usize) {
        self.all.put(hole, cache);
        self.of_node[at.node].put(hole, at.place);
        self.cache_at[cache] = Some(hole);
    }

    /// The hole and place of the best cache of a node in which the application has none: the
    /// smallest that suffices, else the largest.
    fn best_of(&self, node: usize, number: usize) -> Option<(usize, usize)> {
        let caches = &self.of_node[node];
        caches.at_least(number).or_else(|| caches.highest())
    }

    /// The hole and index of the best cache, for an application that has none.
    fn best_of_all(&self, number: usize, nodes: &[Node]) -> Option<(usize, usize)> {
        let in_node = || {
            let (_, node) = self.nodes.at_least(number)?;
            self.best_of(node, number).map(|(hole, place)| (hole, nodes[node].members[place]))
        };
        self.all.at_least(number).or_else(in_node).or_else(|| self.all.highest())
    }
}

#[cfg(test)]
mod tests;
