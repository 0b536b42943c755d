//! The kernel's mover on a model of the kernel that refuses what real ones refuse.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

use std::collections::{BTreeMap, BTreeSet};

use platform::{SysError, SysResult};
use proptest::prelude::*;
use upm::mover::{KernelMover, MoveCalls, Step};
use upm::{Home, Mover, Node, Outcome, Refusal, TableTopology};

const SQUARE: [u32; 16] = [10, 16, 22, 16, 16, 10, 16, 22, 22, 16, 10, 16, 16, 22, 16, 10];

#[derive(Clone, Debug, Default)]
struct Kernel {
    homes: BTreeMap<usize, i32>,
    /// Pages that fit on a node.
    room: BTreeMap<i32, usize>,
    /// Busy for this many tries.
    busy: BTreeMap<usize, usize>,
    shared: BTreeSet<usize>,
    absent: Option<i32>,
    forbidden: Option<i32>,
    /// Queries do not know these pages, as while balancing marks them.
    marked: BTreeSet<usize>,
    calls: usize,
}

impl MoveCalls for Kernel {
    fn move_pages(
        &mut self,
        pages: &[usize],
        nodes: Option<&[i32]>,
        status: &mut [i32],
    ) -> SysResult<()> {
        self.calls += 1;
        if let Some(errno) = self.forbidden {
            return Err(SysError::new("move_pages", errno));
        }
        let Some(nodes) = nodes else {
            for (page, status) in pages.iter().zip(status) {
                let home = self.homes.get(page).filter(|_| !self.marked.contains(page));
                *status = home.copied().unwrap_or(-libc::ENOENT);
            }
            return Ok(());
        };
        if nodes.iter().any(|node| Some(*node) == self.absent) {
            return Err(SysError::new("move_pages", libc::ENODEV));
        }
        for ((page, node), status) in pages.iter().zip(nodes).zip(status) {
            let Some(home) = self.homes.get(page).copied() else {
                *status = -libc::EFAULT;
                continue;
            };
            if home == *node {
                *status = home;
            } else if self.shared.contains(page) {
                *status = -libc::EACCES;
            } else if let Some(tries) = self.busy.get_mut(page).filter(|tries| **tries > 0) {
                *tries -= 1;
                *status = -libc::EBUSY;
            } else {
                let there = self.homes.values().filter(|home| *home == node).count();
                if self.room.get(node).is_some_and(|room| there >= *room) {
                    // The rest of the batch is not reached.
                    return Err(SysError::new("move_pages", libc::ENOMEM));
                }
                self.homes.insert(*page, *node);
                *status = *node;
            }
        }
        Ok(())
    }
}

fn mover(kernel: &Kernel) -> KernelMover<TableTopology, Shared> {
    KernelMover::with_calls(TableTopology::new(4, &SQUARE).unwrap(), Shared::new(kernel))
}

/// The kernel, which the test still sees.
#[derive(Clone, Debug)]
struct Shared(std::rc::Rc<std::cell::RefCell<Kernel>>);

impl Shared {
    fn new(kernel: &Kernel) -> Self {
        Self(std::rc::Rc::new(std::cell::RefCell::new(kernel.clone())))
    }
}

impl MoveCalls for Shared {
    fn move_pages(
        &mut self,
        pages: &[usize],
        nodes: Option<&[i32]>,
        status: &mut [i32],
    ) -> SysResult<()> {
        self.0.borrow_mut().move_pages(pages, nodes, status)
    }
}

fn kernel(pages: usize) -> Kernel {
    Kernel { homes: (0..pages).map(|page| (page, 0)).collect(), ..Kernel::default() }
}

fn steps(pages: impl IntoIterator<Item = usize>, to: u8) -> Vec<Step> {
    let step = |address| Step { address, from: Node(0), to: Node(to) };
    pages.into_iter().map(step).collect()
}

#[test]
fn pages_move_in_batches() {
    let calls = Shared::new(&kernel(1500));
    let topology = TableTopology::new(4, &SQUARE).unwrap();
    let mut mover = KernelMover::with_calls(topology, calls.clone());
    assert_eq!(mover.migrate(&steps(0..1500, 2)), vec![Outcome::Moved; 1500]);
    assert_eq!(calls.0.borrow().calls, 6);
    assert_eq!(mover.homes(&[3, 2000]), [Home::On(Node(2)), Home::Untouched]);
}

#[test]
fn a_filter_that_refuses_the_call_is_told() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let mut mover = mover(&Kernel { forbidden: Some(errno), ..kernel(3) });
        let refused = Outcome::Refused(Refusal::Forbidden);
        assert_eq!(mover.migrate(&steps(0..3, 1)), [refused; 3]);
        assert_eq!(mover.homes(&[1]), [Home::Unknown(errno)]);
        assert_eq!(mover.forbidden(), Some(errno));
    }
}

#[test]
fn a_busy_page_is_tried_twice() {
    let mut mover = mover(&Kernel { busy: BTreeMap::from([(0, 1), (1, 2)]), ..kernel(3) });
    let outcomes = mover.migrate(&steps(0..3, 1));
    assert_eq!(outcomes, [Outcome::Moved, Outcome::Refused(Refusal::Busy), Outcome::Moved]);
}

#[test]
fn a_full_node_sends_pages_to_the_nearest_one_with_room_and_no_other_page_is_left() {
    // 0 to 2: 1 and 3 lie between them, equally far.
    let room = BTreeMap::from([(2, 2), (1, 1)]);
    let mut mover = mover(&Kernel { room, ..kernel(6) });
    let mut all = steps(0..5, 2);
    all.extend(steps(5..6, 3));
    let (moved, one, three) = (Outcome::Moved, Node(1), Node(3));
    let elsewhere = Outcome::Elsewhere;
    let outcomes = mover.migrate(&all);
    let right = [moved, moved, elsewhere(one), elsewhere(three), elsewhere(three), moved];
    assert_eq!(outcomes, right);
}

#[test]
fn a_full_node_without_a_nearer_one_refuses() {
    let mut mover = mover(&Kernel { room: BTreeMap::from([(1, 0)]), ..kernel(2) });
    assert_eq!(mover.migrate(&steps(0..2, 1)), [Outcome::Refused(Refusal::NodeFull); 2]);
}

#[test]
fn an_absent_node_stops_no_other_page() {
    let mut mover = mover(&Kernel { absent: Some(3), ..kernel(4) });
    let mut all = steps(0..2, 3);
    all.extend(steps(2..4, 1));
    let refused = Outcome::Refused(Refusal::NoNode);
    assert_eq!(mover.migrate(&all), [refused, refused, Outcome::Moved, Outcome::Moved]);
}

#[test]
fn pages_that_balancing_has_marked_count_by_their_own_status() {
    let mut mover = mover(&Kernel { marked: BTreeSet::from([0, 1]), ..kernel(2) });
    assert_eq!(mover.migrate(&steps(0..2, 1)), [Outcome::Moved; 2]);
}

proptest! {
    #[test]
    fn every_page_has_the_outcome_that_its_place_shows(
        targets in proptest::collection::vec(1u8..4, 1..40),
        rooms in proptest::collection::vec(0usize..30, 4),
        busy in proptest::collection::btree_map(0usize..40, 1usize..4, 0..8),
        shared in proptest::collection::btree_set(0usize..40, 0..8),
        untouched in proptest::collection::btree_set(0usize..40, 0..8),
        absent in proptest::option::weighted(0.2, 1i32..4),
    ) {
        let mut before = kernel(targets.len());
        before.homes.retain(|page, _| !untouched.contains(page));
        before.room = (0..).zip(rooms).collect();
        (before.busy, before.shared, before.absent) = (busy, shared, absent);
        let calls = Shared::new(&before);
        let topology = TableTopology::new(4, &SQUARE).unwrap();
        let mut mover = KernelMover::with_calls(topology, calls.clone());
        let all: Vec<Step> = targets.iter().enumerate()
            .map(|(address, to)| Step { address, from: Node(0), to: Node(*to) }).collect();
        let outcomes = mover.migrate(&all);
        prop_assert_eq!(outcomes.len(), all.len());
        let after = calls.0.borrow();
        for (step, outcome) in all.iter().zip(outcomes) {
            let home = after.homes.get(&step.address).copied();
            match outcome {
                Outcome::Moved => prop_assert_eq!(home, Some(i32::from(step.to.0))),
                Outcome::Elsewhere(node) => {
                    prop_assert_eq!(home, Some(i32::from(node.0)));
                    prop_assert!(node != step.to && node != step.from);
                }
                Outcome::Refused(Refusal::Untouched) => {
                    prop_assert!(untouched.contains(&step.address));
                }
                Outcome::Refused(refusal) => {
                    prop_assert_eq!(home, Some(0));
                    prop_assert!(!matches!(refusal, Refusal::Other(_)), "{:?}", refusal);
                }
            }
        }
    }
}
