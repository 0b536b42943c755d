//! How a loop ends early: by a flag, after a panic or because the body says so; and how bodies end
//! that wait for what will not come.

use platform::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, Release},
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The flag; see the module head.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// True when nothing new is to be started. Cost: one load of a line that is written at most
    /// once.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        // ORDERING: Relaxed - a hint; what the loop did is seen through the join.
        self.0.load(Relaxed)
    }

    /// Asks all members to start nothing new. A member that waits for another one must be woken
    /// after this.
    pub(crate) fn raise(&self) {
        // ORDERING: Release - before the wakes that follow (N1 of the wait point).
        self.0.store(true, Release);
    }

    /// Calls `wake` after raising the flag, unless the value is disarmed: for the way out of a body
    /// that panics.
    pub(crate) fn raise_on_unwind<W: Fn()>(&self, wake: W) -> RaiseOnUnwind<'_, W> {
        RaiseOnUnwind { stop: self, wake }
    }
}

/// Made by [`Stop::raise_on_unwind`].
pub(crate) struct RaiseOnUnwind<'a, W: Fn()> {
    stop: &'a Stop,
    wake: W,
}

impl<W: Fn()> RaiseOnUnwind<'_, W> {
    /// The body returned.
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl<W: Fn()> Drop for RaiseOnUnwind<'_, W> {
    fn drop(&mut self) {
        self.stop.raise();
        (self.wake)();
    }
}

/// The payload that unwinds a body that waits for an iteration which will not come.
struct Abandoned;

/// Unwinds the calling body, after another iteration panicked: there is nothing to wait for and
/// nothing to return.
pub(crate) fn abandon() -> ! {
    // Not a panic of the program's: no message.
    resume_unwind(Box::new(Abandoned))
}

/// Runs one member's part of a loop whose bodies may be abandoned. Panics of the program go on.
pub(crate) fn unless_abandoned(run: impl FnOnce()) {
    // What the bodies captured is seen again only by the caller of the loop, which gets the panic
    // that stopped it.
    match catch_unwind(AssertUnwindSafe(run)) {
        Err(payload) if !payload.is::<Abandoned>() => resume_unwind(payload),
        _ => {}
    }
}
