//! Pages that the engine moves to the threads that use them.

use crate::machine::{
    TestUpm, WORDS, addresses_of, array, by_loops, homes, mover, on_all, on_node, processors, slow,
    with,
};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use platform::affinity;
use platform::numa::{self, Advice, Pages};
use upm::maps::Own;
use upm::source::{Pattern, Scope, TrapParameters, TrapSource};
use upm::{
    Areas, CounterSource, Home, HotArray, KernelTopology, Machine, Mover, Node, Off, Parameters,
    Pilot, Placement, Settings,
};

/// All of memory on one node, each thread uses its slice: most is repaired by the first call.
#[test]
fn the_worst_placement_is_repaired_by_samples_and_the_engine_ends() {
    let topology = machine!();
    let memory = array(SLICES, Placement::WorstCase(Node(1)), &topology);
    repair(&topology, memory, with(&topology, TrapSource::new(slow())));
}

/// The same by userfaults in shared memory.
#[test]
fn the_worst_placement_is_repaired_by_userfaults_and_the_engine_ends() {
    let topology = machine!();
    let source = TrapSource::by_userfault(slow()).unwrap();
    repair(&topology, worst_shared(&topology), with(&topology, source));
}

/// The same by guards, where the kernel has them for shared memory.
#[test]
fn the_worst_placement_is_repaired_by_guards_and_the_engine_ends() {
    let topology = machine!();
    match TrapSource::by_guards(slow()) {
        Ok(source) => repair(&topology, worst_shared(&topology), with(&topology, source)),
        Err(error) => platform::skip!("{error}"),
    }
}

fn worst_shared(topology: &KernelTopology) -> HotArray<u64> {
    let worst = Placement::WorstCase(Node(1));
    let mut memory = HotArray::shared(SLICES * WORDS, worst, topology).unwrap();
    on_node(2, || memory.fill(1));
    memory
}

/// Pages: a slice of 32 for each of eight threads.
const SLICES: usize = 8 * 32;

fn repair(topology: &KernelTopology, mut memory: HotArray<u64>, mut upm: TestUpm) {
    const PAGES: usize = SLICES;
    upm.watch(&memory).unwrap();
    let mut iterations = 0;
    while upm.is_on() && iterations < 100 {
        iterations += 1;
        upm.iteration(|| {
            let slices: Vec<std::sync::Mutex<&mut [u64]>> =
                memory.chunks_mut(32 * WORDS).map(std::sync::Mutex::new).collect();
            on_all(|thread| {
                let mut slice = slices[thread].lock().unwrap();
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(300) {
                    slice.iter_mut().step_by(8).for_each(|word| *word += 1);
                }
            });
        });
    }
    println!("{iterations} iterations\n{}", upm.statistics());
    assert!(!upm.is_on());
    let right = homes(&memory, topology)
        .iter()
        .enumerate()
        .filter(|(page, home)| **home == Home::On(Node::at(page / 64)))
        .count();
    assert!(right >= PAGES * 98 / 100, "{right} of {PAGES} pages are right");
    assert!(upm.statistics().share_of_first().unwrap() >= 0.78);
    assert!(matches!(upm.statistics().off, Some(Off::Settled | Off::Refused)));
}

#[test]
fn granules_that_two_nodes_share_are_divided_and_each_page_goes_to_its_user() {
    let topology = machine!();
    const PAGES: usize = 64;
    let memory = array(PAGES, Placement::WorstCase(Node(3)), &topology);
    let parameters = TrapParameters {
        interval: 20_000_000,
        windows: u64::MAX,
        enough: 12,
        ..TrapParameters::default()
    };
    let mut source = TrapSource::new(parameters);
    let mut areas = Areas::new(numa::page_bytes());
    areas.add(memory.addresses().start, memory.addresses().len()).unwrap();
    // SAFETY: - the array outlives the source.
    unsafe { source.attach(&areas, &topology) }.unwrap();
    let begin = memory.as_ptr().expose_provenance();
    let mut rounds = 0;
    while rounds < 60 && (!source.is_enough() || source.divided() == 0) {
        rounds += 1;
        source.start(Scope::Iteration).unwrap();
        // Even pages: node 0; odd ones: node 2.
        std::thread::scope(|scope| {
            for (node, first) in [(0, 0), (2, 1)] {
                scope.spawn(move || {
                    affinity::set_affinity(None, &processors(node)).unwrap();
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(400) {
                        for page in (first..PAGES).step_by(2) {
                            let word = std::ptr::with_exposed_provenance::<AtomicU64>(
                                begin + page * numa::page_bytes(),
                            );
                            // SAFETY: - a word of the array, which is used by this thread alone.
                            unsafe { &*word }.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
        });
        source.stop();
    }
    let mut counters = upm::Counters::default();
    source.snapshot(&mut counters);
    println!("{rounds} rounds, {} windows, {} divided", source.windows(), source.divided());
    assert!(source.divided() >= 3, "{} granules are divided", source.divided());
    let right = (0..PAGES)
        .filter(|page| {
            let counts = counters.page(*page);
            let (user, other) = if page % 2 == 0 { (0, 2) } else { (2, 0) };
            counts[user] > counts[other] && counts[1] + counts[3] == 0
        })
        .count();
    assert!(right >= PAGES * 9 / 10, "{right} of {PAGES} pages have their user's majority");
}

/// One node uses the pages first after each border, another one nine times as often.
#[test]
fn the_first_user_after_a_border_is_not_taken_for_the_main_user() {
    let topology = machine!();
    // Where the host takes the emulated processor of the first user away in its sweep, that sweep
    // is as long as the nine of the other one.
    let is_right = (0..3).any(|_| {
        let (windows, right) = first_users(&topology);
        println!("{windows} windows, {right} of {SHARED} right");
        windows >= 20 && right >= SHARED * 95 / 100
    });
    assert!(is_right, "the main user was never found");
}

/// Pages that two nodes share.
const SHARED: usize = 128;

/// The windows, and the pages that are taken for their main user's.
fn first_users(topology: &KernelTopology) -> (u64, usize) {
    let memory = array(SHARED, Placement::WorstCase(Node(0)), topology);
    let mut areas = Areas::new(numa::page_bytes());
    areas.add(memory.addresses().start, memory.addresses().len()).unwrap();
    let parameters =
        TrapParameters { interval: 15_000_000, windows: u64::MAX, ..TrapParameters::default() };
    let mut source = TrapSource::new(parameters);
    // SAFETY: - the array outlives the source.
    unsafe { source.attach(&areas, topology) }.unwrap();
    let begin = memory.as_ptr().expose_provenance();
    let sweep = move |sweeps: usize| {
        for _ in 0..sweeps {
            for word in (0..SHARED * WORDS).step_by(4) {
                let word = std::ptr::with_exposed_provenance::<AtomicU64>(begin + word * 8);
                // SAFETY: - a word of the array.
                unsafe { &*word }.fetch_add(1, Relaxed);
            }
        }
    };
    source.start(Scope::Iteration).unwrap();
    let start = Instant::now();
    let turn = Barrier::new(2);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (turn, is_over) = (&turn, &is_over);
        for node in [1, 2] {
            scope.spawn(move || {
                affinity::set_affinity(None, &processors(node)).unwrap();
                loop {
                    turn.wait();
                    if is_over.load(Relaxed) {
                        return;
                    }
                    // Node 1 begins each phase with one sweep, node 2 makes nine.
                    if node == 1 {
                        sweep(1);
                    }
                    turn.wait();
                    if node == 2 {
                        sweep(9);
                        is_over.store(start.elapsed() > Duration::from_secs(6), Relaxed);
                    }
                    turn.wait();
                }
            });
        }
    });
    source.stop();
    let mut counters = upm::Counters::default();
    source.snapshot(&mut counters);
    let is_right = |page: &usize| counters.page(*page)[2] > counters.page(*page)[1];
    (source.windows(), (0..SHARED).filter(is_right).count())
}

#[test]
fn phases_that_use_the_same_pages_from_other_nodes_are_replayed_and_undone() {
    let topology = machine!();
    const PAGES: usize = 40;
    let mut memory = array(PAGES, Placement::FirstTouch, &topology);
    let pattern = |page: usize| Pattern {
        base: memory.addresses().start + page * numa::page_bytes(),
        stride: 8,
        bytes: 8,
        times: 1,
    };
    let patterns: Vec<Pattern> = (0..PAGES).map(pattern).collect();
    on_node(0, || memory.fill(7));
    let parameters = Parameters { critical_pages: 30, ..Parameters::default() };
    let (mut upm, ledger) = by_loops(&topology, parameters);
    upm.watch(&memory).unwrap();
    let ((), planned) = upm.record_phases(|recorder| {
        recorder.border();
        // Phase 1: every page from node 0, the home; phase 2: from 3, the first pages most.
        patterns.iter().for_each(|pattern| ledger.ran(0, pattern, 0..WORDS));
        recorder.border();
        for (page, pattern) in patterns.iter().enumerate() {
            ledger.ran(0, pattern, 0..8);
            ledger.ran(3, pattern, 0..WORDS - page * 8);
        }
        recorder.border();
    });
    assert_eq!((planned, upm.phases().plan(0).len()), (30, 0));
    let is_on = |node: u8| {
        let home = Home::On(Node(node));
        homes(&memory, &topology).iter().filter(|one| **one == home).count()
    };
    // Two iterations are measured without; then two with.
    for (iteration, moved) in [(0, 0), (1, 0), (2, 30), (3, 30)] {
        assert_eq!(upm.replay(), 0, "phase 1 of iteration {iteration}");
        assert_eq!(upm.replay(), moved, "phase 2 of iteration {iteration}");
        assert_eq!(is_on(3), moved);
        assert_eq!(upm.undo(), moved);
        assert_eq!(is_on(0), PAGES);
    }
    // Nothing ran faster, so it turned itself off.
    assert!(upm.phases().is_off() && upm.replay() == 0);
    assert!(memory.iter().all(|word| *word == 7));
}

#[test]
fn threads_that_went_to_other_nodes_get_their_pages_after_rearming() {
    let topology = machine!();
    let mut memory = array(64, Placement::RoundRobin, &topology);
    let (mut upm, ledger) = by_loops(&topology, Parameters::default());
    upm.watch(&memory).unwrap();
    let bytes = memory.addresses();
    for node in [1, 2] {
        let mut moved = Vec::new();
        while upm.is_on() {
            upm.iteration(|| {
                on_node(node, || {
                    memory.iter_mut().for_each(|word| *word += 1);
                    ledger.touched(numa::current_node(), bytes.clone());
                });
            });
            moved.push(upm.statistics().calls.last().unwrap().migrations());
        }
        assert_eq!(moved, [if node == 1 { 48 } else { 64 }, 0]);
        assert_eq!(homes(&memory, &topology), [Home::On(Node::at(node)); 64]);
        upm.rearm();
    }
}

#[test]
fn a_program_that_does_not_know_of_it_has_its_pages_moved_to_the_threads_that_use_them() {
    let topology = machine!();
    const PAGES: usize = 1024;
    let page = numa::page_bytes();
    let pages = Pages::map(PAGES * page).unwrap();
    // Huge ones, which later kernels make of themselves, have several users.
    let _small = numa::advise(pages.addresses(), Advice::NoHugePages);
    let begin = pages.addresses().start;
    let touch = |at: usize| {
        let place = std::ptr::without_provenance_mut::<u64>(at);
        // SAFETY: - the test's memory, of which each thread has its own part.
        unsafe { place.write_volatile(place.read_volatile() + 1) };
    };
    on_node(2, || (0..PAGES).for_each(|index| touch(begin + index * page)));
    let settings = Settings { is_on: true, ..Settings::default() };
    let machine = Machine::new(settings).unwrap();
    let addresses = vec![(&raw const pages).addr()];
    let own = Own { addresses, code: machine_code(), ..Own::default() };
    let mut pilot = Pilot::new(machine, settings, own);
    // Those of the test's threads.
    pilot.set_stacks(Some((2 << 20) + (64 << 10)));
    let part = PAGES / 8 * page;
    for _ in 0..2000 {
        pilot.iteration_begins(8);
        if pilot.is_done() {
            break;
        }
        pilot.region_begins();
        on_all(|thread| {
            for _ in 0..40 {
                let own = begin + thread * part..begin + (thread + 1) * part;
                own.step_by(64).for_each(touch);
            }
        });
        pilot.region_ends();
    }
    println!("{}", pilot.report());
    assert!(pilot.is_done(), "it does not end");
    let found = mover(&topology).homes(&addresses_of(begin, PAGES));
    let right = |index: usize| Home::On(Node::at(index / (PAGES / 4)));
    let right = (0..PAGES).filter(|index| found[*index] == right(*index)).count();
    assert!(right * 20 >= PAGES * 19, "{right} of {PAGES} pages are where they are used");
}

fn machine_code() -> usize {
    machine_code as *const () as usize
}

#[test]
fn the_placement_of_a_whole_program_holds_for_what_its_threads_touch_later() {
    let topology = machine!();
    const PAGES: usize = 256;
    let page = numa::page_bytes();
    let placed = |placement: Placement| {
        let settings = Settings { placement: Some(placement), ..Settings::default() };
        let machine = Machine::new(settings).unwrap();
        // On a thread of node 1, whose policy ends with it; a thread that it starts inherits it.
        on_node(1, || {
            machine.place(placement)?;
            let pages = Pages::map(PAGES * page)?;
            // Faults of huge pages would place more at once.
            let _small = numa::advise(pages.addresses(), Advice::NoHugePages);
            let begin = pages.addresses().start;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for at in addresses_of(begin, PAGES) {
                        let place = std::ptr::without_provenance_mut::<u8>(at);
                        // SAFETY: - the test's memory.
                        unsafe { place.write_volatile(1) };
                    }
                });
            });
            let all = addresses_of(begin, PAGES);
            if let Placement::Random(seed) = placement {
                assert!(machine.scatter(&all, seed) > PAGES / 2);
            }
            let found = mover(&topology).homes(&all);
            let on = |node| found.iter().filter(|home| **home == Home::On(Node(node))).count();
            Ok::<_, platform::SysError>([0, 1, 2, 3].map(on))
        })
    };
    assert_eq!(placed(Placement::FirstTouch).unwrap(), [0, PAGES, 0, 0]);
    assert_eq!(placed(Placement::RoundRobin).unwrap(), [PAGES / 4; 4]);
    assert_eq!(placed(Placement::WorstCase(Node(3))).unwrap(), [0, 0, 0, PAGES]);
    let random = placed(Placement::Random(5)).unwrap();
    assert!(random.iter().all(|count| (40..=90).contains(count)), "{random:?}");
    let random_sum: usize = random.iter().sum();
    assert_eq!(random_sum, PAGES);
    assert!(placed(Placement::WorstCase(Node(9))).unwrap_err().is(libc::EINVAL));
}
