//! The `omp_*` functions of C that came after OpenMP 3.1: places, display, teams, devices, allocators, pauses.

use super::gomp_league::allocator;
use crate::display;
use crate::frame;
use crate::league;
use crate::memory::{self, Trait};
use crate::pause;
use crate::places;
use crate::query::int;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::{ptr, slice};

/// Places of the process.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_num_places() -> c_int {
    int(places::list().len())
}

/// The processors of place `number`, ascending; none for a number that does not exist.
pub(super) fn processors_of(number: c_int) -> impl Iterator<Item = u32> {
    let place = usize::try_from(number).ok().and_then(|number| places::list().get(number));
    place.into_iter().flat_map(|place| place.iter().map(|cpu| cpu.0))
}

/// Processors of a place.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_place_num_procs(number: c_int) -> c_int {
    int(processors_of(number).count())
}

/// The processors of a place.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_place_proc_ids(number: c_int, ids: *mut c_int) {
    for (index, cpu) in processors_of(number).enumerate() {
        // SAFETY: the program's array, as long as `omp_get_place_num_procs` said.
        unsafe { ids.add(index).write(int(cpu)) };
    }
}

/// The caller's place, or -1.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_place_num() -> c_int {
    places::standing(frame::current()).map_or(-1, |standing| int(standing.place))
}

/// Places of the caller's partition.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_partition_num_places() -> c_int {
    int(partition().len())
}

/// The places of the caller's partition.
pub(super) fn partition() -> std::ops::Range<usize> {
    places::standing(frame::current()).map_or(0..0, |standing| standing.partition)
}

/// The numbers of the places of the caller's partition.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_partition_place_nums(numbers: *mut c_int) {
    for (index, place) in partition().enumerate() {
        // SAFETY: the program's array, as long as `omp_get_partition_num_places` said.
        unsafe { numbers.add(index).write(int(place)) };
    }
}

/// A C string, if there is one. What is not UTF-8 is replaced.
///
/// # Safety
/// - `text` is null or ends with a zero.
unsafe fn string(text: *const c_char) -> Option<String> {
    // SAFETY: caller's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Writes `text` with a zero behind it into `size` bytes, cut where it is too long; returns its whole length.
///
/// # Safety
/// - `buffer` has `size` bytes (or `size` is 0).
unsafe fn put(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if size > 0 {
        let length = text.len().min(size - 1);
        // SAFETY: caller's contract.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), length);
            buffer.add(length).write(0);
        }
    }
    text.len()
}

/// Sets affinity-format-var.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_set_affinity_format(format: *const c_char) {
    // SAFETY: the program's string.
    if let Some(format) = unsafe { string(format) } {
        display::set_affinity_format(format);
    }
}

/// Reads affinity-format-var.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_affinity_format(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: the program's buffer.
    unsafe { put(&display::affinity_format(), buffer, size) }
}

/// Shows where the caller may run.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_display_affinity(format: *const c_char) {
    // SAFETY: the program's string.
    display::affinity(frame::current(), unsafe { string(format) }.as_deref());
}

/// The text that `omp_display_affinity` shows.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_capture_affinity(buffer: *mut c_char, size: usize, format: *const c_char) -> usize {
    // SAFETY: the program's string.
    let text = display::capture(frame::current(), unsafe { string(format) }.as_deref());
    // SAFETY: the program's buffer.
    unsafe { put(&text, buffer, size) }
}

/// Shows the control variables.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_display_env(verbose: c_int) {
    display::environment(verbose != 0);
}

/// nteams-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_max_teams() -> c_int {
    int(league::max_teams())
}

/// Sets nteams-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_num_teams(teams: c_int) {
    league::set_max_teams(teams);
}

/// teams-thread-limit-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_teams_thread_limit() -> c_int {
    int(league::thread_limit())
}

/// Sets teams-thread-limit-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_teams_thread_limit(threads: c_int) {
    league::set_thread_limit(threads);
}

/// Devices besides the host.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_num_devices() -> c_int {
    league::HOST
}

/// The host's device number: the number of devices.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_initial_device() -> c_int {
    omp_get_num_devices()
}

/// The device that the caller runs on.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_device_num() -> c_int {
    omp_get_initial_device()
}

/// Does the caller run on the host?
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_is_initial_device() -> c_int {
    1
}

/// True for the host's number, also in its old form. Another device is not there, which may end the program.
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
    unsafe { ptr::copy(from.cast::<u8>().add(from_offset), to.cast::<u8>().add(to_offset), length) };
    0
}

/// Copies a box of an array of several dimensions; only from host to host. With two null pointers: the dimensions that
/// may be copied.
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
    let Some(count) = usize::try_from(dimensions).ok().filter(|count| *count > 0) else { return libc::EINVAL };
    if !is_host(to_device) || !is_host(from_device) {
        return libc::EINVAL;
    }
    // SAFETY: the program's arrays have one item for each dimension.
    let list = |pointer: *const usize| unsafe { slice::from_raw_parts(pointer, count) };
    let (to_box, from_box) = ((list(to_offsets), list(to_sizes)), (list(from_offsets), list(from_sizes)));
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
    let (to, from) = unsafe { (to.add(to_box.0[0] * to_stride), from.add(from_box.0[0] * from_stride)) };
    if inner.is_empty() {
        // SAFETY: caller's contract.
        return unsafe { ptr::copy(from, to, rows * element) };
    }
    let (to_inner, from_inner) = ((&to_box.0[1..], &to_box.1[1..]), (&from_box.0[1..], &from_box.1[1..]));
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
pub(super) extern "C" fn omp_pause_resource(kind: c_int, device: c_int) -> c_int {
    let is_possible = matches!(kind, 1 | 2) && is_host(device);
    if is_possible && pause::give_back(frame::current()) { 0 } else { -1 }
}

/// The same for all devices.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_pause_resource_all(kind: c_int) -> c_int {
    omp_pause_resource(kind, omp_get_initial_device())
}

/// Makes an allocator; 0 when that cannot be.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn omp_init_allocator(space: usize, count: c_int, traits: *const Trait) -> usize {
    let count = if traits.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
    // SAFETY: the program's array.
    memory::create(space, if count == 0 { &[] } else { unsafe { slice::from_raw_parts(traits, count) } })
}

/// Ends an allocator.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn omp_destroy_allocator(handle: usize) {
    // SAFETY: the program uses it no more.
    unsafe { memory::destroy(handle) };
}

/// Sets def-allocator-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_default_allocator(handle: usize) {
    let handle = if handle == memory::NULL { memory::DEFAULT } else { handle };
    frame::current().change_icvs(|icvs| icvs.allocator = handle);
}

/// def-allocator-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_default_allocator() -> usize {
    frame::current().icvs().allocator
}

/// Memory.
#[unsafe(no_mangle)]
extern "C" fn omp_alloc(size: usize, handle: usize) -> *mut c_void {
    memory::allocate(1, size, allocator(handle), false)
}

/// Aligned memory.
#[unsafe(no_mangle)]
extern "C" fn omp_aligned_alloc(alignment: usize, size: usize, handle: usize) -> *mut c_void {
    memory::allocate(alignment, size, allocator(handle), false)
}

/// Zeroed memory.
#[unsafe(no_mangle)]
extern "C" fn omp_calloc(count: usize, size: usize, handle: usize) -> *mut c_void {
    omp_aligned_calloc(1, count, size, handle)
}

/// Aligned zeroed memory.
#[unsafe(no_mangle)]
extern "C" fn omp_aligned_calloc(alignment: usize, count: usize, size: usize, handle: usize) -> *mut c_void {
    // What overflows is more than there is: the largest size fails as the allocator's traits say.
    memory::allocate(alignment, count.saturating_mul(size), allocator(handle), true)
}

/// Changes the size of a block.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_realloc(block: *mut c_void, size: usize, handle: usize, _old: usize) -> *mut c_void {
    // SAFETY: the program's block.
    unsafe { memory::reallocate(block, size, handle, omp_get_default_allocator()) }
}

/// Frees a block.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_free(block: *mut c_void, _handle: usize) {
    // SAFETY: the program's block.
    unsafe { memory::free(block) };
}
