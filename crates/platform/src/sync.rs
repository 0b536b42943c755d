//! The loom switch: every protocol of ours takes its atomics, cells and threads from here, so that
//! loom can drive the shipped types (`RUSTFLAGS="--cfg loom"`).

pub use crossbeam_utils::CachePadded;

#[cfg(loom)]
pub mod weakened;

#[cfg(loom)]
pub use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use {
    crate::lock::Mutex,
    std::sync::{Arc, MutexGuard},
};

/// Atomic types and fences.
pub mod atomic {
    #[cfg(loom)]
    pub use super::weakened::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
    #[cfg(not(loom))]
    pub use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

/// Threads, for models.
pub mod thread {
    #[cfg(loom)]
    pub use loom::thread::{JoinHandle, spawn, yield_now};
    #[cfg(not(loom))]
    pub use std::thread::{JoinHandle, spawn, yield_now};
}

/// One turn of a spin loop: a processor hint outside loom, a scheduling point inside.
#[inline]
pub fn pause() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// A cell whose accesses loom checks for races: plain memory that a protocol hands from thread to
/// thread.
#[derive(Debug, Default)]
pub struct HandCell<T>(
    #[cfg(not(loom))] std::cell::UnsafeCell<T>,
    #[cfg(loom)] loom::cell::UnsafeCell<T>,
);

impl<T> HandCell<T> {
    /// A cell that holds `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// A cell that holds `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// Reads through a shared pointer.
    ///
    /// # Safety
    /// - No other thread writes the cell during the call: the caller's protocol orders the
    ///   accesses.
    #[inline]
    pub unsafe fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        #[cfg(not(loom))]
        let result = read(self.0.get());
        #[cfg(loom)]
        let result = self.0.with(read);
        result
    }

    /// Writes through an exclusive pointer.
    ///
    /// # Safety
    /// - No other thread reads or writes the cell during the call: the caller's protocol orders the
    ///   accesses.
    #[inline]
    pub unsafe fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(not(loom))]
        let result = write(self.0.get());
        #[cfg(loom)]
        let result = self.0.with_mut(write);
        result
    }
}
