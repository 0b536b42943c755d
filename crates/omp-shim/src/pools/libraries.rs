//! The libraries of this process that are followed, and what each can do.

use super::dial::{Dial, SharedDial};
use super::numbers::{JobNumbers, Taken};
use platform::aside::Aside;
use platform::clock::monotonic_ns;
use platform::lock::Once;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use std::thread;
use std::time::Duration;

/// A library with threads of its own.
pub(in crate::pools) trait Pool: fmt::Debug + Send + Sync {
    /// How many threads its next call may have. Cost: some loads.
    fn threads(&self) -> usize;
    /// The same before it is followed, in a call of the library's that makes a thread.
    fn threads_at_first(&self) -> usize {
        self.threads()
    }
    /// Whether its threads begin in its own code.
    fn makes_own_threads(&self) -> bool {
        true
    }
    /// Its next call is to have `threads` at most: no more than it had or was set to by the
    /// program. May be called while others of its calls run.
    fn set_threads(&self, threads: usize);
    /// Whether it can have its calls run in `pools::call`.
    fn can_hand_over(&self) -> bool {
        false
    }
    /// Has them run there from now on, as those of the library in `slot`. Called where it can,
    /// while the library makes its first thread, before its first call that has several.
    fn hand_over(&self, _slot: usize) {}
}

/// Libraries of one process.
pub(super) const SLOTS: usize = 8;

/// A library that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) pool: Box<dyn Pool>,
    /// Where it begins.
    pub(super) base: usize,
    pub(super) dial: SharedDial,
    /// Its calls run here.
    pub(super) is_ours: bool,
    /// Its last call found the program's processors taken by other calls or regions.
    pub(super) is_crowded: AtomicBool,
    /// Of the jobs of its calls.
    pub(super) numbers: JobNumbers,
}

pub(super) static FOLLOWED: [Once<Followed>; SLOTS] = [const { Once::new() }; SLOTS];

/// Those that there are.
pub(super) fn followed() -> impl Iterator<Item = &'static Followed> {
    FOLLOWED.iter().map_while(Once::get)
}

/// Threads that fork just now: no number is set meanwhile, and no call begins to run here.
/// OpenBLAS ends its threads before a fork, and makes them anew when a number is set: a child would
/// take them for its own, and wait for them for ever. With the threads it gives back the buffers,
/// also those of jobs that run here, of which it does not know.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// How long a fork waits for calls that run here: one that takes longer meets the fork as it would
/// without this library.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a call waits for forks, which may have waited for others: one that hangs holds up no
/// call for ever.
const CALLS_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks of one that waits.
const LOOK: Duration = Duration::from_micros(100);

thread_local! {
    /// Until when the calling thread, which forks, waits for calls; 0: it does not fork. The
    /// handlers are registered several times (`follower::watch_forks`): they wait together.
    static FORK_END: Cell<u64> = const { Cell::new(0) };
}

fn after(patience: Duration) -> u64 {
    monotonic_ns() + patience.as_nanos() as u64
}

/// Looks until something is so, or it is `end` by the monotonic clock. Aside: neither a fork nor a
/// call of BLAS is a point where a thread is cancelled, or changes `errno`.
#[cold]
fn wait_until(end: u64, is_so: impl Fn() -> bool) {
    let _aside = Aside::begin();
    while !is_so() && monotonic_ns() < end {
        thread::sleep(LOOK);
    }
}

/// The calling thread forks: returns when no number is being set, and none will be, and when no
/// call runs here, for which it waits for [`PATIENCE`].
pub(super) fn before_fork() {
    if FORK_END.get() == 0 {
        FORK_END.set(after(PATIENCE));
    }
    // ORDERING: SeqCst, and a fence - A (this thread) counts itself and then looks for dials that
    // are being turned, and for calls; B, in `follow`, takes a dial and then looks for A, and so
    // does, in `begin_call`, a call that takes numbers: one of them sees the other.
    FORKING.fetch_add(1, SeqCst);
    fence(SeqCst);
    for library in followed() {
        while library.dial.is_held() {
            thread::yield_now();
        }
    }
    wait_until(FORK_END.get(), || followed().all(|library| !library.numbers.are_taken()));
    followed().filter(|library| library.is_ours).for_each(Followed::have_all);
}

/// It has forked; this is the parent.
pub(super) fn after_fork() {
    FORK_END.set(0);
    // ORDERING: Relaxed - a number on its own.
    FORKING.fetch_sub(1, Relaxed);
}

/// This is the child. True where a library has fewer threads than the program wants: no call of
/// one that is down to one thread tells, and no thread raises numbers here yet.
pub(super) fn in_child() -> bool {
    FORK_END.set(0);
    // ORDERING: Relaxed - the only thread.
    FORKING.store(0, Relaxed);
    followed().for_each(|library| library.numbers.forget());
    followed().any(|library| library.dial.shown() < library.dial.limit())
}

impl Followed {
    /// Numbers for a call of `jobs` jobs, which begins when no thread forks.
    pub(super) fn begin_call(&self, jobs: usize) -> Taken<'_> {
        let mut end = 0;
        loop {
            let taken = self.numbers.take(jobs);
            // ORDERING: SeqCst - see `before_fork`. Each time anew: the numbers may have come after
            // a wait for other calls, and another thread may fork by then.
            if FORKING.load(SeqCst) == 0 {
                return taken;
            }
            if end == 0 {
                end = after(CALLS_PATIENCE);
            } else if monotonic_ns() >= end {
                return taken;
            }
            drop(taken);
            // ORDERING: SeqCst - as above.
            wait_until(end, || FORKING.load(SeqCst) == 0);
        }
    }

    /// The library has the number that the program wants, whatever is granted, until its next call
    /// ends. After a fork OpenBLAS makes buffers for the number that it has then, and takes away
    /// those above, while the calls of several threads have numbers up to what the program wants.
    fn have_all(&self) {
        let raise = |dial: &mut Dial| {
            dial.see(self.pool.threads());
            if let Some(threads) = dial.turn(usize::MAX) {
                self.pool.set_threads(threads);
            }
        };
        // One that has the dial now sees that a thread forks, and leaves it at once.
        while !self.dial.turn(raise) {
            thread::yield_now();
        }
    }

    /// The program has `granted` processors for the library's next call.
    pub(super) fn follow(&self, granted: usize) {
        self.dial.turn(|dial| {
            fence(SeqCst);
            // ORDERING: Relaxed, after the fence - see `before_fork`.
            if FORKING.load(Relaxed) > 0 {
                return;
            }
            dial.see(self.pool.threads());
            if let Some(threads) = dial.turn(granted) {
                self.pool.set_threads(threads);
            }
        });
    }
}
