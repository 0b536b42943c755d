//! The pools of threads that other libraries keep in this process: which there are, and that they
//! follow the processors that the program has now.
//!
//! A library with threads of its own (a BLAS, say) reads at each call how many of them to use. Here
//! that number is lowered when the program is granted fewer processors, and raised when it is
//! granted more; where the library lets another one run its jobs, they run on the engine's workers,
//! so that the program has one team and none of the pool's threads spins.
//!
//! oneTBB asks by itself for what its arenas may have ([`arenas`]); versions that do not are found
//! as the others are ([`tbb`]).
//!
//! # How pools are found
//! A pool needs threads, and makes them by `pthread_create`, which the drop-in library stands in
//! front of ([`crate::abi::front`]): there [`at_thread`] looks whether the loader has loaded
//! anything since the last look, which costs some 100 ns, and only then at the names of what there
//! is. So a library is found while it makes its first thread, loaded early or late, before its
//! first call that has several; nothing is asked of the loader in between, and no code is changed.
//! A library that has a single thread is kept under a manager, and asked for its number whenever a
//! thread is made: that may be its own. Without one it is let go, and looked at again when a thread
//! begins in it, at [`lone`]'s cost. What is followed stays in the process: a call of it may be
//! under way whenever the program closes it.
//!
//! # When jobs are handed over
//! Only while a library makes the first thread that it ever makes: no call of it that has several
//! jobs is under way then. That is so where the function of the new thread is the library's own,
//! the library has several threads already (which the library says of itself before it makes them
//! when it is loaded, and after that when it is told to have more), and no thread was made since
//! that was not looked at. Elsewhere the number alone follows.
//!
//! # When the number changes
//! - At the end of a call that ran here ([`call`]): a load tells whether the grant is another one.
//! - In the thread `nanos-pools` ([`follower`]), which sleeps while each library has the number
//!   that the program wants. It is there while a manager is, or a quota that the library does not
//!   see.
//! - Before a fork, where calls run here: to all that the program wants, until the next call ends.
//!
//! # The program's own limits
//! A number that the program sets (`threadpoolctl`, `*_set_num_threads`, variables) is the upper
//! limit from then on ([`dial`]).
//!
//! # Without a manager
//! Calls go to the library's own threads, and only a quota below the number lowers it. Whether to
//! follow is decided once, when the library is found: where the number is no larger than what mask
//! and quota allow then, this library has no thread and costs nothing, and a mask or quota that
//! becomes smaller later is not seen. Where it is larger, the quota is followed from then on.
//!
//! # The next pool
//! is one file with a [`Pool`], and its line in [`at_thread`]'s table.
//!
//! # Limits
//! - A number that the program sets and that is the one the library has just then, lowered by us,
//!   cannot be told from ours, and is no limit. Teams have no more threads than processors anyway.
//! - One that has a single thread (MKL has, in the region for which it makes its threads) is looked
//!   at again for some seconds; told later to have more, it is followed when the process makes its
//!   next thread after that, and its number alone: calls of it may be under way then. Without a
//!   manager MKL, whose threads are another library's, is not looked at after those seconds until
//!   something is loaded.
//! - [`libraries::SLOTS`] libraries in a process are followed; more are left alone.

pub(crate) mod arenas;
mod blis;
mod call;
mod dial;
mod find;
mod follower;
mod holder;
mod libraries;
mod lone;
mod mkl;
mod numbers;
mod openblas;
pub(crate) mod permits;
mod tbb;

use crate::process::copies::Host;
use crate::settings::{Settings, settings};
use dial::SharedDial;
use find::Module;
use holder::Holder;
use libraries::{FOLLOWED, Followed, Pool};
use lone::Spans;
use numbers::JobNumbers;
use platform::aside::Aside;
use platform::clock::monotonic_ns;
use std::ffi::{CStr, c_void};
use std::mem;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Makes a pool of a library, if it is one.
type Kind = fn(Module) -> Option<Box<dyn Pool>>;

/// What is looked for: a piece of the file's name, and what the library is if it is one.
const KINDS: [(&[u8], Kind); 4] = [
    (b"openblas", openblas::of),
    (b"libblis", blis::of),
    (b"libmkl_rt", mkl::of),
    (b"libtbb", tbb::of),
];

fn kind_of(name: &CStr) -> Option<Kind> {
    KINDS.iter().find(|(piece, _)| find::has(name, piece)).map(|(_, kind)| *kind)
}

/// The calling thread makes a thread that begins at `start`, in the program's code or a library's.
pub(crate) fn at_thread(start: *const c_void) {
    // ORDERING: Relaxed, all - a library's own thread makes its threads, and sees it loaded.
    if find::loads() != LOADED.load(Relaxed) || HAS_SINGLE.load(Relaxed) || HAS_GROWN.load(Relaxed)
    {
        look(start);
    }
    if LONE.have(start.addr()) {
        // It has its new number after this call: the next thread's maker looks.
        // ORDERING: Relaxed - as above.
        HAS_GROWN.store(true, Relaxed);
    }
    follower::begin_in_child();
}

/// A library that had a single thread when it was last looked at, and is kept.
#[derive(Debug)]
struct Single {
    pool: Box<dyn Pool>,
    span: Range<usize>,
    /// Until when, by the monotonic clock, it is kept without a manager.
    end: u64,
}

/// The loader's count at the last look at what it has.
static LOADED: AtomicU64 = AtomicU64::new(0);
/// Held by the thread that looks.
static SINGLE: Holder<Vec<Single>> = Holder::new(Vec::new());
/// There are some.
static HAS_SINGLE: AtomicBool = AtomicBool::new(false);
/// Those that are not kept.
static LONE: Spans = Spans::none();
/// A thread began in one of those.
static HAS_GROWN: AtomicBool = AtomicBool::new(false);
/// A library made a thread, maybe its first, while another thread looked.
static HAS_MISSED: AtomicBool = AtomicBool::new(false);

/// Looks at what is new, and at what had a single thread; `start`: where the thread begins that is
/// being made, if one is.
#[cold]
fn look(start: *const c_void) {
    let _aside = Aside::begin();
    let fresh = || {
        // What the parent's thread had is found again.
        // ORDERING: Relaxed - as in `at_thread`.
        LOADED.store(0, Relaxed);
        Vec::new()
    };
    let has_looked = SINGLE.turn(fresh, |single| look_at(single, start)).is_some();
    // ORDERING: Relaxed, both - as in `at_thread`; the library's later threads come after the one
    // that loaded it.
    if !has_looked
        && find::loads() != LOADED.load(Relaxed)
        && !start.is_null()
        && find::chosen_at(start, kind_of).is_some()
    {
        HAS_MISSED.store(true, Relaxed);
    }
}

fn look_at(single: &mut Vec<Single>, start: *const c_void) {
    let loads = find::loads();
    let again = mem::take(single).into_iter().filter_map(|Single { pool, span, end }| {
        let pool = follow(pool, span.start, false)?;
        if is_managed() || monotonic_ns() < end {
            return Some(Single { pool, span, end });
        }
        LONE.add(&span);
        None
    });
    let mut left: Vec<_> = again.collect();
    let known = left.len();
    // ORDERING: Relaxed, all of this function - as in `at_thread`.
    let has_grown = HAS_GROWN.swap(false, Relaxed);
    if has_grown || loads != LOADED.load(Relaxed) {
        LONE.clear();
        let is_known = |base| {
            libraries::followed().any(|it| it.base == base)
                || left.iter().any(|it| it.span.start == base)
        };
        let found = find::modules(is_known, kind_of);
        for (module, kind) in found {
            let span = module.span();
            // One that has grown may have calls under way.
            let is_first = module.has(start.addr()) && !has_grown && !HAS_MISSED.load(Relaxed);
            let pool = kind(module).and_then(|pool| follow(pool, span.start, is_first));
            let Some(pool) = pool else { continue };
            // One that grows just now has its number soon.
            if is_managed() || has_grown || !pool.makes_own_threads() {
                let end = monotonic_ns() + follower::LATER.as_nanos() as u64;
                left.push(Single { pool, span, end });
            } else {
                LONE.add(&span);
            }
        }
        LOADED.store(loads, Relaxed);
    }
    HAS_SINGLE.store(!left.is_empty(), Relaxed);
    if left.len() > known && is_managed() {
        follower::look_again(|| look(ptr::null()));
    }
    *single = left;
}

fn is_managed() -> bool {
    let Settings { environment, host, .. } = settings();
    matches!(host, Host::Own) && environment.follows_manager() && host.is_managed()
}

/// Follows a library that was found, where there is something to follow; gives one back for which
/// there may be later. `base`: where it is; `is_first`: it makes its first thread just now.
fn follow(pool: Box<dyn Pool>, base: usize, is_first: bool) -> Option<Box<dyn Pool>> {
    let threads = pool.threads_at_first();
    if threads < 2 {
        return Some(pool);
    }
    let host = settings().host;
    // An older copy of this library, if there is one, has an engine and eyes of its own.
    let slot = FOLLOWED.iter().position(|slot| slot.get().is_none())?;
    if !matches!(host, Host::Own) {
        return None;
    }
    let is_managed = is_managed();
    if is_managed || threads > host.processors() {
        let is_ours = is_managed && is_first && pool.can_hand_over();
        let (dial, is_crowded) = (SharedDial::new(threads), AtomicBool::new(false));
        let numbers = JobNumbers::new(threads);
        let library = Followed { pool, base, dial, is_ours, is_crowded, numbers };
        let library = FOLLOWED[slot].get_or_init(|| library);
        if is_ours {
            library.pool.hand_over(slot);
        }
        follower::begin();
    }
    None
}
