//! Flat regions: two parts of work, forked and joined, on each engine.

use super::native::entry;
use super::place::Row;
use super::sample::{Measure, Subject};
use super::{Engine, Runtime};
use engine::{self, Member};
use nanothreads::{Schedule, Team, par_for};
use orx_parallel::{IntoParIter, Par};
use platform::sync::CachePadded;
use std::cell::Cell;
use std::num::NonZero;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What a part of a region does, told its number.
pub(crate) type Body = extern "C" fn(u32);

/// Parts of a case, at most.
const PARTS: usize = 16;

static COUNTS: [CachePadded<AtomicU64>; PARTS] =
    [const { CachePadded::new(AtomicU64::new(0)) }; PARTS];

/// How often part 1 ran on another thread than the one that forked.
static ELSEWHERE: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));

thread_local! {
    static IS_FORKING: Cell<bool> = const { Cell::new(false) };
}

/// The empty body: counts in a line of the part's own.
pub(crate) extern "C" fn count(part: u32) {
    let count = &COUNTS[part as usize];
    // ORDERING: Relaxed - one thread at a time runs a part, and the region orders them.
    count.store(count.load(Relaxed) + 1, Relaxed);
    if part == 1 && !IS_FORKING.get() {
        ELSEWHERE.store(ELSEWHERE.load(Relaxed) + 1, Relaxed);
    }
}

/// Measures by `measure`; a last extra says in how many of a hundred regions a second thread took
/// part.
pub(crate) fn with_share(measure: Measure) -> Measure {
    Box::new(move |subject| {
        IS_FORKING.set(true);
        // ORDERING: Relaxed - no region runs now.
        let look = || [&COUNTS[1], &ELSEWHERE].map(|count| count.load(Relaxed));
        let before = look();
        let mut values = measure(subject);
        let after = look();
        values.push(100.0 * (after[1] - before[1]) as f64 / (after[0] - before[0]) as f64);
        values
    })
}

/// Says whether each of the first `parts` parts was counted `each` times in a call.
pub(crate) fn counted(parts: usize, each: u64) -> impl FnOnce(u64) -> Result<(), String> {
    counted_from(0..parts, each)
}

/// The same for some of the parts.
pub(crate) fn counted_from(
    parts: Range<usize>,
    each: u64,
) -> impl FnOnce(u64) -> Result<(), String> {
    move |calls| {
        // ORDERING: Relaxed - the regions are joined.
        let counts: Vec<u64> = COUNTS[parts].iter().map(|count| count.load(Relaxed)).collect();
        if counts.iter().all(|&count| count == calls * each) {
            return Ok(());
        }
        Err(format!("{calls} calls of {each}, but the parts ran {counts:?} times"))
    }
}

/// Whether our teams may be smaller than two under other load: what a bench with a hog is about.
/// Elsewhere a sample of a region of two has two threads.
pub(crate) static SHRINKS: AtomicBool = AtomicBool::new(false);

/// Our engine as the row wants it.
pub(crate) fn configure(row: Row) {
    let builder = nanothreads::builder().bind(row == Row::Bound);
    // ORDERING: Relaxed - set by the same thread.
    let builder = if SHRINKS.load(Relaxed) {
        builder
    } else {
        builder.sizer(engine::sizer::Fixed::new(super::place::PROCESSORS))
    };
    assert!(builder.install().is_ok(), "a sample configures the engine before it uses it");
}

/// A pool of rayon with the calling thread in it.
pub(crate) fn rayon_inside() -> Result<&'static rayon::ThreadPool, String> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(2).use_current_thread();
    // Leaked: the calling thread stays its member.
    builder.build().map(|pool| &*Box::leak(Box::new(pool))).map_err(|error| error.to_string())
}

/// A scope of a pool of chili, two threads with the caller.
pub(crate) fn chili() -> chili::Scope<'static> {
    let config = chili::Config { thread_count: NonZero::new(2), ..chili::Config::default() };
    Box::leak(Box::new(chili::ThreadPool::with_config(config))).scope()
}

/// # Safety
/// - `data` points to a [`Body`].
unsafe fn part(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let body = unsafe { *data.cast::<Body>() };
    body(member.id);
}

/// One region of `size` members on our engine, as language runtimes fork it.
#[inline]
pub(crate) fn fork(size: usize, body: &Body) {
    // SAFETY: - `part` takes a body, which any threads may call at once, and which does not unwind.
    unsafe { engine::reserve(size).run(part, ptr::from_ref(body).cast()) }
}

/// A region of two parts on each engine; ours first. `check` is told the calls at the end.
pub(crate) fn engines<C: FnOnce(u64) -> Result<(), String> + 'static>(
    body: Body,
    check: fn() -> C,
) -> Vec<Engine> {
    let ours = Engine::new("nanothreads", Runtime::Ours, move |row| {
        configure(row);
        Ok(Subject::new(move || fork(2, &body), check()))
    });
    let broadcast = Engine::new("nanothreads broadcast", Runtime::Ours, move |row| {
        configure(row);
        // Its team is smaller while others use a processor.
        let parts = move |member: Member| {
            (member.id..2).step_by(member.size as usize).for_each(|part| body(part))
        };
        Ok(Subject::new(move || nanothreads::broadcast(parts), check()))
    });
    let loops = Engine::new("nanothreads par_for", Runtime::Ours, move |row| {
        configure(row);
        let run = move || par_for(0..2).schedule(Schedule::Static).run(|part| body(number(part)));
        Ok(Subject::new(run, check()))
    });
    let kept = Engine::new("nanothreads Team", Runtime::Ours, move |row| {
        configure(row);
        let team = Team::exact(2).map_err(|error| error.to_string())?;
        Ok(Subject::new(move || team.run(|member| body(number(member.id()))), check()))
    });
    let openmp = |name: &str, runtime| {
        Engine::new(name, runtime, move |_| {
            let region = entry(runtime, "region")?;
            Ok(Subject::new(move || region.call(body as usize, 2, 0), check()))
        })
    };
    let fork_union = Engine::new("fork_union", Runtime::Crate, move |_| {
        let mut pool =
            fork_union::ThreadPool::try_spawn(2).map_err(|error| format!("{error:?}"))?;
        Ok(Subject::new(move || drop(pool.for_threads(|thread, _| body(number(thread)))), check()))
    });
    let rayon_broadcast = Engine::new("rayon broadcast", Runtime::Crate, move |_| {
        let pool = rayon_inside()?;
        let run = move || pool.broadcast(|context| body(number(context.index())));
        Ok(Subject::new(run, check()))
    });
    let rayon_join = Engine::new("rayon join", Runtime::Crate, move |_| {
        let pool = rayon_inside()?;
        Ok(Subject::new(move || pool.join(|| body(0), || body(1)), check()))
    });
    let rayon_outside = Engine::new("rayon join from outside", Runtime::Crate, move |_| {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(2);
        let pool = builder.build().map_err(|error| error.to_string())?;
        Ok(Subject::new(move || pool.join(|| body(0), || body(1)), check()))
    });
    let chili_join = Engine::new("chili join", Runtime::Crate, move |_| {
        let mut scope = chili();
        Ok(Subject::new(move || scope.join(|_| body(0), |_| body(1)), check()))
    });
    let orx = Engine::new("orx-parallel for_each", Runtime::Crate, move |_| {
        Ok(Subject::new(move || orx_parts(2, 2, |part| body(part)), check()))
    });
    let tbb = Engine::new("oneTBB parallel_for", Runtime::Tbb, move |_| {
        let region = entry(Runtime::Tbb, "region")?;
        Ok(Subject::new(move || region.call(body as usize, 2, 0), check()))
    });
    let scope = Engine::new("std::thread::scope", Runtime::Crate, move |row| {
        let run = move || {
            std::thread::scope(|s| {
                s.spawn(|| {
                    if row == Row::Bound {
                        super::place::bind_to(1);
                    }
                    body(1);
                });
                body(0);
            });
        };
        Ok(Subject::new(run, check()))
    });
    vec![
        ours,
        broadcast,
        kept,
        loops,
        openmp("libgomp", Runtime::Libgomp),
        openmp("libomp", Runtime::Libomp),
        openmp("libgomp active", Runtime::Libgomp).with(&[("OMP_WAIT_POLICY", "active")]),
        openmp("libomp active", Runtime::Libomp)
            .with(&[("OMP_WAIT_POLICY", "active"), ("KMP_BLOCKTIME", "infinite")]),
        fork_union,
        rayon_join,
        rayon_broadcast,
        rayon_outside,
        chili_join,
        orx,
        tbb,
        scope,
    ]
}

/// `parts` parts on `threads` threads of orx-parallel's pool.
pub(crate) fn orx_parts(parts: u32, threads: usize, body: impl Fn(u32) + Sync + Copy) {
    // One part at a time: left to itself it may give all of them to one thread.
    (0..parts as usize)
        .into_par()
        .num_threads(threads)
        .chunk_size(1)
        .for_each(|part| body(number(part)));
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("two parts")
}
