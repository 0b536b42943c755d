//! The processors that no application has yet, and which of them is nearest.
//!
//! # Order
//! `spread`: a processor of an idle core before one with busy siblings, and among those that are
//! alike in this, one of a fast core before one of a slow core. `pack`: one of a fast core before
//! one of a slow core. Then, in any case, the cache in which the application has most processors,
//! then the node in which it has most, then the node nearest to that one. Where it has none: a
//! cache that suffices for all that it wants, the fullest such one, so that large holes stay
//! large; else the fullest node that suffices, in it the largest hole; else the largest hole. Of a
//! cluster that is to stay together, a cache that has room for all of it comes before nearness.
//!
//! Hence with `spread`: fast whole cores, slow whole cores, second threads of fast cores. A small
//! core does more than half of what a large one does, and a second thread a quarter of it. Speed
//! comes before locality, as whole cores do: a slow core makes all of a program's time longer, and
//! a far cache or node the part in which it waits for memory. (Cores of both kinds are mostly under
//! one cache, so that there is nothing to choose.)
//!
//! # Index
//! Caches stand in [`Shelves`] by the size of their hole, those of a node and all, and nodes by
//! theirs; but only caches whose best processor has the level of the best of the machine, since
//! nothing comes before that. The best cache is one of few: those in which the application has
//! processors; of each node in which it has some, the best by its hole; of all the others, the best
//! by its hole, or where distances between nodes are known, the best of each of the nearest. A
//! cache that is better than its hole says (it belongs to two of these groups) wins in the group of
//! the more telling key, so that no cache is missed.
//!
//! # Cost
//! Building is O(P), and counts per cache and node are made only when the first application asks
//! for what is near: most often that is after most processors have found their applications. Taking
//! a given processor is O(threads of its core). Taking near is, for each cache that is taken from,
//! O(caches and nodes in which the application has processors and something is free, + P / 64), and
//! where distances between nodes are known and its own nodes are full, O(nodes).

use std::cmp::Reverse;

use super::machine::{Distances, Smt};
use super::shelves::Racks;
use super::topology::{Cache, Cpu, HOLE, Node, Topology};

/// Processors by index into the topology.
pub(super) struct Free<'a> {
    smt: Smt,
    topology: &'a Topology,
    distances: &'a Distances,
    /// By processor.
    free: Vec<bool>,
    /// By core: how many of its processors are taken.
    taken: Vec<usize>,
    /// Empty until something near is asked for.
    stock: Stock,
    is_stocked: bool,
    /// Between nodes, by their index here: the rows that were asked for.
    rows: Vec<Option<Vec<u32>>>,
    index: Option<Index>,
    /// Between two calls without contents.
    near: Near,
}

/// What is free where.
#[derive(Default)]
struct Stock {
    /// The free processors of each cache by rank; best first.
    of_cache: Racks,
    /// For each cache, and for each node, one of each class of speed.
    caches: Vec<Count>,
    nodes: Vec<Count>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    free: usize,
    idle_cores: usize,
}

impl Count {
    /// Those that are as good as the best ones, as far as some core is idle.
    fn as_good(self, smt: Smt) -> usize {
        if smt == Smt::Spread { self.idle_cores } else { self.free }
    }
}

/// The caches of one level, by hole.
struct Index {
    /// That of the best free processor of the machine.
    level: usize,
    of_machine: Racks,
    of_node: Racks,
    nodes: Racks,
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
    /// Of an application that has nothing, on this machine.
    fn clear(&mut self, topology: &Topology) {
        if self.in_cache.is_empty() {
            self.in_cache = vec![0; topology.caches.len()];
            self.in_node = vec![0; topology.nodes.len()];
        }
        self.touched.0.drain(..).for_each(|cache| self.in_cache[cache] = 0);
        self.touched.1.drain(..).for_each(|node| self.in_node[node] = 0);
        self.caches.clear();
        self.nodes.clear();
        self.home = None;
    }

    fn add(&mut self, cpu: &Cpu) {
        let Cpu { cache, node, .. } = *cpu;
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
        let order = |node: usize| (self.in_node[node], Reverse(node));
        if self.home.is_none_or(|home| order(node) > order(home)) {
            self.home = Some(node);
        }
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
    /// All of the machine.
    pub(super) fn new(topology: &'a Topology, distances: &'a Distances, smt: Smt) -> Self {
        Self {
            smt,
            topology,
            distances,
            free: vec![true; topology.cpus.len()],
            taken: vec![0; topology.cores.len()],
            stock: Stock::default(),
            is_stocked: false,
            rows: Vec::new(),
            index: None,
            near: Near::default(),
        }
    }

    /// Whether this processor is free.
    pub(super) fn has(&self, cpu: usize) -> bool {
        self.free[cpu]
    }

    /// Takes this processor; false if an application has it.
    pub(super) fn take(&mut self, cpu: usize) -> bool {
        let was_free = self.free[cpu];
        if was_free {
            self.move_out(cpu);
            self.index_again(self.topology.cpus[cpu].cache);
        }
        was_free
    }

    /// The same by id; false if there is none.
    pub(super) fn has_id(&self, id: u32) -> bool {
        self.topology.index_of(id).is_some_and(|cpu| self.has(cpu))
    }

    /// Takes the processor of this id; false if there is none or an application has it.
    pub(super) fn take_id(&mut self, id: u32) -> bool {
        self.topology.index_of(id).is_some_and(|cpu| self.take(cpu))
    }

    /// Gives back a processor that was taken.
    pub(super) fn put_back(&mut self, id: u32) {
        let Some(cpu) = self.topology.index_of(id).filter(|&cpu| !self.free[cpu]) else {
            return;
        };
        let Cpu { core, cache, node, place, .. } = self.topology.cpus[cpu];
        self.count_taken(core, self.taken[core] - 1);
        self.free[cpu] = true;
        if self.is_stocked {
            let rank = self.rank(core, self.taken[core]);
            self.stock.of_cache.put(cache, rank, place);
            self.counts_of(core, cache, node).into_iter().for_each(|count| count.free += 1);
        }
        // It may be better than all that were left.
        self.index = None;
    }

    /// Takes `number` processors, or all that are left, as for an application that has those of
    /// `near` (where holes do not count); `cluster` at a time, if that is more than one. They are
    /// put into `taken`, which is empty.
    pub(super) fn take_near(
        &mut self,
        near: &[usize],
        number: usize,
        cluster: usize,
        taken: &mut Vec<usize>,
    ) {
        if number == 0 {
            return;
        }
        self.count_stock();
        let mut has = std::mem::take(&mut self.near);
        has.clear(self.topology);
        for &cpu in near.iter().filter(|cpu| **cpu != HOLE) {
            has.add(&self.topology.cpus[cpu]);
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
                has.add(&self.topology.cpus[cpu]);
            }
            self.index_again(cache);
        }
        self.near = has;
    }

    /// Takes up to `number` of those that are `inside`, as for an application that has those of
    /// `near` (where holes do not count), and puts them into `taken`, which is empty. O(number x
    /// `inside`).
    pub(super) fn take_inside(
        &mut self,
        near: &[usize],
        number: usize,
        inside: &[usize],
        taken: &mut Vec<usize>,
    ) {
        let mut left: Vec<usize> = Vec::new();
        if number > 0 {
            left.extend(inside.iter().copied().filter(|&cpu| self.has(cpu)));
        }
        if left.is_empty() {
            return;
        }
        let mut has = std::mem::take(&mut self.near);
        has.clear(self.topology);
        for &cpu in near.iter().filter(|cpu| **cpu != HOLE) {
            has.add(&self.topology.cpus[cpu]);
        }
        while taken.len() < number {
            let key = |&cpu: &usize| {
                let Cpu { core, cache, node, .. } = self.topology.cpus[cpu];
                let rank = self.rank(core, self.taken[core]);
                let near = (Reverse(has.in_cache[cache]), Reverse(has.in_node[node]));
                (self.level_of(rank), near, rank, cpu)
            };
            let Some(at) = (0..left.len()).min_by_key(|&at| key(&left[at])) else {
                break;
            };
            let best = left.swap_remove(at);
            self.take(best);
            has.add(&self.topology.cpus[best]);
            taken.push(best);
        }
        self.near = has;
    }

    /// The same as [`Free::take_near`], by id, for processors without an application.
    pub(super) fn take_ids(&mut self, number: usize) -> impl Iterator<Item = u32> + use<'a> {
        let mut taken = Vec::new();
        self.take_near(&[], number, 1, &mut taken);
        let topology = self.topology;
        taken.into_iter().map(|cpu| topology.cpus[cpu].id)
    }

    /// How many processors the best level of all has.
    pub(super) fn best_left(&mut self) -> usize {
        self.count_stock();
        let classes = self.topology.classes.max(1);
        let number = |class: usize| -> usize {
            let counts = self.stock.nodes.iter().skip(class).step_by(classes);
            counts.map(|count| count.as_good(self.smt)).sum()
        };
        (0..classes).map(number).find(|number| *number > 0).unwrap_or(0)
    }

    /// Counts what caches and nodes have.
    fn count_stock(&mut self) {
        if std::mem::replace(&mut self.is_stocked, true) {
            return;
        }
        let topology = self.topology;
        let mut stock = Stock {
            of_cache: topology.of_cache.clone(),
            caches: vec![Count::default(); topology.caches.len() * topology.classes],
            nodes: vec![Count::default(); topology.nodes.len() * topology.classes],
        };
        let at = |place: usize, class: usize| place * topology.classes + class;
        for (cpu, _) in topology.cpus.iter().zip(&self.free).filter(|(_, free)| **free) {
            let class = topology.cores[cpu.core].class;
            stock.of_cache.put(cpu.cache, self.rank(cpu.core, self.taken[cpu.core]), cpu.place);
            stock.caches[at(cpu.cache, class)].free += 1;
            stock.nodes[at(cpu.node, class)].free += 1;
        }
        for (core, _) in topology.cores.iter().zip(&self.taken).filter(|(_, taken)| **taken == 0) {
            stock.caches[at(core.cache, core.class)].idle_cores += 1;
            stock.nodes[at(topology.caches[core.cache].node, core.class)].idle_cores += 1;
        }
        self.stock = stock;
    }

    /// The cache to take from, of those that have a free processor; see `# Index`. Forgets where
    /// nothing is free.
    fn best_cache(&mut self, has: &mut Near, number: usize, whole: bool) -> Option<usize> {
        if self.index.as_ref().is_none_or(|index| index.of_machine.highest(0).is_none()) {
            self.index = self.make_index();
        }
        let uniform = self.distances.is_empty();
        let nodes = &self.topology.nodes;
        if let Some(home) = has.home.filter(|_| !uniform) {
            let (from, distances) = (nodes[home].number, self.distances);
            self.rows.resize(nodes.len(), None);
            let row = || nodes.iter().map(|to| distances.between(from, to.number)).collect();
            self.rows[home].get_or_insert_with(row);
        }
        let index = self.index.as_ref()?;
        has.caches.retain(|&cache| self.is_any_free(&self.stock.caches, cache));
        has.nodes.retain(|&node| self.is_any_free(&self.stock.nodes, node));
        let row = has.home.and_then(|home| self.rows.get(home)?.as_deref());

        let key = |cache: usize, hole: usize| self.key(has, row, cache, hole, number, whole);
        let own = has
            .caches
            .iter()
            .filter_map(|&cache| index.cache_at[cache].map(|hole| key(cache, hole)));
        let best_of = |node: usize| {
            index.best_of(node, number).map(|(hole, place)| key(nodes[node].members[place], hole))
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
                None => index.best_of_all(number, nodes).map(|(hole, cache)| key(cache, hole)),
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
        let node = self.topology.caches[cache].node;
        let suffices = hole >= number;
        let class = self.level(cache).map_or(0, |level| self.class_of(level));
        let node_hole = self.node_hole(node, class);
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
        let topology = self.topology;
        let caches = 0..topology.caches.len();
        let level = caches.clone().filter_map(|cache| self.level(cache)).min()?;
        let class = self.class_of(level);
        let mut index = Index {
            level,
            of_machine: topology.of_machine.clone(),
            of_node: topology.of_node.clone(),
            nodes: topology.for_nodes.clone(),
            cache_at: vec![None; caches.len()],
            node_at: (0..topology.nodes.len()).map(|node| self.node_hole(node, class)).collect(),
        };
        for (node, &hole) in index.node_at.iter().enumerate() {
            index.nodes.put(0, hole, node);
        }
        for cache in caches.filter(|&cache| self.level(cache) == Some(level)) {
            index.put(&topology.caches[cache], cache, self.hole(cache, level));
        }
        Some(index)
    }

    /// Something of this cache was taken.
    fn index_again(&mut self, cache: usize) {
        let Some(of_index) = self.index.as_ref().map(|index| index.level) else {
            return;
        };
        let hole = self.hole(cache, of_index);
        let is_best = self.level(cache) == Some(of_index);
        let at = &self.topology.caches[cache];
        let node_hole = self.node_hole(at.node, self.class_of(of_index));
        let Some(index) = &mut self.index else { return };
        if let Some(before) = index.cache_at[cache].take() {
            index.of_machine.remove(0, before, cache);
            index.of_node.remove(at.node, before, at.place);
        }
        if is_best {
            index.put(at, cache, hole);
        }
        let before = std::mem::replace(&mut index.node_at[at.node], node_hole);
        if before != node_hole {
            index.nodes.remove(0, before, at.node);
            index.nodes.put(0, node_hole, at.node);
        }
    }

    /// What comes before nearness, of the best free processor of a cache. `None` when nothing is
    /// free.
    fn level(&self, cache: usize) -> Option<usize> {
        let (rank, _) = self.stock.of_cache.at_least(cache, 0)?;
        Some(self.level_of(rank))
    }

    /// The same of a processor with this rank: with `spread` how busy its core is, and then how
    /// fast; with `pack` how fast.
    fn level_of(&self, rank: usize) -> usize {
        if self.smt == Smt::Spread { rank } else { rank / self.topology.threads }
    }

    /// The class of speed of processors of a level.
    fn class_of(&self, level: usize) -> usize {
        level % self.topology.classes
    }

    /// The processors of a cache that are as good as its best one, which has this level.
    fn hole(&self, cache: usize, level: usize) -> usize {
        let classes = self.topology.classes;
        let counts = &self.stock.caches[cache * classes..][..classes];
        if self.smt == Smt::Pack || level < classes {
            counts[self.class_of(level)].as_good(self.smt)
        } else {
            counts.iter().map(|count| count.free).sum()
        }
    }

    /// The processors of a node that are as good as any of this class, as far as they count for an
    /// application that fits no cache: those on idle cores, or all.
    fn node_hole(&self, node: usize, class: usize) -> usize {
        self.stock.nodes[node * self.topology.classes + class].as_good(self.smt)
    }

    /// Whether a cache, or a node, of which these are the counts has a free processor.
    fn is_any_free(&self, counts: &[Count], place: usize) -> bool {
        let classes = self.topology.classes;
        counts[place * classes..][..classes].iter().any(|count| count.free > 0)
    }

    /// Those of the processors of a core.
    fn counts_of(&mut self, core: usize, cache: usize, node: usize) -> [&mut Count; 2] {
        let Topology { cores, classes, .. } = self.topology;
        let at = |place: usize| place * classes + cores[core].class;
        [&mut self.stock.caches[at(cache)], &mut self.stock.nodes[at(node)]]
    }

    fn first(&self, cache: usize) -> Option<usize> {
        let (_, place) = self.stock.of_cache.at_least(cache, 0)?;
        Some(self.topology.caches[cache].members[place])
    }

    /// Place in the order of a processor of a core that has `taken` others taken.
    fn rank(&self, core: usize, taken: usize) -> usize {
        let Topology { cores, threads, classes, .. } = self.topology;
        let class = cores[core].class;
        match self.smt {
            Smt::Spread => taken * classes + class,
            Smt::Pack => class * threads + threads - 1 - taken,
        }
    }

    /// Takes a free processor; the index does not know yet.
    fn move_out(&mut self, cpu: usize) {
        self.free[cpu] = false;
        let Cpu { core, cache, node, place, .. } = self.topology.cpus[cpu];
        if self.is_stocked {
            let rank = self.rank(core, self.taken[core]);
            self.stock.of_cache.remove(cache, rank, place);
            self.counts_of(core, cache, node).into_iter().for_each(|count| count.free -= 1);
        }
        self.count_taken(core, self.taken[core] + 1);
    }

    /// Sets how many processors of a core are taken, and the rank of its free ones with it.
    fn count_taken(&mut self, core: usize, taken: usize) {
        let before = std::mem::replace(&mut self.taken[core], taken);
        if !self.is_stocked {
            return;
        }
        let topology = self.topology;
        let cache = topology.cores[core].cache;
        for &sibling in topology.cores[core].members.iter().filter(|cpu| self.free[**cpu]) {
            let place = topology.cpus[sibling].place;
            // A core with a free processor has a rank.
            let (old, new) = (self.rank(core, before), self.rank(core, taken));
            self.stock.of_cache.remove(cache, old, place);
            self.stock.of_cache.put(cache, new, place);
        }
        let node = topology.caches[cache].node;
        for count in self.counts_of(core, cache, node) {
            if before == 0 && taken > 0 {
                count.idle_cores -= 1;
            } else if before > 0 && taken == 0 {
                count.idle_cores += 1;
            }
        }
    }
}

impl Index {
    fn put(&mut self, at: &Cache, cache: usize, hole: usize) {
        self.of_machine.put(0, hole, cache);
        self.of_node.put(at.node, hole, at.place);
        self.cache_at[cache] = Some(hole);
    }

    /// The hole and place of the best cache of a node in which the application has none: the
    /// smallest that suffices, else the largest.
    fn best_of(&self, node: usize, number: usize) -> Option<(usize, usize)> {
        self.of_node.at_least(node, number).or_else(|| self.of_node.highest(node))
    }

    /// The hole and index of the best cache, for an application that has none.
    fn best_of_all(&self, number: usize, nodes: &[Node]) -> Option<(usize, usize)> {
        let in_node = || {
            let (_, node) = self.nodes.at_least(0, number)?;
            self.best_of(node, number).map(|(hole, place)| (hole, nodes[node].members[place]))
        };
        let all = &self.of_machine;
        all.at_least(0, number).or_else(in_node).or_else(|| all.highest(0))
    }
}

#[cfg(test)]
mod tests;
