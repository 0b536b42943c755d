//! The ways into a scope that are open from outside: its spawners and completions.
//!
//! A scope waits for each of them. One that the body returned, or left in a place that outlives it,
//! is dropped after the scope at the earliest: that wait has no end. The program is told
//! ([`watch`](super::watch)).

use platform::sync::CachePadded;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Those of a scope's own handle. Tasks and groups have theirs, and hold the scope open by
/// themselves.
pub(crate) struct Doors(CachePadded<Counted>);

struct Counted {
    open: AtomicUsize,
    /// Where the last one was made; it need not be open any more.
    last: AtomicPtr<Location<'static>>,
}

impl Doors {
    pub(super) fn new() -> Self {
        Self(CachePadded::new(Counted {
            open: AtomicUsize::new(0),
            last: AtomicPtr::new(ptr::null_mut()),
        }))
    }

    /// One is made.
    pub(crate) fn opens(&self, place: &'static Location<'static>) {
        self.0.last.store(ptr::from_ref(place).cast_mut(), Release);
        self.opens_another();
    }

    /// One more of a kind that is open.
    pub(crate) fn opens_another(&self) {
        // ORDERING: Relaxed - a number on its own, for a report.
        self.0.open.fetch_add(1, Relaxed);
    }

    /// One is gone.
    pub(crate) fn closes(&self) {
        // ORDERING: Relaxed - as above.
        self.0.open.fetch_sub(1, Relaxed);
    }

    /// How many there are.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        // ORDERING: Relaxed - as above.
        self.0.open.load(Relaxed)
    }

    /// Where the last one was made.
    pub(super) fn last(&self) -> Option<&'static Location<'static>> {
        // ORDERING: Acquire - pairs with `opens`; places are constants of the program.
        // SAFETY: - null, or a place that lives as long as the program.
        unsafe { self.0.last.load(Acquire).as_ref() }
    }
}
