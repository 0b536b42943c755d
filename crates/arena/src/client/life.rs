//! What is known of the manager: by the watcher, and by any thread that finds that the registration
//! is lost.

use platform::sync::atomic::{AtomicU32, Ordering};

const ALIVE: u32 = 0;
const SILENT: u32 = 1;
/// There is none; the watcher looks for the next one.
const LOST: u32 = 2;
/// There will be none.
const GONE: u32 = 3;

/// The state of the manager as one word.
#[derive(Debug)]
pub(super) struct Life(AtomicU32);

impl Life {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(ALIVE))
    }

    /// Of a manager that has not answered yet.
    pub(super) fn before_any() -> Self {
        Self(AtomicU32::new(LOST))
    }

    #[inline]
    pub(super) fn is_alive(&self) -> bool {
        // ORDERING: Relaxed - a fact on its own; a thread that acts on it reads nothing that the
        // manager wrote before.
        self.0.load(Ordering::Relaxed) == ALIVE
    }

    /// The manager cannot hear a ring.
    pub(super) fn is_deaf(&self) -> bool {
        // ORDERING: Relaxed - see `is_alive`.
        self.0.load(Ordering::Relaxed) >= LOST
    }

    pub(super) fn is_gone(&self) -> bool {
        // ORDERING: Relaxed - see `is_alive`.
        self.0.load(Ordering::Relaxed) == GONE
    }

    /// For ever.
    pub(super) fn end(&self) {
        // ORDERING: Relaxed - see `is_alive`.
        self.0.store(GONE, Ordering::Relaxed);
    }

    /// The manager is not there.
    pub(super) fn lose(&self) {
        self.set(LOST);
    }

    /// The manager was heard of, or another one took us in.
    pub(super) fn revive(&self) {
        self.set(ALIVE);
    }

    /// The manager's heartbeat stands still.
    pub(super) fn miss(&self) {
        self.set(SILENT);
    }

    /// What the watcher found; an end that came meanwhile stays.
    fn set(&self, state: u32) {
        // ORDERING: Relaxed - see `is_alive`.
        let before = self.0.load(Ordering::Relaxed);
        if before != GONE && before != state {
            // ORDERING: Relaxed - see `is_alive`. It fails only when `end` was faster: the watcher
            // alone calls `set`.
            let _set = self.0.compare_exchange(before, state, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
