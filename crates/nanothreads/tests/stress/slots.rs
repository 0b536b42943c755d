//! Plain memory that the threads of a program share: only the engine's orderings keep its users
//! apart, so that a missing one is a wrong value here, and a report of ThreadSanitizer.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers 0..n, all 0 at first.
pub(crate) struct Slots(Box<[UnsafeCell<u64>]>);

// SAFETY: - deliberately not: the programs order all accesses of a slot, and the test is whether
// the engine does so.
unsafe impl Sync for Slots {}

impl Slots {
    pub(crate) fn new(length: usize) -> Self {
        Self((0..length).map(|_| UnsafeCell::new(0)).collect())
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        // SAFETY: - a volatile read, so that each one happens; in bounds by the index. Ordered as
        // said above.
        unsafe { ptr::read_volatile(self.0[index].get()) }
    }

    pub(crate) fn set(&self, index: usize, value: u64) {
        // SAFETY: - as above, a write.
        unsafe { ptr::write_volatile(self.0[index].get(), value) }
    }

    /// Adds in two steps: what another thread adds in between is lost.
    pub(crate) fn add(&self, index: usize, value: u64) {
        self.set(index, self.get(index).wrapping_add(value));
    }

    /// Adds in one step, for users that share a slot at the same time.
    pub(crate) fn add_at_once(&self, index: usize, value: u64) {
        // SAFETY: - alignment and bounds are the cell's; all users of this phase add by this
        // function.
        unsafe { AtomicU64::from_ptr(self.0[index].get()) }.fetch_add(value, Relaxed);
    }

    /// What dependences on a slot name.
    pub(crate) fn key(&self, index: usize) -> &impl Sized {
        &self.0[index]
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = u64> {
        (0..self.0.len()).map(|index| self.get(index))
    }
}
