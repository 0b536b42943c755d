//! The libraries of this process that are followed, and what each can do.

use super::dial::Held;
use platform::lock::Once;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// A library with threads of its own.
pub(in crate::pools) trait Pool: fmt::Debug + Send + Sync {
    /// How many threads its next call may have. Cost: some loads.
    fn threads(&self) -> usize;
    /// Its next call is to have `threads` at most: no more than it had or was set to by the
    /// program. May be called while others of its calls run.
    fn set_threads(&self, threads: usize);
    /// Has its calls run in `pools::call` from now on, as those of the pool in `slot`. False where
    /// it cannot. Called before its first call that has several threads.
    fn hand_over(&self, slot: usize) -> bool;
}

/// Libraries of one process.
pub(super) const SLOTS: usize = 8;

/// A library that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) pool: Box<dyn Pool>,
    pub(super) dial: Held,
    /// Its calls run here.
    pub(super) is_ours: bool,
    /// Its last call found the program's processors taken by other calls or regions.
    pub(super) is_crowded: AtomicBool,
}

pub(super) static FOLLOWED: [Once<Followed>; SLOTS] = [const { Once::new() }; SLOTS];

/// Those that there are.
pub(super) fn followed() -> impl Iterator<Item = &'static Followed> {
    FOLLOWED.iter().map_while(Once::get)
}

/// Threads that fork just now: numbers stay as they are.
pub(super) static FORKING: AtomicU32 = AtomicU32::new(0);

/// True while a thread forks.
fn is_forking() -> bool {
    // ORDERING: Relaxed - what changes a number meanwhile has the dial, for which `open` waits.
    FORKING.load(Relaxed) > 0
}

impl Followed {
    /// The program has `granted` processors for the library's next call.
    pub(super) fn follow(&self, granted: usize) {
        if !is_forking() {
            self.turn(granted);
        }
    }

    /// The same, also while a thread forks. False when another thread is at it.
    pub(super) fn turn(&self, granted: usize) -> bool {
        self.dial.turn(|dial| {
            dial.see(self.pool.threads());
            if let Some(threads) = dial.turn(granted) {
                self.pool.set_threads(threads);
            }
        })
    }
}
