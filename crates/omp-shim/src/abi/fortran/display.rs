//! What is shown: texts in CHARACTERs.

use crate::frame;
use crate::query::display;
use crate::query::int;
use std::ffi::c_int;
use std::{ptr, slice};

/// A CHARACTER argument, with the blanks at its end: formats show them.
///
/// # Safety
/// - `text` has `length` bytes.
unsafe fn string(text: *const u8, length: usize) -> String {
    // SAFETY: caller's contract.
    let bytes = if length == 0 { &[] } else { unsafe { slice::from_raw_parts(text, length) } };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes `text` into a CHARACTER of `length` bytes, filled with blanks or cut; returns its whole
/// length.
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
