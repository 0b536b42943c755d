//! Mutexes of tasks: mutual exclusion of those that may run in any order, without making a worker
//! wait.
//!
//! # Protocol
//! A nano-thread whose other inputs are there passes its mutexes one after the other, in the
//! order of addresses. If one is occupied, it queues there and is moved on by the one that leaves.
//! It leaves all of them when it is finished.
//!
//! # Invariants
//! I1  No deadlock: all claim in the same order, so the one that is inside the mutex claimed
//!     last is inside all it needs.
//!
//! # What touches what
//! `Nano::note_claim`: the thread that moves the nano-thread on; the mutex's lock hands that
//! from the one that queued it to the one that leaves.

use crate::tasks::descriptor::NanoPtr;

/// Claims what `nano` still needs; true when it is inside everything. After `false` it belongs to
/// the mutex's queue.
///
/// # Safety
/// - The caller moves `nano` on, and `nano` was not started.
pub(crate) unsafe fn claim(nano: NanoPtr) -> bool {
    // SAFETY: - caller's contract.
    let this = unsafe { nano.get() };
    // SAFETY: - caller's contract.
    for mutex in unsafe { this.mutexes() }.iter().skip(this.claimed()) {
        if !mutex.enter(nano) {
            return false;
        }
        this.note_claim();
    }
    true
}

/// Leaves all mutexes of `nano`, and calls `ready` with each nano-thread that is inside all of
/// its own by that.
///
/// # Safety
/// - `nano` is inside all its mutexes, and the caller finishes it.
pub(crate) unsafe fn leave(nano: NanoPtr, mut ready: impl FnMut(NanoPtr)) {
    // SAFETY: - caller's contract.
    let this = unsafe { nano.get() };
    // SAFETY: - caller's contract.
    for mutex in unsafe { this.mutexes() } {
        if let Some(next) = mutex.leave() {
            // SAFETY: - taken from the queue: we move it on now.
            unsafe { next.get() }.note_claim();
            // SAFETY: - as above.
            if unsafe { claim(next) } {
                ready(next);
            }
        }
    }
}
