//! Pages that are placed and moved by hand.

use crate::machine::{
    TestMover, WORDS, addresses_of, array, by_loops, homes, is_planted, mover, on_node, steps,
};
use std::time::{Duration, Instant};

use platform::guard::Guards;
use platform::numa::{self, Advice, Pages, Policy, Protection};
use upm::mover::Step;
use upm::{
    Home, HotArray, KernelMover, KernelTopology, Mover, Node, Off, Outcome, Parameters, Placement,
    Refusal, Topology,
};

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
    let mut mover = mover(&topology);
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
    let mut mover = mover(&topology);
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
    let mut mover = mover(&topology);
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
    if is_planted() {
        // SAFETY: - the child above, whose end frees its pages; later calls find none.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    let mut mover = mover(&topology);
    let outcomes = mover.migrate(&steps(memory.addresses().start, 8, 0, 1));
    if !is_planted() {
        // SAFETY: - the child above.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
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
    let outcomes = KernelMover::with_calls(wrong, crate::machine::Calls).migrate(&all);
    assert_eq!(outcomes[..7], [Outcome::Refused(Refusal::NoNode); 7]);
    assert_eq!(outcomes[7], Outcome::Moved);
}

#[test]
fn a_filter_that_refuses_is_told_and_the_engine_is_off() {
    let topology = machine!();
    let mut memory = array(16, Placement::WorstCase(Node(0)), &topology);
    // The filter is of that thread alone.
    on_node(1, || {
        if !is_planted() {
            refuse_move_pages();
        }
        let (mut upm, ledger) = by_loops(&topology, Parameters::default());
        upm.watch(&memory).unwrap();
        let bytes = memory.addresses();
        upm.iteration(|| {
            memory.fill(2);
            ledger.touched(numa::current_node(), bytes.clone());
        });
        assert_eq!(
            (upm.migrations(), &upm.statistics().off),
            (0, &Some(Off::Unreadable(libc::EPERM)))
        );
        let mut mover = mover(&topology);
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

/// Linux 6.1 finds no page of inaccessible memory; 6.18 does, and moves it.
#[test]
fn armed_memory_is_found_and_moved_or_neither_and_all_of_it_when_it_is_disarmed() {
    let topology = machine!();
    let mut memory = array(8, Placement::FirstTouch, &topology);
    on_node(0, || memory.fill(1));
    let bytes = memory.addresses();
    // SAFETY: - the test's memory, which nothing accesses now.
    unsafe { numa::protect(bytes.clone(), Protection::None) }.unwrap();
    let mut mover = mover(&topology);
    let armed = (mover.homes(&[bytes.start]), mover.migrate(&steps(bytes.start, 1, 0, 1)));
    // SAFETY: - as above.
    unsafe { numa::protect(bytes.clone(), Protection::ReadWrite) }.unwrap();
    println!("while armed: {armed:?}");
    let neither = (vec![Home::Untouched], vec![Outcome::Refused(Refusal::Untouched)]);
    let both = (vec![Home::On(Node(0))], vec![Outcome::Moved]);
    assert!(armed == neither || armed == both);
    assert_eq!(mover.migrate(&steps(bytes.start, 8, 0, 1)), [Outcome::Moved; 8]);
    assert_eq!(homes(&memory, &topology), [Home::On(Node(1)); 8]);
    assert!(memory.iter().all(|word| *word == 1));
}

#[test]
fn a_guarded_page_cannot_be_found_or_moved_and_comes_back_where_it_was() {
    let topology = machine!();
    let guards = match Guards::probe() {
        Ok(guards) => guards,
        Err(error) => return platform::skip!("no guards on shared memory here: {error}"),
    };
    let mut memory = HotArray::<u64>::shared(8 * WORDS, Placement::FirstTouch, &topology).unwrap();
    for (node, part) in memory.chunks_mut(2 * WORDS).enumerate() {
        on_node(node, || part.iter_mut().zip(0..).for_each(|(word, at)| *word = at));
    }
    let right: Vec<Home> = (0..8).map(|page| Home::On(Node::at(page / 2))).collect();
    assert_eq!(homes(&memory, &topology), right);
    let bytes = memory.addresses();
    let mut mover = mover(&topology);
    // The first page of each node.
    let each = addresses_of(bytes.start, 8).into_iter().step_by(2);
    let guarded: Vec<_> = each.map(|begin| begin..begin + numa::page_bytes()).collect();
    for page in &guarded {
        // SAFETY: - the test's memory, which nothing accesses before the guards are gone.
        unsafe { guards.install(page) }.unwrap();
    }
    let found = homes(&memory, &topology);
    let outcome = mover.migrate(&steps(bytes.start, 1, 0, 1));
    guards.remove(&bytes).unwrap();
    for (page, (found, right)) in found.into_iter().zip(&right).enumerate() {
        let expected = if page % 2 == 0 { Home::Untouched } else { *right };
        assert_eq!(found, expected, "page {page} while guarded");
    }
    assert_eq!(outcome, [Outcome::Refused(Refusal::Untouched)]);
    // Another node reads: that places nothing anew.
    let is_kept = || memory.chunks(2 * WORDS).all(|part| part.iter().copied().eq(0..1024));
    assert!(on_node(3, is_kept), "the guards lost what the pages held");
    assert_eq!(homes(&memory, &topology), right);
    assert_eq!(mover.migrate(&steps(bytes.start, 2, 0, 1)), [Outcome::Moved; 2]);
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
    let (mut upm, ledger) = by_loops(&topology, Parameters::default());
    // SAFETY: - mapped until the test's end.
    let area = unsafe { upm.watch_raw(begin, bytes.len()) }.unwrap();
    assert_eq!(upm.migrator().areas().spans()[area.0].unit(), 512);
    // Nodes 1 and 2 share the first huge page, 1 with more; 3 has the other.
    upm.iteration(|| {
        ledger.touched(1, begin..begin + HUGE / 4 * 3);
        ledger.touched(2, begin + HUGE / 4 * 3..begin + HUGE);
        ledger.touched(3, begin + HUGE..bytes.end);
    });
    let homes = mover(&topology).homes(&addresses_of(begin, 1024));
    assert_eq!(homes[..512], vec![Home::On(Node(1)); 512]);
    assert_eq!(homes[512..], vec![Home::On(Node(3)); 512]);
    let call = &upm.statistics().calls[0];
    assert_eq!((call.moved, call.refusals()), (1024, 0));
    assert!(numa::huge_bytes(bytes.clone()).unwrap() >= bytes.len(), "they were split");
}

/// Switches the kernel's balancing on, and off at the end; `None`, with a reason, where it may not.
struct Balancing;

impl Balancing {
    const SWITCH: &str = "/proc/sys/kernel/numa_balancing";

    fn on() -> Option<Self> {
        if let Err(error) = std::fs::write(Self::SWITCH, "1") {
            let is_required = std::env::var_os("NANOS_NUMA_REQUIRED").is_some();
            assert!(!is_required, "{}: {error}", Self::SWITCH);
            platform::skip!("{}: {error}", Self::SWITCH);
            return None;
        }
        Some(Self)
    }
}

impl Drop for Balancing {
    fn drop(&mut self) {
        let _panics_already = std::fs::write(Self::SWITCH, "0");
    }
}

/// Pages of each memory.
const BALANCED: usize = 1024;

/// Fresh memory on node 2, without a policy.
fn plain_on_two() -> Pages {
    let plain = Pages::map(BALANCED * numa::page_bytes()).unwrap();
    let _small = numa::advise(plain.addresses(), Advice::NoHugePages);
    // Not by `on_node`: where the threads are is not what is planted here.
    numa::bind(plain.addresses(), Policy::Preferred, &[2]).unwrap();
    numa::advise(plain.addresses(), Advice::Populate).unwrap();
    numa::bind(plain.addresses(), Policy::Default, &[]).unwrap();
    plain
}

fn left_on_two(mover: &mut TestMover, begin: usize) -> usize {
    let homes = mover.homes(&addresses_of(begin, BALANCED));
    homes.iter().filter(|home| **home == Home::On(Node(2))).count()
}

/// Uses some memory and a plain one from node 0 until the kernel has moved most of the plain one
/// away from node 2; how many pages of the first one are there still.
fn left_by_balancing(topology: &KernelTopology, begin: usize, plain: &Pages) -> Option<usize> {
    let balancing = Balancing::on()?;
    let mut mover = mover(topology);
    let other = plain.addresses().start;
    assert_eq!([begin, other].map(|begin| left_on_two(&mut mover, begin)), [BALANCED; 2]);
    let left = on_node(0, || {
        let start = Instant::now();
        let mut mover = crate::machine::mover(topology);
        loop {
            for _ in 0..200 {
                for address in [begin, other].into_iter().flat_map(|at| addresses_of(at, BALANCED))
                {
                    // SAFETY: - the test's memory, which no other thread uses.
                    unsafe {
                        std::ptr::without_provenance_mut::<u64>(address).write_volatile(1);
                    }
                }
            }
            let left = left_on_two(&mut mover, other);
            if left < BALANCED / 2 || start.elapsed() > Duration::from_secs(40) {
                break left;
            }
        }
    });
    drop(balancing);
    // Or nothing was shown.
    assert!(left < BALANCED / 2, "balancing moved none of {left} plain pages");
    Some(left_on_two(&mut mover, begin))
}

#[test]
fn the_kernels_balancing_leaves_hot_arrays_alone() {
    let topology = machine!();
    let hot = array(BALANCED, Placement::WorstCase(Node(2)), &topology);
    if is_planted() {
        numa::bind(hot.addresses(), Policy::Default, &[]).unwrap();
    }
    let left = left_by_balancing(&topology, hot.addresses().start, &plain_on_two());
    assert!(left.is_none_or(|left| left == BALANCED), "{left:?} of {BALANCED} pages stayed");
}

#[test]
fn the_kernels_balancing_leaves_areas_alone_that_a_program_names() {
    let topology = machine!();
    let (named, plain) = (plain_on_two(), plain_on_two());
    let begin = named.addresses().start;
    let (mut upm, _) = by_loops(&topology, Parameters::default());
    if !is_planted() {
        // SAFETY: - mapped until the test's end.
        unsafe { upm.watch_raw(begin, named.addresses().len()) }.unwrap();
    }
    let left = left_by_balancing(&topology, begin, &plain);
    assert!(left.is_none_or(|left| left == BALANCED), "{left:?} of {BALANCED} pages stayed");
}

#[test]
fn an_area_without_a_policy_has_one_while_it_is_watched_and_that_is_counted() {
    let topology = machine!();
    let (named, other) = (plain_on_two(), plain_on_two());
    let (begin, length) = (named.addresses().start, named.addresses().len());
    let of = |address| numa::has_policy(Some(address)).unwrap();
    numa::bind(other.addresses(), Policy::Preferred, &[1]).unwrap();
    let (mut upm, _) = by_loops(&topology, Parameters::default());
    if is_planted() {
        numa::bind(named.addresses(), Policy::Preferred, &[1]).unwrap();
    }
    // SAFETY: - mapped until the test's end.
    unsafe {
        upm.watch_raw(begin, length / 2).unwrap();
        upm.watch_raw(other.addresses().start, length).unwrap();
    }
    assert_eq!((upm.statistics().kept, upm.statistics().exposed), (BALANCED / 2, 0));
    assert!(upm.statistics().to_string().contains("512 pages were given a policy"));
    assert_eq!((of(begin), of(begin + length / 2)), (true, false));
    drop(upm);
    assert_eq!((of(begin), of(other.addresses().start)), (false, true));
    // A policy of the thread says where untouched pages come: it holds on.
    on_node(1, || {
        numa::set_thread_policy(Policy::Interleave, &[0, 1, 2, 3]).unwrap();
        let (mut upm, _) = by_loops(&topology, Parameters::default());
        // SAFETY: - as above.
        unsafe { upm.watch_raw(begin, length) }.unwrap();
        assert_eq!((upm.statistics().kept, of(begin)), (0, false));
    });
}
