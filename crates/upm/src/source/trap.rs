//! Samples of references by access rights: at random times the areas are made inaccessible, and the
//! first access to each granule faults, is counted for the node that it came from, and opens the
//! granule again. Needs no privilege and no hardware counter.
//!
//! # Protocol
//! 1. In a recorded iteration a thread arms all areas, waits for a random time, and does so again:
//!    a *window*. The first access after a fixed point (a phase's beginning) would always come from
//!    the same thread, whatever the others do.
//!    After [`TrapParameters::length`] the window ends: all is opened.
//! 2. Windows begin with granules of 64 KiB. One whose majority is not clear after some samples has
//!    its pages counted one by one from then on, and its counters begin anew. A granule or page
//!    whose samples decide is not armed any more (`evidence`), and what was counted of it stays:
//!    decisions are by all samples since `attach`. In recorded phases pages are counted from the
//!    first window on, all in each.
//! 3. [`CounterSource::stop`] disarms, so that afterwards no access faults. A fault that is on its
//!    way then finds the page accessible.
//!
//! # What is estimated
//! A thread that passes over a granule is counted if a window begins less than its length before,
//! and no other pass was in between. Where windows are short beside the time from one pass to the
//! next, each pass is counted with the same probability, so that counts are in proportion to
//! passes: about what hardware counters of misses say of data that the caches do not hold. Where
//! windows are longer than that, a pass is counted as often as the time before it is long: a node
//! whose passes come after a pause of the others gets too much. Iterations of less than some
//! milliseconds are so; for them windows last over several, and each granule is counted once in
//! each window. Several passes in one window count as the first of them.
//!
//! # Pauses
//! Within a recorded iteration nothing is armed from [`CounterSource::pause`] to
//! [`CounterSource::resume`]. The times to the end of the window and to the next one stand still
//! meanwhile: windows begin at random times of what is recorded, and not at its resumption, and a
//! window goes on for what was not opened. (Else what is used at the beginning of a region would
//! hardly ever be counted, and the thread whose processor the window's beginning took would be the
//! only one that has something left to open.)
//!
//! # The thread that begins windows
//! It may run wherever a thread of the process may: bound to the processor of the one that started
//! it, it would keep that one from its work at the beginning of each window, and never another.
//!
//! # Means
//! Rights work on any memory ([`TrapSource::new`]). Two others work on shared memory only, on
//! arrays that are made for it ([`HotArray::shared`](crate::HotArray::shared)); by them no mapping
//! is divided, and no fault takes the lock of all mappings.
//! - [`TrapSource::by_guards`] puts guards on pages (Linux 6.15). A guard on *private* memory would
//!   free the pages below it with what they hold: such areas are refused.
//! - [`TrapSource::by_userfault`] unmaps pages. The first touch of a page is not counted.
//!
//! # Limits
//! - A system call that is given armed memory fails with `EFAULT`: the kernel does not ask the
//!   handler. Recorded iterations may not do such calls.
//! - A thread that blocks SIGSEGV and touches armed memory ends the process, as for any fault.
//! - A handler for SIGSEGV that the program installs during a recorded iteration, and that does
//!   not call what it found, takes the faults away until the next pause has ended. One that was
//!   there before gets all faults but the source's own. It runs with SIGSEGV blocked, so it may not
//!   touch armed memory.
//! - Each granule that was opened is a mapping; a process may have 65 530. Granules are so large
//!   that there are at most 16 384, and a handler that meets the limit opens the whole area.
//!
//! # Fork
//! A child inherits armed memory and the handler, which opens what the child touches. Its copy of
//! the source arms nothing, and its `stop` opens all.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::thread::JoinHandle;

use platform::guard::Guards;
use platform::process::MadeIn;
use platform::userfault::Userfault;

use super::table::{self, ArmedSpan, Means, PLACES, Placed, Table};
use super::windows::{self, MOST_GRANULES, SMALLEST_GRANULE, Shared, TrapParameters};
use super::{Caps, CounterSource, Scope, SourceError};
use crate::area::Areas;
use crate::counters::Counters;
use crate::topology::{Node, Topology};

/// By what accesses are made to fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rights,
    Userfaults,
    Guards,
}

/// See the module head.
pub struct TrapSource {
    parameters: TrapParameters,
    shared: Option<Arc<Shared>>,
    pages: usize,
    ticker: Option<JoinHandle<()>>,
    /// The process that recorded.
    process: MadeIn,
    is_running: bool,
    kind: Kind,
    /// Windows whose counts were used.
    used: u64,
}

impl TrapSource {
    /// One that samples like this.
    pub fn new(parameters: TrapParameters) -> Self {
        let process = MadeIn::here();
        Self {
            parameters,
            shared: None,
            pages: 0,
            ticker: None,
            process,
            is_running: false,
            kind: Kind::Rights,
            used: 0,
        }
    }

    /// One that samples shared memory by `userfaultfd`.
    ///
    /// # Errors
    /// The system has none, or forbids it.
    pub fn by_userfault(parameters: TrapParameters) -> Result<Self, SourceError> {
        Userfault::new()?;
        let mut source = Self::new(parameters);
        source.kind = Kind::Userfaults;
        Ok(source)
    }

    /// One that samples shared memory by guards.
    ///
    /// # Errors
    /// The kernel has none for shared memory, or they lose what the memory holds: both are tried.
    pub fn by_guards(parameters: TrapParameters) -> Result<Self, SourceError> {
        Guards::probe().map_err(|error| match error.errno() {
            libc::EINVAL => SourceError::None(
                "this kernel has no guards for shared memory: Linux 6.15 has them".to_owned(),
            ),
            libc::ENODATA => {
                SourceError::None("this kernel's guards lose what shared memory holds".to_owned())
            }
            _ => error.into(),
        })?;
        let mut source = Self::new(parameters);
        source.kind = Kind::Guards;
        Ok(source)
    }

    /// Accesses that faulted since `attach`.
    pub fn faults(&self) -> u64 {
        // ORDERING: Relaxed - a number.
        self.shared.as_ref().map_or(0, |shared| shared.placed.table().faults.load(Relaxed))
    }

    /// Faults since `attach` after which a whole area was opened, for lack of mappings.
    pub fn fallbacks(&self) -> u64 {
        // ORDERING: Relaxed - a number.
        self.shared.as_ref().map_or(0, |shared| shared.placed.table().fallbacks.load(Relaxed))
    }

    /// Windows since `attach`.
    pub fn windows(&self) -> u64 {
        // ORDERING: Relaxed - a number.
        self.shared.as_ref().map_or(0, |shared| shared.windows.load(Relaxed))
    }

    /// Granules whose pages are counted one by one.
    pub fn divided(&self) -> usize {
        // ORDERING: Relaxed - a number.
        let count = |shared: &Arc<Shared>| {
            shared.placed.table().is_fine.iter().filter(|is| is.load(Relaxed)).count()
        };
        self.shared.as_ref().map_or(0, count)
    }

    /// While it records in this process.
    fn recording(&self) -> Option<&Arc<Shared>> {
        let is_own = self.is_running && !self.process.is_parents();
        self.shared.as_ref().filter(|_| is_own)
    }

    fn table(areas: &Areas, topology: &dyn Topology, means: Means) -> Table {
        let page_shift = areas.page_bytes().trailing_zeros();
        let armed = areas.spans().iter().map(crate::area::Span::inner);
        let bytes: usize = armed.map(|range| range.len()).sum();
        let mut granule_shift = SMALLEST_GRANULE.max(page_shift);
        while bytes >> granule_shift > MOST_GRANULES / 2 {
            granule_shift += 1;
        }
        let (mut spans, mut granules) = (Vec::new(), 0);
        for addresses in areas.spans().iter().map(crate::area::Span::inner) {
            // The page at the border may be another area's.
            let Some(page) = areas.page_at(addresses.start).filter(|_| !addresses.is_empty())
            else {
                continue;
            };
            let granule = granules;
            granules +=
                ((addresses.end - 1) >> granule_shift) - (addresses.start >> granule_shift) + 1;
            spans.push(ArmedSpan { addresses, page, granule });
        }
        let nodes = topology.nodes();
        Table {
            means,
            spans,
            page_shift,
            granule_shift,
            nodes,
            node_of: table::node_table(topology),
            processors: topology.processors().to_vec(),
            pages: (0..areas.pages() * nodes).map(|_| 0.into()).collect(),
            granules: (0..granules * nodes).map(|_| 0.into()).collect(),
            is_fine: (0..granules).map(|_| false.into()).collect(),
            window: 0.into(),
            opened: (0..granules).map(|_| 0.into()).collect(),
            pages_opened: (0..areas.pages()).map(|_| 0.into()).collect(),
            is_running: false.into(),
            faults: 0.into(),
            fallbacks: 0.into(),
        }
    }

    /// Only plain memory is armed: what is read-only, has code or is the kernel's would have other
    /// rights afterwards.
    fn check(&self, areas: &Areas) -> Result<(), SourceError> {
        for span in areas.spans() {
            let inner = span.inner();
            if inner.is_empty() {
                continue;
            }
            let mappings = platform::numa::mappings(inner.clone())
                .map_err(|error| SourceError::Mappings(error.to_string()))?;
            let mut end = inner.start;
            for mapping in mappings {
                let is_plain = mapping.is_writable && !mapping.is_executable;
                if mapping.addresses.start > end || !is_plain {
                    break;
                }
                if !mapping.is_shared && self.kind != Kind::Rights {
                    return Err(SourceError::Private { begin: span.bytes().start });
                }
                end = mapping.addresses.end;
            }
            if end < inner.end {
                return Err(SourceError::Rights { begin: span.bytes().start });
            }
        }
        Ok(())
    }
}

impl CounterSource for TrapSource {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Rights => "access rights",
            Kind::Userfaults => "userfaults",
            Kind::Guards => "guards",
        }
    }

    fn caps(&self) -> Caps {
        Caps { is_exact: false, sees_reads: true, makes_faults: true }
    }

    unsafe fn attach(&mut self, areas: &Areas, topology: &dyn Topology) -> Result<(), SourceError> {
        self.stop();
        self.shared = None;
        self.check(areas)?;
        let means = match self.kind {
            Kind::Rights => Means::Rights,
            Kind::Userfaults => Means::Userfault(Userfault::new()?),
            Kind::Guards => Means::Guards(Guards::probe()?),
        };
        self.pages = areas.pages();
        self.used = 0;
        let placed = Placed::enter(Self::table(areas, topology, means));
        let placed = placed.ok_or(SourceError::TooMany(PLACES))?;
        self.shared = Some(Arc::new(Shared::new(placed, self.parameters.seed)));
        Ok(())
    }

    fn start(&mut self, scope: Scope) -> Result<(), SourceError> {
        let none = || SourceError::None("no areas are attached".to_owned());
        let shared = self.shared.clone().ok_or_else(none)?;
        if self.is_running {
            return Ok(());
        }
        if self.process.is_parents() {
            return Err(SourceError::None("this process is a fork of the one that records".into()));
        }
        table::handle_faults()?;
        let table = shared.placed.table();
        // From the first watched page on the handler may have to open one.
        // ORDERING: Relaxed - written under no lock: the thread that takes it is started later;
        // faults come after the system calls of `begin`.
        table.is_running.store(true, Relaxed);
        if let Err(error) = table.begin() {
            table.disarm();
            // ORDERING: Release - as in `stop`.
            table.is_running.store(false, Release);
            return Err(error.into());
        }
        {
            let mut sampling = shared.lock();
            (sampling.pause, sampling.closes) = (None, u64::MAX);
            sampling.is_whole = scope == Scope::Phases;
            let per_granule = 1usize << (table.granule_shift - table.page_shift);
            if scope == Scope::Phases && table.is_fine.len() * per_granule <= MOST_GRANULES {
                // ORDERING: Relaxed - nothing is armed.
                table.is_fine.iter().for_each(|is_fine| is_fine.store(true, Relaxed));
                sampling.fine = table.is_fine.len();
            }
            // ORDERING: Relaxed - the thread that reads it is started later.
            shared.stops.store(false, Relaxed);
            shared.set_due(&mut sampling, self.parameters.interval);
        }
        // Without a thread windows begin at ticks only.
        self.ticker = windows::begin(shared, self.parameters);
        self.is_running = true;
        Ok(())
    }

    fn tick(&self) {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.is_running) {
            shared.look(&self.parameters);
        }
    }

    fn pause(&self) {
        if let Some(shared) = self.recording() {
            shared.pause(&self.parameters);
        }
    }

    fn resume(&self) {
        if let Some(shared) = self.recording() {
            shared.resume(&self.parameters);
        }
    }

    fn is_lost(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.lock().is_lost)
    }

    fn failure(&self) -> Option<String> {
        let error = self.shared.as_ref()?.lock().error?;
        Some(format!("accesses cannot be made to fault: {error}"))
    }

    fn snapshot(&mut self, out: &mut Counters) {
        let Some(shared) = &self.shared else { return out.clear(0, 0) };
        let table = shared.placed.table();
        out.clear(self.pages, table.nodes);
        table.each(|page, node, count| out.add(page, Node::at(node), count));
    }

    fn is_enough(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.is_enough(&self.parameters, self.used))
    }

    fn note_use(&mut self) {
        self.used = self.windows();
    }

    fn keeps_counts(&self) -> bool {
        true
    }

    fn stop(&mut self) {
        let Some(shared) = self.shared.clone().filter(|_| self.is_running) else { return };
        self.is_running = false;
        let table = shared.placed.table();
        if self.process.is_parents() {
            // A fork: neither the thread nor a holder of the lock is here.
            std::mem::forget(self.ticker.take());
            table.disarm();
            // ORDERING: Release - pairs with the Acquire in `Table::resolve`.
            table.is_running.store(false, Release);
            return;
        }
        {
            let mut sampling = shared.lock();
            table.disarm();
            (sampling.is_armed, sampling.pause) = (false, None);
            // ORDERING: Release - pairs with the Acquire in `Table::resolve`: a handler that sees
            // it finds the pages accessible.
            table.is_running.store(false, Release);
        }
        // ORDERING: Release - pairs with the Acquire of the thread.
        shared.stops.store(true, Release);
        if let Some(ticker) = self.ticker.take() {
            ticker.thread().unpark();
            // It cannot panic: it takes a lock that no panic poisons, and makes system calls.
            let _ended = ticker.join();
        }
    }
}

impl Drop for TrapSource {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TableTopology;
    use platform::numa::{self, Pages};

    #[test]
    fn memory_that_no_window_has_seen_is_waited_for_and_then_taken_for_unused() {
        // Whole granules, of which the last has more pages than may be undecided.
        let granule = numa::page_bytes().max(1 << SMALLEST_GRANULE);
        let pages = Pages::map(5 * granule).unwrap();
        let mut areas = Areas::new(numa::page_bytes());
        areas.add(pages.addresses().start.next_multiple_of(granule), 4 * granule).unwrap();
        let topology = TableTopology::new(2, &[]).unwrap();
        let mut source = TrapSource::new(TrapParameters { enough: 12, ..Default::default() });
        // SAFETY: - nothing is armed: it never starts.
        unsafe { source.attach(&areas, &topology) }.unwrap();
        let shared = source.shared.clone().unwrap();
        let granules = &shared.placed.table().granules;
        // All but the last one have enough.
        let last = granules.len() - 2;
        granules[..last].iter().step_by(2).for_each(|count| count.store(8, Relaxed));
        let is_enough = |windows| {
            shared.windows.store(windows, Relaxed);
            source.is_enough()
        };
        assert_eq!([11, 12, 47, 48].map(is_enough), [false, false, false, true]);
        granules[last].store(3, Relaxed);
        assert_eq!([12, 48, 256].map(is_enough), [false, false, true]);
        granules[last].store(8, Relaxed);
        assert!(is_enough(1), "all is decided");
    }
}
