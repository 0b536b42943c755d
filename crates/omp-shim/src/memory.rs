//! Allocators: the predefined ones and those that programs make from traits. There is one kind of
//! memory here, so a memory space is a name.
//!
//! A [`BlockHeader`] stands before each block, so that a block can be freed without knowing its
//! allocator.

use crate::process::message;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// `omp_null_allocator`: the default allocator of the task.
pub(crate) const NULL: usize = 0;
/// `omp_default_mem_alloc`.
pub(crate) const DEFAULT: usize = 1;
/// The largest number of a predefined allocator.
const PREDEFINED: usize = 8;

/// What to do when an allocator has no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fallback {
    /// Try the default memory space.
    DefaultSpace,
    /// Return null.
    Null,
    /// End the program.
    Abort,
    /// Try another allocator.
    Allocator(usize),
}

/// An allocator made by `omp_init_allocator`. Its handle is its address.
#[derive(Debug)]
struct Allocator {
    alignment: usize,
    pool_size: usize,
    used: AtomicUsize,
    fallback: Fallback,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct BlockHeader {
    /// What `posix_memalign` gave.
    memory: *mut c_void,
    /// Bytes that the program asked for.
    size: usize,
    allocator: usize,
}

/// One trait, as in `omp_alloctrait_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Trait {
    key: u32,
    value: usize,
}

/// `omp_atv_default`.
const ATV_DEFAULT: usize = usize::MAX;
/// The numbers of the memory spaces.
const SPACES: std::ops::RangeInclusive<usize> = 0..=4;
/// `omp_high_bw_mem_space`: a promise that we cannot keep.
const HIGH_BANDWIDTH: usize = 3;

/// `omp_init_allocator`; [`NULL`] when a trait is wrong or cannot be had.
pub(crate) fn create(space: usize, traits: &[Trait]) -> usize {
    if !SPACES.contains(&space) || space == HIGH_BANDWIDTH {
        return NULL;
    }
    match from_traits(traits) {
        Some(allocator) => Box::into_raw(Box::new(allocator)).expose_provenance(),
        None => NULL,
    }
}

fn from_traits(traits: &[Trait]) -> Option<Allocator> {
    let mut allocator = Allocator {
        alignment: 1,
        pool_size: usize::MAX,
        used: AtomicUsize::new(0),
        fallback: Fallback::DefaultSpace,
    };
    let (mut fallback, mut other) = (FB_DEFAULT, NULL);
    for &Trait { key, value } in traits {
        let is_default = value == ATV_DEFAULT;
        let known = match key {
            // sync_hint, access, partition: true of our memory whatever they say.
            1 => is_default || matches!(value, 3..=6),
            3 => is_default || matches!(value, 7..=10),
            8 => is_default || matches!(value, 15..=18),
            2 => {
                allocator.alignment = if is_default { 1 } else { value };
                allocator.alignment.is_power_of_two()
            }
            4 => {
                allocator.pool_size = value;
                value != 0
            }
            5 => {
                fallback = if is_default { FB_DEFAULT } else { value };
                (FB_DEFAULT..=FB_ALLOCATOR).contains(&fallback)
            }
            6 => {
                other = value;
                true
            }
            // pinned: only "no" can be had.
            7 => is_default || value == 0,
            _ => false,
        };
        if !known {
            return None;
        }
    }
    allocator.fallback = match fallback {
        FB_NULL => Fallback::Null,
        FB_ABORT => Fallback::Abort,
        FB_ALLOCATOR => Fallback::Allocator(other),
        _ => Fallback::DefaultSpace,
    };
    Some(allocator)
}

const FB_DEFAULT: usize = 11;
const FB_NULL: usize = 12;
const FB_ABORT: usize = 13;
const FB_ALLOCATOR: usize = 14;

/// The allocator that a handle names; `None` for the predefined ones.
fn made(handle: usize) -> Option<&'static Allocator> {
    if handle <= PREDEFINED {
        return None;
    }
    // SAFETY: - other handles come from `create`; the program does not use them after `destroy`.
    Some(unsafe { &*ptr::with_exposed_provenance::<Allocator>(handle) })
}

/// `omp_destroy_allocator`.
///
/// # Safety
/// - `handle` is predefined, or was created, and is not used any more.
pub(crate) unsafe fn destroy(handle: usize) {
    if handle > PREDEFINED {
        // SAFETY: caller's contract.
        drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Allocator>(handle)) });
    }
}

impl Allocator {
    fn reserve(&self, size: usize) -> bool {
        // ORDERING: Relaxed - a count of bytes; the memory itself comes from malloc.
        self.used
            .fetch_update(Relaxed, Relaxed, |used| {
                used.checked_add(size).filter(|used| *used <= self.pool_size)
            })
            .is_ok()
    }

    /// Counts a block of `old` bytes as one of `new` bytes; false when the pool is too small for
    /// that.
    fn resize(&self, old: usize, new: usize) -> bool {
        if new > old {
            return self.reserve(new - old);
        }
        self.give_back(old - new);
        true
    }

    fn give_back(&self, size: usize) {
        // ORDERING: Relaxed - as above.
        self.used.fetch_sub(size, Relaxed);
    }
}

/// Memory of `size` bytes, aligned to `alignment` and to what the allocator asks for. Null for 0
/// bytes.
pub(crate) fn allocate(alignment: usize, size: usize, handle: usize, zeroed: bool) -> *mut c_void {
    if size == 0 {
        return ptr::null_mut();
    }
    let mut handle = handle;
    loop {
        let block = try_allocate(alignment, size, handle, zeroed);
        if !block.is_null() {
            return block;
        }
        let fallback = match made(handle) {
            Some(allocator) => allocator.fallback,
            None if handle == DEFAULT => Fallback::Null,
            None => Fallback::DefaultSpace,
        };
        handle = match fallback {
            Fallback::Null => return ptr::null_mut(),
            Fallback::DefaultSpace => DEFAULT,
            Fallback::Allocator(other) => other,
            Fallback::Abort => {
                message::fatal(&format!("out of memory: an allocator could not give {size} bytes"))
            }
        };
    }
}

fn try_allocate(alignment: usize, size: usize, handle: usize, zeroed: bool) -> *mut c_void {
    let allocator = made(handle);
    if allocator.is_some_and(|allocator| !allocator.reserve(size)) {
        return ptr::null_mut();
    }
    let block = take(alignment, size, handle, zeroed);
    if let Some(allocator) = allocator
        && block.is_null()
    {
        allocator.give_back(size);
    }
    block
}

/// A block from malloc, with its header. The pool is the caller's business.
fn take(alignment: usize, size: usize, handle: usize, zeroed: bool) -> *mut c_void {
    if !alignment.is_power_of_two() {
        return ptr::null_mut();
    }
    let least = made(handle).map_or(1, |allocator| allocator.alignment);
    let alignment = alignment.max(least).max(align_of::<BlockHeader>());
    let total =
        size.checked_add(size_of::<BlockHeader>()).and_then(|total| total.checked_add(alignment));
    let Some(total) = total else {
        return ptr::null_mut();
    };
    // SAFETY: plain allocations.
    let memory = unsafe { if zeroed { libc::calloc(1, total) } else { libc::malloc(total) } };
    if memory.is_null() {
        return memory;
    }
    let start = (memory.addr() + size_of::<BlockHeader>()).next_multiple_of(alignment);
    let block = memory.with_addr(start);
    // SAFETY: - `start` lies at least a header and at most a header and the alignment past
    // `memory`.
    unsafe {
        block.cast::<BlockHeader>().sub(1).write(BlockHeader { memory, size, allocator: handle })
    };
    block
}

/// Frees a block; null is allowed.
///
/// # Safety
/// - `block` is null or came from `allocate` and was not freed.
pub(crate) unsafe fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: - each block has its header before it.
    let header = unsafe { block.cast::<BlockHeader>().sub(1).read() };
    if let Some(allocator) = made(header.allocator) {
        allocator.give_back(header.size);
    }
    // SAFETY: - malloc's pointer, freed once.
    unsafe { libc::free(header.memory) };
}

/// `omp_realloc`: `handle` null = the block's own allocator.
///
/// # Safety
/// - As for [`free`].
pub(crate) unsafe fn reallocate(
    block: *mut c_void,
    size: usize,
    handle: usize,
    default: usize,
) -> *mut c_void {
    if block.is_null() {
        return allocate(1, size, if handle == NULL { default } else { handle }, false);
    }
    if size == 0 {
        // SAFETY: caller's contract.
        unsafe { free(block) };
        return ptr::null_mut();
    }
    // SAFETY: - each block has its header before it.
    let header = unsafe { block.cast::<BlockHeader>().sub(1).read() };
    let handle = if handle == NULL { header.allocator } else { handle };
    // SAFETY: - both blocks have at least this many bytes and are different.
    let copy = |fresh: *mut c_void| unsafe {
        ptr::copy_nonoverlapping(block.cast::<u8>(), fresh.cast::<u8>(), size.min(header.size));
    };
    if let Some(allocator) = made(handle).filter(|_| handle == header.allocator)
        && allocator.resize(header.size, size)
    {
        // The pool need not have room for both blocks.
        let fresh = take(1, size, handle, false);
        if !fresh.is_null() {
            copy(fresh);
            // SAFETY: malloc's pointer, freed once (caller's contract).
            unsafe { libc::free(header.memory) };
            return fresh;
        }
        // What shrank was returned already and fits again; what grew goes back.
        allocator.resize(size, header.size);
    }
    let fresh = allocate(1, size, handle, false);
    if !fresh.is_null() {
        copy(fresh);
        // SAFETY: caller's contract.
        unsafe { free(block) };
    }
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(key: u32, value: usize) -> Trait {
        Trait { key, value }
    }

    #[test]
    fn blocks_are_aligned_as_the_call_or_the_allocator_asks() {
        let handle = create(0, &[t(2, 256)]);
        for (alignment, least) in [(1, 256), (4096, 4096)] {
            let block = allocate(alignment, 10, handle, true);
            assert_eq!(block.addr() % least, 0);
            // SAFETY: ten zeroed bytes that belong to us.
            unsafe {
                assert!(
                    std::slice::from_raw_parts(block.cast::<u8>(), 10)
                        .iter()
                        .all(|byte| *byte == 0)
                );
                free(block);
            }
        }
        // SAFETY: not used any more.
        unsafe { destroy(handle) };
    }

    #[test]
    fn a_full_pool_falls_back_as_its_traits_say() {
        let strict = create(0, &[t(4, 100), t(5, FB_NULL)]);
        let lenient = create(0, &[t(4, 100), t(5, FB_ALLOCATOR), t(6, strict)]);
        let first = allocate(1, 80, strict, false);
        assert!(!first.is_null());
        assert!(allocate(1, 80, strict, false).is_null());
        let second = allocate(1, 80, lenient, false);
        assert!(!second.is_null());
        assert!(allocate(1, 80, lenient, false).is_null(), "its fallback is full, too");
        // SAFETY: ours, once each.
        unsafe {
            free(first);
            let third = allocate(1, 80, lenient, false);
            assert!(!third.is_null(), "what was freed can be had again");
            free(second);
            free(third);
            destroy(lenient);
            destroy(strict);
        }
    }

    #[test]
    fn wrong_traits_give_no_allocator() {
        for bad in [t(2, 3), t(4, 0), t(5, 99), t(7, 1), t(99, 1), t(1, 1)] {
            assert_eq!(create(0, &[bad]), NULL, "{bad:?}");
        }
        assert_eq!(create(77, &[]), NULL);
    }

    #[test]
    fn a_block_keeps_its_content_when_it_grows() {
        let block = allocate(1, 4, DEFAULT, false);
        // SAFETY: ours.
        unsafe {
            block.cast::<[u8; 4]>().write([1, 2, 3, 4]);
            let block = reallocate(block, 1 << 20, NULL, DEFAULT);
            assert_eq!(block.cast::<[u8; 4]>().read(), [1, 2, 3, 4]);
            assert!(reallocate(block, 0, NULL, DEFAULT).is_null());
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(allocate(1, usize::MAX, DEFAULT, false).is_null());
        assert!(allocate(3, 8, DEFAULT, false).is_null());
    }
}
