//! The flag by which a loop ends early: after a panic, or because the body says so.

use platform::sync::atomic::{AtomicBool, Ordering::{Relaxed, Release}};

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Stop(AtomicBool);

impl Stop {
    /// True when nothing new is to be started. Cost: one load of a line that is written at most once.
    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        // ORDERING: Relaxed - a hint; what the loop did is seen through the join.
        self.0.load(Relaxed)
    }

    /// Asks all members to start nothing new. Who waits for another member must be woken after this.
    pub(super) fn raise(&self) {
        // ORDERING: Release - before the wakes that follow (N1 of the wait point).
        self.0.store(true, Release);
    }

    /// Calls `wake` after raising the flag, unless the value is disarmed: for the way out of a body that panics.
    pub(super) fn raise_on_unwind<W: Fn()>(&self, wake: W) -> RaiseOnUnwind<'_, W> {
        RaiseOnUnwind { stop: self, wake }
    }
}

/// Made by [`Stop::raise_on_unwind`].
pub(super) struct RaiseOnUnwind<'a, W: Fn()> {
    stop: &'a Stop,
    wake: W,
}

impl<W: Fn()> RaiseOnUnwind<'_, W> {
    /// The body returned.
    pub(super) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl<W: Fn()> Drop for RaiseOnUnwind<'_, W> {
    fn drop(&mut self) {
        self.stop.raise();
        (self.wake)();
    }
}
