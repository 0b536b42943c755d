//! `gwd` and `lwd` as published (F3 to F5): circular lists of pointers to descriptors, one for all
//! or one for each worker.
//!
//! NULL at the reader's own index means that there is nothing. The producer's index is advanced
//! under mutual exclusion (LL/SC then, fetch-and-add here), since any processor may supply. After
//! writing a pointer the master, which owns the line now, clears a used location: the one after the
//! next. A reader that looks there has seen the pointer before it, which is written later than the
//! clearing.

use super::Scheme;
use super::descriptor::Descriptor;
use super::djs::Join;
use platform::sync::CachePadded;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Pointers in a list: a multiple of a line.
const LENGTH: u64 = 16;

struct List {
    pointers: CachePadded<[AtomicPtr<Descriptor>; LENGTH as usize]>,
    /// Where the next pointer goes. Writers: producers.
    index: CachePadded<AtomicU64>,
}

impl List {
    fn new() -> Self {
        let pointers = CachePadded::new(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())));
        Self { pointers, index: CachePadded::new(AtomicU64::new(0)) }
    }

    fn at(&self, index: u64) -> &AtomicPtr<Descriptor> {
        &self.pointers[(index % LENGTH) as usize]
    }

    fn supply(&self, descriptor: *const Descriptor) {
        // ORDERING: Relaxed - deals places.
        let index = self.index.fetch_add(1, Relaxed);
        // ORDERING: Release - pairs with the Acquire in `take`: the descriptor, and the clearings
        // before.
        self.at(index).store(descriptor.cast_mut(), Release);
        // ORDERING: Relaxed - before the next pointer's Release.
        self.at(index + 2).store(ptr::null_mut(), Relaxed);
    }

    fn take(&self, index: u64) -> Option<*const Descriptor> {
        // ORDERING: Acquire - pairs with the Release in `supply`.
        let pointer = self.at(index).load(Acquire);
        (!pointer.is_null()).then_some(pointer.cast_const())
    }
}

/// `gwd`.
pub(crate) struct Global {
    list: List,
    join: Join,
}

impl Global {
    pub(crate) fn new(workers: usize) -> Self {
        Self { list: List::new(), join: Join::new(workers) }
    }
}

impl Scheme for Global {
    fn fork(&self, descriptor: &Descriptor) {
        self.list.supply(descriptor);
    }

    fn take(&self, _: usize, number: u64) -> Option<*const Descriptor> {
        self.list.take(number)
    }

    fn arrive(&self, worker: usize, number: u64) {
        self.join.arrive(worker, number);
    }

    fn join(&self) {
        self.join.join();
    }
}

/// `lwd`.
pub(crate) struct Local {
    lists: Box<[List]>,
    join: Join,
}

impl Local {
    pub(crate) fn new(workers: usize) -> Self {
        Self { lists: (0..workers).map(|_| List::new()).collect(), join: Join::new(workers) }
    }
}

impl Scheme for Local {
    fn fork(&self, descriptor: &Descriptor) {
        for list in &self.lists {
            list.supply(descriptor);
        }
    }

    fn take(&self, worker: usize, number: u64) -> Option<*const Descriptor> {
        self.lists[worker - 1].take(number)
    }

    fn arrive(&self, worker: usize, number: u64) {
        self.join.arrive(worker, number);
    }

    fn join(&self) {
        self.join.join();
    }
}
