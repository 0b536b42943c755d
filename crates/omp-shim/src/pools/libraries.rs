//! The libraries of this process that are followed, and what each can do.

use super::dial::SharedDial;
use super::numbers::JobNumbers;
use platform::lock::Once;
use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use std::thread;

/// A library with threads of its own.
pub(in crate::pools) trait Pool: fmt::Debug + Send + Sync {
    /// How many threads its next call may have. Cost: some loads.
    fn threads(&self) -> usize;
    /// Its next call is to have `threads` at most: no more than it had or was set to by the
    /// program. May be called while others of its calls run.
    fn set_threads(&self, threads: usize);
    /// Whether it can have its calls run in `pools::call`.
    fn can_hand_over(&self) -> bool {
        false
    }
    /// Has them run there from now on, as those of the library in `slot`. Called where it can,
    /// before its first call that has several threads.
    fn hand_over(&self, _slot: usize) {}
}

/// Libraries of one process.
pub(super) const SLOTS: usize = 8;

/// A library that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) pool: Box<dyn Pool>,
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

/// Threads that fork just now: no number is set meanwhile. OpenBLAS ends its threads before a fork,
/// and makes them anew when a number is set: a child would take them for its own, and wait for them
/// for ever.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// The calling thread forks: returns when no number is being set, and none will be.
pub(super) fn before_fork() {
    // ORDERING: Relaxed and a SeqCst fence - A (this thread) counts itself and then looks for
    // dials that are being turned; B, in `follow`, takes a dial and then looks for A: one of them
    // sees the other.
    FORKING.fetch_add(1, Relaxed);
    fence(SeqCst);
    for library in followed() {
        while library.dial.is_held() {
            thread::yield_now();
        }
    }
}

/// It has forked; this is the parent.
pub(super) fn after_fork() {
    // ORDERING: Relaxed - a number on its own.
    FORKING.fetch_sub(1, Relaxed);
}

/// This is the child. True where a library has fewer threads than the program wants: no call of
/// one that is down to one thread tells, and no thread raises numbers here yet.
pub(super) fn in_child() -> bool {
    // ORDERING: Relaxed - the only thread.
    FORKING.store(0, Relaxed);
    followed().for_each(|library| library.numbers.forget());
    followed().any(|library| library.dial.shown() < library.dial.limit())
}

impl Followed {
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
