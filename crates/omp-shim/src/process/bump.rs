//! A bump allocator for the first things that the library allocates: memory of its own, not the
//! program's heap.
//!
//! # Why
//! Setting an engine up takes some five hundred allocations of 100 KB in all, most of which are
//! gone at once (control groups, the machine's topology, settings). In the program's heap they
//! leave holes, and what the program allocates next for ever goes into those instead of to the
//! heap's end. glibc gives the free end of a heap back to the kernel whenever it is longer than a
//! threshold: a program that computes in memory which it frees and takes again then takes it from
//! the kernel each time. numpy's `eigh` (500 x 500, eight times) has 10,900 page faults when it is
//! lucky, and else 23,500 and a tenth more time. Of nine environments that differ in the length of
//! a variable or a seed of Python's, two were lucky with the original library, none with this one
//! before, and five since.
//!
//! # Rule
//! A region of [`ROOM`] bytes is handed out from its beginning to its end. A thread that gives back
//! the last piece that was handed out makes room for the next one, as most of what is needed for a
//! moment does; what is given back otherwise is not used again. When the region is used up, the
//! system's allocator has the rest; all of it where ThreadSanitizer watches the process
//! ([`sanitizer`]), for which the region closes as soon as the library is loaded.
//!
//! # Races
//! `end` is changed by compare-and-swap only, and a piece belongs to the thread that moved `end`
//! past it. A giver that finds `end` right at the end of its piece is the only one that may give
//! that piece back, so that no other thread moves `end` to before it.
//!
//! # Orderings
//! `end`: Acquire and Release, so that a thread that gets a piece sees that its last owner has done
//! with it.

use super::sanitizer;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed, Release},
};

/// Bytes of the library's region: twice what a set-up takes, and more. Pages that were not touched
/// are none.
const ROOM: usize = 256 << 10;
/// The region's alignment. A layout that asks for more is the system's.
const PAGE: usize = 4096;

/// The library's own.
#[global_allocator]
pub(crate) static ALLOCATOR: BumpAllocator<ROOM> = BumpAllocator::new();

/// See the module head.
#[repr(C, align(4096))]
pub(crate) struct BumpAllocator<const ROOM: usize> {
    region: UnsafeCell<[u8; ROOM]>,
    /// How much of it is handed out.
    end: AtomicUsize,
}

// SAFETY: - pieces of the region are handed out to one owner each.
unsafe impl<const ROOM: usize> Sync for BumpAllocator<ROOM> {}

impl<const ROOM: usize> BumpAllocator<ROOM> {
    pub(crate) const fn new() -> Self {
        Self { region: UnsafeCell::new([0; ROOM]), end: AtomicUsize::new(0) }
    }

    /// From now on the system's allocator has everything.
    pub(crate) fn close(&self) {
        // Where no piece ends.
        // ORDERING: Release - see the module head.
        self.end.store(usize::MAX, Release);
    }

    fn begin(&self) -> *mut u8 {
        self.region.get().cast()
    }

    /// Where in the region `piece` begins, if it is in there.
    fn offset_of(&self, piece: *mut u8) -> Option<usize> {
        piece.addr().checked_sub(self.begin().addr()).filter(|offset| *offset < ROOM)
    }

    /// The next piece of this layout, while there is room.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        if layout.align() > PAGE {
            return None;
        }
        // ORDERING: Relaxed - the exchange looks again.
        let mut end = self.end.load(Relaxed);
        loop {
            let offset = end.checked_next_multiple_of(layout.align())?;
            let behind = offset.checked_add(layout.size()).filter(|behind| *behind <= ROOM)?;
            // ORDERING: AcqRel - see the module head.
            match self.end.compare_exchange_weak(end, behind, AcqRel, Relaxed) {
                // SAFETY: - inside the region.
                Ok(_) => return Some(unsafe { self.begin().add(offset) }),
                Err(now) => end = now,
            }
        }
    }

    /// Makes the piece at `offset` as long as `new`, if it is the last one and there is room.
    fn resize(&self, offset: usize, old: usize, new: usize) -> bool {
        let behind = offset.checked_add(new).filter(|behind| *behind <= ROOM);
        // ORDERING: AcqRel - see the module head.
        behind.is_some_and(|behind| {
            self.end.compare_exchange(offset + old, behind, AcqRel, Relaxed).is_ok()
        })
    }
}

/// Gives the system a piece back. By itself: where it is called, few registers are in use.
///
/// # Safety
/// - The system handed it out, with this layout.
#[inline(never)]
unsafe fn free(piece: *mut u8, layout: Layout) {
    // SAFETY: - caller's contract.
    sanitizer::unwatched(|| unsafe { System.dealloc(piece, layout) });
}

// SAFETY: - each piece is handed out to one owner, aligned, and of the size that was asked for;
//           what is not of the region is the system's, which is told of what it handed out only.
unsafe impl<const ROOM: usize> GlobalAlloc for BumpAllocator<ROOM> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(piece) => piece,
            // SAFETY: - caller's contract.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(piece) = self.take(layout) else {
            // SAFETY: - caller's contract.
            return unsafe { System.alloc_zeroed(layout) };
        };
        // SAFETY: - the piece is as long as that, and the caller's alone. It may have been
        // another one's before.
        unsafe { piece.write_bytes(0, layout.size()) };
        piece
    }

    #[inline]
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match self.offset_of(piece) {
            Some(offset) => {
                self.resize(offset, layout.size(), 0);
            }
            // SAFETY: - caller's contract: the system handed it out.
            None => unsafe { free(piece, layout) },
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(offset) = self.offset_of(piece) else {
            // SAFETY: - as above.
            return unsafe { System.realloc(piece, layout, size) };
        };
        if self.resize(offset, layout.size(), size) || size <= layout.size() {
            return piece;
        }
        // SAFETY: - caller's contract: the size is none that overflows with this alignment.
        let layout_of_new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: - caller's contract.
        let new = unsafe { self.alloc(layout_of_new) };
        if !new.is_null() {
            // SAFETY: - both are as long as the old one, and different.
            unsafe {
                ptr::copy_nonoverlapping(piece, new, layout.size());
                self.dealloc(piece, layout);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn the_last_piece_grows_shrinks_and_comes_back_and_others_stay() {
        static BUMP: BumpAllocator<256> = BumpAllocator::new();
        // SAFETY: - each piece is given back once, with the layout that it has then.
        unsafe {
            let first = BUMP.alloc(layout(10, 1));
            let second = BUMP.alloc_zeroed(layout(16, 16));
            assert_eq!((BUMP.offset_of(first), BUMP.offset_of(second)), (Some(0), Some(16)));
            assert_eq!(BUMP.realloc(second, layout(16, 16), 100), second);
            second.write_bytes(7, 100);
            assert_eq!(BUMP.realloc(second, layout(100, 16), 8), second);
            BUMP.dealloc(second, layout(8, 16));
            let third = BUMP.alloc_zeroed(layout(8, 8));
            assert_eq!(third, second, "it came back");
            assert_eq!(third.cast::<u64>().read(), 0, "whichever had it before");
            first.write(3);
            let moved = BUMP.realloc(first, layout(10, 1), 20);
            assert_eq!((BUMP.offset_of(moved), moved.read()), (Some(24), 3));
        }
    }

    #[test]
    fn a_closed_region_hands_nothing_out_also_after_its_last_piece_came_back() {
        static BUMP: BumpAllocator<256> = BumpAllocator::new();
        // SAFETY: - as above.
        unsafe {
            let piece = BUMP.alloc(layout(256, 1));
            assert_eq!(BUMP.offset_of(piece), Some(0));
            BUMP.close();
            BUMP.dealloc(piece, layout(256, 1));
            let other = BUMP.alloc(layout(8, 8));
            assert_eq!(BUMP.offset_of(other), None);
            BUMP.dealloc(other, layout(8, 8));
        }
    }

    #[test]
    fn what_has_no_room_is_the_systems() {
        static BUMP: BumpAllocator<64> = BumpAllocator::new();
        // SAFETY: - as above.
        unsafe {
            let small = BUMP.alloc(layout(60, 1));
            small.write_bytes(5, 60);
            let (large, wide) = (BUMP.alloc_zeroed(layout(5, 1)), BUMP.alloc(layout(1, 2 * PAGE)));
            assert_eq!((BUMP.offset_of(large), BUMP.offset_of(wide)), (None, None));
            let moved = BUMP.realloc(small, layout(60, 1), 65);
            assert_eq!((BUMP.offset_of(moved), moved.add(59).read()), (None, 5));
            for (piece, size, align) in [(large, 5, 1), (wide, 1, 2 * PAGE), (moved, 65, 1)] {
                BUMP.dealloc(piece, layout(size, align));
            }
        }
    }

    #[test]
    fn pieces_of_several_threads_do_not_overlap() {
        static BUMP: BumpAllocator<{ 64 << 10 }> = BumpAllocator::new();
        let begin = Barrier::new(4);
        thread::scope(|s| {
            for mark in 1..=4_u8 {
                let begin = &begin;
                s.spawn(move || {
                    begin.wait();
                    for round in 0..500 {
                        let size = 1 + (round * 7 + usize::from(mark)) % 40;
                        // SAFETY: - as above.
                        unsafe {
                            let (kept, brief) =
                                (BUMP.alloc(layout(size, 8)), BUMP.alloc(layout(size, 1)));
                            kept.write_bytes(mark, size);
                            brief.write_bytes(mark, size);
                            thread::yield_now();
                            let is_whole =
                                |piece: *mut u8| (0..size).all(|at| piece.add(at).read() == mark);
                            assert!(is_whole(kept) && is_whole(brief));
                            BUMP.dealloc(brief, layout(size, 1));
                            if round % 2 == 0 {
                                BUMP.dealloc(kept, layout(size, 8));
                            }
                        }
                    }
                });
            }
        });
    }
}
