//! Strongly connected components: the sets of files that all reach each other.

use std::collections::{BTreeMap, BTreeSet};

/// All components of more than one node, largest first; the nodes of each in ascending order.
pub(super) fn circles(nodes: usize, edges: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(*from).or_default().push(*to);
    }
    let mut search =
        Search { next, order: vec![None; nodes], lowest: vec![0; nodes], ..Search::default() };
    for node in 0..nodes {
        if search.order[node].is_none() {
            search.visit(node);
        }
    }
    let mut found: Vec<Vec<usize>> =
        search.found.into_iter().filter(|circle| circle.len() > 1).collect();
    found.sort_by_key(|circle| (std::cmp::Reverse(circle.len()), circle.clone()));
    found
}

/// Tarjan's depth-first search.
#[derive(Default)]
struct Search {
    next: BTreeMap<usize, Vec<usize>>,
    /// When each node was reached.
    order: Vec<Option<usize>>,
    /// The earliest node on the stack that each one reaches.
    lowest: Vec<usize>,
    stack: Vec<usize>,
    reached: usize,
    found: Vec<Vec<usize>>,
}

impl Search {
    /// Recurses once for each file of a chain: some hundred at most.
    fn visit(&mut self, node: usize) {
        let own = self.reached;
        self.reached += 1;
        self.order[node] = Some(own);
        self.lowest[node] = own;
        self.stack.push(node);
        for to in self.next.get(&node).cloned().unwrap_or_default() {
            match self.order[to] {
                None => {
                    self.visit(to);
                    self.lowest[node] = self.lowest[node].min(self.lowest[to]);
                }
                Some(order) if self.stack.contains(&to) => {
                    self.lowest[node] = self.lowest[node].min(order)
                }
                Some(_) => {}
            }
        }
        if self.lowest[node] == own {
            let begin = self.stack.iter().rposition(|member| *member == node).unwrap_or(0);
            let mut circle = self.stack.split_off(begin);
            circle.sort_unstable();
            self.found.push(circle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
        circles(8, &edges.iter().copied().collect())
    }

    #[test]
    fn a_tree_has_none() {
        assert!(found(&[(0, 1), (0, 2), (1, 3), (2, 3)]).is_empty());
    }

    #[test]
    fn circles_that_share_a_node_are_one() {
        assert_eq!(found(&[(0, 1), (1, 0), (1, 2), (2, 1), (2, 3)]), [[0, 1, 2]]);
    }

    #[test]
    fn the_largest_comes_first() {
        let edges = [(0, 1), (1, 0), (1, 2), (4, 5), (5, 6), (6, 4), (2, 4)];
        assert_eq!(found(&edges), [vec![4, 5, 6], vec![0, 1]]);
    }
}
