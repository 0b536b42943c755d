//! Where the pages of an array are put at first: the schemes that page migration is compared with.
//!
//! # Papers
//! P4 section 2.2. The paper places pages by making them inaccessible and choosing a node in the
//! fault handler; here policies of the kernel do it, and one batch of moves for the random scheme.

use std::ops::Range;

use crate::mover::{Home, Mover, Outcome, Step};
use crate::topology::{Node, Topology};
use platform::numa::{self, Policy};
use platform::{SysError, SysResult};

/// A scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Each page is where the thread runs that touches it first.
    FirstTouch,
    /// The nodes take turns, page by page.
    RoundRobin,
    /// Each page on a random node; the seed makes it the same each time.
    Random(u64),
    /// All on one node, while there is room.
    WorstCase(Node),
}

/// How many pages are where their scheme wants them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Pages that are, or will be at their first touch.
    pub right: usize,
    /// Pages that the random scheme could not put on their node.
    pub elsewhere: usize,
}

/// The node of each page under the random scheme.
pub fn random_nodes(pages: usize, nodes: &[Node], seed: u64) -> Vec<Node> {
    // splitmix64.
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let count = nodes.len() as u64;
    let index = |random: u64| usize::try_from(random % count).unwrap_or(0);
    (0..pages).map(|_| nodes[index(next())]).collect()
}

/// Gives the pages of these addresses, which no thread touched yet, to nodes. With
/// [`Placement::Random`] all of them are touched; with the others the first touch does it.
///
/// # Safety
/// - The addresses are whole pages of the caller's memory, which may be written, and no other
///   thread uses them now.
///
/// # Errors
/// The kernel refuses the policy.
pub unsafe fn place(
    addresses: Range<usize>,
    placement: Placement,
    topology: &impl Topology,
    mover: &mut impl Mover,
) -> SysResult<Placed> {
    let page = numa::page_bytes();
    let pages: Vec<usize> = addresses.clone().step_by(page).collect();
    let nodes = topology.by_distance(Node(0));
    let mut nodes: Vec<Node> = nodes;
    nodes.sort_unstable();
    let all = Placed { right: pages.len(), elsewhere: 0 };
    if nodes.len() < 2 {
        return Ok(all);
    }
    let numbers: Vec<u32> = nodes.iter().map(|node| topology.number(*node)).collect();
    match placement {
        Placement::FirstTouch => numa::bind(addresses, Policy::Local, &[]).map(|()| all),
        Placement::RoundRobin => numa::bind(addresses, Policy::Interleave, &numbers).map(|()| all),
        Placement::WorstCase(node) => {
            if !nodes.contains(&node) {
                return Err(SysError::new("mbind", libc::EINVAL));
            }
            let number = topology.number(node);
            numa::bind(addresses, Policy::Preferred, &[number]).map(|()| all)
        }
        Placement::Random(seed) => {
            numa::bind(addresses, Policy::Local, &[])?;
            for page in &pages {
                // SAFETY: - the caller's page, which nothing else uses; it holds zeros, and keeps
                // them.
                unsafe { std::ptr::without_provenance_mut::<u8>(*page).write_volatile(0) };
            }
            let targets = random_nodes(pages.len(), &nodes, seed);
            let homes = mover.homes(&pages);
            let mut placed = Placed::default();
            let mut steps = Vec::new();
            for ((address, to), home) in pages.into_iter().zip(targets).zip(homes) {
                match home {
                    Home::On(from) if from == to => placed.right += 1,
                    Home::On(from) => steps.push(Step { address, from, to }),
                    Home::Untouched | Home::Unknown(_) => placed.elsewhere += 1,
                }
            }
            for outcome in mover.migrate(&steps) {
                match outcome {
                    Outcome::Moved => placed.right += 1,
                    Outcome::Elsewhere(_) | Outcome::Refused(_) => placed.elsewhere += 1,
                }
            }
            Ok(placed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_nodes_are_even_and_the_same_for_a_seed() {
        let nodes = [Node(0), Node(2), Node(3)];
        let chosen = random_nodes(3000, &nodes, 7);
        for node in nodes {
            let count = chosen.iter().filter(|chosen| **chosen == node).count();
            assert!((900..1100).contains(&count), "{count} on {node}");
        }
        assert_eq!(chosen, random_nodes(3000, &nodes, 7));
        assert_ne!(chosen, random_nodes(3000, &nodes, 8));
    }
}
