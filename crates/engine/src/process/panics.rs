//! Panics where nothing may unwind: which payload is kept, what becomes of the others, and where
//! the process ends.
//!
//! A payload is the program's, and its destructor may panic, too. Members of a region must not
//! unwind before the join, so no payload, and nothing else of the program's, is dropped there but
//! by [`discard`].

use crate::process::Born;
use platform::message::say;
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// What a panic carries.
pub type Payload = Box<dyn Any + Send>;

/// Drops `value`. A panic of its destructor has been reported by the panic hook and goes no
/// further: another one is on its way to the caller already.
pub fn discard<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // Its destructor may panic as well, and so on: it is leaked.
        std::mem::forget(payload);
    }
}

/// The first panic of several threads.
///
/// A thread that keeps one says so by the number of its process ([`FirstPanic::owner`]). So a
/// child that was forked meanwhile knows that this thread is not there, and neither waits for it
/// nor takes what it wrote in part.
pub struct FirstPanic {
    /// [`NONE`], [`KEPT`], or the number of the process in which a thread writes or takes the
    /// payload now.
    owner: AtomicUsize,
    payload: UnsafeCell<MaybeUninit<Payload>>,
}

/// Nothing is kept.
const NONE: usize = 0;
/// A payload is kept. No process has this number.
const KEPT: usize = 1;

// SAFETY: - `payload` is touched by the thread that has made itself the owner, until it says what
// is there; it is `Send` by itself.
unsafe impl Sync for FirstPanic {}

impl fmt::Debug for FirstPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstPanic").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Default for FirstPanic {
    fn default() -> Self {
        Self { owner: AtomicUsize::new(NONE), payload: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

impl FirstPanic {
    /// Keeps `payload`, or discards it when there is one already, or about to be. Does not unwind.
    #[cold]
    pub fn keep(&self, payload: Payload) {
        let own = Born::now().number();
        // ORDERING: Acquire - pairs with the Release in `take`: the thread that took is done with
        // the place. Relaxed: nothing is read.
        let taken = self.owner.compare_exchange(NONE, own, Acquire, Relaxed);
        // ORDERING: Relaxed - by a thread of the parent, whose writes this copy of the memory has
        // or has not.
        let is_ours = taken.is_ok()
            || taken.is_err_and(|other| {
                !matches!(other, KEPT)
                    && other != own
                    && self.owner.compare_exchange(other, own, Relaxed, Relaxed).is_ok()
            });
        if !is_ours {
            return discard(payload);
        }
        // SAFETY: - this thread is the owner now. What a thread of the parent may have begun to
        // write is no payload.
        unsafe { (*self.payload.get()).write(payload) };
        // ORDERING: Release - pairs with the Acquire in `take`.
        self.owner.store(KEPT, Release);
    }

    /// What was kept.
    pub fn take(&self) -> Option<Payload> {
        let own = Born::now().number();
        // ORDERING: Acquire - pairs with the Release in `keep`. Relaxed: nothing is read.
        self.owner.compare_exchange(KEPT, own, Acquire, Relaxed).ok()?;
        // SAFETY: - this thread is the owner now, and a payload was kept, which was not taken yet.
        let payload = unsafe { (*self.payload.get()).assume_init_read() };
        // ORDERING: Release - pairs with the Acquire in `keep`.
        self.owner.store(NONE, Release);
        Some(payload)
    }

    /// Goes on with what was kept. After the join: no other thread has it.
    #[inline]
    pub fn pass_on(mut self) {
        if *self.owner.get_mut() == KEPT {
            self.unwind();
        }
    }

    #[cold]
    fn unwind(self) {
        if let Some(payload) = self.take() {
            resume_unwind(payload);
        }
    }
}

impl Drop for FirstPanic {
    #[inline]
    fn drop(&mut self) {
        if *self.owner.get_mut() == KEPT {
            // SAFETY: - a payload was kept, which was not taken yet.
            unsafe { self.payload.get_mut().assume_init_drop() };
        }
    }
}

/// Ends the process when it is dropped: it stands where others use what the thread would unwind.
/// Cost: none, where nothing unwinds.
#[must_use = "it guards until it is dropped or left"]
pub struct NoUnwinding;

impl NoUnwinding {
    /// From here on nothing unwinds.
    pub const fn enter() -> Self {
        Self
    }

    /// No other thread uses anything of this thread's any more.
    #[inline]
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for NoUnwinding {
    #[cold]
    fn drop(&mut self) {
        say(format_args!(
            "nanos: a panic (see above) where threads work on each other's memory: of a TeamSizer, \
             whose methods must not panic; of work given to nanothreads_engine; or a bug in \
             nanothreads. The process ends"
        ));
        std::process::abort();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    fn text(panic: &FirstPanic) -> Option<&'static str> {
        panic.take().map(|payload| *payload.downcast().expect("a text"))
    }

    #[test]
    fn the_first_of_many_is_kept_and_the_others_are_dropped() {
        let (panic, kept) = (FirstPanic::default(), Arc::new(()));
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| panic.keep(Box::new(Arc::clone(&kept))));
            }
        });
        assert_eq!(Arc::strong_count(&kept), 2);
        assert!(panic.take().is_some() && panic.take().is_none());
        assert_eq!(Arc::strong_count(&kept), 1);
        panic.keep(Box::new(Arc::clone(&kept)));
        drop(panic);
        assert_eq!(Arc::strong_count(&kept), 1, "what is not taken is dropped");
    }

    #[test]
    fn what_a_thread_of_the_parent_was_doing_is_neither_taken_nor_waited_for() {
        let panic = FirstPanic::default();
        panic.owner.store(Born::now().number() + 1, Relaxed);
        assert_eq!(text(&panic), None);
        panic.keep(Box::new("the child's own"));
        assert_eq!(text(&panic), Some("the child's own"));
        panic.keep(Box::new("another"));
        panic.keep(Box::new("too late"));
        assert_eq!(text(&panic), Some("another"));
    }
}
