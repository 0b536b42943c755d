//! What only a machine with several nodes can show: `cargo xtask vm numa` runs it on four emulated
//! ones. Elsewhere each test says that it is skipped; with `NANOS_NUMA_REQUIRED` that is a failure.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use platform::affinity::{self, CpuSet};
use platform::numa::{self, Access, Advice, Pages, Policy};
use upm::maps::Own;
use upm::mover::Step;
use upm::source::{LoopSchedule, Pattern, Scope, TrapParameters, TrapSource};
use upm::{
    Areas, CounterSource, Home, HotArray, KernelMover, KernelTopology, Machine, Mover, Node, Off,
    Outcome, Parameters, Pilot, Placement, Refusal, Settings, Topology, Upm,
};

/// 8-byte elements of a page.
const WORDS: usize = 512;

/// The machine, if it has four nodes with processors.
fn machine() -> Option<KernelTopology> {
    let topology = KernelTopology::read().unwrap();
    let processors = platform::topology::Topology::read().unwrap();
    if topology.homes() >= 4 && processors.nodes() >= 4 {
        return Some(topology);
    }
    assert!(std::env::var_os("NANOS_NUMA_REQUIRED").is_none(), "this machine has no four nodes");
    platform::skip!("this machine has {} nodes with memory", topology.homes());
    None
}

macro_rules! machine {
    () => {
        match machine() {
            Some(topology) => topology,
            None => return,
        }
    };
}

/// The processors of a node.
fn processors(node: usize) -> CpuSet {
    platform::topology::Topology::read().unwrap().node_cpus(u32::try_from(node).unwrap())
}

/// Runs the work on a thread of the node.
fn on_node<R: Send>(node: usize, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            affinity::set_affinity(None, &processors(node)).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// Runs the work on two threads of each node at once, numbered from 0.
fn on_all(work: impl Fn(usize) + Sync) {
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

fn addresses_of(begin: usize, pages: usize) -> Vec<usize> {
    (0..pages).map(|page| begin + page * numa::page_bytes()).collect()
}

/// The nodes of the pages of an array.
fn homes<T: upm::Plain>(array: &HotArray<T>, topology: &KernelTopology) -> Vec<Home> {
    let begin = array.addresses().start;
    let pages = array.addresses().len().div_ceil(numa::page_bytes());
    KernelMover::new(topology.clone()).homes(&addresses_of(begin, pages))
}

fn array(pages: usize, placement: Placement, topology: &KernelTopology) -> HotArray<u64> {
    let mut array = HotArray::zeroed(pages * WORDS, placement, topology).unwrap();
    if placement != Placement::FirstTouch {
        on_node(2, || array.iter_mut().step_by(WORDS).for_each(|word| *word = 1));
    }
    array
}

fn steps(begin: usize, pages: usize, from: u8, to: u8) -> Vec<Step> {
    let step = |address| Step { address, from: Node(from), to: Node(to) };
    addresses_of(begin, pages).into_iter().map(step).collect()
}

/// In the guest a fault takes 40 us, and eight threads share few processors.
fn slow() -> TrapParameters {
    TrapParameters { interval: 20_000_000, windows: 2000, ..TrapParameters::default() }
}

fn with(topology: &KernelTopology, source: TrapSource) -> Upm<'static> {
    let mover = KernelMover::new(topology.clone());
    let source = Box::new(source);
    Upm::with(topology.clone(), mover, source, Parameters::default())
}

#[test]
fn nodes_and_distances_are_those_of_the_machine() {
    let topology = machine!();
    assert_eq!((topology.nodes(), topology.homes()), (4, 4));
    let row: Vec<_> = (0..4).map(|to| topology.distance(Node(0), Node(to))).collect();
    assert_eq!(row, [Some(10), Some(16), Some(22), Some(16)]);
    assert_eq!(topology.by_distance(Node(3)), [3, 0, 2, 1].map(Node));
    for node in 0..4 {
        assert_eq!(on_node(node, numa::current_node), u32::try_from(node).unwrap());
    }
}

#[test]
fn each_scheme_places_pages_as_it_says() {
    let topology = machine!();
    let round = homes(&array(256, Placement::RoundRobin, &topology), &topology);
    for node in 0..4 {
        assert_eq!(round.iter().filter(|home| **home == Home::On(Node(node))).count(), 64);
    }
    let worst = homes(&array(256, Placement::WorstCase(Node(3)), &topology), &topology);
    assert_eq!(worst, vec![Home::On(Node(3)); 256]);
    let random = array(256, Placement::Random(5), &topology);
    let nodes = [0, 1, 2, 3].map(Node);
    let wanted = upm::placement::random_nodes(256, &nodes, 5);
    let wanted: Vec<Home> = wanted.into_iter().map(Home::On).collect();
    assert_eq!((homes(&random, &topology), random.placed().right), (wanted, 256));
    let mut first = array(256, Placement::FirstTouch, &topology);
    assert_eq!(homes(&first, &topology), vec![Home::Untouched; 256]);
    for (node, part) in first.chunks_mut(64 * WORDS).enumerate() {
        on_node(node, || part.fill(1));
    }
    let right: Vec<Home> = (0..256).map(|page| Home::On(Node::at(page / 64))).collect();
    assert_eq!(homes(&first, &topology), right);
}

#[test]
fn moved_pages_keep_what_they_hold_and_untouched_ones_are_told() {
    let topology = machine!();
    let mut memory = array(1200, Placement::FirstTouch, &topology);
    on_node(0, || memory[..1000 * WORDS].iter_mut().zip(0..).for_each(|(word, at)| *word = at));
    let mut mover = KernelMover::new(topology.clone());
    let outcomes = mover.migrate(&steps(memory.addresses().start, 1200, 0, 2));
    assert_eq!(outcomes[..1000], vec![Outcome::Moved; 1000]);
    assert_eq!(outcomes[1000..], vec![Outcome::Refused(Refusal::Untouched); 200]);
    assert_eq!(homes(&memory, &topology)[..1000], vec![Home::On(Node(2)); 1000]);
    assert!(memory[..1000 * WORDS].iter().zip(0..).all(|(word, at)| *word == at));
}

#[test]
fn pages_of_a_full_node_go_to_the_next_nearest() {
    let topology = machine!();
    // More than a node has, from two others, which have it.
    let pages = 150_000;
    let memory = Pages::map(pages * numa::page_bytes()).unwrap();
    let begin = memory.addresses().start;
    let _small = numa::advise(memory.addresses(), Advice::NoHugePages);
    let half = begin + pages / 2 * numa::page_bytes();
    for (addresses, node) in [(begin..half, 2), (half..memory.addresses().end, 1)] {
        numa::bind(addresses.clone(), Policy::Preferred, &[node]).unwrap();
        numa::advise(addresses, Advice::Populate).unwrap();
    }
    let mut mover = KernelMover::new(topology.clone());
    let before = mover.homes(&addresses_of(begin, pages));
    // 1 is farther from 3 than 0 and 2 are.
    let there = before.iter().filter(|home| **home == Home::On(Node(1))).count();
    assert!(there > pages / 3, "{there} of {pages} pages on node 1");
    let all: Vec<Step> = addresses_of(begin, pages)
        .into_iter()
        .zip(&before)
        .filter_map(|(address, home)| match home {
            Home::On(from) if *from != Node(3) => Some(Step { address, from: *from, to: Node(3) }),
            _ => None,
        })
        .collect();
    let outcomes = mover.migrate(&all);
    let count =
        |wanted: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|one| wanted(one)).count();
    let moved = count(&|outcome| *outcome == Outcome::Moved);
    let elsewhere = count(&|outcome| matches!(outcome, Outcome::Elsewhere(_)));
    let full = count(&|outcome| *outcome == Outcome::Refused(Refusal::NodeFull));
    println!("{} pages: {moved} moved, {elsewhere} elsewhere, {full} stayed", all.len());
    assert!(moved > 50_000 && elsewhere > 1000);
    assert_eq!(moved + elsewhere + full, all.len(), "no other outcome");
    let addresses: Vec<usize> = all.iter().map(|step| step.address).collect();
    for ((step, outcome), home) in all.iter().zip(&outcomes).zip(mover.homes(&addresses)) {
        let right = match outcome {
            Outcome::Moved => Node(3),
            Outcome::Elsewhere(node) => *node,
            Outcome::Refused(_) => step.from,
        };
        assert_eq!(home, Home::On(right));
    }
}

#[test]
fn a_pinned_page_is_refused_and_the_others_move() {
    let topology = machine!();
    let mut memory = array(32, Placement::FirstTouch, &topology);
    on_node(0, || memory.fill(1));
    let mut ends = [0; 2];
    // SAFETY: - room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // A pipe holds four pages.
    let pinned =
        libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: 4 * numa::page_bytes() };
    // SAFETY: - the pages are not written to while the pipe has them.
    let length = unsafe { libc::vmsplice(ends[1], &pinned, 1, 0) };
    assert_eq!(usize::try_from(length), Ok(4 * numa::page_bytes()));
    let mut mover = KernelMover::new(topology.clone());
    let outcomes = mover.migrate(&steps(memory.addresses().start, 32, 0, 1));
    assert_eq!(outcomes[..4], [Outcome::Refused(Refusal::Busy); 4]);
    assert_eq!(outcomes[4..], [Outcome::Moved; 28]);
    for end in ends {
        // SAFETY: - the test's descriptors.
        unsafe { libc::close(end) };
    }
    let outcomes = mover.migrate(&steps(memory.addresses().start, 4, 0, 1));
    assert_eq!(outcomes, [Outcome::Moved; 4], "free again");
}

#[test]
fn pages_that_a_child_has_too_are_refused_as_shared() {
    let topology = machine!();
    let mut memory = array(8, Placement::FirstTouch, &topology);
    on_node(0, || memory.fill(1));
    // SAFETY: - the child only waits for its end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: - waits for a signal.
            unsafe { libc::pause() };
        }
    }
    let mut mover = KernelMover::new(topology);
    let outcomes = mover.migrate(&steps(memory.addresses().start, 8, 0, 1));
    // SAFETY: - the child above.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(outcomes, [Outcome::Refused(Refusal::Shared); 8]);
}

#[test]
fn an_absent_node_is_refused() {
    let topology = machine!();
    let mut memory = array(8, Placement::FirstTouch, &topology);
    on_node(0, || memory.fill(1));
    // A machine of which we believe that it has five nodes.
    let wrong = upm::TableTopology::new(5, &[]).unwrap();
    let mut all = steps(memory.addresses().start, 8, 0, 4);
    all[7].to = Node(1);
    let outcomes = KernelMover::new(wrong).migrate(&all);
    assert_eq!(outcomes[..7], [Outcome::Refused(Refusal::NoNode); 7]);
    assert_eq!(outcomes[7], Outcome::Moved);
}

#[test]
fn a_filter_that_refuses_is_told_and_the_engine_is_off() {
    let topology = machine!();
    let mut memory = array(16, Placement::WorstCase(Node(0)), &topology);
    // The filter is of that thread alone.
    on_node(1, || {
        refuse_move_pages();
        let source = LoopSchedule::new();
        let ledger = source.ledger();
        let mover = KernelMover::new(topology.clone());
        let mut upm = Upm::with(topology.clone(), mover, Box::new(source), Parameters::default());
        upm.watch(&memory).unwrap();
        let bytes = memory.addresses();
        upm.iteration(|| {
            memory.fill(2);
            ledger.touched(numa::current_node(), bytes.clone());
        });
        assert_eq!((upm.migrations(), &upm.statistics().off), (0, &Some(Off::Unreadable)));
        let mut mover = KernelMover::new(topology.clone());
        let outcomes = mover.migrate(&steps(bytes.start, 16, 0, 1));
        assert_eq!(outcomes, [Outcome::Refused(Refusal::Forbidden); 16]);
    });
    assert_eq!(homes(&memory, &topology), [Home::On(Node(0)); 16]);
    assert!(memory.iter().all(|word| *word == 2));
}

/// Has the calling thread's `move_pages` fail with EPERM.
fn refuse_move_pages() {
    let number = u32::try_from(libc::SYS_move_pages).unwrap();
    let statement =
        |code: u32, jt, jf, k| libc::sock_filter { code: u16::try_from(code).unwrap(), jt, jf, k };
    let mut filter = [
        // The number of the call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        statement(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap(),
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program =
        libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };
    // SAFETY: - the thread gives up a right; the program outlives the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[test]
fn armed_memory_cannot_be_found_or_moved_until_it_is_disarmed() {
    let topology = machine!();
    let mut memory = array(8, Placement::FirstTouch, &topology);
    on_node(0, || memory.fill(1));
    let bytes = memory.addresses();
    // SAFETY: - the test's memory, which nothing accesses now.
    unsafe { numa::protect(bytes.clone(), Access::None) }.unwrap();
    let mut mover = KernelMover::new(topology.clone());
    let armed = (mover.homes(&[bytes.start]), mover.migrate(&steps(bytes.start, 1, 0, 1)));
    // SAFETY: - as above.
    unsafe { numa::protect(bytes.clone(), Access::ReadWrite) }.unwrap();
    assert_eq!(armed, (vec![Home::Untouched], vec![Outcome::Refused(Refusal::Untouched)]));
    assert_eq!(mover.migrate(&steps(bytes.start, 8, 0, 1)), [Outcome::Moved; 8]);
}

#[test]
fn huge_pages_are_decided_and_moved_as_a_whole() {
    let topology = machine!();
    const HUGE: usize = 2 << 20;
    let memory = Pages::map(4 * HUGE).unwrap();
    let begin = memory.addresses().start.next_multiple_of(HUGE);
    let bytes = begin..begin + 2 * HUGE;
    numa::advise(bytes.clone(), Advice::HugePages).unwrap();
    on_node(0, || numa::advise(bytes.clone(), Advice::Populate)).unwrap();
    assert!(numa::huge_bytes(bytes.clone()).unwrap() >= bytes.len(), "no huge pages were made");
    let source = LoopSchedule::new();
    let ledger = source.ledger();
    let mover = KernelMover::new(topology.clone());
    let mut upm = Upm::with(topology.clone(), mover, Box::new(source), Parameters::default());
    // SAFETY: - mapped until the test's end.
    let area = unsafe { upm.watch_raw(begin, bytes.len()) }.unwrap();
    assert_eq!(upm.migrator().areas().spans()[area.0].unit(), 512);
    // Nodes 1 and 2 share the first huge page, 1 with more; 3 has the other.
    upm.iteration(|| {
        ledger.touched(1, begin..begin + HUGE / 4 * 3);
        ledger.touched(2, begin + HUGE / 4 * 3..begin + HUGE);
        ledger.touched(3, begin + HUGE..bytes.end);
    });
    let homes = KernelMover::new(topology).homes(&addresses_of(begin, 1024));
    assert_eq!(homes[..512], vec![Home::On(Node(1)); 512]);
    assert_eq!(homes[512..], vec![Home::On(Node(3)); 512]);
    let call = &upm.statistics().calls[0];
    assert_eq!((call.moved, call.refusals()), (1024, 0));
    assert!(numa::huge_bytes(bytes.clone()).unwrap() >= bytes.len(), "they were split");
}

#[test]
fn the_kernels_balancing_leaves_hot_arrays_alone() {
    let topology = machine!();
    const SWITCH: &str = "/proc/sys/kernel/numa_balancing";
    let set = |value: &str| std::fs::write(SWITCH, value);
    if let Err(error) = set("1") {
        assert!(std::env::var_os("NANOS_NUMA_REQUIRED").is_none(), "{SWITCH}: {error}");
        return platform::skip!("{SWITCH}: {error}");
    }
    const PAGES: usize = 1024;
    let mut hot = array(PAGES, Placement::WorstCase(Node(2)), &topology);
    // The same without a policy of its own: balancing moves it, or nothing was shown.
    let plain = Pages::map(PAGES * numa::page_bytes()).unwrap();
    let _small = numa::advise(plain.addresses(), Advice::NoHugePages);
    on_node(2, || numa::advise(plain.addresses(), Advice::Populate)).unwrap();
    let on_two = |mover: &mut KernelMover<KernelTopology>, begin| {
        let homes = mover.homes(&addresses_of(begin, PAGES));
        homes.iter().filter(|home| **home == Home::On(Node(2))).count()
    };
    let mut mover = KernelMover::new(topology.clone());
    assert_eq!(on_two(&mut mover, plain.addresses().start), PAGES);
    let begin = plain.first().as_ptr().expose_provenance();
    let left = on_node(0, || {
        let start = Instant::now();
        let mut mover = KernelMover::new(topology.clone());
        loop {
            for _ in 0..200 {
                hot.iter_mut().step_by(WORDS).for_each(|word| *word += 1);
                for address in addresses_of(begin, PAGES) {
                    // SAFETY: - the test's memory, which no other thread uses.
                    unsafe {
                        std::ptr::with_exposed_provenance_mut::<u64>(address).write_volatile(1);
                    }
                }
            }
            let left = on_two(&mut mover, begin);
            if left < PAGES / 2 || start.elapsed() > Duration::from_secs(40) {
                break left;
            }
        }
    });
    set("0").unwrap();
    assert!(left < PAGES / 2, "balancing moved none of {left} plain pages: nothing is shown");
    assert_eq!(on_two(&mut mover, hot.addresses().start), PAGES);
}

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
    let worst = Placement::WorstCase(Node(1));
    let mut memory = HotArray::shared(SLICES * WORDS, worst, &topology).unwrap();
    on_node(2, || memory.fill(1));
    repair(&topology, memory, with(&topology, source));
}

/// Pages: a slice of 32 for each of eight threads.
const SLICES: usize = 8 * 32;

fn repair(topology: &KernelTopology, mut memory: HotArray<u64>, mut upm: Upm<'_>) {
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
    const PAGES: usize = 128;
    let memory = array(PAGES, Placement::WorstCase(Node(0)), &topology);
    let mut areas = Areas::new(numa::page_bytes());
    areas.add(memory.addresses().start, memory.addresses().len()).unwrap();
    let parameters =
        TrapParameters { interval: 15_000_000, windows: u64::MAX, ..TrapParameters::default() };
    let mut source = TrapSource::new(parameters);
    // SAFETY: - the array outlives the source.
    unsafe { source.attach(&areas, &topology) }.unwrap();
    let begin = memory.as_ptr().expose_provenance();
    let sweep = move |sweeps: usize| {
        for _ in 0..sweeps {
            for word in (0..PAGES * WORDS).step_by(4) {
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
    let right = (0..PAGES).filter(|page| counters.page(*page)[2] > counters.page(*page)[1]).count();
    println!("{} windows, {right} of {PAGES} right", source.windows());
    assert!(source.windows() >= 20 && right >= PAGES * 95 / 100);
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
    let source = LoopSchedule::new();
    let ledger = source.ledger();
    let mover = KernelMover::new(topology.clone());
    let parameters = Parameters { critical_pages: 30, ..Parameters::default() };
    let mut upm = Upm::with(topology.clone(), mover, Box::new(source), parameters);
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
    let source = LoopSchedule::new();
    let ledger = source.ledger();
    let mover = KernelMover::new(topology.clone());
    let mut upm = Upm::with(topology.clone(), mover, Box::new(source), Parameters::default());
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
    let found = KernelMover::new(topology).homes(&addresses_of(begin, PAGES));
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
            let found = KernelMover::new(topology.clone()).homes(&all);
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
