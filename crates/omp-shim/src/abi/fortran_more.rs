//! The Fortran names of what came after OpenMP 3.1. CHARACTER arguments are not terminated; their lengths come last.

use super::api_more as c;
use crate::display;
use crate::frame;
use crate::memory::{self, Trait};
use crate::query::int;
use std::ffi::c_int;
use std::{ptr, slice};

/// Functions without arguments.
macro_rules! plain {
    ($($name:ident = $c:ident -> $type:ty;)*) => {$(
        /// The C function of this name.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> $type {
            c::$c()
        }
    )*};
}

plain! {
    omp_get_num_places_ = omp_get_num_places -> c_int;
    omp_get_place_num_ = omp_get_place_num -> c_int;
    omp_get_partition_num_places_ = omp_get_partition_num_places -> c_int;
    omp_get_num_devices_ = omp_get_num_devices -> c_int;
    omp_get_initial_device_ = omp_get_initial_device -> c_int;
    omp_get_device_num_ = omp_get_device_num -> c_int;
    omp_is_initial_device_ = omp_is_initial_device -> c_int;
    omp_get_max_teams_ = omp_get_max_teams -> c_int;
    omp_get_teams_thread_limit_ = omp_get_teams_thread_limit -> c_int;
    omp_get_default_allocator_ = omp_get_default_allocator -> usize;
}

/// Functions of one integer, in both sizes.
macro_rules! by_reference {
    ($($name:ident, $name8:ident = $c:ident $(-> $type:ty)?;)*) => {$(
        /// The C function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(value: *const i32) $(-> $type)? {
            // SAFETY: the program's variable.
            c::$c(unsafe { *value })
        }

        /// The same for an 8-byte integer.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name8(value: *const i64) $(-> $type)? {
            // SAFETY: the program's variable.
            c::$c(unsafe { *value }.clamp(i32::MIN.into(), i32::MAX.into()) as i32)
        }
    )*};
}

by_reference! {
    omp_set_num_teams_, omp_set_num_teams_8_ = omp_set_num_teams;
    omp_set_teams_thread_limit_, omp_set_teams_thread_limit_8_ = omp_set_teams_thread_limit;
    omp_display_env_, omp_display_env_8_ = omp_display_env;
    omp_get_place_num_procs_, omp_get_place_num_procs_8_ = omp_get_place_num_procs -> c_int;
}

/// Gives resources of a device back.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_pause_resource_(kind: *const c_int, device: *const c_int) -> c_int {
    // SAFETY: the program's variables.
    unsafe { c::omp_pause_resource(*kind, *device) }
}

/// Gives resources of all devices back.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_pause_resource_all_(kind: *const c_int) -> c_int {
    // SAFETY: the program's variable.
    c::omp_pause_resource_all(unsafe { *kind })
}

/// Writes numbers into an array of 4-byte integers.
///
/// # Safety
/// - The array has room for all of them.
unsafe fn fill<N: TryInto<i32>>(array: *mut i32, numbers: impl Iterator<Item = N>) {
    for (index, number) in numbers.enumerate() {
        // SAFETY: caller's contract.
        unsafe { array.add(index).write(int(number)) };
    }
}

/// Writes numbers into an array of 8-byte integers.
///
/// # Safety
/// - The array has room for all of them.
unsafe fn fill_8<N: TryInto<i32>>(array: *mut i64, numbers: impl Iterator<Item = N>) {
    for (index, number) in numbers.enumerate() {
        // SAFETY: caller's contract.
        unsafe { array.add(index).write(int(number).into()) };
    }
}

/// The processors of a place.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_place_proc_ids_(place: *const i32, ids: *mut i32) {
    // SAFETY: the program's variable and array, as long as the query said.
    unsafe { fill(ids, c::processors_of(*place)) };
}

/// The processors of a place.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_place_proc_ids_8_(place: *const i64, ids: *mut i64) {
    // SAFETY: the program's variable and array, as long as the query said.
    unsafe { fill_8(ids, c::processors_of(c_int::try_from(*place).unwrap_or(-1))) };
}

/// The numbers of the places of the caller's partition.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_partition_place_nums_(numbers: *mut i32) {
    // SAFETY: the program's array, as long as the query said.
    unsafe { fill(numbers, c::partition()) };
}

/// The numbers of the places of the caller's partition.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_partition_place_nums_8_(numbers: *mut i64) {
    // SAFETY: the program's array, as long as the query said.
    unsafe { fill_8(numbers, c::partition()) };
}

/// A CHARACTER argument, with the blanks at its end: formats show them.
///
/// # Safety
/// - `text` has `length` bytes.
unsafe fn string(text: *const u8, length: usize) -> String {
    // SAFETY: caller's contract.
    let bytes = if length == 0 { &[] } else { unsafe { slice::from_raw_parts(text, length) } };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes `text` into a CHARACTER of `length` bytes, with blanks behind it or cut; returns its whole length.
///
/// # Safety
/// - `buffer` has `length` bytes.
unsafe fn put(text: &str, buffer: *mut u8, length: usize) -> usize {
    let filled = text.len().min(length);
    // SAFETY: caller's contract.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), buffer, filled);
        ptr::write_bytes(buffer.add(filled), b' ', length - filled);
    }
    text.len()
}

/// Sets affinity-format-var.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_set_affinity_format_(format: *const u8, length: usize) {
    // SAFETY: the program's CHARACTER.
    display::set_affinity_format(unsafe { string(format, length) });
}

/// Reads affinity-format-var.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_affinity_format_(buffer: *mut u8, length: usize) -> c_int {
    // SAFETY: the program's CHARACTER.
    int(unsafe { put(&display::affinity_format(), buffer, length) })
}

/// Shows where the caller may run.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_display_affinity_(format: *const u8, length: usize) {
    // SAFETY: the program's CHARACTER.
    display::affinity(frame::current(), Some(&unsafe { string(format, length) }));
}

/// The text that `omp_display_affinity` shows.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_capture_affinity_(
    buffer: *mut u8,
    format: *const u8,
    length: usize,
    format_length: usize,
) -> c_int {
    // SAFETY: the program's CHARACTER.
    let text = display::capture(frame::current(), Some(&unsafe { string(format, format_length) }));
    // SAFETY: the program's CHARACTER.
    int(unsafe { put(&text, buffer, length) })
}

/// Makes an allocator; 0 when that cannot be.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_init_allocator_(space: *const usize, count: *const i32, traits: *const Trait) -> usize {
    // SAFETY: the program's variables and array.
    unsafe { c::omp_init_allocator(*space, *count, traits) }
}

/// The same with an 8-byte count.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_init_allocator_8_(space: *const usize, count: *const i64, traits: *const Trait) -> usize {
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
