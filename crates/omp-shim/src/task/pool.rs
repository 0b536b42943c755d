//! Blocks for explicit tasks: what a team's members free is on their free lists and in the team's
//! store ([`engine::free_list`]); fresh ones are the C library's, one by one, since any member's
//! free list, of any team, takes them.
//!
//! Blocks begin at a line of their own, so that a task that is written does not disturb one that
//! runs.

use ::engine::free_list::{self, Batch};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

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

/// The free blocks of one member.
#[derive(Default)]
pub(super) struct FreeList(free_list::FreeList<BATCH, { SIZE - LINE }>);

/// Batches of free blocks for all members of a team.
#[derive(Default)]
pub(super) struct Store(free_list::Store);

/// True when a task of this layout has a block.
pub(crate) fn fits(layout: Layout) -> bool {
    layout.size() <= SIZE && layout.align() <= LINE
}

impl FreeList {
    /// A block. Cost: a few instructions; a lock for each [`BATCH`] that others have freed.
    #[inline]
    pub(super) fn take(&self, store: &Store) -> *mut u8 {
        self.0.take(|| store.0.take().unwrap_or_else(fresh))
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// - `block` came from `take` of any free list, and nothing uses it any more.
    #[inline]
    pub(super) unsafe fn give(&self, block: *mut u8, store: &Store) {
        // SAFETY: - caller's contract: memory of ours, large and aligned enough.
        unsafe { self.0.give(block, |batch| _ = store.0.give(batch, KEPT).map(free_all)) };
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        free_all(self.0.take_all());
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        std::iter::from_fn(|| self.0.take()).for_each(free_all);
    }
}

/// Gives a block back to the C library.
///
/// # Safety
/// - As for [`FreeList::give`].
pub(crate) unsafe fn free(block: *mut u8) {
    // SAFETY: - caller's contract; made by `fresh` with this layout.
    unsafe { dealloc(block, BLOCK) };
}

/// One block.
#[cold]
fn fresh() -> Batch {
    // SAFETY: - the layout is not empty.
    let block = unsafe { alloc(BLOCK) };
    if block.is_null() {
        handle_alloc_error(BLOCK);
    }
    // SAFETY: - just made, and larger than a pointer.
    unsafe { Batch::of([block]) }
}

fn free_all(batch: Batch) {
    for block in batch {
        // SAFETY: - blocks of a free list or a store, which nothing else has.
        unsafe { free(block) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_keeps_no_more_than_its_share() {
        let store = Store::default();
        let free_list = FreeList::default();
        let taken: Vec<*mut u8> =
            (0..(KEPT as u32 + 20) * BATCH).map(|_| free_list.take(&store)).collect();
        for block in taken {
            // SAFETY: - taken above, and not used.
            unsafe { free_list.give(block, &store) };
        }
        assert_eq!(std::iter::from_fn(|| store.0.take()).map(free_all).count(), KEPT);
    }
}
