//! When windows begin and end.

use crate::is_child;
use crate::memory::{bytes, eager, shared, source_on, sweep};

use platform::numa::{self, Pages};
use upm::CounterSource;
use upm::source::{Scope, TrapParameters, TrapSource};

/// One window, which begins soon.
pub(crate) fn single(length: u64) -> TrapParameters {
    TrapParameters { interval: 20_000, length, windows: 1, ..TrapParameters::default() }
}

pub(crate) fn await_window(source: &TrapSource) {
    while source.windows() == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_window_goes_on_after_a_pause_for_what_was_not_opened_before_it() {
    let bytes = 8 * 16 * numa::page_bytes().max(4096);
    let pages = Pages::map(bytes).unwrap();
    let source = source_on(&pages, single(u64::MAX));
    goes_on_after_a_pause(&pages, source);
    if let Some((pages, source)) = shared(bytes, TrapSource::by_guards(single(u64::MAX))) {
        goes_on_after_a_pause(&pages, source);
    }
}

fn goes_on_after_a_pause(pages: &Pages, mut source: TrapSource) {
    let granule = 16 * numa::page_bytes().max(4096);
    let addresses = pages.addresses();
    let granules =
        u64::try_from((addresses.end - 1) / granule - addresses.start / granule + 1).unwrap();
    let begin = pages.first().as_ptr().expose_provenance();
    source.start(Scope::Iteration).unwrap();
    await_window(&source);
    sweep(begin, 1);
    assert_eq!(source.faults(), 1);
    source.pause();
    sweep(begin, addresses.len());
    assert_eq!(source.faults(), 1, "in a pause nothing is armed");
    source.resume();
    sweep(begin, 1);
    assert_eq!(source.faults(), 1, "what was opened before the pause stays open");
    sweep(begin, addresses.len());
    assert_eq!((source.faults(), source.windows()), (granules, 1));
    source.stop();
    sweep(begin, addresses.len());
    assert_eq!(source.faults(), granules);
}

#[test]
fn a_window_ends_by_itself_after_its_length() {
    let pages = Pages::map(64 * numa::page_bytes()).unwrap();
    let begin = pages.first().as_ptr().expose_provenance();
    let mut source = source_on(&pages, single(1_000_000));
    source.start(Scope::Iteration).unwrap();
    await_window(&source);
    // The kernel joins what is armed with another test's armed pages below: the line of a mapping
    // need not begin where the area does.
    let is_armed = || {
        let mappings = numa::mappings(pages.addresses()).unwrap();
        mappings.iter().any(|mapping| !mapping.is_writable)
    };
    while is_armed() {
        std::thread::yield_now();
    }
    sweep(begin, pages.addresses().len());
    assert_eq!(source.faults(), 0);
}

#[test]
fn in_a_pause_nothing_is_armed_and_no_window_begins() {
    let pages = Pages::map(64 * numa::page_bytes()).unwrap();
    let mut source = source_on(&pages, eager());
    // All is armed in each window, also when it is decided.
    source.start(Scope::Phases).unwrap();
    for _ in 0..20 {
        source.resume();
        let before = source.windows();
        while source.windows() == before {
            sweep(pages.addresses().start, pages.addresses().len());
        }
        source.pause();
        let (windows, faults) = (source.windows(), source.faults());
        std::thread::park_timeout(std::time::Duration::from_millis(2));
        let mut ends = [0; 2];
        // SAFETY: - room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: - the kernel checks the memory; a page of the test's.
        assert_eq!(unsafe { libc::write(ends[1], bytes(&pages).cast(), 4096) }, 4096);
        for end in ends {
            // SAFETY: - the test's descriptors.
            unsafe { libc::close(end) };
        }
        sweep(pages.addresses().start, pages.addresses().len());
        source.pause();
        assert_eq!((source.windows(), source.faults()), (windows, faults));
    }
    source.resume();
    source.stop();
    let faults = source.faults();
    source.resume();
    source.pause();
    sweep(pages.addresses().start, pages.addresses().len());
    assert_eq!(source.faults(), faults);
}

/// A window ends in the same look in which the next one begins: an access that faulted before may
/// find its page watched again between the handler's steps. Threads are more than processors, so
/// that handlers lose their processor between them.
#[test]
fn an_access_that_meets_the_border_of_two_windows_is_tried_again() {
    if !is_child("windows::an_access_that_meets_the_border_of_two_windows_is_tried_again") {
        return;
    }
    let bytes = 64 * numa::page_bytes();
    let adjoining = TrapParameters { interval: 1, length: 1, ..eager() };
    let by_userfault = shared(bytes, TrapSource::by_userfault(adjoining));
    let by_guards = shared(bytes, TrapSource::by_guards(adjoining));
    let pages = Pages::map(bytes).unwrap();
    let by_rights = source_on(&pages, adjoining);
    for (pages, mut source) in
        [Some((pages, by_rights)), by_userfault, by_guards].into_iter().flatten()
    {
        let begin = pages.first().as_ptr().expose_provenance();
        source.start(Scope::Phases).unwrap();
        let part = bytes / 8;
        std::thread::scope(|scope| {
            let source = &source;
            for thread in 0..8 {
                scope.spawn(move || {
                    // Windows begin whether threads have begun or not: each counts its own.
                    let last = source.windows() + 1_000;
                    loop {
                        sweep(begin + thread * part, part);
                        if source.windows() >= last {
                            break;
                        }
                    }
                });
            }
        });
        assert!(source.faults() > 0);
        source.stop();
        sweep(begin, bytes);
    }
}

#[test]
fn where_all_is_decided_windows_come_no_sooner() {
    let pages = Pages::map(64 * numa::page_bytes()).unwrap();
    let interval = 10_000_000;
    let rare = TrapParameters { interval, length: interval / 10, ..eager() };
    let mut source = source_on(&pages, rare);
    let begin = std::time::Instant::now();
    source.start(Scope::Iteration).unwrap();
    // One thread alone: after some windows all is decided, and nothing is armed any more.
    while source.windows() < 60 {
        sweep(pages.addresses().start, pages.addresses().len());
    }
    source.stop();
    // At most, were each wait the shortest of twice as many: the mean is 600 ms, the deviation 45.
    assert!(begin.elapsed() > std::time::Duration::from_nanos(30 * interval), "too soon");
}
