//! Allocators.

use crate::abi::c::allocators as c;
use crate::memory::{self, Trait};

/// Makes an allocator; 0 when that cannot be.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_init_allocator_(
    space: *const usize,
    count: *const i32,
    traits: *const Trait,
) -> usize {
    // SAFETY: the program's variables and array.
    unsafe { c::omp_init_allocator(*space, *count, traits) }
}

/// The same with an 8-byte count.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_init_allocator_8_(
    space: *const usize,
    count: *const i64,
    traits: *const Trait,
) -> usize {
    // SAFETY: the program's variables and array.
    unsafe { c::omp_init_allocator(*space, i32::try_from(*count).unwrap_or(0), traits) }
}

/// Ends an allocator.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_destroy_allocator_(handle: *const usize) {
    // SAFETY: the program's variable; it uses the allocator no more.
    unsafe { memory::destroy(*handle) };
}

/// Sets def-allocator-var.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_set_default_allocator_(handle: *const usize) {
    // SAFETY: the program's variable.
    c::omp_set_default_allocator(unsafe { *handle });
}
