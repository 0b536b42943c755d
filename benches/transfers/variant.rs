//! What is counted: engines, and ways of ours.

use super::variants::Pool;
use engine::{self, Barrier, Dispatch, Member, Team};
use nanothreads::{Scope, Waiting};
use platform::affinity::{CpuSet, affinity, set_affinity};
use platform::sync::CachePadded;
use std::hint::black_box;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

/// Runs the given number of regions of the given number of threads, and calls the closure on the
/// master before each region and after the last.
type Run = fn(usize, u32, &mut dyn FnMut());

pub(crate) const VARIANTS: &[(&str, Run)] = &[
    ("nothing", nothing),
    ("ring", ring),
    ("nanothreads", team),
    ("nanothreads-broadcast", broadcast),
    ("nanothreads-barrier", barrier),
    ("nanothreads-lwd", lines),
    ("nanothreads-gwd", one_line_for_all),
    ("mp-shm", |threads, regions, before| published("mp-shm", threads, regions, before)),
    ("mp-fop", |threads, regions, before| published("mp-fop", threads, regions, before)),
    ("gwd", |threads, regions, before| published("gwd", threads, regions, before)),
    ("lwd", |threads, regions, before| published("lwd", threads, regions, before)),
    ("tasks-producer", producer),
    ("tasks-flat", flat_spawn),
    ("tasks-tree", tree),
    ("rayon-broadcast", rayon_broadcast),
    ("fork_union", fork_union),
];

/// What the marks and the counting cost by themselves.
fn nothing(_: usize, regions: u32, before: &mut dyn FnMut()) {
    (0..=regions).for_each(|_| before());
}

/// A token that goes round once: one line from each thread to the next, which says whether the
/// counter is right.
fn ring(threads: usize, rounds: u32, before: &mut dyn FnMut()) {
    let words: Vec<_> = (0..threads).map(|_| CachePadded::new(AtomicU32::new(0))).collect();
    let pass = |id: usize, round: u32| {
        // ORDERING: Release - pairs with the Acquire below.
        words[(id + 1) % threads].store(round, Release);
    };
    let await_token = |id: usize, round: u32| {
        // ORDERING: Acquire - pairs with the Release above.
        while words[id].load(Acquire) != round {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        for id in 1..threads {
            let (pass, await_token) = (&pass, &await_token);
            scope.spawn(move || {
                bind(id);
                for round in 1..=rounds {
                    await_token(id, round);
                    pass(id, round);
                }
            });
        }
        bind(0);
        for round in 1..=rounds {
            before();
            pass(0, round);
            await_token(0, round);
        }
        before();
    });
}

/// The way that is hot: threads have their processors and none sleeps.
fn configure(threads: usize) {
    assert!(
        nanothreads::builder()
            .bind(true)
            .waiting(Waiting::Active)
            .adapt(false)
            .sizer(engine::sizer::Fixed::new(threads))
            .install()
            .is_ok()
    );
    // The engine looks at the mask before it is narrowed.
    assert!(engine::processors() >= threads, "the machine has fewer than {threads} processors");
    bind(0);
}

/// Binds the calling thread to the `index`-th processor.
fn bind(index: usize) {
    let mask = affinity(None).expect("the kernel tells each thread its mask");
    let processor = mask.iter().nth(index).expect("the guest has enough processors");
    set_affinity(None, &CpuSet::single(processor)).expect("a part of the own mask is allowed");
}

/// # Safety
/// - None: it does nothing with its data.
unsafe fn empty(_: *const (), member: Member) {
    black_box(member);
}

fn team(threads: usize, regions: u32, before: &mut dyn FnMut()) {
    configure(threads);
    for _ in 0..regions {
        before();
        let team = engine::reserve(threads);
        // SAFETY: - `empty` ignores its data and does not unwind.
        unsafe { team.run(empty, std::ptr::null()) };
    }
    before();
}

/// Our form of the local work descriptor.
fn lines(threads: usize, regions: u32, before: &mut dyn FnMut()) {
    supplied(Dispatch::Lines, threads, regions, before);
}

/// Our form of the global work descriptor.
fn one_line_for_all(threads: usize, regions: u32, before: &mut dyn FnMut()) {
    supplied(Dispatch::Broadcast, threads, regions, before);
}

fn supplied(dispatch: Dispatch, threads: usize, regions: u32, before: &mut dyn FnMut()) {
    configure(threads);
    for _ in 0..regions {
        before();
        let team = Team::reserve(threads).dispatched(dispatch);
        // SAFETY: - `empty` ignores its data and does not unwind.
        unsafe { team.run(empty, std::ptr::null()) };
    }
    before();
}

/// A scheme as it was published.
fn published(name: &str, threads: usize, regions: u32, before: &mut dyn FnMut()) {
    /// # Safety
    /// - None: it does nothing with its data.
    unsafe fn nothing(_: *const (), id: usize) {
        black_box(id);
    }
    let mut pool = Pool::new(name, threads, bind).expect("the name of a scheme");
    bind(0);
    for _ in 0..regions {
        before();
        // SAFETY: - `nothing` ignores its data and does not unwind.
        unsafe { pool.region(nothing, std::ptr::null()) };
    }
    before();
}

fn broadcast(threads: usize, regions: u32, before: &mut dyn FnMut()) {
    configure(threads);
    for _ in 0..regions {
        before();
        nanothreads::broadcast(|member| {
            black_box(member);
        });
    }
    before();
}

/// Barriers inside one region: a sample is a barrier.
fn barrier(threads: usize, rounds: u32, before: &mut dyn FnMut()) {
    /// What the members share; the closure is member 0's.
    struct Shared<'a> {
        barrier: Barrier,
        rounds: u32,
        before: *mut &'a mut dyn FnMut(),
    }
    /// # Safety
    /// - `data` points to a `Shared` whose closure is the calling thread's when it is member 0.
    unsafe fn wait(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let shared = unsafe { &*data.cast::<Shared<'_>>() };
        for _ in 0..shared.rounds {
            if member.id == 0 {
                // SAFETY: - caller's contract: no other thread uses it.
                unsafe { (*shared.before)() };
            }
            shared.barrier.wait(member.id as usize);
        }
        if member.id == 0 {
            // SAFETY: - as above.
            unsafe { (*shared.before)() };
        }
    }
    configure(threads);
    let mut before = before;
    let shared = Shared { barrier: Barrier::new(threads), rounds, before: &raw mut before };
    let team = Team::reserve(threads);
    assert_eq!(team.size(), threads);
    // SAFETY: - `wait` gets what it wants, which outlives the join; this thread is member 0.
    unsafe { team.run(wait, std::ptr::from_ref(&shared).cast()) };
}

/// Tasks of a sample.
const TASKS: usize = 64;

/// One member of a scope creates empty tasks, which all may run, and waits for them: a sample is
/// [`TASKS`] of them.
fn producer(threads: usize, rounds: u32, before: &mut dyn FnMut()) {
    configure(threads);
    nanothreads::scope(|s| {
        for _ in 0..rounds {
            before();
            (0..TASKS).for_each(|_| s.spawn(|_| ()));
            s.wait();
        }
        before();
    });
}

/// The same with a scope for each sample: its region is forked and joined, too.
fn flat_spawn(threads: usize, rounds: u32, before: &mut dyn FnMut()) {
    configure(threads);
    for _ in 0..rounds {
        before();
        nanothreads::scope(|s| (0..TASKS).for_each(|_| s.spawn(|_| ())));
    }
    before();
}

/// Columns of the board of `tree`.
const QUEENS: u32 = 7;

/// A tree of tasks, one for each queen that can be placed (552 in all), in a scope of its own: a
/// sample is a tree. Any member runs any part of it.
fn tree(threads: usize, rounds: u32, before: &mut dyn FnMut()) {
    configure(threads);
    for _ in 0..rounds {
        before();
        nanothreads::scope(|s| queens(s, 0, [0; 3]));
    }
    before();
}

/// Spawns a task for each queen in `row`; columns and diagonals below others are taken.
fn queens(s: &Scope<'_>, row: u32, [columns, left, right]: [u32; 3]) {
    // Ends the processor's turn where they take turns (the emulator): else one runs the whole tree.
    std::hint::spin_loop();
    let mut free = !(columns | left | right) & ((1 << QUEENS) - 1);
    while row < QUEENS && free != 0 {
        let queen = free & free.wrapping_neg();
        free ^= queen;
        let taken = [columns | queen, (left | queen) << 1, (right | queen) >> 1];
        s.spawn(move |s| queens(s, row + 1, taken));
    }
}

fn rayon_broadcast(threads: usize, regions: u32, before: &mut dyn FnMut()) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).start_handler(bind).build();
    let pool = pool.expect("threads can be created");
    // From inside the pool, where the master is one of the threads.
    let before = Sender(before);
    pool.install(move || {
        let Sender(before) = { before };
        for _ in 0..regions {
            before();
            rayon::broadcast(|context| {
                black_box(context.index());
            });
        }
        before();
    });
}

/// Takes the closure to the thread of the pool that plays the master, while this thread waits.
struct Sender<'a>(&'a mut dyn FnMut());

// SAFETY: - one thread at a time uses it: `install` returns when the pool's thread is done with it.
unsafe impl Send for Sender<'_> {}

fn fork_union(threads: usize, regions: u32, before: &mut dyn FnMut()) {
    let mut pool = fork_union::ThreadPool::try_spawn(threads).expect("threads can be created");
    for _ in 0..regions {
        before();
        pool.for_threads(|thread, _| {
            black_box(thread);
        })
        .join();
    }
    before();
}
