//! Memory of a test, and a source on it.

use platform::numa::{self, Pages};
use platform::skip;
use upm::source::{SourceError, TrapParameters, TrapSource};
use upm::{Areas, CounterSource, KernelTopology};

/// Windows without end, one right after the other.
pub(crate) fn eager() -> TrapParameters {
    TrapParameters { interval: 20_000, windows: u64::MAX, ..TrapParameters::default() }
}

pub(crate) fn machine() -> KernelTopology {
    KernelTopology::read().unwrap()
}

/// A source on memory of the test's.
pub(crate) fn source_on(pages: &Pages, parameters: TrapParameters) -> TrapSource {
    attached(TrapSource::new(parameters), pages)
}

/// The same by userfaults, with its memory, if the system has them.
pub(crate) fn by_userfault(bytes: usize) -> Option<(Pages, TrapSource)> {
    shared(bytes, TrapSource::by_userfault(eager()))
}

/// The same by guards, if the system has them.
pub(crate) fn by_guards(bytes: usize) -> Option<(Pages, TrapSource)> {
    shared(bytes, TrapSource::by_guards(eager()))
}

/// A source on shared memory, with the memory, or why there is none.
pub(crate) fn shared(
    bytes: usize,
    source: Result<TrapSource, SourceError>,
) -> Option<(Pages, TrapSource)> {
    match source {
        Ok(source) => {
            let pages = Pages::map_shared(bytes).unwrap();
            let source = attached(source, &pages);
            Some((pages, source))
        }
        Err(error) => {
            skip!("{error}");
            None
        }
    }
}

pub(crate) fn attached(mut source: TrapSource, pages: &Pages) -> TrapSource {
    let mut areas = Areas::new(numa::page_bytes());
    let addresses = pages.addresses();
    areas.add(addresses.start, addresses.len()).unwrap();
    // SAFETY: - each test keeps its memory longer than the source, with its rights.
    unsafe { source.attach(&areas, &machine()) }.unwrap();
    source
}

pub(crate) fn bytes(pages: &Pages) -> *mut u8 {
    pages.first().as_ptr().cast()
}

/// Adds one to a byte of each page.
pub(crate) fn sweep(address: usize, length: usize) {
    for byte in (address..address + length).step_by(numa::page_bytes()) {
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(byte);
        // SAFETY: - a byte of the test's mapping, which no other thread uses.
        unsafe { byte.write_volatile(byte.read_volatile().wrapping_add(1)) };
    }
}

/// Sweeps until the source has seen this many windows more, and once again: however few sweeps fit
/// in between, what the last window armed is touched, or was before.
pub(crate) fn sweep_windows(source: &TrapSource, pages: &Pages, windows: u64) -> usize {
    let begin = pages.first().as_ptr().expose_provenance();
    let last = source.windows() + windows;
    let mut sweeps = 0;
    while source.windows() < last {
        sweep(begin, pages.addresses().len());
        sweeps += 1;
    }
    sweep(begin, pages.addresses().len());
    sweeps + 1
}
