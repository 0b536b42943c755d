//! Turnstiles: mutual exclusion of tasks that may run in any order, without making a virtual
//! processor wait.
//!
//! # Protocol
//! A nano-thread whose other inputs are there passes its turnstiles one after the other, in the
//! order of addresses. If one is occupied, it queues there and is moved on by whoever leaves. It
//! leaves all of them when it is finished.
//!
//! # Invariants
//! I1  At most one nano-thread is inside a turnstile. Leaving hands the place over to the first in
//!     the queue.
//! I2  No deadlock: everybody claims in the same order, so who is inside the last claimed one is
//!     inside all it needs.
//!
//! # Who touches what
//! The state: under its lock, which is one for each address and creator. `Nano::note_claim`: who
//! moves the nano-thread on; the lock hands it from the one that queued it to the one that leaves.

use crate::nano::descriptor::NanoPtr;
use platform::lock::Mutex;
use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct Turnstile(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    occupied: bool,
    queue: VecDeque<NanoPtr>,
}

impl Turnstile {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Claims what `nano` still needs; true when it is inside everything. After `false` it belongs to
/// the turnstile's queue.
///
/// # Safety
/// - The caller is who moves `nano` on, and it was not started.
pub(crate) unsafe fn claim(nano: NanoPtr) -> bool {
    // SAFETY: - caller's contract.
    let this = unsafe { nano.get() };
    // SAFETY: - caller's contract.
    for turnstile in unsafe { this.turnstiles() }.iter().skip(this.claimed()) {
        let mut state = turnstile.state();
        if state.occupied {
            state.queue.push_back(nano);
            return false;
        }
        state.occupied = true;
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
        let next = {
            let mut state = turnstile.state();
            let next = state.queue.pop_front();
            state.occupied = next.is_some();
            next
        };
        if let Some(next) = next {
            // SAFETY: - taken from the queue: we move it on now.
            unsafe { next.get() }.note_claim();
            // SAFETY: - as above.
            if unsafe { claim(next) } {
                ready(next);
            }
        }
    }
}
