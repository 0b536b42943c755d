//! The workers that outermost masters keep for their next regions, as masters that lack some see
//! them.
//!
//! A master that wants a worker takes one without a master. Where there is none, it takes all those
//! of a master that has no region open ([`custody`](crate::protocols::custody)), and a new one is
//! made only where there is no such master. So there are as many workers as were at work, or
//! reserved for regions that had begun, at once; and not as many as threads have ever forked.
//!
//! # Masters that fork in turn
//! Two masters that hand each other a token, and fork a region each time, would take the same
//! workers from each other each time. So one that comes back within [`SOON`] of its loss keeps what
//! it gets then, idle or not, for [`KEPT`].
//!
//! # What touches what
//! The list: under its lock. The words of a master's custody: see there.

use crate::protocols::custody::{Custody, Outcome};
use crate::workers::worker::Worker;
use platform::clock::monotonic_ns;
use platform::lock::Mutex;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{MutexGuard, PoisonError};

/// A master that comes back this many nanoseconds after its loss, or sooner, forks often.
const SOON: u64 = 1_000_000;
/// How long, in nanoseconds, it then keeps its workers.
const KEPT: u64 = 1_000_000_000;

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    list: Mutex<Vec<Holding>>,
    /// The kernel refuses the barrier that takers need.
    is_refused: AtomicBool,
}

/// What one master keeps.
#[derive(Debug)]
struct Holding {
    /// The master's: live until it is removed.
    custody: *const Custody,
    /// Empty after they were taken.
    workers: Vec<&'static Worker>,
    /// When that was, if the master does not know of it yet.
    taken: Option<u64>,
    /// Until when none may take them.
    kept: u64,
}

// SAFETY: - `custody` is read under the lock of the list, in which it stands only while it lives;
//           it is `Sync`.
unsafe impl Send for Holding {}

impl Holdings {
    fn list(&self) -> MutexGuard<'_, Vec<Holding>> {
        // The list is whole at every point where a panic could leave it.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling master, which has a region open, has `workers`: others may take them when it has
    /// none.
    ///
    /// # Safety
    /// - `custody` stays where it is until [`Self::forget`].
    pub(crate) unsafe fn tell(&self, custody: &Custody, workers: &[&'static Worker]) {
        let mut list = self.list();
        let known = list.iter_mut().find(|holding| ptr::eq(holding.custody, custody));
        if let Some(holding) = known {
            debug_assert!(holding.taken.is_none(), "it has come back");
            holding.workers.clear();
            holding.workers.extend_from_slice(workers);
            return;
        }
        list.push(Holding { custody, workers: workers.to_vec(), taken: None, kept: 0 });
    }

    /// The calling master, which has a region open, comes back; true when its workers were taken.
    pub(crate) fn come_back(&self, custody: &Custody) -> bool {
        let mut list = self.list();
        let known = list.iter_mut().find(|holding| ptr::eq(holding.custody, custody));
        let taken = known.is_some_and(|holding| {
            let Some(taken) = holding.taken.take() else { return false };
            let now = monotonic_ns();
            if now.saturating_sub(taken) < SOON {
                holding.kept = now + KEPT;
            }
            true
        });
        custody.come_back();
        taken
    }

    /// The calling master ends; true when its workers were taken.
    pub(crate) fn forget(&self, custody: &Custody) -> bool {
        let mut list = self.list();
        let at = list.iter().position(|holding| ptr::eq(holding.custody, custody));
        at.is_some_and(|at| list.swap_remove(at).taken.is_some())
    }

    /// The workers of a master that has no region open; none where there is none.
    pub(crate) fn take(&self) -> Vec<&'static Worker> {
        // ORDERING: Relaxed, both - a flag on its own.
        if self.is_refused.load(Relaxed) {
            return Vec::new();
        }
        let now = monotonic_ns();
        let mut list = self.list();
        for holding in list.iter_mut() {
            if holding.workers.is_empty() || holding.kept > now {
                continue;
            }
            // SAFETY: - it stands in the list, whose lock is held.
            match unsafe { &*holding.custody }.take() {
                Outcome::Taken => {
                    holding.taken = Some(now);
                    return std::mem::take(&mut holding.workers);
                }
                Outcome::Busy => {}
                Outcome::Refused => {
                    self.is_refused.store(true, Relaxed);
                    break;
                }
            }
        }
        Vec::new()
    }
}
