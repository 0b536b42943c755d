//! Places: numbers in arrays.

use crate::abi::c::places as c;
use crate::query::int;
use std::ffi::c_int;

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
