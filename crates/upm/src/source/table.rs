//! Which faults are a source's own, and what they count: tables that the fault handler reads.
//!
//! # Protocol
//! 1. A source enters its [`Table`] through one of the gates ([`Gate`]). The handler looks through
//!    all of them.
//! 2. A source that ends takes its table back when no handler looks at it. A forked child may have
//!    inherited a handler that never ends there: after a second the table is leaked.
//! 3. A fault may reach its handler late, after its source stopped or ended. Such an access would
//!    succeed now: where the page can be written ([`Advice::Populate`]), it is tried again. Ranges
//!    of ended sources are remembered for this.
//! 4. A handler's steps are system calls, and windows end and begin in between. A: the handler
//!    finds a page that is not watched any more, and cannot be opened. B: the next window arms it.
//!    A: the page cannot be written either. So a fault in a source's memory is looked at again
//!    before it is the program's own ([`LOOKS`]).
//!
//! # Invariants
//! I1  Only while a source is running, and only within its spans, does the handler change rights.
//!     A fault elsewhere is the program's own.

use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

use crate::gate::Gate;
use crate::maps;
use platform::SysResult;
use platform::guard::Guards;
use platform::numa::{self, Advice, Protection};
use platform::page_fault::{self, PageFault};
use platform::userfault::Userfault;

/// Sources of this kind that may be there at once.
pub(super) const PLACES: usize = 8;
/// Ranges of ended sources that are remembered.
const PAST: usize = 64;
/// Looks at a fault in a source's memory, before it is taken for the program's own: for each that
/// fails a window has to begin within the handler, or the memory is not accessible at all.
const LOOKS: usize = 16;
/// The most nodes' numbers, beyond which a node counts as unknown.
const NUMBERS: usize = 1024;

static GATES: [Gate<Table>; PLACES] = [const { Gate::new() }; PLACES];
static ENDED: [(AtomicUsize, AtomicUsize); PAST] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; PAST];
static NEXT_ENDED: AtomicUsize = AtomicUsize::new(0);

/// Pages of one area that may be armed.
#[derive(Clone, Debug)]
pub(super) struct ArmedSpan {
    pub(super) addresses: Range<usize>,
    /// The number of the first page.
    pub(super) page: usize,
    /// The number of the first granule.
    pub(super) granule: usize,
}

/// How accesses are made to fault.
#[derive(Debug)]
pub(super) enum Means {
    /// By the pages' rights: SIGSEGV.
    Rights,
    /// By unmapping pages of shared memory: SIGBUS.
    Userfault(Userfault),
    /// By guards on pages of shared memory: SIGSEGV.
    Guards(Guards),
}

impl Means {
    /// A fault in an armed span was made by this.
    fn makes(&self, fault: PageFault) -> bool {
        match self {
            Self::Rights => fault.is_forbidden,
            Self::Userfault(_) => fault.is_bus,
            Self::Guards(_) => fault.is_unmapped || fault.is_forbidden,
        }
    }
}

/// What the handler reads and counts.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) means: Means,
    pub(super) spans: Vec<ArmedSpan>,
    pub(super) page_shift: u32,
    pub(super) granule_shift: u32,
    pub(super) nodes: usize,
    /// The node of each number of the operating system; 255: none.
    pub(super) node_of: Vec<u8>,
    /// The node of each processor, where that is not what the system says.
    pub(super) processors: Vec<crate::topology::Node>,
    /// For each page and node.
    pub(super) pages: Vec<AtomicU32>,
    /// For each granule and node.
    pub(super) granules: Vec<AtomicU32>,
    /// Granules whose pages are counted one by one.
    pub(super) is_fine: Vec<AtomicBool>,
    /// The window that is open, or was the last one.
    pub(super) window: AtomicU32,
    /// In which window each granule was opened last, and each page of those that are divided.
    pub(super) opened: Vec<AtomicU32>,
    pub(super) pages_opened: Vec<AtomicU32>,
    pub(super) is_running: AtomicBool,
    pub(super) faults: AtomicU64,
    /// Faults after which a whole area had to be disarmed.
    pub(super) fallbacks: AtomicU64,
}

impl Table {
    /// The granules of one span, and the addresses of a granule within it.
    pub(super) fn granule_range(&self, span: &ArmedSpan, address: usize) -> Range<usize> {
        let begin = address >> self.granule_shift << self.granule_shift;
        let end = begin.saturating_add(1 << self.granule_shift);
        begin.max(span.addresses.start)..end.min(span.addresses.end)
    }

    pub(super) fn granule_at(&self, span: &ArmedSpan, address: usize) -> usize {
        span.granule + (address >> self.granule_shift)
            - (span.addresses.start >> self.granule_shift)
    }

    pub(super) fn page_at(&self, span: &ArmedSpan, address: usize) -> usize {
        span.page + ((address - span.addresses.start) >> self.page_shift)
    }

    /// The node of the calling thread.
    fn here(&self) -> usize {
        let place = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        if self.processors.is_empty() {
            let number = place(numa::current_node());
            return self.node_of.get(number).copied().unwrap_or(u8::MAX).into();
        }
        let number = place(platform::affinity::current_cpu().0);
        self.processors.get(number).map_or(usize::MAX, |node| node.index())
    }

    fn span_at(&self, address: usize) -> Option<&ArmedSpan> {
        self.spans.iter().find(|span| span.addresses.contains(&address))
    }

    /// The fault is within this table; true when the access will succeed now. The first look
    /// counts it.
    fn resolve(&self, span: &ArmedSpan, address: usize, is_first: bool) -> bool {
        // ORDERING: Acquire - pairs with the Release in `stop`: when it is seen, all is disarmed.
        if !self.is_running.load(Acquire) {
            return can_be_written(address, self.page_shift);
        }
        let one = u32::from(is_first);
        // ORDERING: Relaxed throughout - counters, which `snapshot` reads after the program's own
        // join, or a little too few of.
        self.faults.fetch_add(one.into(), Relaxed);
        let granule = self.granule_at(span, address);
        let node = self.here();
        let page = address >> self.page_shift << self.page_shift;
        let window = self.window.load(Relaxed);
        let range = if self.is_fine[granule].load(Relaxed) {
            let number = self.page_at(span, address);
            self.pages_opened[number].store(window, Relaxed);
            if node < self.nodes {
                self.pages[number * self.nodes + node].fetch_add(one, Relaxed);
            }
            page..page + (1 << self.page_shift)
        } else {
            self.opened[granule].store(window, Relaxed);
            if node < self.nodes {
                self.granules[granule * self.nodes + node].fetch_add(one, Relaxed);
            }
            self.granule_range(span, address)
        };
        match &self.means {
            Means::Rights => {}
            Means::Userfault(userfault) => {
                // Also where `disarm` was quicker: then all is mapped, or can be.
                return userfault.resolve(&range, 1 << self.page_shift)
                    || can_be_written(address, self.page_shift);
            }
            // What cannot have one any more was unmapped, and is the program's fault.
            Means::Guards(guards) => return guards.remove(&range).is_ok(),
        }
        // SAFETY: - pages of an attached area, which may be read and written (`attach`).
        if unsafe { numa::protect(range, Protection::ReadWrite) }.is_ok() {
            return true;
        }
        // Too many mappings: all of the area in one piece takes none.
        self.fallbacks.fetch_add(1, Relaxed);
        // SAFETY: - as above.
        unsafe { numa::protect(span.addresses.clone(), Protection::ReadWrite) }.is_ok()
    }
}

/// An access to this page would succeed, and was late.
fn can_be_written(address: usize, page_shift: u32) -> bool {
    let page = address >> page_shift << page_shift;
    let _kept = platform::aside::SavedErrno::now();
    numa::advise(page..page + (1 << page_shift), Advice::Populate).is_ok()
}

/// The resolver of page faults.
fn resolve(fault: PageFault) -> bool {
    if !fault.is_forbidden && !fault.is_unmapped && !fault.is_bus {
        return false;
    }
    for look in 0..LOOKS {
        match is_open(fault, look == 0) {
            Some(false) => {}
            Some(true) => return true,
            None => return false,
        }
    }
    false
}

/// Whether the access will succeed now; `None` where no source had a part in its fault.
fn is_open(fault: PageFault, is_first: bool) -> Option<bool> {
    let own = GATES.iter().find_map(|gate| {
        gate.visit(|table| {
            let span = table.span_at(fault.address)?;
            table.means.makes(fault).then(|| table.resolve(span, fault.address, is_first))
        })
        .flatten()
    });
    own.or_else(|| {
        let is_past = ENDED.iter().any(|(begin, end)| {
            // ORDERING: Acquire - pairs with `remember`: the end is there when the begin is.
            let begin = begin.load(Acquire);
            begin != 0 && (begin..end.load(Relaxed)).contains(&fault.address)
        });
        is_past.then(|| can_be_written(fault.address, numa::page_bytes().trailing_zeros()))
    })
}

/// Puts the handler in front, before faults are made to happen.
pub(super) fn handle_faults() -> SysResult<()> {
    // SAFETY: - `resolve` only loads and adds to atomics and makes some system calls; `Kept` is
    // the C library's own word.
    unsafe { page_fault::install_resolver(resolve) }
}

/// A table that the handler finds.
#[derive(Debug)]
pub(super) struct Placed {
    place: usize,
    table: *mut Table,
}

// SAFETY: - the table has atomics and constants only, and is owned.
unsafe impl Send for Placed {}
// SAFETY: - as above; `Placed` gives out shared references only.
unsafe impl Sync for Placed {}

impl Placed {
    /// Enters a table. `None` when all places are taken.
    pub(super) fn enter(table: Table) -> Option<Self> {
        let mut table = Box::new(table);
        for (place, gate) in GATES.iter().enumerate() {
            match gate.enter(table) {
                Ok(table) => return Some(Self { place, table }),
                Err(back) => table = back,
            }
        }
        None
    }

    pub(super) fn table(&self) -> &Table {
        // SAFETY: - taken back by `drop` only.
        unsafe { &*self.table }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        for span in &self.table().spans {
            remember(&span.addresses);
        }
        let begin = Instant::now();
        // Longer only where a handler was inherited by fork, which never ends here.
        let table = GATES[self.place].leave(|| {
            std::thread::yield_now();
            begin.elapsed() < Duration::from_secs(1)
        });
        drop(table);
    }
}

/// Faults in this range may still be on their way.
fn remember(addresses: &Range<usize>) {
    // ORDERING: Relaxed - only chooses an entry.
    let (begin, end) = &ENDED[NEXT_ENDED.fetch_add(1, Relaxed) % PAST];
    begin.store(0, Relaxed);
    // ORDERING: Release - the old begin is gone before the new end is there.
    end.store(addresses.end, Release);
    // ORDERING: Release - pairs with the Acquire in `resolve`.
    begin.store(addresses.start, Release);
}

/// The table from the operating system's numbers of nodes to nodes.
pub(super) fn node_table(topology: &dyn crate::topology::Topology) -> Vec<u8> {
    let mut table = Vec::new();
    for index in 0..topology.nodes() {
        let node = crate::topology::Node::at(index);
        let number = usize::try_from(topology.number(node)).unwrap_or(usize::MAX);
        if number < NUMBERS {
            table.resize(table.len().max(number + 1), u8::MAX);
            table[number] = node.0;
        }
    }
    table
}

impl Table {
    /// Tells of each page and node what was counted: of a granule that is not divided all its
    /// pages have its count.
    pub(super) fn each(&self, mut tell: impl FnMut(usize, usize, u64)) {
        for span in &self.spans {
            for address in span.addresses.clone().step_by(1 << self.page_shift) {
                let (page, granule) = (self.page_at(span, address), self.granule_at(span, address));
                // ORDERING: Relaxed throughout - see `resolve`.
                let counts = if self.is_fine[granule].load(Relaxed) {
                    &self.pages[page * self.nodes..][..self.nodes]
                } else {
                    &self.granules[granule * self.nodes..][..self.nodes]
                };
                for (node, count) in counts.iter().enumerate() {
                    tell(page, node, count.load(Relaxed).into());
                }
            }
        }
    }

    /// A recorded iteration begins: accesses may be made to fault.
    pub(super) fn begin(&self) -> SysResult<()> {
        let Means::Userfault(userfault) = &self.means else { return Ok(()) };
        for span in &self.spans {
            // SAFETY: - pages of an attached area, whose faults `resolve` resolves.
            unsafe { userfault.watch(&span.addresses) }?;
        }
        Ok(())
    }

    /// A window begins: makes every access to these pieces of the spans fault.
    pub(super) fn arm(&self, pieces: &[Range<usize>]) -> SysResult<()> {
        // ORDERING: Relaxed, both - faults come after the change of rights below.
        let window = self.window.load(Relaxed).wrapping_add(1);
        self.window.store(window, Relaxed);
        self.leave_out(pieces, window);
        // What ended the last window may have released them.
        self.begin()?;
        for piece in pieces {
            match &self.means {
                // SAFETY: - pages of an attached area, whose faults `resolve` resolves.
                Means::Rights => unsafe { numa::protect(piece.clone(), Protection::None) }?,
                // SAFETY: - as above, and `begin` watches them.
                Means::Userfault(userfault) => unsafe { userfault.unmap(piece) }?,
                // SAFETY: - as above, and the area is shared memory (`attach`).
                Means::Guards(guards) => unsafe { guards.install(piece) }?,
            }
        }
        Ok(())
    }

    /// The window goes on: makes accesses to these pieces of the spans fault. Not by userfaults.
    pub(super) fn arm_again(&self, pieces: &[Range<usize>]) -> SysResult<()> {
        for piece in pieces {
            match &self.means {
                // SAFETY: - pages of an attached area, of shared memory, whose faults `resolve`
                // resolves.
                Means::Guards(guards) => unsafe { guards.install(piece) }?,
                // SAFETY: - as above.
                _ => unsafe { numa::protect(piece.clone(), Protection::None) }?,
            }
        }
        Ok(())
    }

    /// Whether windows go on after a pause: what userfaults have unmapped is mapped then.
    pub(super) fn can_be_armed_again(&self) -> bool {
        !matches!(self.means, Means::Userfault(_))
    }

    /// Whether the spans are still mapped as plain memory, or armed.
    pub(super) fn is_intact(&self) -> bool {
        let Ok(maps) = maps::read() else { return false };
        self.spans.iter().all(|span| {
            let mut end = span.addresses.start;
            for line in maps::within(&maps, &span.addresses) {
                let is_same = match self.means {
                    Means::Rights => line.is_plain() || line.is_shared() || line.is_inaccessible(),
                    Means::Userfault(_) | Means::Guards(_) => line.is_shared(),
                };
                if line.addresses.start > end || !is_same {
                    break;
                }
                end = line.addresses.end;
            }
            end >= span.addresses.end
        })
    }

    /// No access to the spans faults any more.
    pub(super) fn disarm(&self) {
        for ArmedSpan { addresses, .. } in &self.spans {
            match &self.means {
                Means::Rights => {
                    // SAFETY: - pages of an attached area, which may be read and written
                    // (`attach`).
                    let done = unsafe { numa::protect(addresses.clone(), Protection::ReadWrite) };
                    // A part of it is not mapped any more: the rest, piece by piece.
                    if done.is_err() {
                        open_pieces(addresses);
                    }
                }
                Means::Userfault(userfault) => {
                    // Fails where it is not watched: in a forked child, and the second time.
                    let _released = userfault.release(addresses);
                    // The kernel's queries find mapped pages only. Where that fails they say so.
                    let _mapped = numa::map_present(addresses.clone());
                }
                Means::Guards(guards) => {
                    // Where a part of it is not mapped any more the rest has none all the same.
                    let _removed = guards.remove(addresses);
                    // As above.
                    let _mapped = numa::map_present(addresses.clone());
                }
            }
        }
    }
}

/// Opens what is armed of an area that is not whole any more.
#[cold]
fn open_pieces(addresses: &Range<usize>) {
    for line in maps::within(&maps::read().unwrap_or_default(), addresses) {
        if line.is_inaccessible() {
            let piece =
                line.addresses.start.max(addresses.start)..line.addresses.end.min(addresses.end);
            // SAFETY: - pages of an attached area, which this table made inaccessible. What cannot
            // be opened is gone by now.
            let _open = unsafe { numa::protect(piece, Protection::ReadWrite) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_fault_is_tried_again_where_the_access_would_succeed_and_is_the_programs_elsewhere() {
        let page = numa::page_bytes();
        let pages = numa::Pages::map(4 * page).unwrap();
        let addresses = pages.addresses();
        let late = |index: usize| {
            let address = addresses.start + index * page + 5;
            resolve(PageFault { address, is_forbidden: true, is_unmapped: false, is_bus: false })
        };
        assert!(!late(0), "an address that was never armed");
        remember(&(addresses.start..addresses.start + 2 * page));
        assert!(late(0) && late(1) && !late(2));
        // SAFETY: - the test's own memory, which nothing accesses.
        unsafe { numa::protect(addresses.start..addresses.start + page, Protection::None) }
            .unwrap();
        assert!(!late(0) && late(1));
        // Another kind of fault, as by a protection key: to try again would go on for ever.
        let address = addresses.start + page;
        let fault = PageFault { address, is_forbidden: false, is_unmapped: false, is_bus: false };
        assert!(!resolve(fault) && resolve(PageFault { is_unmapped: true, ..fault }));
    }
}
