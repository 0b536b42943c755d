//! How much memory a queued task takes, counted by the global allocator.
#![cfg(all(feature = "tasks", not(loom)))]

use engine::sizer::Fixed;
use nanothreads::{Scope, scope};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that are allocated now.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Allocations since the program began.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// Tasks that ran with what they captured.
static RIGHT: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: - what the system's allocator promises; the count changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // ORDERING: Relaxed - one thread allocates while it is read.
        LIVE.fetch_add(layout.size(), Relaxed);
        // ORDERING: Relaxed - as above.
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: - caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // ORDERING: Relaxed - as above.
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: - caller's contract.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Queued tasks of one kind: as many as the queue holds without growing further.
const TASKS: usize = 1 << 13;
/// What a task may take beside its closure.
const BOUND: usize = 64;
/// And when the queue has just grown: a word more that is not used yet, and one of the old array,
/// which is freed later.
const GROWN: usize = BOUND + 16;

/// Bytes that each of `tasks` takes while it is queued, all together: its place, its share of the
/// slab's and the list's, and the queue's pointer.
fn bytes_for_each<'scope, F>(tasks: usize, task: F) -> f64
where
    F: FnOnce(&Scope<'scope>) + Copy + Send + 'scope,
{
    scope(|s: &Scope<'scope>| {
        let before = LIVE.load(Relaxed);
        for _ in 0..tasks {
            s.spawn(task);
        }
        let taken = LIVE.load(Relaxed) - before;
        taken as f64 / tasks as f64
    })
}

/// A closure that captures `N` bytes in a type of alignment `A`.
fn check<const N: usize, A: Copy + Send + 'static>() {
    let aligned: [A; 0] = [];
    let captured = ([7_u8; N], aligned);
    let task = move |_: &Scope<'_>| {
        let captured = black_box(&captured);
        let is_right = captured.0.iter().all(|&byte| byte == 7)
            && std::ptr::from_ref(captured).addr().is_multiple_of(align_of::<A>());
        RIGHT.fetch_add(usize::from(is_right), Relaxed);
    };
    let size = size_of_val(&task);
    let run = RIGHT.load(Relaxed);
    // In a thread of its own, which keeps no memory of the scopes before.
    let each =
        std::thread::spawn(move || bytes_for_each(TASKS, task)).join().expect("no task panics");
    assert_eq!(
        RIGHT.load(Relaxed) - run,
        TASKS,
        "each ran, with its captures where they should be"
    );
    let beside = each - size.next_multiple_of(16) as f64;
    println!("{size} bytes, aligned to {}: {each:.1}, {beside:.1} beside", align_of::<A>());
    assert!(
        beside <= BOUND as f64,
        "a queued task whose closure has {size} bytes, aligned to {}, takes {each:.1}, {beside:.1} \
         beside it",
        align_of::<A>(),
    );
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line;

/// Allocations of a scope with so many plain tasks, on a thread that has had such a scope before.
fn allocations(tasks: usize) -> usize {
    let counted = std::thread::spawn(move || {
        let run = || {
            let before = CALLS.load(Relaxed);
            scope(|s| (0..tasks).for_each(|_| s.spawn(|_| ())));
            CALLS.load(Relaxed) - before
        };
        run();
        run()
    });
    counted.join().expect("no task panics")
}

#[test]
fn a_queued_task_takes_at_most_64_bytes_more_than_its_closure() {
    assert!(nanothreads::builder().sizer(Fixed::new(1)).install().is_ok());
    check::<0, u8>();
    check::<1, u8>();
    check::<8, u64>();
    check::<16, u64>();
    check::<17, u8>();
    check::<24, u64>();
    check::<32, u64>();
    check::<33, u8>();
    check::<48, u64>();
    check::<49, u8>();
    check::<56, u64>();
    check::<64, u8>();
    check::<100, u8>();
    check::<1000, u64>();
    check::<16, u128>();
    check::<48, u128>();
    check::<0, Line>();
    check::<64, Line>();
    check::<200, Line>();
    let grown = std::thread::spawn(|| bytes_for_each(TASKS + 1, |_| ())).join();
    let grown = grown.expect("no task panics");
    println!("when the queue has just grown: {grown:.1}");
    assert!(grown <= GROWN as f64, "{grown:.1} bytes when the queue has just grown");
    let counts = [10, 200].map(allocations);
    println!("allocations of scopes with 10 and 200 plain tasks: {counts:?}");
    // A sanitizer has allocations of its own.
    if !cfg!(any(tsan, asan)) {
        assert_eq!(counts, [2, 13], "on one thread, as the documentation of `scope` says");
    }
}
