//! What is shown: affinity, control variables.

use crate::frame;
use crate::query::display;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// A C string, if there is one. What is not UTF-8 is replaced.
///
/// # Safety
/// - `text` is null or ends with a zero.
unsafe fn string(text: *const c_char) -> Option<String> {
    // SAFETY: caller's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Writes `text` and a zero after it into `size` bytes, cut where it is too long; returns its whole
/// length.
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
unsafe extern "C" fn omp_capture_affinity(
    buffer: *mut c_char,
    size: usize,
    format: *const c_char,
) -> usize {
    // SAFETY: the program's string.
    let text = display::capture(frame::current(), unsafe { string(format) }.as_deref());
    // SAFETY: the program's buffer.
    unsafe { put(&text, buffer, size) }
}

/// Shows the control variables.
#[unsafe(no_mangle)]
pub(in crate::abi) extern "C" fn omp_display_env(verbose: c_int) {
    display::environment(verbose != 0);
}
