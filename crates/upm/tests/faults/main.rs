//! Sampling by access rights, on the kernel: counts, handlers, threads, forks, limits.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

mod handlers;
mod hardware;
mod memory;
mod sources;
mod windows;

use memory::{by_guards, by_userfault, bytes, eager, machine, source_on, sweep, sweep_windows};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use windows::{await_window, single};

use platform::numa::{self, Pages, Protection};
use platform::skip;
use upm::source::{Scope, SourceError, TrapParameters, TrapSource};
use upm::{
    AreaError, Areas, CounterSource, Counters, HotArray, KernelMover, KernelTopology, NoSource,
    Off, Parameters, Placement, TableTopology, Topology, Upm,
};

/// Names the part of a test that runs in a process of its own.
const CHILD: &str = "NANOS_TEST_UPM";

/// Runs this test again in a process of its own; true there.
fn is_child(name: &str) -> bool {
    if std::env::var(CHILD).is_ok_and(|wanted| wanted == name) {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, name);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let has_run = text.contains("1 passed");
    assert!(output.status.success() && has_run, "{:?}\n{text}{errors}", output.status);
    false
}

#[test]
fn accesses_are_counted_and_change_nothing_and_after_the_end_none_faults() {
    let pages = Pages::map(200 * numa::page_bytes()).unwrap();
    let source = source_on(&pages, eager());
    counts_and_ends(&pages, source);
}

#[test]
fn userfaults_are_counted_and_change_nothing_and_after_the_end_none_happens() {
    if let Some((pages, source)) = by_userfault(200 * numa::page_bytes()) {
        counts_and_ends(&pages, source);
    }
}

#[test]
fn guards_are_counted_and_change_nothing_and_after_the_end_none_faults() {
    if let Some((pages, source)) = by_guards(200 * numa::page_bytes()) {
        counts_and_ends(&pages, source);
    }
}

#[test]
fn pages_that_userfaults_unmapped_are_found_again_after_the_end() {
    if let Some((pages, source)) = by_userfault(64 * numa::page_bytes()) {
        is_found_again(&pages, source);
    }
}

#[test]
fn pages_below_guards_are_found_again_after_the_end_and_untouched_ones_stay_untouched() {
    if let Some((pages, source)) = by_guards(64 * numa::page_bytes()) {
        is_found_again(&pages, source);
    }
}

/// All pages but the last eight are touched.
fn is_found_again(pages: &Pages, mut source: TrapSource) {
    use upm::{Home, Mover};
    let touched = pages.addresses().len() - 8 * numa::page_bytes();
    sweep(pages.first().as_ptr().expose_provenance(), touched);
    source.start(Scope::Iteration).unwrap();
    let armed = source.windows();
    while source.windows() == armed {
        std::thread::yield_now();
    }
    source.stop();
    let addresses: Vec<usize> = pages.addresses().step_by(numa::page_bytes()).collect();
    let homes = KernelMover::new(machine()).homes(&addresses);
    if homes.iter().any(|home| matches!(home, Home::Unknown(_))) {
        return skip!("this system does not say where pages are: {:?}", homes[0]);
    }
    let (found, untouched) = homes.split_at(homes.len() - 8);
    assert!(found.iter().all(|home| matches!(home, Home::On(_))), "{found:?}");
    assert!(untouched.iter().all(|home| *home == Home::Untouched), "{untouched:?}");
}

#[test]
fn private_memory_is_refused_by_userfaults_and_guards_and_keeps_what_it_holds() {
    let sources = [by_userfault(numa::page_bytes()), by_guards(numa::page_bytes())];
    for (_, mut source) in sources.into_iter().flatten() {
        let pages = Pages::map(numa::page_bytes()).unwrap();
        let begin = pages.addresses().start;
        sweep(pages.first().as_ptr().expose_provenance(), 1);
        let mut areas = Areas::new(numa::page_bytes());
        areas.add(begin, pages.addresses().len()).unwrap();
        // SAFETY: - what is refused is not touched.
        let refused = unsafe { source.attach(&areas, &machine()) };
        assert_eq!(refused, Err(SourceError::Private { begin }));
        assert!(source.start(Scope::Iteration).is_err());
        // SAFETY: - the test's memory.
        assert_eq!(unsafe { bytes(&pages).read_volatile() }, 1);
    }
}

#[test]
fn guards_divide_no_mapping_and_count_the_first_touch_of_a_page() {
    let granule = 16 * numa::page_bytes();
    let Some((pages, mut source)) = by_guards(64 * granule) else { return };
    let begin = pages.first().as_ptr().expose_provenance();
    let addresses = pages.addresses();
    let mappings = || numa::mappings(addresses.clone()).unwrap().len();
    let before = mappings();
    source.start(Scope::Iteration).unwrap();
    // A window may be over before this thread has a processor: each time another page.
    for page in (0..granule).step_by(numa::page_bytes()) {
        let last = source.windows();
        while source.windows() == last {
            std::thread::yield_now();
        }
        // Every second granule.
        for granules in (0..64).step_by(2) {
            sweep(begin + granules * granule + page, 1);
        }
        if source.faults() > 0 {
            break;
        }
    }
    assert_eq!(mappings(), before);
    source.stop();
    assert_eq!(mappings(), before);
    assert!(source.faults() > 0);
}

fn counts_and_ends(pages: &Pages, mut source: TrapSource) {
    // Shared memory that was never touched is no userfault.
    sweep(pages.first().as_ptr().expose_provenance(), pages.addresses().len());
    source.start(Scope::Iteration).unwrap();
    let mut sweeps = sweep_windows(&source, pages, 20);
    while !source.is_enough() {
        sweeps += sweep_windows(&source, pages, 1);
    }
    source.stop();
    let faults = source.faults();
    // Granules of 64 KiB.
    assert!(faults >= 12, "{faults} faults");
    sweep(pages.addresses().start, pages.addresses().len());
    assert_eq!(source.faults(), faults);
    // SAFETY: - the test's memory, which no other thread uses now.
    let first = unsafe { bytes(pages).read() };
    assert_eq!(usize::from(first), (sweeps + 2) % 256);
    let mut counters = Counters::default();
    source.snapshot(&mut counters);
    assert_eq!((counters.pages(), counters.nodes()), (200, machine().nodes()));
    let is_counted = |page| counters.page(page).iter().sum::<u64>() > 0;
    assert!((0..200).all(is_counted));
    source.note_use();
    assert!(source.is_enough(), "what is decided stays so");
    // The second recording goes on, and phases count single pages.
    source.start(Scope::Phases).unwrap();
    sweep_windows(&source, pages, 3);
    source.stop();
    assert!(source.faults() > faults && source.divided() > 0);
}

#[test]
fn threads_may_begin_and_end_while_it_records() {
    let pages = Pages::map(64 * numa::page_bytes()).unwrap();
    let mut source = source_on(&pages, eager());
    let begin = pages.first().as_ptr().expose_provenance();
    source.start(Scope::Iteration).unwrap();
    let last = source.windows() + 10;
    let mut threads = 0;
    while source.windows() < last || threads < 40 {
        std::thread::scope(|scope| {
            for part in 0..4 {
                let length = 16 * numa::page_bytes();
                scope.spawn(move || sweep(begin + part * length, length));
            }
        });
        threads += 4;
    }
    source.stop();
    assert!(source.faults() > 0);
}

#[test]
fn a_child_that_is_forked_while_all_is_armed_may_use_the_memory() {
    let pages = Pages::map(64 * numa::page_bytes()).unwrap();
    let source = source_on(&pages, eager());
    child_may_use(&pages, source);
    let bytes = 64 * numa::page_bytes();
    for (pages, source) in [by_userfault(bytes), by_guards(bytes)].into_iter().flatten() {
        child_may_use(&pages, source);
    }
}

fn child_may_use(pages: &Pages, mut source: TrapSource) {
    let (begin, length) = (pages.first().as_ptr().expose_provenance(), pages.addresses().len());
    for stops in [false, true] {
        source.start(Scope::Iteration).unwrap();
        let armed = source.windows();
        while source.windows() == armed {
            std::thread::yield_now();
        }
        // SAFETY: - the child makes system calls and touches memory; it allocates nothing.
        let child = unsafe { libc::fork() };
        if child == 0 {
            if stops {
                source.stop();
            }
            sweep(begin, length);
            // SAFETY: - ends the child without its parent's destructors.
            unsafe { libc::_exit(7) };
        }
        sweep_windows(&source, pages, 2);
        source.stop();
        let mut status = 0;
        // SAFETY: - the child above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
    }
}

#[test]
fn a_system_call_on_armed_memory_fails_and_after_the_end_it_does_not() {
    let pages = Pages::map(numa::page_bytes()).unwrap();
    let mut source = source_on(&pages, eager());
    let mut ends = [0; 2];
    // SAFETY: - room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: - the kernel checks the memory; one byte of the test's.
    let write = || unsafe { libc::write(ends[1], bytes(&pages).cast(), 1) };
    source.start(Scope::Iteration).unwrap();
    let armed = source.windows();
    while source.windows() == armed {
        std::thread::yield_now();
    }
    assert_eq!(write(), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
    source.stop();
    assert_eq!(write(), 1);
    for end in ends {
        // SAFETY: - the test's descriptors.
        unsafe { libc::close(end) };
    }
}

#[test]
fn an_area_that_became_another_one_is_noticed_before_it_is_armed() {
    let page = numa::page_bytes();
    for changed in [0, 7] {
        let pages = Pages::map(8 * page).unwrap();
        let mut source =
            source_on(&pages, TrapParameters { verifies: true, interval: 200_000, ..eager() });
        source.start(Scope::Iteration).unwrap();
        source.pause();
        assert!(!source.is_lost());
        let windows = source.windows();
        let at = std::ptr::without_provenance_mut(pages.addresses().start + changed * page);
        // As if it was unmapped, and other memory came there; a real hole another test may fill.
        // SAFETY: - a page of the test's own mapping.
        assert_eq!(unsafe { libc::mprotect(at, page, libc::PROT_READ) }, 0);
        source.resume();
        for _ in 0..10_000 {
            if source.is_lost() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        assert!(source.is_lost() && source.windows() == windows);
        drop(source);
    }
}

#[test]
fn locked_memory_takes_no_guards_which_is_said_and_nothing_faults() {
    let Some((pages, mut source)) = by_guards(4 * numa::page_bytes()) else { return };
    let begin = pages.first().as_ptr();
    // SAFETY: - the test's memory, which stays as it is.
    if unsafe { libc::mlock(begin, pages.addresses().len()) } != 0 {
        return skip!("no memory may be locked: {}", std::io::Error::last_os_error());
    }
    source.start(Scope::Iteration).unwrap();
    while source.failure().is_none() {
        std::thread::yield_now();
    }
    sweep(begin.expose_provenance(), pages.addresses().len());
    source.stop();
    let why = source.failure().unwrap();
    assert!(why.contains("cannot be made to fault: madvise"), "{why}");
    assert_eq!(source.faults(), 0);
}

#[test]
fn memory_that_is_not_plain_is_refused() {
    let pages = Pages::map(3 * numa::page_bytes()).unwrap();
    let addresses = pages.addresses();
    let middle = addresses.start + numa::page_bytes()..addresses.end - numa::page_bytes();
    // SAFETY: - the test's memory.
    unsafe { numa::protect(middle.clone(), Protection::None) }.unwrap();
    let mut areas = Areas::new(numa::page_bytes());
    areas.add(addresses.start, addresses.len()).unwrap();
    let mut source = TrapSource::new(eager());
    // SAFETY: - what is refused is not touched.
    let refused = unsafe { source.attach(&areas, &machine()) };
    assert_eq!(refused, Err(SourceError::Rights { begin: addresses.start }));
    assert!(source.start(Scope::Iteration).is_err());
}

#[test]
fn an_area_without_a_whole_page_is_never_armed() {
    let pages = Pages::map(2 * numa::page_bytes()).unwrap();
    let mut areas = Areas::new(numa::page_bytes());
    areas.add(pages.addresses().start + 100, numa::page_bytes()).unwrap();
    let mut source = TrapSource::new(eager());
    // SAFETY: - as in `source_on`.
    unsafe { source.attach(&areas, &machine()) }.unwrap();
    source.start(Scope::Iteration).unwrap();
    sweep_windows(&source, &pages, 3);
    source.stop();
    assert_eq!(source.faults(), 0);
}

#[test]
fn a_fault_without_a_mapping_to_spare_opens_the_whole_area() {
    const NAME: &str = "a_fault_without_a_mapping_to_spare_opens_the_whole_area";
    if !is_child(NAME) {
        return;
    }
    let page = numa::page_bytes();
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let most: usize = most.trim().parse().unwrap();
    if most > 100_000 {
        return skip!("{most} mappings are more than this test makes");
    }
    let pages = Pages::map(64 * page).unwrap();
    let mut source = source_on(&pages, eager());
    // The thread that arms has its stack before nothing is left.
    source.start(Scope::Iteration).unwrap();
    sweep_windows(&source, &pages, 1);
    let ballast = Pages::map(2 * most * page).unwrap().addresses();
    let ballast = {
        let again = Pages::map(ballast.len()).unwrap();
        let addresses = again.addresses();
        // It stays until the process ends.
        std::mem::forget(again);
        addresses
    };
    for begin in ballast.step_by(2 * page) {
        // SAFETY: - the test's memory, which is not accessed.
        if unsafe { numa::protect(begin..begin + page, Protection::None) }.is_err() {
            break;
        }
    }
    let mut windows = 0;
    while source.fallbacks() == 0 && windows < 1000 {
        sweep_windows(&source, &pages, 1);
        windows += 1;
    }
    assert!(source.fallbacks() > 0, "{windows} windows, {} faults", source.faults());
    source.stop();
    let faults = source.faults();
    sweep(pages.first().as_ptr().expose_provenance(), pages.addresses().len());
    assert_eq!(source.faults(), faults);
}

#[test]
fn an_iteration_that_panics_leaves_nothing_armed() {
    let memory: Vec<AtomicUsize> = (0..100_000).map(AtomicUsize::new).collect();
    let topology = TableTopology::new(2, &[]).unwrap();
    let mover = KernelMover::new(topology.clone());
    let source = Box::new(TrapSource::new(eager()));
    let mut upm = Upm::with(topology, mover, source, Parameters::default());
    let outcome = {
        let mut upm = std::panic::AssertUnwindSafe(&mut upm);
        let memory = &memory;
        std::panic::catch_unwind(move || {
            upm.watch_slice(memory).unwrap();
            upm.iteration(|| {
                for _ in 0..100 {
                    memory.iter().for_each(|word| {
                        word.fetch_add(1, SeqCst);
                    });
                }
                panic!("the program's");
            })
        })
    };
    assert!(outcome.is_err());
    let mut ends = [0; 2];
    // SAFETY: - room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    for word in memory.iter().step_by(512) {
        // SAFETY: - the kernel reads one byte of the test's memory, if it may.
        assert_eq!(unsafe { libc::write(ends[1], std::ptr::from_ref(word).cast(), 1) }, 1);
    }
    for end in ends {
        // SAFETY: - the test's descriptors.
        unsafe { libc::close(end) };
    }
}

#[test]
fn on_a_machine_with_one_node_it_does_nothing_and_says_so() {
    let topology = KernelTopology::read().unwrap();
    if topology.homes() > 1 {
        return skip!("this machine has {} nodes with memory", topology.homes());
    }
    let mut upm = Upm::new().unwrap();
    let mut array = HotArray::<f64>::zeroed(10_000, Placement::Random(3), &topology).unwrap();
    upm.watch(&array).unwrap();
    for _ in 0..3 {
        upm.iteration(|| array.iter_mut().for_each(|element| *element += 1.0));
        assert_eq!((upm.is_on(), upm.migrations(), upm.replay(), upm.undo()), (false, 0, 0, 0));
    }
    assert_eq!(array[9_999], 3.0);
    assert_eq!(upm.statistics().off, Some(Off::OneNode));
    let report = upm.statistics().to_string();
    for part in ["20 hot pages", "0 migrations", "off: one node"] {
        assert!(report.contains(part), "{report}");
    }
}

#[test]
fn without_a_source_the_engine_is_off_and_says_why() {
    let topology = TableTopology::new(2, &[]).unwrap();
    let mover = KernelMover::new(topology.clone());
    let source = Box::new(NoSource("nothing counts here".into()));
    let mut upm = Upm::with(topology, mover, source, Parameters::default());
    upm.iteration(|| {});
    let report = upm.statistics().to_string();
    assert!(report.contains("off: no references can be counted: none: nothing counts"), "{report}");
    let _ledger = upm.ledger();
    assert!(upm.is_on(), "another source may count");
}

#[test]
fn an_area_with_a_hole_says_where_it_is() {
    let page = numa::page_bytes();
    let mut upm = Upm::new().unwrap();
    let pages = Pages::map(4 * page).unwrap();
    let addresses = pages.addresses();
    drop(pages);
    let (begin, length) = (addresses.start, page);
    // SAFETY: - what is refused is not touched.
    let refused = unsafe { upm.watch_raw(begin, length) };
    // Another test may have mapped something there meanwhile.
    if let Err(error) = refused {
        assert_eq!(error, AreaError::Unmapped { begin, length, hole: begin });
    }
    // SAFETY: - as above; no system of ours maps its first page.
    let refused = unsafe { upm.watch_raw(8, 16) };
    assert_eq!(refused, Err(AreaError::Unmapped { begin: 8, length: 16, hole: 8 }));
    // SAFETY: - as above.
    let refused = unsafe { upm.watch_raw(8, 0) };
    assert_eq!(refused, Err(AreaError::Empty { begin: 8 }));
}

#[test]
fn the_thread_that_begins_windows_may_run_wherever_a_thread_of_the_process_may() {
    use platform::affinity::{CpuSet, affinity, set_affinity};
    if is_child("the_thread_that_begins_windows_may_run_wherever_a_thread_of_the_process_may") {
        let all = affinity(None).unwrap();
        if all.len() < 2 {
            return skip!("one processor: every thread may run there alone");
        }
        let (begun, is_begun) = std::sync::mpsc::channel::<()>();
        // It has the whole mask, and stays.
        let other = std::thread::spawn(move || is_begun.recv());
        let own = all.first().unwrap();
        set_affinity(None, &CpuSet::single(own)).unwrap();
        let pages = Pages::map(64 * numa::page_bytes()).unwrap();
        let mut source = source_on(&pages, single(1));
        source.start(Scope::Iteration).unwrap();
        await_window(&source);
        let sampling = std::fs::read_dir("/proc/self/task").unwrap().find_map(|task| {
            let task = task.unwrap();
            let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let name = task.file_name().to_str()?.parse().ok()?;
            (comm.trim() == "nanos-upm").then_some(platform::affinity::Tid(name))
        });
        assert_eq!(affinity(sampling).unwrap(), all);
        source.stop();
        drop(begun);
        let _ended = other.join().unwrap();
    }
}
