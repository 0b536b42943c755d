//! A value that signal handlers look at and its owner takes back: the owner waits for handlers that
//! are inside, and no handler waits for anything.
//!
//! # Protocol
//! A handler counts itself in (B1) and reads the place (B2). The owner empties the place (A1) and
//! reads the count (A2). Between the two steps of each stands a `SeqCst` fence: either A2 sees B1,
//! and the owner waits until that handler has counted itself out, or B2 sees A1, and the handler
//! finds nothing.
//!
//! # Invariants
//! I1  While the count has a handler that found the value, the value is there.

use std::ptr;

use platform::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use platform::sync::pause;

/// See the module head.
#[derive(Debug)]
pub struct Gate<T> {
    place: AtomicPtr<T>,
    visitors: AtomicUsize,
}

impl<T> Gate<T> {
    /// Nothing is there.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self { place: AtomicPtr::new(ptr::null_mut()), visitors: AtomicUsize::new(0) }
    }

    /// Nothing is there.
    #[cfg(loom)]
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub fn new() -> Self {
        Self { place: AtomicPtr::new(ptr::null_mut()), visitors: AtomicUsize::new(0) }
    }

    /// Puts a value there, and returns its address.
    ///
    /// # Errors
    /// Another one is there.
    pub fn enter(&self, value: Box<T>) -> Result<*mut T, Box<T>> {
        let value = Box::into_raw(value);
        // ORDERING (gate.enter): Release - pairs with the Acquire in `visit`: the value is whole.
        match self.place.compare_exchange(ptr::null_mut(), value, Release, Relaxed) {
            Ok(_) => Ok(value),
            // SAFETY: - made above, and seen by no other thread.
            Err(_) => Err(unsafe { Box::from_raw(value) }),
        }
    }

    /// Looks at the value, if one is there. A signal handler may call it, with a `look` that a
    /// handler may do.
    pub fn visit<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        // ORDERING: Relaxed - B1; the fence orders it before B2.
        self.visitors.fetch_add(1, Relaxed);
        // ORDERING (gate.visit): SeqCst - between B1 and B2, against the fence in `leave`.
        fence(SeqCst);
        // ORDERING (gate.find): Acquire - B2; pairs with the Release in `enter`.
        let value = self.place.load(Acquire);
        // SAFETY: - by I1 it is not freed before the count falls.
        let outcome = unsafe { value.as_ref() }.map(look);
        // ORDERING (gate.out): Release - pairs with the Acquire in `leave`: the look is over.
        self.visitors.fetch_sub(1, Release);
        outcome
    }

    /// Takes the value back, when no handler is inside. While one is, `goes_on` is asked: after its
    /// first false the value is leaked, and `None` is returned; so it is where nothing is there.
    pub fn leave(&self, mut goes_on: impl FnMut() -> bool) -> Option<Box<T>> {
        // ORDERING: Relaxed - A1; the fence orders it before A2. The owner has seen the value.
        let value = self.place.swap(ptr::null_mut(), Relaxed);
        if value.is_null() {
            return None;
        }
        // ORDERING (gate.leave): SeqCst - between A1 and A2, against the fence in `visit`.
        fence(SeqCst);
        // ORDERING (gate.wait): Acquire - A2; pairs with the Release in `visit`.
        while self.visitors.load(Acquire) != 0 {
            if !goes_on() {
                return None;
            }
            pause();
        }
        // SAFETY: - made by `enter`; no handler has it (I1), and none finds it any more.
        Some(unsafe { Box::from_raw(value) })
    }
}
