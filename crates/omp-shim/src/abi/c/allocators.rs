//! Allocators and their memory.

use crate::frame;
use crate::memory::{self, Trait};
use std::ffi::{c_int, c_void};
use std::slice;

/// The allocator that a handle means for the calling task.
pub(in crate::abi) fn meant(handle: usize) -> usize {
    if handle == memory::NULL { frame::current().icvs().allocator } else { handle }
}

/// Makes an allocator; 0 when that cannot be.
#[unsafe(no_mangle)]
pub(in crate::abi) unsafe extern "C" fn omp_init_allocator(
    space: usize,
    count: c_int,
    traits: *const Trait,
) -> usize {
    let count = if traits.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    if count == 0 {
        return memory::create(space, &[]);
    }
    // SAFETY: - the program's array, not null and of `count` items.
    memory::create(space, unsafe { slice::from_raw_parts(traits, count) })
}

/// Ends an allocator.
#[unsafe(no_mangle)]
pub(in crate::abi) unsafe extern "C" fn omp_destroy_allocator(handle: usize) {
    // SAFETY: the program uses it no more.
    unsafe { memory::destroy(handle) };
}

/// Sets def-allocator-var.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_set_default_allocator(handle: usize) {
    let handle = if handle == memory::NULL { memory::DEFAULT } else { handle };
    frame::current().change_icvs(|icvs| icvs.allocator = handle);
}

/// def-allocator-var.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_default_allocator() -> usize {
    frame::current().icvs().allocator
}

/// Memory.
#[unsafe(no_mangle)]
extern "C" fn omp_alloc(size: usize, handle: usize) -> *mut c_void {
    memory::allocate(1, size, meant(handle), false)
}

/// Aligned memory.
#[unsafe(no_mangle)]
extern "C" fn omp_aligned_alloc(alignment: usize, size: usize, handle: usize) -> *mut c_void {
    memory::allocate(alignment, size, meant(handle), false)
}

/// Zeroed memory.
#[unsafe(no_mangle)]
extern "C" fn omp_calloc(count: usize, size: usize, handle: usize) -> *mut c_void {
    omp_aligned_calloc(1, count, size, handle)
}

/// Aligned zeroed memory.
#[unsafe(no_mangle)]
extern "C" fn omp_aligned_calloc(
    alignment: usize,
    count: usize,
    size: usize,
    handle: usize,
) -> *mut c_void {
    // What overflows is more than there is: the largest size fails as the allocator's traits say.
    memory::allocate(alignment, count.saturating_mul(size), meant(handle), true)
}

/// Changes the size of a block.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_realloc(
    block: *mut c_void,
    size: usize,
    handle: usize,
    _old: usize,
) -> *mut c_void {
    // SAFETY: the program's block.
    unsafe { memory::reallocate(block, size, handle, omp_get_default_allocator()) }
}

/// Frees a block.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_free(block: *mut c_void, _handle: usize) {
    // SAFETY: the program's block.
    unsafe { memory::free(block) };
}
