//! The machine, its nodes, and memory on them; and the faults that are planted in all that, so that
//! each check is seen failing (`cargo xtask vm numa --planted`).

use std::sync::{Arc, Barrier};

use platform::SysResult;
use platform::affinity::{self, CpuSet};
use platform::numa;
use upm::mover::{MoveCalls, Step, Syscalls};
use upm::source::{Ledger, LoopSchedule, TrapParameters, TrapSource};
use upm::{
    Home, HotArray, KernelMover, KernelTopology, Mover, Node, Parameters, Placement, Topology, Upm,
};

/// The mover of the tests.
pub(crate) type TestMover = KernelMover<KernelTopology, Calls>;
/// The engine of the tests.
pub(crate) type TestUpm = Upm<'static, KernelTopology, TestMover>;

/// Whether the checks are to fail.
pub(crate) fn is_planted() -> bool {
    std::env::var_os("NANOS_NUMA_PLANTED").is_some()
}

/// The kernel's calls. Planted: pages are sent to the node after the one that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls;

impl MoveCalls for Calls {
    fn move_pages(
        &mut self,
        pages: &[usize],
        nodes: Option<&[i32]>,
        status: &mut [i32],
    ) -> SysResult<()> {
        let wrong: Option<Vec<i32>> = nodes
            .filter(|_| is_planted())
            .map(|nodes| nodes.iter().map(|node| (node + 1) % 4).collect());
        Syscalls.move_pages(pages, wrong.as_deref().or(nodes), status)
    }
}

pub(crate) fn mover(topology: &KernelTopology) -> TestMover {
    KernelMover::with_calls(topology.clone(), Calls)
}

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

/// The processors of a node. Planted: of another one.
pub(crate) fn processors(node: usize) -> CpuSet {
    let node = if is_planted() { 3 - node } else { node };
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
    mover(topology).homes(&addresses_of(begin, pages))
}

pub(crate) fn array(
    pages: usize,
    placement: Placement,
    topology: &KernelTopology,
) -> HotArray<u64> {
    let placement = match placement {
        // Planted: another scheme.
        Placement::RoundRobin | Placement::Random(_) if is_planted() => {
            Placement::WorstCase(Node(0))
        }
        placement => placement,
    };
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

pub(crate) fn with(topology: &KernelTopology, source: TrapSource) -> TestUpm {
    Upm::with(topology.clone(), mover(topology), Box::new(source), Parameters::default())
}

/// One that counts what a test tells the ledger.
pub(crate) fn by_loops(
    topology: &KernelTopology,
    parameters: Parameters,
) -> (TestUpm, Arc<Ledger>) {
    let source = LoopSchedule::new();
    let ledger = source.ledger();
    (Upm::with(topology.clone(), mover(topology), Box::new(source), parameters), ledger)
}
