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
//! A library that is followed stays in the process: a call of it may be under way whenever the
//! program closes it.
//!
//! # When the number changes
//! - At the end of a call that ran here ([`call`]): a load tells whether the grant is another one.
//! - In the thread `nanos-pools` ([`follower`]), which sleeps while each library has the number
//!   that the program wants. It is there while a manager is, or a quota that the library does not
//!   see.
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
//!   at again for some seconds; told later to have more, it is found when the process makes its
//!   next thread after that.
//! - [`libraries::SLOTS`] libraries in a process are followed; more are left alone.

pub(crate) mod arenas;
mod blis;
mod call;
mod dial;
mod find;
mod follower;
mod libraries;
mod mkl;
mod numbers;
mod openblas;
pub(crate) mod permits;
mod tbb;

use crate::process::copies::Host;
use crate::settings::{Settings, settings};
use dial::SharedDial;
use find::Module;
use libraries::{FOLLOWED, Followed, Pool};
use numbers::JobNumbers;
use platform::aside::Aside;
use platform::lock::Mutex;
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

/// The calling thread makes a thread, in the program's code or a library's.
pub(crate) fn at_thread() {
    // ORDERING: Relaxed - a library's own thread makes its threads, and sees it loaded.
    if find::loads() != LOADED.load(Relaxed) {
        look();
    }
    follower::begin_in_child();
}

/// The loader's count at the last look that found all.
static LOADED: AtomicU64 = AtomicU64::new(0);

#[cold]
fn look() {
    static LOOK: Mutex<()> = Mutex::new(());
    let _aside = Aside::begin();
    // Another thread looks; or this one does, and makes the engine's threads. In the child of a
    // fork the lock may be one that is never given back: it goes on with what it has.
    let Ok(_guard) = LOOK.try_lock() else { return };
    let loads = find::loads();
    let found = find::modules(|name| {
        KINDS.iter().find(|(piece, _)| find::has(name, piece)).map(|(_, kind)| *kind)
    });
    let pools = found.into_iter().filter_map(|(module, kind)| kind(module));
    // One that has a single thread may be told to have more.
    let later = pools.filter_map(|pool| (!follow(pool)).then_some(())).count();
    if later == 0 {
        // ORDERING: Relaxed - as above.
        LOADED.store(loads, Relaxed);
    } else if is_managed() {
        follower::look_again(look);
    }
}

fn is_managed() -> bool {
    let Settings { environment, host, .. } = settings();
    matches!(host, Host::Own) && environment.follows_manager() && host.is_managed()
}

/// Follows a library that was found, where there is something to follow; false where there may be
/// later.
fn follow(pool: Box<dyn Pool>) -> bool {
    let threads = pool.threads();
    if threads < 2 {
        return false;
    }
    let host = settings().host;
    // An older copy of this library, if there is one, has an engine and eyes of its own.
    let Some(slot) = FOLLOWED.iter().position(|slot| slot.get().is_none()) else { return true };
    if !matches!(host, Host::Own) {
        return true;
    }
    let is_managed = is_managed();
    if is_managed || threads > host.processors() {
        let is_ours = is_managed && pool.can_hand_over();
        let (dial, is_crowded) = (SharedDial::new(threads), AtomicBool::new(false));
        let numbers = JobNumbers::new(threads);
        let library = Followed { pool, dial, is_ours, is_crowded, numbers };
        let library = FOLLOWED[slot].get_or_init(|| library);
        if is_ours {
            library.pool.hand_over(slot);
        }
        follower::begin();
    }
    true
}
