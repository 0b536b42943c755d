//! Devices, of which there is one, the host; memory there, and giving resources back.

use crate::frame;
use crate::region::league;
use crate::region::pause;
use std::ffi::{c_int, c_void};
use std::{ptr, slice};

/// Devices besides the host.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_num_devices() -> c_int {
    league::HOST
}

/// The host's device number: the number of devices.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_initial_device() -> c_int {
    omp_get_num_devices()
}

/// The device that the caller runs on.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_get_device_num() -> c_int {
    omp_get_initial_device()
}

/// Does the caller run on the host?
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_is_initial_device() -> c_int {
    1
}

/// True for the host's number, also in its old form. Another device is not there, which may end the
/// program.
fn is_host(device: c_int) -> bool {
    const OLD: c_int = -10;
    let is_host = device == omp_get_initial_device() || device == OLD;
    if !is_host && device > 0 {
        league::must_have(device);
    }
    is_host
}

/// Memory on the host.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_target_alloc(size: usize, device: c_int) -> *mut c_void {
    // SAFETY: a plain allocation.
    if is_host(device) { unsafe { libc::malloc(size) } } else { ptr::null_mut() }
}

/// Frees it.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_target_free(block: *mut c_void, device: c_int) {
    if is_host(device) {
        // SAFETY: the program frees what `omp_target_alloc` gave.
        unsafe { libc::free(block) };
    }
}

/// Is the memory on that device?
#[unsafe(no_mangle)]
extern "C" fn omp_target_is_present(block: *const c_void, device: c_int) -> c_int {
    (block.is_null() || is_host(device)).into()
}

/// Copies between devices; only from host to host.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_target_memcpy(
    to: *mut c_void,
    from: *const c_void,
    length: usize,
    to_offset: usize,
    from_offset: usize,
    to_device: c_int,
    from_device: c_int,
) -> c_int {
    if !is_host(to_device) || !is_host(from_device) {
        return libc::EINVAL;
    }
    // SAFETY: the program's blocks.
    unsafe {
        ptr::copy(from.cast::<u8>().add(from_offset), to.cast::<u8>().add(to_offset), length)
    };
    0
}

/// Copies a box of an array of several dimensions; only from host to host. With two null pointers:
/// the dimensions that may be copied.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_target_memcpy_rect(
    to: *mut c_void,
    from: *const c_void,
    element: usize,
    dimensions: c_int,
    volume: *const usize,
    to_offsets: *const usize,
    from_offsets: *const usize,
    to_sizes: *const usize,
    from_sizes: *const usize,
    to_device: c_int,
    from_device: c_int,
) -> c_int {
    if to.is_null() && from.is_null() {
        return c_int::MAX;
    }
    let Some(count) = usize::try_from(dimensions).ok().filter(|count| *count > 0) else {
        return libc::EINVAL;
    };
    if !is_host(to_device) || !is_host(from_device) {
        return libc::EINVAL;
    }
    // SAFETY: the program's arrays have one item for each dimension.
    let list = |pointer: *const usize| unsafe { slice::from_raw_parts(pointer, count) };
    let (to_box, from_box) =
        ((list(to_offsets), list(to_sizes)), (list(from_offsets), list(from_sizes)));
    // SAFETY: the program's blocks have the sizes that it gives.
    unsafe { copy_box(to.cast(), from.cast(), element, list(volume), to_box, from_box) };
    0
}

/// Offsets and sizes, one for each dimension.
type Corner<'a> = (&'a [usize], &'a [usize]);

/// Copies a box, row by row.
///
/// # Safety
/// - Both blocks have the sizes (second of each pair), and the box fits at the offsets (first).
unsafe fn copy_box(
    to: *mut u8,
    from: *const u8,
    element: usize,
    volume: &[usize],
    to_box: Corner<'_>,
    from_box: Corner<'_>,
) {
    let [rows, inner @ ..] = volume else { return };
    let stride = |sizes: &[usize]| sizes[1..].iter().product::<usize>() * element;
    let (to_stride, from_stride) = (stride(to_box.1), stride(from_box.1));
    // SAFETY: caller's contract.
    let (to, from) =
        unsafe { (to.add(to_box.0[0] * to_stride), from.add(from_box.0[0] * from_stride)) };
    if inner.is_empty() {
        // SAFETY: caller's contract.
        return unsafe { ptr::copy(from, to, rows * element) };
    }
    let (to_inner, from_inner) =
        ((&to_box.0[1..], &to_box.1[1..]), (&from_box.0[1..], &from_box.1[1..]));
    for row in 0..*rows {
        // SAFETY: caller's contract.
        unsafe {
            let (to, from) = (to.add(row * to_stride), from.add(row * from_stride));
            copy_box(to, from, element, inner, to_inner, from_inner);
        }
    }
}

/// Ties memory of a device to memory of the host: there is no device.
#[unsafe(no_mangle)]
extern "C" fn omp_target_associate_ptr(
    _host: *const c_void,
    _device: *const c_void,
    _size: usize,
    _offset: usize,
    _number: c_int,
) -> c_int {
    libc::EINVAL
}

/// Unties it.
#[unsafe(no_mangle)]
extern "C" fn omp_target_disassociate_ptr(_host: *const c_void, _number: c_int) -> c_int {
    libc::EINVAL
}

/// Gives memory back, soft or hard; 0 when it did.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_pause_resource(kind: c_int, device: c_int) -> c_int {
    let is_possible = matches!(kind, 1 | 2) && is_host(device);
    if is_possible && pause::give_back(frame::current()) { 0 } else { -1 }
}

/// The same for all devices.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_pause_resource_all(kind: c_int) -> c_int {
    omp_pause_resource(kind, omp_get_initial_device())
}
