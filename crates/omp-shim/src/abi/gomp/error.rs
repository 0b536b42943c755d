//! The `error` directive.

use crate::process::message;
use std::ffi::c_char;

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
    message::fatal(&format!("fatal error: error directive encountered{}", unsafe {
        text(message, length)
    }));
}
