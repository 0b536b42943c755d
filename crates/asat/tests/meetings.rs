//! The timed barrier on the engine's workers: what it finds, and what it does not do.

mod support;

use asat::{Meeting, Plan};
use engine::{Config, Member, Team, Waiting};
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::is_own_process;

/// Counts what the threads of a test allocate.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: - hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(usize::from(COUNTS.get()), Relaxed);
        // SAFETY: - caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: - caller's contract.
        unsafe { System.dealloc(place, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BARRIER: Plan =
    Plan { bad_time: Duration::from_millis(1), watch: Duration::ZERO, early_stop: false };
const WATCH: Plan = Plan { watch: Duration::from_millis(9), early_stop: true, ..BARRIER };

/// Meetings of each kind, of which one at least has to do without memory.
const TRIES: usize = 20;

/// Kernel threads of the process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("the kernel lists them").count()
}

/// Tests of one process: each holds its meetings alone.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Settings with which waiting threads stay awake.
fn active() -> Config {
    let mut config = Config::default();
    config.waiting = Waiting::Active;
    config
}

#[test]
fn a_test_makes_no_thread_and_allocates_nothing() {
    // Until the process below has ended, too.
    let _alone = ALONE.lock();
    // The threads of other tests begin and end here.
    if !is_own_process("a_test_makes_no_thread_and_allocates_nothing", &[]) {
        return;
    }
    // The worker stays awake: to wake one, the engine looks at its mask, which is memory.
    assert!(engine::configure(active()));
    if engine::processors() < 2 {
        return platform::skip!("one processor: the worker sleeps where it waits");
    }
    let mut meeting = Meeting::default();
    meeting.make_room(2);
    // The first region makes the workers; the first meeting, what the engine keeps of a team.
    // SAFETY: - takes no data, and does not unwind.
    unsafe { Team::reserve(2).run(nothing, std::ptr::null()) };
    assert!(meeting.hold(2, &WATCH).is_some() && meeting.hold(2, &BARRIER).is_some());
    let before = threads();
    // Of the master: a worker that waits for work looks at mask and quota by itself.
    let mut hold = |plan: &Plan| {
        let allocated = ALLOCATED.load(Relaxed);
        COUNTS.set(true);
        let passage = meeting.hold(2, plan);
        COUNTS.set(false);
        assert!(passage.is_some());
        ALLOCATED.load(Relaxed) - allocated
    };
    for plan in [BARRIER, WATCH, BARRIER, WATCH] {
        // Every tenth of a second the master looks at mask and quota where it waits, too.
        let needs_none = (0..TRIES).any(|_| hold(&plan) == 0);
        assert!(needs_none, "each of {TRIES} allocated: {plan:?}");
        assert_eq!(threads(), before, "{plan:?}");
    }
}

#[test]
fn a_team_for_which_there_is_no_room_does_not_meet() {
    let _alone = ALONE.lock();
    assert_eq!(Meeting::default().hold(2, &BARRIER), None);
}

/// Keeps the processors of `cpus` busy, with a thread each, while it lives.
struct Hogs(std::sync::Arc<AtomicBool>, Vec<std::thread::JoinHandle<()>>);

impl Hogs {
    fn on(cpus: &CpuSet, count: usize) -> Self {
        let is_over = std::sync::Arc::new(AtomicBool::new(false));
        let hogs = (0..count).map(|_| {
            let (is_over, cpus) = (is_over.clone(), cpus.clone());
            std::thread::spawn(move || {
                set_affinity(None, &cpus).expect("processors of the mask");
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self(is_over.clone(), hogs.collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.drain(..).for_each(|hog| hog.join().expect("it only spins"));
    }
}

#[test]
fn a_team_whose_threads_share_a_processor_with_others_misses_some_in_a_watch() {
    let _alone = ALONE.lock();
    // Too late where another test of this process was first, with the same settings.
    let _is_first = engine::configure(active());
    let mask = affinity(None).expect("a mask");
    let mut meeting = Meeting::default();
    meeting.make_room(2);
    // SAFETY: - takes no data, and does not unwind.
    unsafe { Team::reserve(2).run(nothing, std::ptr::null()) };
    let _hogs = Hogs::on(&mask, 2 * mask.len());
    let begin = Instant::now();
    let (mut bad, mut all) = (0, 0);
    while all < 20 && begin.elapsed() < Duration::from_secs(20) {
        let passage = meeting.hold(2, &WATCH).expect("there are two");
        assert_eq!(passage.time >= WATCH.bad_time, passage.missing > 0, "{passage:?}");
        assert!(passage.missing <= 2);
        bad += usize::from(passage.missing > 0);
        all += 1;
    }
    assert!(bad * 2 > all, "{bad} of {all} were bad");
}

/// # Safety
/// - Needs nothing.
unsafe fn nothing(_: *const (), _: Member) {}
