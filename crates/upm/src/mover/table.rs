//! A mover of pages that are not there: a table from address to node, for tests and simulations.

use std::collections::BTreeMap;

use super::{Home, Mover, Outcome, Refusal, Step};
use crate::topology::Node;

/// Pages in a table. A page that is not in it is untouched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableMover {
    homes: BTreeMap<usize, Node>,
    /// Pages that fit on a node, where that is limited.
    room: BTreeMap<Node, usize>,
    migrations: u64,
}

impl TableMover {
    /// Puts a page on a node, as its first touch would.
    pub fn place(&mut self, address: usize, node: Node) {
        self.homes.insert(address, node);
    }

    /// At most this many pages are on the node.
    pub fn limit(&mut self, node: Node, pages: usize) {
        self.room.insert(node, pages);
    }

    /// Where a page is.
    pub fn home(&self, address: usize) -> Option<Node> {
        self.homes.get(&address).copied()
    }

    /// How many pages were moved.
    pub fn migrations(&self) -> u64 {
        self.migrations
    }

    fn has_room(&self, node: Node) -> bool {
        let there = || self.homes.values().filter(|home| **home == node).count();
        self.room.get(&node).is_none_or(|room| there() < *room)
    }
}

impl Mover for TableMover {
    fn homes(&mut self, pages: &[usize]) -> Vec<Home> {
        pages.iter().map(|page| self.home(*page).map_or(Home::Untouched, Home::On)).collect()
    }

    fn migrate(&mut self, steps: &[Step]) -> Vec<Outcome> {
        let one = |step: &Step| {
            if !self.homes.contains_key(&step.address) {
                return Outcome::Refused(Refusal::Untouched);
            }
            if !self.has_room(step.to) {
                return Outcome::Refused(Refusal::NodeFull);
            }
            self.homes.insert(step.address, step.to);
            self.migrations += 1;
            Outcome::Moved
        };
        steps.iter().map(one).collect()
    }

    fn is_real(&self) -> bool {
        false
    }
}
