//! Closures of tasks of all sizes and alignments, however they end: dropped once, their memory
//! given back as it was taken.
#![cfg(all(feature = "tasks", not(loom)))]

use engine::sizer::Fixed;
use nanothreads::{Completion, Scope, scope};
use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::{process, thread};

/// Ends the process when memory is given back with another layout than it was taken with, and
/// overwrites it.
struct Checking;

/// What stands before each allocation.
type Taken = Layout;

/// The layout of an allocation with its header, and where it begins after that.
fn with_header(layout: Layout) -> (Layout, usize) {
    let begin = size_of::<Taken>().next_multiple_of(layout.align());
    let align = layout.align().max(align_of::<Taken>());
    let whole = Layout::from_size_align(begin + layout.size(), align);
    (whole.unwrap_or_else(|_| handle_alloc_error(layout)), begin)
}

// SAFETY: - memory of the system's allocator, with room for the header.
unsafe impl GlobalAlloc for Checking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (whole, begin) = with_header(layout);
        // SAFETY: - the header has a size.
        let memory = unsafe { System.alloc(whole) };
        if memory.is_null() {
            return memory;
        }
        // SAFETY: - inside the allocation.
        let place = unsafe { memory.add(begin) };
        // SAFETY: - the header is before the place, which is aligned for it.
        unsafe { place.cast::<Taken>().sub(1).write(layout) };
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: - written by `alloc`.
        if unsafe { place.cast::<Taken>().sub(1).read() } != layout {
            process::abort();
        }
        // SAFETY: - caller's contract: nothing uses it any more.
        unsafe { ptr::write_bytes(place, 0xdd, layout.size()) };
        let (whole, begin) = with_header(layout);
        // SAFETY: - taken like this.
        unsafe { System.dealloc(place.sub(begin), whole) };
    }
}

#[global_allocator]
static CHECKING: Checking = Checking;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static RUN: AtomicUsize = AtomicUsize::new(0);

/// What closures capture: dropped as often as made, and unharmed. With `FAILS` its destructor
/// panics.
struct Captured<const N: usize, A, const FAILS: bool> {
    bytes: [u8; N],
    aligned: [A; 0],
}

impl<const N: usize, A, const FAILS: bool> Captured<N, A, FAILS> {
    fn new() -> Self {
        // ORDERING: Relaxed - read when the tasks are done.
        LIVE.fetch_add(1, Relaxed);
        Self { bytes: [7; N], aligned: [] }
    }

    fn is_right(&self) -> bool {
        let bytes = black_box(&self.bytes);
        bytes.iter().all(|&byte| byte == 7) && black_box(self.aligned.as_ptr()).is_aligned()
    }
}

impl<const N: usize, A, const FAILS: bool> Drop for Captured<N, A, FAILS> {
    fn drop(&mut self) {
        // ORDERING: Relaxed - as above.
        LIVE.fetch_sub(1, Relaxed);
        assert!(self.is_right());
        if FAILS {
            panic_any("dropped");
        }
    }
}

/// Tasks of one kind: more than a free list keeps.
const TASKS: usize = 300;

/// A closure that captures `N` bytes, aligned as an `A`.
fn task<const N: usize, A: Send, const FAILS: bool>() -> impl FnOnce(&Scope<'static>) + Send {
    let captured = Captured::<N, A, FAILS>::new();
    move |_| {
        assert!(captured.is_right());
        // ORDERING: Relaxed - as above.
        RUN.fetch_add(1, Relaxed);
    }
}

/// Runs a scope; how many tasks ran in it, and whether one of them panicked.
fn run(body: impl FnOnce(&Scope<'static>)) -> (usize, bool) {
    let before = RUN.load(Relaxed);
    let result = catch_unwind(AssertUnwindSafe(|| scope(body)));
    assert_eq!(LIVE.load(Relaxed), 0, "what was captured is dropped");
    (RUN.load(Relaxed) - before, result.is_err())
}

/// Spawned by a handle, with a name, and from another thread; run, and cancelled.
fn check_kinds<const N: usize, A: Send + 'static, const FAILS: bool>() {
    let plain = |s: &Scope<'static>| (0..TASKS).for_each(|_| s.spawn(task::<N, A, FAILS>()));
    let named = |s: &Scope<'static>| {
        (0..TASKS).for_each(|_| drop(s.task().name("named").spawn(task::<N, A, FAILS>())));
    };
    let outside = |s: &Scope<'static>| {
        let spawner = s.spawner();
        let spawn = move || (0..TASKS).for_each(|_| spawner.spawn(task::<N, A, FAILS>()));
        thread::spawn(spawn).join().expect("spawning does not panic");
    };
    for spawn in [&plain as &dyn Fn(&Scope<'static>), &named, &outside] {
        assert_eq!(run(spawn), (TASKS, FAILS));
        let cancelled = |s: &Scope<'static>| {
            s.cancel();
            spawn(s);
        };
        assert_eq!(run(cancelled), (0, FAILS));
    }
}

/// Finished by a thread that is no member.
fn check_completions<const N: usize, A: Send + 'static>() {
    let (events, outside) = mpsc::channel::<Completion>();
    let outside = thread::spawn(move || outside.into_iter().for_each(Completion::complete));
    let spawn = |s: &Scope<'static>| {
        for _ in 0..TASKS {
            let (events, task) = (events.clone(), task::<N, A, false>());
            s.spawn(move |s| {
                events.send(s.completion()).expect("the other thread takes all");
                task(s);
            });
        }
    };
    assert_eq!(run(spawn), (TASKS, false));
    drop(events);
    outside.join().expect("completions do not panic");
}

fn check<const N: usize, A: Send + 'static>() {
    check_kinds::<N, A, false>();
    check_kinds::<N, A, true>();
    check_completions::<N, A>();
}

/// Captures of a third of the stack: there is one copy of them there at a time, and what the
/// closure itself moves.
fn check_large() {
    let spawn = || run(|s| (0..3).for_each(|_| s.spawn(task::<360_000, u8, false>())));
    let thread = thread::Builder::new().stack_size(64 << 20).spawn(spawn);
    let thread = thread.expect("a thread can be started");
    assert_eq!(thread.join().expect("no task panics"), (3, false));
}

#[repr(align(64))]
struct Line;

#[test]
fn closures_of_all_sizes_are_dropped_once_and_their_memory_given_back_as_it_was_taken() {
    assert!(nanothreads::builder().sizer(Fixed::new(2)).install().is_ok());
    std::panic::set_hook(Box::new(|_| ()));
    check::<0, u8>();
    check::<7, u64>();
    check::<15, u8>();
    check::<16, u8>();
    check::<23, u64>();
    check::<40, u64>();
    check::<47, u8>();
    check::<48, u8>();
    check::<500, u64>();
    check::<0, u128>();
    check::<40, u128>();
    check::<0, Line>();
    check::<200, Line>();
    check_large();
}
