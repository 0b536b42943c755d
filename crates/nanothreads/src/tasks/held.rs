//! Shares of one node that a member gives up together, when it goes on to something else.
//!
//! Two members that end children of one creator in turn would each take the line of its counter
//! from the other for each child. So a member that does not live with the creator keeps the shares
//! of the children that end on it, as long as it runs one child of that creator after the other;
//! the counter is touched once for all of them.
//!
//! # Protocol
//! 1. A child of P ends on a member that is not P's home: the first time its share is given up at
//!    once, and P noted ([`Held::note`]); when the next one to end there is P's, too, its share is
//!    kept ([`Held::keep`]), without a look at P.
//! 2. Before the member runs anything but a child of P, when it finds nothing to run, and before it
//!    goes back to a waiter, it gives up what it kept ([`Held::take`]).
//!
//! # Invariants
//! I1  While code of the program runs on the member, it keeps shares of P only if that code is a
//!     child of P, or belongs to one. P waits for that child anyway: no creator waits longer
//!     because of the shares.
//! I2  A kept share is a share: P is live. One that is only noted may be gone, and another node may
//!     be in its place: then shares of that one are kept from the first child on, which is as
//!     right.

use crate::tasks::node::Node;
use std::cell::Cell;
use std::ptr;

/// See the module head. Touched by its member's thread only.
pub(crate) struct Held {
    node: Cell<*const Node>,
    count: Cell<usize>,
}

impl Held {
    pub(super) const fn new() -> Self {
        Self { node: Cell::new(ptr::null()), count: Cell::new(0) }
    }

    /// Keeps a share of `node`, if that is the one that was noted; else it is the caller's to give
    /// up.
    #[inline]
    pub(super) fn keep(&self, node: *const Node) -> bool {
        let is_noted = ptr::eq(self.node.get(), node);
        if is_noted {
            self.count.set(self.count.get() + 1);
        }
        is_noted
    }

    /// Shares of `node` are to be kept from now on, unless others are kept already.
    pub(super) fn note(&self, node: *const Node) {
        if self.count.get() == 0 {
            self.node.set(node);
        }
    }

    /// True when nothing is kept that the member must not keep while it runs a child of `up`.
    #[inline]
    pub(super) fn allows(&self, up: *const Node) -> bool {
        self.count.get() == 0 || ptr::eq(self.node.get(), up)
    }

    /// What was kept, to be given up.
    #[inline]
    pub(super) fn take(&self) -> Option<(*const Node, usize)> {
        match self.count.take() {
            0 => None,
            count => Some((self.node.get(), count)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn shares_of_one_node_are_kept_until_they_are_taken() {
        let nodes = [0, 0].map(|_| Node::running(ptr::null(), 0));
        let [first, second] = [&raw const nodes[0], &raw const nodes[1]];
        let held = Held::new();
        assert!(!held.keep(first), "not noted");
        held.note(first);
        assert_eq!(held.take(), None);
        assert!(held.allows(second));
        assert!(held.keep(first) && held.keep(first));
        assert!(held.allows(first) && !held.allows(second));
        assert!(!held.keep(second));
        held.note(second);
        assert_eq!(held.take(), Some((first, 2)), "what is kept stays noted");
        assert_eq!(held.take(), None);
        held.note(second);
        assert!(held.keep(second) && !held.keep(first));
        assert_eq!(held.take(), Some((second, 1)));
    }
}
