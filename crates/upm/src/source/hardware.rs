//! Samples of references by the processor: it names the address of one access in many, with thread
//! and processor. No access faults, and data that the caches hold is counted less, as the paper's
//! counters of memory do.
//!
//! # Protocol
//! One event and one ring for each thread, opened when a recorded iteration begins, and for threads
//! that came since at each [`CounterSource::resume`] and [`CounterSource::tick`]; a thread that
//! begins and ends in between is not seen. Rings are read then, and at snapshots and the end. At
//! the end all events are closed.
//!
//! # Fork
//! A child has no event: the kernel's events are of single threads, and not inherited.

use platform::lock::Mutex;
use std::sync::{MutexGuard, PoisonError};

use platform::affinity::{Tid, current_tid};
use platform::sampling::{self, Event, RingCounts, Sampler};

use super::{Caps, CounterSource, Scope, SourceError};
use crate::area::Areas;
use crate::counters::Counters;
use crate::topology::{Node, Topology};

/// Samples of a page that decide; at most one page of twenty may have fewer.
const FEW: u64 = crate::criterion::Criterion::SAMPLED.floor;
/// Recorded iterations after which is judged what there is.
const MOST_ITERATIONS: u32 = 8;

/// See the module head.
pub struct HardwareSource {
    event: Event,
    sampling: Mutex<Sampling>,
    iterations: u32,
}

#[derive(Default)]
struct Sampling {
    areas: Option<Areas>,
    /// The node of each processor, by its number.
    nodes_of: Vec<Option<Node>>,
    counters: Counters,
    /// What was used to decide.
    used: Counters,
    samplers: Vec<(Tid, Sampler)>,
    /// Samples of all memory, and what was lost.
    all: RingCounts,
    is_running: bool,
}

impl HardwareSource {
    /// One with the best event of this machine's processors that may be used.
    ///
    /// # Errors
    /// The processors have none, or the kernel does not permit it: each event is tried.
    pub fn open() -> Result<Self, SourceError> {
        let events = sampling::memory_events().map_err(SourceError::None)?;
        let mut reasons = Vec::new();
        for event in events {
            match Self::with(event.clone()) {
                Ok(source) => return Ok(source),
                Err(error) => reasons.push(format!("{}: {error}", event.name)),
            }
        }
        Err(SourceError::None(reasons.join("; ")))
    }

    /// One with this event.
    ///
    /// # Errors
    /// The kernel does not open it for the calling thread.
    pub fn with(event: Event) -> Result<Self, SourceError> {
        let tried = Sampler::open(&event, current_tid());
        tried.map_err(|error| SourceError::None(sampling::why_refused(error)))?;
        Ok(Self { event, sampling: Mutex::default(), iterations: 0 })
    }

    /// Samples since `attach`, of all memory, and those that were lost.
    pub fn tally(&self) -> RingCounts {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Sampling> {
        self.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens events for threads that have none; an error only where it is of this process.
    fn follow(&self, sampling: &mut Sampling) -> Result<(), SourceError> {
        let threads = platform::file::names("/proc/self/task")
            .map_err(|error| SourceError::None(format!("/proc/self/task: {error}")))?;
        let ids = threads.iter().filter_map(|name| name.to_str()?.parse().ok()).map(Tid);
        let ids: Vec<Tid> = ids.collect();
        // The last samples of those that ended.
        sampling.drain();
        sampling.samplers.retain(|(thread, _)| ids.contains(thread));
        for thread in ids {
            if sampling.samplers.iter().any(|(known, _)| *known == thread) {
                continue;
            }
            match Sampler::open(&self.event, thread) {
                Ok(sampler) => sampling.samplers.push((thread, sampler)),
                // It ended meanwhile.
                Err(error) if error.is(libc::ESRCH) => {}
                Err(error) => return Err(SourceError::None(sampling::why_refused(error))),
            }
        }
        Ok(())
    }

    /// Also for threads that came since; those that cannot be sampled are left out.
    fn look(&self) {
        let mut sampling = self.lock();
        if sampling.is_running {
            let _left_out = self.follow(&mut sampling);
        }
    }
}

impl Sampling {
    fn drain(&mut self) {
        let Self { areas, nodes_of, counters, samplers, all, .. } = self;
        let Some(areas) = areas else { return };
        for (_, sampler) in samplers {
            let tally = sampler.drain(|sample| {
                let node = usize::try_from(sample.processor).ok().and_then(|cpu| nodes_of.get(cpu));
                let page = usize::try_from(sample.address).ok().and_then(|at| areas.page_at(at));
                if let (Some(Some(node)), Some(page)) = (node, page) {
                    counters.add(page, *node, 1);
                }
            });
            all.samples += tally.samples;
            all.lost = all.lost.saturating_add(tally.lost);
            all.garbage = all.garbage.saturating_add(tally.garbage);
        }
    }
}

/// The node of each processor, by its number.
fn nodes_of(topology: &dyn Topology) -> Vec<Option<Node>> {
    if !topology.processors().is_empty() {
        return topology.processors().iter().copied().map(Some).collect();
    }
    let mut nodes = Vec::new();
    if let Ok(machine) = platform::topology::Topology::read() {
        for cpu in machine.cpus() {
            let Ok(index) = usize::try_from(cpu.id.0) else { continue };
            let of_number = |node: &Node| topology.number(*node) == cpu.node;
            nodes.resize(nodes.len().max(index + 1), None);
            nodes[index] = (0..topology.nodes()).map(Node::at).find(of_number);
        }
    }
    nodes
}

impl CounterSource for HardwareSource {
    fn name(&self) -> &'static str {
        "hardware samples"
    }

    fn caps(&self) -> Caps {
        Caps { is_exact: false, sees_reads: true, makes_faults: false }
    }

    unsafe fn attach(&mut self, areas: &Areas, topology: &dyn Topology) -> Result<(), SourceError> {
        self.stop();
        self.iterations = 0;
        let counters = Counters::new(areas.pages(), topology.nodes());
        let (areas, nodes_of) = (Some(areas.clone()), nodes_of(topology));
        *self.lock() =
            Sampling { areas, nodes_of, used: counters.clone(), counters, ..Sampling::default() };
        Ok(())
    }

    fn start(&mut self, _: Scope) -> Result<(), SourceError> {
        let mut sampling = self.lock();
        if sampling.areas.is_none() {
            return Err(SourceError::None("no areas are attached".to_owned()));
        }
        if let Err(error) = self.follow(&mut sampling) {
            sampling.samplers.clear();
            return Err(error);
        }
        sampling.is_running = true;
        Ok(())
    }

    fn tick(&self) {
        self.look();
    }

    fn resume(&self) {
        self.look();
    }

    fn failure(&self) -> Option<String> {
        let sampling = self.lock();
        let RingCounts { samples, lost, garbage } = sampling.all;
        let is_silent = self.iterations >= MOST_ITERATIONS && sampling.counters.total() == 0;
        is_silent.then(|| {
            format!(
                "{} recorded iterations had {samples} samples, none of them of a page of the areas; \
                 {lost} samples were lost, {garbage} bytes not understood",
                self.iterations
            )
        })
    }

    fn snapshot(&mut self, out: &mut Counters) {
        let mut sampling = self.lock();
        sampling.drain();
        out.clone_from(&sampling.counters);
    }

    fn is_enough(&self) -> bool {
        if self.iterations >= MOST_ITERATIONS {
            return true;
        }
        let mut sampling = self.lock();
        sampling.drain();
        let since = sampling.counters.since(&sampling.used);
        let sums = (0..since.pages()).map(|page| since.page(page).iter().sum::<u64>());
        let sums: Vec<u64> = sums.filter(|sum| *sum > 0).collect();
        let few = sums.iter().filter(|sum| **sum < FEW).count();
        !sums.is_empty() && few * 20 <= sums.len()
    }

    fn note_use(&mut self) {
        let mut sampling = self.lock();
        let counters = sampling.counters.clone();
        sampling.used = counters;
    }

    fn stop(&mut self) {
        let mut sampling = self.lock();
        let was_running = std::mem::take(&mut sampling.is_running);
        sampling.drain();
        sampling.samplers.clear();
        drop(sampling);
        self.iterations = self.iterations.saturating_add(u32::from(was_running));
    }
}
