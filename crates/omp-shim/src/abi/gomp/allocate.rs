//! The `allocate` clause.

use crate::abi::c::allocators::meant;
use crate::memory;
use crate::process::message;
use std::ffi::c_void;

/// The `allocate` clause.
#[unsafe(no_mangle)]
extern "C" fn GOMP_alloc(alignment: usize, size: usize, handle: usize) -> *mut c_void {
    let block = memory::allocate(alignment, size, meant(handle), false);
    if block.is_null() && size > 0 {
        message::fatal(&format!("out of memory: {size} bytes for an allocate clause"));
    }
    block
}

/// Frees what `GOMP_alloc` gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_free(block: *mut c_void, _handle: usize) {
    // SAFETY: the compiled code frees what it got, once.
    unsafe { memory::free(block) };
}
