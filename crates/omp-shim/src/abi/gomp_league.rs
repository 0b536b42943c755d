//! Teams, target constructs (on the host: there is no device), allocate clauses, `error` directives.

use crate::frame;
use crate::league;
use crate::memory;
use crate::message;
use crate::task;
use crate::team::Body;
use std::ffi::{c_char, c_int, c_uint, c_ushort, c_void};
use std::ptr;

/// `teams` on the host.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_teams_reg(body: Body, data: *mut c_void, teams: c_uint, threads: c_uint, _flags: c_uint) {
    league::teams(frame::current(), body, data, teams, threads);
}

/// `teams` in a target region; true = run the body (again).
#[unsafe(no_mangle)]
extern "C" fn GOMP_teams4(_least: c_uint, most: c_uint, threads: c_uint, first: bool) -> bool {
    league::next_team(frame::current(), most, threads, first)
}

/// `teams` in a target region, gcc 4.9 to 11: one team.
#[unsafe(no_mangle)]
extern "C" fn GOMP_teams(_teams: c_uint, threads: c_uint) {
    league::next_team(frame::current(), 1, threads, true);
}

/// Waits for what the `depend` clauses of a target construct name.
///
/// # Safety
/// - `depend` is null or the compiled code's list.
unsafe fn await_dependences(depend: *mut *mut c_void) {
    if !depend.is_null() {
        // SAFETY: caller's contract.
        task::wait_for_predecessors(frame::current(), &unsafe { super::gomp_task::dependences(depend) });
    }
}

/// The kind of a mapping that gives the region its own copy.
const FIRSTPRIVATE: c_ushort = 12;

/// Replaces the addresses of firstprivate variables by those of copies. The copies live as long as the result.
///
/// # Safety
/// - The arrays have `count` items, and each variable has its size.
unsafe fn copy_private(
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const c_ushort,
) -> Vec<Vec<u128>> {
    let mut copies = Vec::new();
    for index in 0..count {
        // SAFETY: caller's contract. The high bits are the logarithm of the alignment.
        let (kind, size) = unsafe { (*kinds.add(index), *sizes.add(index)) };
        if kind & 0xff != FIRSTPRIVATE {
            continue;
        }
        let align = (1_usize << (kind >> 8).min(12)).max(align_of::<u128>());
        let mut copy = vec![0_u128; (size + align).div_ceil(size_of::<u128>())];
        let start = copy.as_mut_ptr().cast::<u8>();
        // SAFETY: the copy has `align` bytes more than the variable needs.
        unsafe {
            let start = start.add(start.align_offset(align));
            ptr::copy_nonoverlapping((*addresses.add(index)).cast::<u8>(), start, size);
            addresses.add(index).write(start.cast());
        }
        copies.push(copy);
    }
    copies
}

/// The thread_limit clause among the arguments of a target construct, or 0.
///
/// # Safety
/// - `list` is null or the compiled code's list, which ends with a null.
unsafe fn thread_limit(list: *mut *mut c_void) -> u32 {
    const VALUE_FOLLOWS: usize = 1 << 7;
    const ID: usize = 0xff << 8;
    const THREAD_LIMIT: usize = 2 << 8;
    if list.is_null() {
        return 0;
    }
    let mut index = 0;
    loop {
        // SAFETY: caller's contract: not behind the null.
        let word = unsafe { *list.add(index) }.addr();
        if word == 0 {
            return 0;
        }
        let follows = word & VALUE_FOLLOWS != 0;
        // SAFETY: caller's contract: the flag says that a value follows.
        let value = if follows { unsafe { *list.add(index + 1) }.addr() } else { word >> 16 };
        if word & ID == THREAD_LIMIT {
            return u32::try_from(value).unwrap_or(u32::MAX);
        }
        index += 1 + usize::from(follows);
    }
}

/// `target`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_target_ext(
    _device: c_int,
    body: Body,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *mut usize,
    kinds: *mut c_ushort,
    _flags: c_uint,
    depend: *mut *mut c_void,
    arguments: *mut *mut c_void,
) {
    // SAFETY: the compiled code's lists.
    let copies = unsafe {
        await_dependences(depend);
        copy_private(count, addresses, sizes, kinds)
    };
    // SAFETY: the compiled code's list.
    league::target(body, addresses.cast(), unsafe { thread_limit(arguments) });
    drop(copies);
}

/// `target` of gcc 4.9.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_target(
    _device: c_int,
    body: Body,
    _unused: *const c_void,
    _count: usize,
    addresses: *mut *mut c_void,
    _sizes: *mut usize,
    _kinds: *mut u8,
) {
    league::target(body, addresses.cast(), 0);
}

/// `target data`: the data are here.
#[unsafe(no_mangle)]
extern "C" fn GOMP_target_data_ext(
    _device: c_int,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *mut usize,
    _kinds: *mut c_ushort,
) {
}

/// `target data` of gcc 4.9.
#[unsafe(no_mangle)]
extern "C" fn GOMP_target_data(
    _device: c_int,
    _unused: *const c_void,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *mut usize,
    _kinds: *mut u8,
) {
}

/// The end of `target data`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_target_end_data() {}

/// `target update`: nothing to move.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_target_update_ext(
    _device: c_int,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *mut usize,
    _kinds: *mut c_ushort,
    _flags: c_uint,
    depend: *mut *mut c_void,
) {
    // SAFETY: the compiled code's list.
    unsafe { await_dependences(depend) };
}

/// `target update` of gcc 4.9.
#[unsafe(no_mangle)]
extern "C" fn GOMP_target_update(
    _device: c_int,
    _unused: *const c_void,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *mut usize,
    _kinds: *mut u8,
) {
}

/// `target enter data`, `target exit data`: nothing to move.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_target_enter_exit_data(
    _device: c_int,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *mut usize,
    _kinds: *mut c_ushort,
    _flags: c_uint,
    depend: *mut *mut c_void,
) {
    // SAFETY: the compiled code's list.
    unsafe { await_dependences(depend) };
}

/// Constructors of offload images register them: there is no device to load them to.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_register(_host: *const c_void, _kind: c_int, _image: *const c_void) {}

/// The same with a version.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_register_ver(_version: c_uint, _host: *const c_void, _kind: c_int, _image: *const c_void) {}

/// The end of an image.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_unregister(_host: *const c_void, _kind: c_int, _image: *const c_void) {}

/// The same with a version.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_unregister_ver(_version: c_uint, _host: *const c_void, _kind: c_int, _image: *const c_void) {
}

/// The allocator that a handle means for the calling task.
pub(super) fn allocator(handle: usize) -> usize {
    if handle == memory::NULL { frame::current().icvs().allocator } else { handle }
}

/// The `allocate` clause.
#[unsafe(no_mangle)]
extern "C" fn GOMP_alloc(alignment: usize, size: usize, handle: usize) -> *mut c_void {
    let block = memory::allocate(alignment, size, allocator(handle), false);
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

/// The text of an `error` directive.
///
/// # Safety
/// - `text` is null or has `length` bytes, or a zero at its end when that is the largest number.
unsafe fn text(text: *const c_char, length: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: caller's contract.
    let length = if length == usize::MAX { unsafe { libc::strlen(text) } } else { length };
    // SAFETY: caller's contract.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    format!(": {}", String::from_utf8_lossy(bytes))
}

/// `error at(execution) severity(warning)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_warning(message: *const c_char, length: usize) {
    // SAFETY: the compiled code's text.
    message::warn(&format!("error directive encountered{}", unsafe { text(message, length) }));
}

/// `error at(execution)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_error(message: *const c_char, length: usize) {
    // SAFETY: the compiled code's text.
    message::fatal(&format!("fatal error: error directive encountered{}", unsafe { text(message, length) }));
}
