//! `mp-shm` and `mp-fop`: what the vendor's library did. One descriptor at a fixed place, announced
//! to all by one sequence number; arrivals by marks on lines of their own, or by one counter.
//!
//! Orderings: the sequence number is stored with Release after the descriptor and read with
//! Acquire; marks and counter are written with Release after the work and read with Acquire.

use super::Scheme;
use super::descriptor::Descriptor;
use super::wait_for;
use platform::sync::{CachePadded, HandCell};
use std::ptr;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The fixed place and the sequence number.
struct Announcement {
    descriptor: CachePadded<HandCell<Descriptor>>,
    /// Descriptors announced so far. Writer: the master.
    sequence: CachePadded<AtomicU64>,
}

// SAFETY: - the place is written when all workers have arrived, and read by them between
// announcement and arrival.
unsafe impl Sync for Announcement {}

impl Announcement {
    fn new() -> Self {
        Self {
            descriptor: CachePadded::new(HandCell::new(Descriptor::new(None, ptr::null()))),
            sequence: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Returns the number of the announcement, from 1.
    fn announce(&self, descriptor: &Descriptor) -> u64 {
        // SAFETY: - all workers have arrived for the last one.
        unsafe { self.descriptor.with_mut(|place| *place = *descriptor) };
        // ORDERING: Relaxed - the master's own. Release - pairs with the Acquire in `take`.
        let next = self.sequence.load(Relaxed) + 1;
        self.sequence.store(next, Release);
        next
    }

    fn take(&self, number: u64) -> Option<*const Descriptor> {
        // ORDERING: Acquire - pairs with the Release in `announce`.
        let is_there = self.sequence.load(Acquire) > number;
        // SAFETY: - only the address is taken here.
        is_there.then(|| unsafe { self.descriptor.with(|place| place) })
    }

    fn last(&self) -> u64 {
        // ORDERING: Relaxed - the master's own.
        self.sequence.load(Relaxed)
    }
}

/// `mp-shm`.
pub(crate) struct Marks {
    announcement: Announcement,
    /// Last descriptor that each worker finished.
    marks: Box<[CachePadded<AtomicU64>]>,
}

impl Marks {
    pub(crate) fn new(workers: usize) -> Self {
        let marks = (0..workers).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        Self { announcement: Announcement::new(), marks }
    }
}

impl Scheme for Marks {
    fn fork(&self, descriptor: &Descriptor) {
        self.announcement.announce(descriptor);
    }

    fn take(&self, _: usize, number: u64) -> Option<*const Descriptor> {
        self.announcement.take(number)
    }

    fn arrive(&self, worker: usize, number: u64) {
        // ORDERING: Release - pairs with the Acquire in `join`.
        self.marks[worker - 1].store(number + 1, Release);
    }

    fn join(&self) {
        let last = self.announcement.last();
        for mark in &self.marks {
            // ORDERING: Acquire - pairs with the Release in `arrive`.
            wait_for(|| (mark.load(Acquire) == last).then_some(()));
        }
    }
}

/// `mp-fop`.
pub(crate) struct Counter {
    announcement: Announcement,
    /// Arrivals for all descriptors so far.
    arrivals: CachePadded<AtomicU64>,
    workers: u64,
}

impl Counter {
    pub(crate) fn new(workers: usize) -> Self {
        let arrivals = CachePadded::new(AtomicU64::new(0));
        Self { announcement: Announcement::new(), arrivals, workers: workers as u64 }
    }
}

impl Scheme for Counter {
    fn fork(&self, descriptor: &Descriptor) {
        self.announcement.announce(descriptor);
    }

    fn take(&self, _: usize, number: u64) -> Option<*const Descriptor> {
        self.announcement.take(number)
    }

    fn arrive(&self, _: usize, _: u64) {
        // ORDERING: Release - pairs with the Acquire in `join`, which sees the sum of all.
        self.arrivals.fetch_add(1, Release);
    }

    fn join(&self) {
        let all = self.announcement.last() * self.workers;
        // ORDERING: Acquire - pairs with the Release of each arrival (one release sequence).
        wait_for(|| (self.arrivals.load(Acquire) == all).then_some(()));
    }
}
