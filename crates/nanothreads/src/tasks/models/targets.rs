//! The mark of a node that has a target (`target`), and the thread that ends the node.
//!
//! # Stories
//! A is the node's owner, B holds another share.
//! 1. A marks the node (G1), and gives its share up, as B does.
//! 2. The one that had the last share finds the mark (G2): only the shares order the two.
//!
//! Lost: it finds none, so a canceller would find a node that has ended (asserted). The lock of a
//! target is the standard library's, which loom does not see into.

use crate::tasks::node::Node;
use loom::sync::Arc;
use loom::thread;
use platform::model::{explore, is_needed, is_refuted};
use std::ptr;

/// What the assertion says.
const LOST: &str = "the last one finds no mark";

struct Shared(Node);

// SAFETY: loom checks what the protocol under test promises.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

fn marks(is_late: bool) {
    let node = Arc::new(Shared(Node::running(ptr::null(), 0)));
    let give_up = |node: &Shared| {
        if node.0.inputs.release(1) {
            assert!(node.0.is_target(), "{LOST}");
        }
    };
    node.0.inputs.add(1);
    let other = {
        let node = Arc::clone(&node);
        thread::spawn(move || give_up(&node))
    };
    if is_late {
        give_up(&node);
        node.0.mark_as_target();
    } else {
        node.0.mark_as_target();
        give_up(&node);
    }
    other.join().unwrap();
}

#[test]
fn the_thread_that_ends_a_node_finds_its_mark() {
    explore(|| marks(false));
}

#[test]
fn the_shares_order_the_mark() {
    let name = "the_thread_that_ends_a_node_finds_its_mark";
    is_needed(name, "src/tasks/inputs.rs", &[("release", LOST)]);
}

#[test]
fn a_mark_that_is_made_after_the_owners_end_is_caught() {
    is_refuted("a_mark_that_is_made_after_the_owners_end_is_caught", LOST, || marks(true));
}
