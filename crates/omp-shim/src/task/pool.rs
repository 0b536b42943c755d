//! Free blocks for explicit tasks: taken and given back by a member's own thread without a lock.
//!
//! Tasks often end on another member than the one that created them. The C library's allocator then
//! takes the creator's lock for each. Here the member that frees a block keeps it. A shelf that
//! grows too long puts [`BATCH`] blocks at once into the team's store, where empty shelves look
//! before they ask for fresh memory. A block is never told from another: any member's shelf, of any
//! team, takes it.
//!
//! Blocks begin at a line of their own, so that a task that is written does not disturb one that
//! runs. A member that takes a block starts to fetch the next one, which another member's cache
//! most likely has.
//!
//! # Access
//! [`Shelf`]: its member's thread. [`Store`]: any thread, under its lock.

use platform::lock::Mutex;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr;
use std::sync::{MutexGuard, PoisonError};

/// Bytes of a block: a task with a few arguments. Larger tasks have memory of their own.
const SIZE: usize = 256;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Blocks that move together.
const BATCH: u32 = 32;
/// Batches that a store keeps.
const KEPT: usize = 32;

const BLOCK: Layout = match Layout::from_size_align(SIZE, LINE) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// A free block: its first word is a link.
struct Free {
    next: *mut Free,
}

/// The free blocks of one member.
pub(super) struct Shelf {
    first: Cell<*mut Free>,
    count: Cell<u32>,
}

/// Batches of free blocks for all members of a team.
#[derive(Default)]
pub(super) struct Store(Mutex<Vec<Batch>>);

/// A list of [`BATCH`] blocks.
struct Batch(*mut Free);

// SAFETY: - free blocks, which belong to the thread that holds the list.
unsafe impl Send for Batch {}

/// True when a task of this layout has a block.
pub(crate) fn fits(layout: Layout) -> bool {
    layout.size() <= SIZE && layout.align() <= LINE
}

impl Default for Shelf {
    fn default() -> Self {
        Self { first: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }
}

impl Shelf {
    /// A block. Cost: a few instructions; a lock for each [`BATCH`] that others have freed.
    #[inline]
    pub(super) fn take(&self, store: &Store) -> *mut u8 {
        let mut first = self.first.get();
        if first.is_null() {
            match store.take() {
                Some(Batch(batch)) => {
                    self.count.set(BATCH);
                    first = batch;
                }
                None => return fresh(),
            }
        }
        // SAFETY: - a free block of this shelf's.
        let next = unsafe { (*first).next };
        fetch(next);
        self.first.set(next);
        self.count.set(self.count.get() - 1);
        first.cast()
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// - `block` came from `take` of any shelf, and nobody uses it any more.
    #[inline]
    pub(super) unsafe fn give(&self, block: *mut u8, store: &Store) {
        let block: *mut Free = block.cast();
        // SAFETY: - caller's contract: memory of ours, large and aligned enough.
        unsafe { block.write(Free { next: self.first.get() }) };
        self.first.set(block);
        self.count.set(self.count.get() + 1);
        if self.count.get() >= 2 * BATCH {
            self.shed(store);
        }
    }

    /// Puts the blocks that were freed last into the store: those come to lie on top there, and the
    /// member that takes blocks next finds them in a cache.
    #[cold]
    fn shed(&self, store: &Store) {
        let batch = self.first.get();
        let mut last = batch;
        for _ in 1..BATCH {
            // SAFETY: - the shelf has more blocks than a batch.
            last = unsafe { (*last).next };
        }
        // SAFETY: - as above.
        self.first.set(unsafe { (*last).next });
        self.count.set(self.count.get() - BATCH);
        // SAFETY: - as above.
        unsafe { (*last).next = ptr::null_mut() };
        store.give(Batch(batch));
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        // SAFETY: - the shelf's own list, which nobody uses any more.
        unsafe { free_all(self.first.get()) };
    }
}

impl Store {
    fn batches(&self) -> MutexGuard<'_, Vec<Batch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Batch> {
        self.batches().pop()
    }

    fn give(&self, batch: Batch) {
        let mut batches = self.batches();
        if batches.len() < KEPT {
            batches.push(batch);
            return;
        }
        drop(batches);
        // SAFETY: - a list that was handed over, and that nobody else has.
        unsafe { free_all(batch.0) };
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for Batch(first) in self.batches().drain(..) {
            // SAFETY: - the store's own lists.
            unsafe { free_all(first) };
        }
    }
}

/// Gives a block back to the C library.
///
/// # Safety
/// - As for [`Shelf::give`].
pub(crate) unsafe fn free(block: *mut u8) {
    // SAFETY: - caller's contract; made by `fresh` with this layout.
    unsafe { dealloc(block, BLOCK) };
}

#[cold]
fn fresh() -> *mut u8 {
    // SAFETY: - the layout is not empty.
    let block = unsafe { alloc(BLOCK) };
    if block.is_null() {
        handle_alloc_error(BLOCK);
    }
    block
}

/// # Safety
/// - A list of free blocks that nobody else has.
unsafe fn free_all(mut first: *mut Free) {
    while !first.is_null() {
        // SAFETY: - caller's contract.
        let next = unsafe { (*first).next };
        // SAFETY: - as above.
        unsafe { free(first.cast()) };
        first = next;
    }
}

/// Starts to fetch a block (or nothing, for null) that is soon written.
#[inline(always)]
fn fetch(block: *mut Free) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..SIZE - LINE).step_by(LINE) {
        // SAFETY: - a hint: it faults at no address and changes nothing that a program sees.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) block.wrapping_byte_add(line), options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = block;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn blocks_that_one_member_frees_come_back_to_the_other_and_none_is_held_twice() {
        let store = Store::default();
        let (creator, thief) = (Shelf::default(), Shelf::default());
        let mut known = HashSet::new();
        for round in 0..50 {
            let taken: Vec<*mut u8> = (0..100).map(|_| creator.take(&store)).collect();
            let distinct: HashSet<*mut u8> = taken.iter().copied().collect();
            assert_eq!(distinct.len(), taken.len(), "a block was given to two");
            // Until both shelves have their fill.
            if round >= 20 {
                let fresh = distinct.difference(&known).count();
                assert_eq!(fresh, 0, "round {round} took fresh memory");
            }
            known.extend(distinct);
            for block in taken {
                // SAFETY: - taken above, and not used.
                unsafe { thief.give(block, &store) };
            }
            assert!(thief.count.get() < 2 * BATCH);
        }
    }

    #[test]
    fn a_store_keeps_no_more_than_its_share() {
        let store = Store::default();
        let shelf = Shelf::default();
        let taken: Vec<*mut u8> =
            (0..(KEPT as u32 + 20) * BATCH).map(|_| shelf.take(&store)).collect();
        for block in taken {
            // SAFETY: - taken above, and not used.
            unsafe { shelf.give(block, &store) };
        }
        assert_eq!(store.batches().len(), KEPT);
    }
}
