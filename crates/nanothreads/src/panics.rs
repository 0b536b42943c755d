//! Panics where nothing may unwind: which payload is kept, what becomes of the others, and where the process ends.
//!
//! A payload is the program's, and its destructor may panic, too. Members of a region must not unwind before the join, so
//! no payload, and nothing else of the program's, is dropped there but by [`discard`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Drops `value`. A panic of its destructor has been reported by the panic hook and goes no further: another one is on
/// its way to the caller already.
pub(crate) fn discard<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // Its destructor may panic as well, and so on: it is leaked.
        std::mem::forget(payload);
    }
}

/// The first panic of several threads.
#[derive(Debug, Default)]
pub(crate) struct FirstPanic(Mutex<Option<Payload>>);

impl FirstPanic {
    /// Keeps `payload`, or discards it when there is one already. Does not unwind.
    #[cold]
    pub(crate) fn keep(&self, payload: Payload) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
            return;
        }
        drop(first);
        discard(payload);
    }

    /// What was kept.
    pub(crate) fn take(&self) -> Option<Payload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Goes on with what was kept. After the join: nobody else has it, so nothing is locked.
    #[inline]
    pub(crate) fn pass_on(self) {
        if let Some(payload) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }
}

/// Ends the process when it is dropped: it stands where others use what the thread would unwind. Cost: none, where
/// nothing unwinds.
#[must_use = "it guards until it is dropped or left"]
pub(crate) struct NoUnwinding;

impl NoUnwinding {
    /// From here on nothing unwinds.
    pub(crate) const fn enter() -> Self {
        Self
    }

    /// Nobody else uses anything of this thread's any more.
    #[inline]
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for NoUnwinding {
    #[cold]
    fn drop(&mut self) {
        eprintln!(
            "nanos: a panic (see above) where threads work on each other's memory: of a TeamSizer, whose methods must not \
             panic; of work given to nanothreads::engine; or a bug in nanothreads. The process ends"
        );
        std::process::abort();
    }
}
