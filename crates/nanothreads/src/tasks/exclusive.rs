//! Turnstiles: mutual exclusion of tasks that may run in any order, without making a worker wait.
//!
//! # Protocol
//! A nano-thread whose other inputs are there passes its turnstiles one after the other, in the
//! order of addresses. If one is occupied, it queues there and is moved on by the one that leaves.
//! It leaves all of them when it is finished.
//!
//! # Invariants
//! I1  No deadlock: all claim in the same order, so the one that is inside the turnstile claimed
//!     last is inside all it needs.
//!
//! # What touches what
//! `Nano::note_claim`: the thread that moves the nano-thread on; the turnstile's lock hands that
//! from the one that queued it to the one that leaves.

use crate::tasks::descriptor::NanoPtr;

/// Claims what `nano` still needs; true when it is inside everything. After `false` it belongs to
/// the turnstile's queue.
///
/// # Safety
/// - The caller moves `nano` on, and `nano` was not started.
pub(crate) unsafe fn claim(nano: NanoPtr) -> bool {
    // SAFETY: - caller's contract.
    let this = unsafe { nano.get() };
    // SAFETY: - caller's contract.
    for turnstile in unsafe { this.turnstiles() }.iter().skip(this.claimed()) {
        if !turnstile.enter(nano) {
            return false;
        }
        this.note_claim();
    }
    true
}

/// Leaves all turnstiles of `nano`, and calls `ready` with each nano-thread that is inside all of
/// its own by that.
///
/// # Safety
/// - `nano` is inside all its turnstiles, and the caller finishes it.
pub(crate) unsafe fn leave(nano: NanoPtr, mut ready: impl FnMut(NanoPtr)) {
    // SAFETY: - caller's contract.
    let this = unsafe { nano.get() };
    // SAFETY: - caller's contract.
    for turnstile in unsafe { this.turnstiles() } {
        if let Some(next) = turnstile.leave() {
            // SAFETY: - taken from the queue: we move it on now.
            unsafe { next.get() }.note_claim();
            // SAFETY: - as above.
            if unsafe { claim(next) } {
                ready(next);
            }
        }
    }
}
