//! The competitive criterion: whether a page should move, and where.
//!
//! # Rule
//! With home *h*, counters *c* and the best other node *b*, the page moves to *b* when
//! c\[b\] / c\[h\] is above the threshold and c\[b\] is at least the noise floor. c\[h\] = 0 makes
//! the ratio infinite. Where distances are known, *b* is the node that makes the largest latency of
//! any node's references smallest: the minimum over h' of the maximum over n of c\[n\] x
//! distance(n, h'); equal ones prefer the home, then the node with more references, then the lower
//! number. Where they are unknown, *b* has the most references.
//!
//! References from a node without memory count for the nearest node with memory: no page can be
//! where they come from.
//!
//! # Papers
//! P4 section 3.1. The paper prints no threshold and has no floor; its counters are exact.

use crate::topology::{Node, Topology};

/// The parameters of the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// How many times as many references the other node must have as the home.
    pub threshold: f64,
    /// How many references it must have at least.
    pub floor: u64,
}

impl Criterion {
    /// For a source that counts every reference.
    pub const EXACT: Self = Self { threshold: 1.5, floor: 1 };
    /// For a source that counts some.
    pub const SAMPLED: Self = Self { threshold: 1.5, floor: 4 };
}

/// Why a page stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stay {
    /// No node referred to it.
    NoReferences,
    /// Its home is the best place.
    BestIsHome,
    /// The best other node has fewer references than the noise floor.
    BelowFloor,
    /// The best other node has not enough more than the home.
    BelowThreshold,
    /// It went to and fro, and is frozen where it is.
    Frozen,
    /// No memory is there yet, so it has no home: its first touch places it.
    Untouched,
    /// The mover could not tell where it is.
    Unknown,
}

impl Stay {
    /// All reasons, for tables.
    pub const ALL: [Self; 7] = [
        Self::NoReferences,
        Self::BestIsHome,
        Self::BelowFloor,
        Self::BelowThreshold,
        Self::Frozen,
        Self::Untouched,
        Self::Unknown,
    ];

    /// In words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoReferences => "no node referred to it",
            Self::BestIsHome => "its home is the best place",
            Self::BelowFloor => "too few references to say",
            Self::BelowThreshold => "no other node has enough more references than its home",
            Self::Frozen => "frozen: it went to and fro",
            Self::Untouched => "not touched yet",
            Self::Unknown => "its node could not be read",
        }
    }
}

/// What the rule says of one page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It should move.
    Move {
        /// Where to.
        to: Node,
        /// References there for each one at home; infinite without any at home.
        ratio: f64,
        /// References there.
        references: u64,
    },
    /// It should not.
    Stay(Stay),
}

/// The rule for one machine, with what it needs to know of the machine in tables.
#[derive(Clone, Debug)]
pub struct Judge {
    criterion: Criterion,
    nodes: usize,
    memory: Vec<bool>,
    /// Row after row (from, to); empty: unknown.
    distances: Vec<u64>,
    /// The node for which the references of each node count.
    counts_for: Vec<usize>,
}

impl Judge {
    /// The rule on this topology.
    pub fn new(criterion: Criterion, topology: &impl Topology) -> Self {
        let nodes = topology.nodes();
        let all = || (0..nodes).map(Node::at);
        let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
        let distances: Option<Vec<u64>> =
            pairs.map(|(from, to)| topology.distance(from, to).map(u64::from)).collect();
        let nearest = |from: Node| topology.by_distance(from).first().map_or(0, |to| to.index());
        let counts_for = all()
            .map(|node| if topology.has_memory(node) { node.index() } else { nearest(node) })
            .collect();
        Self {
            criterion,
            nodes,
            memory: all().map(|node| topology.has_memory(node)).collect(),
            distances: distances.unwrap_or_default(),
            counts_for,
        }
    }

    /// The parameters.
    pub fn criterion(&self) -> Criterion {
        self.criterion
    }

    /// What should become of a page at `home` with these counters, one for each node.
    pub fn judge(&self, counts: &[u64], home: Node) -> Verdict {
        let counted = self.counted(counts);
        if counted[..self.nodes].iter().all(|count| *count == 0) {
            return Verdict::Stay(Stay::NoReferences);
        }
        let home = home.index();
        let best = if self.distances.is_empty() {
            self.most_references(&counted, home)
        } else {
            self.least_latency(&counted, home)
        };
        let Some(best) = best.filter(|best| *best != home) else {
            return Verdict::Stay(Stay::BestIsHome);
        };
        let (there, here) = (counted[best], counted[home]);
        if there < self.criterion.floor.max(1) {
            return Verdict::Stay(Stay::BelowFloor);
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "ratios of counts above 2^53 may be rounded"
        )]
        let ratio = if here == 0 { f64::INFINITY } else { there as f64 / here as f64 };
        if ratio > self.criterion.threshold {
            Verdict::Move { to: Node::at(best), ratio, references: there }
        } else {
            Verdict::Stay(Stay::BelowThreshold)
        }
    }

    /// The counters, with those of nodes without memory where they count.
    fn counted(&self, counts: &[u64]) -> [u64; crate::topology::MOST_NODES] {
        let mut counted = [0u64; crate::topology::MOST_NODES];
        for (node, count) in counts.iter().enumerate().take(self.nodes) {
            let sum = &mut counted[self.counts_for[node]];
            *sum = sum.saturating_add(*count);
        }
        counted
    }

    /// The other node with the most references; `None` when no other has any.
    fn most_references(&self, counted: &[u64], home: usize) -> Option<usize> {
        (0..self.nodes)
            .filter(|node| *node != home && self.memory[*node] && counted[*node] > 0)
            .max_by_key(|node| (counted[*node], std::cmp::Reverse(*node)))
    }

    /// The node at which the largest latency is smallest.
    fn least_latency(&self, counted: &[u64], home: usize) -> Option<usize> {
        let largest = |at: usize| {
            let latency = |from: usize| {
                u128::from(counted[from]) * u128::from(self.distances[from * self.nodes + at])
            };
            (0..self.nodes).map(latency).max()
        };
        (0..self.nodes)
            .filter(|node| self.memory[*node])
            .min_by_key(|at| (largest(*at), *at != home, std::cmp::Reverse(counted[*at]), *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TableTopology;

    fn flat(nodes: usize) -> Judge {
        Judge::new(Criterion::EXACT, &TableTopology::new(nodes, &[]).unwrap())
    }

    #[test]
    fn the_threshold_is_exceeded_and_not_met() {
        let judge = flat(2);
        assert_eq!(judge.judge(&[2, 3], Node(0)), Verdict::Stay(Stay::BelowThreshold));
        let moved = Verdict::Move { to: Node(1), ratio: 2.0, references: 4 };
        assert_eq!(judge.judge(&[2, 4], Node(0)), moved);
        assert_eq!(judge.judge(&[9, 0], Node(0)), Verdict::Stay(Stay::BestIsHome));
        assert_eq!(judge.judge(&[0, 0], Node(0)), Verdict::Stay(Stay::NoReferences));
    }

    #[test]
    fn no_reference_at_home_is_an_infinite_ratio_above_the_floor() {
        let sampled = Judge::new(Criterion::SAMPLED, &TableTopology::new(2, &[]).unwrap());
        assert_eq!(sampled.judge(&[0, 3], Node(0)), Verdict::Stay(Stay::BelowFloor));
        let ratio = f64::INFINITY;
        let moved = Verdict::Move { to: Node(1), ratio, references: 4 };
        assert_eq!(sampled.judge(&[0, 4], Node(0)), moved);
        assert!(matches!(flat(2).judge(&[0, 1], Node(0)), Verdict::Move { .. }));
    }

    #[test]
    fn distances_choose_the_place_in_between() {
        // A chain 0 - 1 - 2: both ends refer to the page, the middle less.
        let chain = TableTopology::new(3, &[10, 20, 40, 20, 10, 20, 40, 20, 10]).unwrap();
        let judge = Judge::new(Criterion::EXACT, &chain);
        let counts = [10, 8, 10];
        assert!(matches!(judge.judge(&counts, Node(0)), Verdict::Stay(Stay::BelowThreshold)));
        assert!(matches!(judge.judge(&[1, 8, 4], Node(0)), Verdict::Move { to: Node(1), .. }));
        assert_eq!(judge.judge(&counts, Node(1)), Verdict::Stay(Stay::BestIsHome));
    }

    #[test]
    fn references_of_a_node_without_memory_count_for_the_nearest() {
        let chain = TableTopology::new(3, &[10, 20, 40, 20, 10, 20, 40, 20, 10]).unwrap();
        let judge = Judge::new(Criterion::EXACT, &chain.without_memory(Node(2)).unwrap());
        let moved = Verdict::Move { to: Node(1), ratio: 9.0, references: 9 };
        assert_eq!(judge.judge(&[1, 0, 9], Node(0)), moved);
    }
}
