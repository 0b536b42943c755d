//! References of each page from each node: what a source counts and the criterion reads.

use std::ops::Range;

use crate::topology::Node;

/// How often each node referred to each page. Numbers stop at their largest value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    nodes: usize,
    /// Page after page.
    counts: Vec<u64>,
}

impl Counters {
    /// All zero.
    pub fn new(pages: usize, nodes: usize) -> Self {
        Self { nodes, counts: vec![0; pages * nodes] }
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.counts.len().checked_div(self.nodes).unwrap_or(0)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// One page's, by node.
    ///
    /// # Panics
    /// There is no such page.
    pub fn page(&self, page: usize) -> &[u64] {
        &self.counts[page * self.nodes..][..self.nodes]
    }

    /// Adds references; a page that is not there is left out.
    pub fn add(&mut self, page: usize, node: Node, references: u64) {
        if node.index() < self.nodes
            && let Some(count) = self.counts.get_mut(page * self.nodes + node.index())
        {
            *count = count.saturating_add(references);
        }
    }

    /// The sum over some pages, by node, into `out`.
    pub fn sum(&self, pages: Range<usize>, out: &mut Vec<u64>) {
        out.clear();
        out.resize(self.nodes, 0);
        for page in pages {
            for (sum, count) in out.iter_mut().zip(self.page(page)) {
                *sum = sum.saturating_add(*count);
            }
        }
    }

    /// What was added after `before` was taken. Where `before` has more, a source began anew: then
    /// all of this is new.
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (page, row) in since.counts.chunks_mut(self.nodes.max(1)).enumerate() {
            let Some(old) = before.counts.get(page * self.nodes..(page + 1) * self.nodes) else {
                break;
            };
            if row.iter().zip(old).all(|(new, old)| new >= old) {
                row.iter_mut().zip(old).for_each(|(new, old)| *new -= old);
            }
        }
        since
    }

    /// Takes the numbers of `new`, but for the pages that are to be left as they are.
    pub fn take(&mut self, new: &Self, left: impl Fn(usize) -> bool) {
        if self.counts.len() != new.counts.len() || self.nodes != new.nodes {
            self.clear(new.pages(), new.nodes);
        }
        let nodes = self.nodes.max(1);
        let rows = self.counts.chunks_mut(nodes).zip(new.counts.chunks(nodes));
        for (_, (own, new)) in rows.enumerate().filter(|(page, _)| !left(*page)) {
            own.copy_from_slice(new);
        }
    }

    /// All references.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    /// All zero again, for this many pages.
    pub fn clear(&mut self, pages: usize, nodes: usize) {
        self.nodes = nodes;
        self.counts.clear();
        self.counts.resize(pages * nodes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_two_vectors_is_what_came_between() {
        let mut counters = Counters::new(2, 2);
        counters.add(0, Node(1), 5);
        let before = counters.clone();
        counters.add(0, Node(1), 2);
        counters.add(1, Node(0), 3);
        counters.add(7, Node(0), 3);
        counters.add(0, Node(2), 3);
        let since = counters.since(&before);
        assert_eq!((since.page(0), since.page(1)), (&[0, 2][..], &[3, 0][..]));
        assert_eq!((since.total(), since.pages()), (5, 2));
        // Areas that came meanwhile, and a source that began anew.
        assert_eq!(counters.since(&Counters::new(0, 2)), counters);
        let mut anew = Counters::new(2, 2);
        anew.add(0, Node(0), 9);
        assert_eq!(anew.since(&before).page(0), [9, 0]);
    }

    #[test]
    fn pages_that_are_left_keep_their_numbers() {
        let mut new = Counters::new(2, 1);
        new.add(0, Node(0), 3);
        new.add(1, Node(0), 4);
        let mut used = Counters::default();
        used.take(&new, |page| page == 1);
        assert_eq!((used.page(0), used.page(1)), (&[3][..], &[0][..]));
        assert_eq!(new.since(&used).page(1), [4]);
        used.take(&new, |_| false);
        assert_eq!(used, new);
    }

    #[test]
    fn numbers_stop_at_the_largest() {
        let mut counters = Counters::new(2, 1);
        counters.add(0, Node(0), u64::MAX);
        counters.add(0, Node(0), 1);
        counters.add(1, Node(0), 1);
        let mut sum = Vec::new();
        counters.sum(0..2, &mut sum);
        assert_eq!((sum[0], counters.total()), (u64::MAX, u64::MAX));
    }
}
