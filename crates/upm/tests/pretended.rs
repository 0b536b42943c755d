//! The whole path on pretended nodes: areas that are chosen, samples, decisions, a table that pages
//! move in. Processor i is on node i modulo two.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]
#![cfg(not(loom))]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

use platform::affinity::{self, CpuId, CpuSet};
use platform::numa::{self, Pages};
use upm::maps::Own;
use upm::source::{Ledger, Pattern};
use upm::{AreaError, Library, Machine, Node, Off, Pilot, Placement, Settings, SourceKind};

/// A pilot takes whatever the process has mapped: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All pages are on the first node at first.
fn two_nodes() -> Settings {
    let placement = Some(Placement::WorstCase(Node(0)));
    Settings { is_on: true, placement, pretended: Some(2), ..Settings::default() }
}

/// An array of so many pages between two that can only be read. Without those the kernel joins it
/// with a stack that happens to be below, once it was recorded (it is without huge pages then, as
/// stacks are): so it would be hot in the first recording and not in the next.
fn array(count: usize) -> (Pages, Range<usize>) {
    let page = numa::page_bytes();
    let pages = Pages::map((count + 2) * page).unwrap();
    let Range { start, end } = pages.addresses();
    for fence in [start, end - page] {
        let first = std::ptr::without_provenance_mut(fence);
        // SAFETY: - a page of the mapping, which nothing writes to.
        assert_eq!(unsafe { libc::mprotect(first, page, libc::PROT_READ) }, 0);
    }
    (pages, start + page..end - page)
}

/// A processor of each node, if the test may use both.
fn processors() -> Option<[CpuSet; 2]> {
    let mask = affinity::affinity(None).unwrap();
    let of = |node: u32| mask.iter().find(|cpu| cpu.0 % 2 == node);
    let (Some(even), Some(odd)) = (of(0), of(1)) else {
        platform::skip!("there are no processors of both pretended nodes");
        return None;
    };
    Some([even, odd].map(|cpu: CpuId| [cpu].into_iter().collect()))
}

/// Two threads, one on each node, that do the work whenever they are told to.
struct Pair<'a> {
    ready: &'a Barrier,
    done: &'a Barrier,
}

impl Pair<'_> {
    fn run(&self) {
        self.ready.wait();
        self.done.wait();
    }
}

/// Runs `main` with a pair of which each thread does `work` with its node.
fn with_pair(processors: &[CpuSet; 2], work: impl Fn(usize) + Sync, main: impl FnOnce(&Pair<'_>)) {
    let (ready, done) = (Barrier::new(3), Barrier::new(3));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (node, cpus) in processors.iter().enumerate() {
            let (ready, done, is_over, work) = (&ready, &done, &is_over, &work);
            scope.spawn(move || {
                affinity::set_affinity(None, cpus).unwrap();
                loop {
                    ready.wait();
                    if is_over.load(SeqCst) {
                        return;
                    }
                    work(node);
                    done.wait();
                }
            });
        }
        let pair = Pair { ready: &ready, done: &done };
        let outcome = catch_unwind(AssertUnwindSafe(|| main(&pair)));
        // Also where the test fails: the scope waits for the threads.
        is_over.store(true, SeqCst);
        ready.wait();
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

/// Reads and writes each line of these addresses.
fn sweep(begin: usize, length: usize) {
    for address in (begin..begin + length).step_by(64) {
        let place = std::ptr::without_provenance_mut::<u8>(address);
        // SAFETY: - the test's memory, of which each thread has its own part.
        unsafe { place.write_volatile(place.read_volatile().wrapping_add(1)) };
    }
}

#[test]
fn what_loops_say_is_exact_and_the_engine_ends() {
    let _alone = alone();
    let Some(processors) = processors() else { return };
    let pages = Pages::map(64 * numa::page_bytes()).unwrap();
    let (begin, half) = (pages.addresses().start, pages.addresses().len() / 2);
    let ledger = Arc::new(Ledger::default());
    let mut library = Library::new(two_nodes(), ledger.clone()).unwrap();
    // SAFETY: - the memory stays mapped.
    unsafe { library.memrefcnt(begin, 2 * half) }.unwrap();
    library.ledger();
    // Thread 1 touches its half wholly, and a line of each page of the other half.
    let work = |node: usize| {
        ledger.touched_here(begin + node * half..begin + (node + 1) * half);
        if node == 1 {
            let page = numa::page_bytes();
            ledger.ran_here(&Pattern { base: begin, stride: page, bytes: 8, times: 1 }, 0..32);
        }
    };
    with_pair(&processors, work, |pair| {
        pair.run();
        assert_eq!((library.migrate_memory(), library.should_call()), (32, true));
        pair.run();
        assert_eq!((library.migrate_memory(), library.should_call()), (0, false));
        assert_eq!(library.statistics().off, Some(Off::Settled));
        pair.run();
        assert_eq!(library.migrate_memory(), 0);
        // As if a manager had moved them: what was frozen or settled counts anew.
        library.threads_moved();
        pair.run();
        assert_eq!((library.migrate_memory(), library.should_call()), (0, false));
        assert_eq!(library.statistics().rearmed, 1);
    });
}

#[test]
fn loops_count_from_the_beginning_where_they_are_the_source_that_is_named() {
    let _alone = alone();
    let Some(processors) = processors() else { return };
    let pages = Pages::map(8 * numa::page_bytes()).unwrap();
    let addresses = pages.addresses();
    let ledger = Arc::new(Ledger::default());
    let settings = Settings { source: SourceKind::of("loops"), ..two_nodes() };
    let mut library = Library::new(settings, ledger.clone()).unwrap();
    // SAFETY: - the memory stays mapped.
    unsafe { library.memrefcnt(addresses.start, addresses.len()) }.unwrap();
    assert_eq!(library.statistics().off, None);
    let ledger = library.ledger();
    let work = |node: usize| {
        if node == 1 {
            ledger.touched_here(addresses.clone());
        }
    };
    with_pair(&processors, work, |pair| {
        pair.run();
        assert_eq!((library.migrate_memory(), library.should_call()), (8, true));
        pair.run();
        assert_eq!((library.migrate_memory(), library.should_call()), (0, false));
    });
    assert_eq!(library.statistics().off, Some(Off::Settled));
}

#[test]
fn bad_areas_are_errors_and_the_others_count_on() {
    let _alone = alone();
    let page = numa::page_bytes();
    let pages = Pages::map(4 * page).unwrap();
    let begin = pages.addresses().start;
    let mut library = Library::new(two_nodes(), Arc::default()).unwrap();
    let code = bad_areas_are_errors_and_the_others_count_on as *const () as usize;
    // SAFETY: - the memory that is taken stays mapped.
    let mut add = |begin, length| unsafe { library.memrefcnt(begin, length) };
    assert_eq!(add(begin, 2 * page), Ok(()));
    assert!(matches!(add(begin, 0), Err(AreaError::Empty { .. })));
    assert!(matches!(add(usize::MAX - 3, 9), Err(AreaError::Wraps { .. })));
    assert!(matches!(add(begin + page, 5), Err(AreaError::Overlaps { .. })));
    assert!(matches!(add(8, 8), Err(AreaError::Unmapped { .. })));
    assert!(matches!(add(code, 8), Err(AreaError::Rights { .. })));
    assert_eq!(add(begin + 2 * page, 2 * page), Ok(()));
    assert_eq!((library.statistics().pages, library.statistics().off.clone()), (4, None));
    // The areas that were taken are counted in, and nothing else is.
    let Some(processors) = processors() else { return };
    let ledger = library.ledger();
    let work = |node: usize| {
        if node == 1 {
            ledger.touched_here(begin..begin + 4 * page);
            ledger.touched_here(code..code + page);
        }
    };
    with_pair(&processors, work, |pair| {
        pair.run();
        assert_eq!((library.migrate_memory(), library.should_call()), (4, true));
        pair.run();
        assert_eq!((library.migrate_memory(), library.should_call()), (0, false));
    });
    let statistics = library.statistics();
    assert_eq!((statistics.migrations(), statistics.calls[0].pages), (4, 4));
    assert_eq!(statistics.off, Some(Off::Settled));
}

/// A loop of one region on an array; which half a thread uses is in `turned`.
fn follow(settings: Settings, turned: &AtomicUsize, end: impl FnOnce(&mut Pilot, &Pair<'_>)) {
    let _alone = alone();
    let Some(processors) = processors() else { return };
    let (pages, array) = array(512);
    let (begin, half) = (array.start, array.len() / 2);
    let work = |node: usize| {
        for _ in 0..4 {
            sweep(begin + (node ^ turned.load(SeqCst)) * half, half);
        }
    };
    let own = Own {
        addresses: vec![(&raw const work).addr()],
        code: settle as *const () as usize,
        ..Own::default()
    };
    let mut pilot = Pilot::new(Machine::new(settings).unwrap(), settings, own);
    with_pair(&processors, work, |pair| {
        settle(&mut pilot, pair);
        end(&mut pilot, pair);
    });
    drop(pages);
}

/// Iterations until the pilot is done.
fn settle(pilot: &mut Pilot, pair: &Pair<'_>) {
    for _ in 0..100_000 {
        pilot.iteration_begins(2);
        if pilot.is_done() {
            return;
        }
        pilot.region_begins();
        pair.run();
        pilot.region_ends();
    }
    panic!("it does not end: {}", pilot.report());
}

/// Pilots at most. A thread that has no processor for a while is seen too seldom, and too many such
/// times make recording too long.
const PILOTS: usize = 5;

#[test]
fn a_pilot_finds_the_array_moves_its_half_and_ends_and_does_so_again_when_threads_move() {
    let mut outcome = Ok(());
    for _ in 0..PILOTS {
        let turned = AtomicUsize::new(0);
        follow(two_nodes(), &turned, |pilot, pair| outcome = moves_twice(pilot, pair, &turned));
        let Err(report) = &outcome else { return };
        println!("{report}");
    }
    panic!("none of {PILOTS} pilots: {}", outcome.unwrap_err());
}

/// The report of a pilot that did not move what it should.
fn moves_twice(pilot: &mut Pilot, pair: &Pair<'_>, turned: &AtomicUsize) -> Result<(), String> {
    let report = pilot.report();
    assert!(report.contains("anonymous memory"), "{report}");
    let moved = pilot.statistics().unwrap().migrations();
    // What else the process has mapped may be hot, too.
    if !(240..=2000).contains(&moved) || !report.contains("no page should") {
        return Err(report);
    }
    println!("{report}");
    assert!(!pilot.is_over());
    turned.store(1, SeqCst);
    pilot.threads_moved();
    assert!(!pilot.is_done());
    settle(pilot, pair);
    let (report, again) = (pilot.report(), pilot.statistics().unwrap().migrations());
    assert!(report.contains("1 times the threads went"), "{report}");
    if again >= moved + 240 { Ok(()) } else { Err(report) }
}

#[test]
fn a_loop_that_ends_while_it_is_recorded_leaves_nothing_armed() {
    let turned = AtomicUsize::new(0);
    let settings = two_nodes();
    follow(settings, &turned, |pilot, pair| {
        pilot.threads_moved();
        for _ in 0..3 {
            for _ in 0..4 {
                pilot.iteration_begins(2);
                pilot.region_begins();
                pair.run();
                pilot.region_ends();
            }
            pilot.loop_ends();
            pair.run();
        }
        pilot.give_up("enough");
        assert!(pilot.is_done() && pilot.report().contains("off: enough"));
    });
}

/// A loop that ends each time that it is recorded is not the outer one.
#[test]
fn what_is_recorded_for_nothing_stays_below_a_hundredth_of_the_time() {
    let _alone = alone();
    let (_pages, array) = array(64);
    sweep(array.start, array.len());
    let time = Arc::new(AtomicUsize::new(0));
    let clock = time.clone();
    let machine = Machine::new(two_nodes()).unwrap();
    let mut pilot = Pilot::new(machine, two_nodes(), Own::default())
        .with_clock(move || clock.load(SeqCst).try_into().unwrap());
    const LOOPS: usize = 20_000;
    for _ in 0..LOOPS {
        // The third iteration is recorded, and ends with the loop.
        for _ in 0..3 {
            pilot.iteration_begins(2);
            time.fetch_add(1_000_000, SeqCst);
        }
        pilot.loop_ends();
    }
    let recordings = pilot.statistics().unwrap().rearmed + 1;
    assert!(recordings >= 2, "it tries again: {}", pilot.report());
    // Of a recorded iteration of a millisecond windows take a tenth.
    let (spent, all) = (recordings * 100_000, LOOPS * 3_000_000);
    assert!(spent <= all / 100 + 100_000, "{recordings} recordings");
}
