//! The machine, its nodes, and memory on them.

use std::sync::{Arc, Barrier};

use platform::affinity::{self, CpuSet};
use platform::numa;
use upm::mover::Step;
use upm::source::{Ledger, LoopSchedule, TrapParameters, TrapSource};
use upm::{
    Home, HotArray, KernelMover, KernelTopology, Mover, Node, Parameters, Placement, Topology, Upm,
};

/// 8-byte elements of a page.
pub(crate) const WORDS: usize = 512;

/// The machine, if it has four nodes with processors.
pub(crate) fn machine() -> Option<KernelTopology> {
    let topology = KernelTopology::read().unwrap();
    let processors = platform::topology::Topology::read().unwrap();
    if topology.homes() >= 4 && processors.nodes() >= 4 {
        return Some(topology);
    }
    assert!(std::env::var_os("NANOS_NUMA_REQUIRED").is_none(), "this machine has no four nodes");
    platform::skip!("this machine has {} nodes with memory", topology.homes());
    None
}

/// The processors of a node.
pub(crate) fn processors(node: usize) -> CpuSet {
    platform::topology::Topology::read().unwrap().node_cpus(u32::try_from(node).unwrap())
}

/// Runs the work on a thread of the node.
pub(crate) fn on_node<R: Send>(node: usize, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            affinity::set_affinity(None, &processors(node)).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// Runs the work on two threads of each node at once, numbered from 0.
pub(crate) fn on_all(work: impl Fn(usize) + Sync) {
    let ready = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (work, ready) = (&work, &ready);
            scope.spawn(move || {
                affinity::set_affinity(None, &processors(thread / 2)).unwrap();
                ready.wait();
                work(thread);
            });
        }
    });
}

pub(crate) fn addresses_of(begin: usize, pages: usize) -> Vec<usize> {
    (0..pages).map(|page| begin + page * numa::page_bytes()).collect()
}

/// The nodes of the pages of an array.
pub(crate) fn homes<T: upm::Plain>(array: &HotArray<T>, topology: &KernelTopology) -> Vec<Home> {
    let begin = array.addresses().start;
    let pages = array.addresses().len().div_ceil(numa::page_bytes());
    KernelMover::new(topology.clone()).homes(&addresses_of(begin, pages))
}

pub(crate) fn array(
    pages: usize,
    placement: Placement,
    topology: &KernelTopology,
) -> HotArray<u64> {
    let mut array = HotArray::zeroed(pages * WORDS, placement, topology).unwrap();
    if placement != Placement::FirstTouch {
        on_node(2, || array.iter_mut().step_by(WORDS).for_each(|word| *word = 1));
    }
    array
}

pub(crate) fn steps(begin: usize, pages: usize, from: u8, to: u8) -> Vec<Step> {
    let step = |address| Step { address, from: Node(from), to: Node(to) };
    addresses_of(begin, pages).into_iter().map(step).collect()
}

/// In the guest a fault takes 40 us, and eight threads share few processors.
pub(crate) fn slow() -> TrapParameters {
    TrapParameters { interval: 20_000_000, windows: 2000, ..TrapParameters::default() }
}

pub(crate) fn with(topology: &KernelTopology, source: TrapSource) -> Upm<'static> {
    let mover = KernelMover::new(topology.clone());
    let source = Box::new(source);
    Upm::with(topology.clone(), mover, source, Parameters::default())
}

/// One that counts what a test tells the ledger.
pub(crate) fn by_loops(
    topology: &KernelTopology,
    parameters: Parameters,
) -> (Upm<'static>, Arc<Ledger>) {
    let source = LoopSchedule::new();
    let ledger = source.ledger();
    let mover = KernelMover::new(topology.clone());
    (Upm::with(topology.clone(), mover, Box::new(source), parameters), ledger)
}
