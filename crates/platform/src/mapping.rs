//! The calls that change the address space, with their errors: for the types that own a mapping.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use crate::error::{SysError, SysResult, check_int};
use crate::fault;

/// For reading and writing.
pub(crate) const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A fresh mapping at a place that the kernel chooses: of a file from its beginning, or of no file.
/// `flags` may not hold `MAP_FIXED`, so that no memory that exists changes.
pub(crate) fn map(
    length: NonZeroUsize,
    protection: libc::c_int,
    flags: libc::c_int,
    file: Option<BorrowedFd<'_>>,
) -> SysResult<NonNull<c_void>> {
    debug_assert_eq!(flags & libc::MAP_FIXED, 0, "the kernel chooses the place");
    let (fd, flags) = match file {
        Some(file) => (file.as_raw_fd(), flags),
        None => (-1, flags | libc::MAP_ANONYMOUS),
    };
    // SAFETY: - without MAP_FIXED the kernel chooses a free range: no existing memory changes.
    let start = unsafe { libc::mmap(ptr::null_mut(), length.get(), protection, flags, fd, 0) };
    let mapped = match NonNull::new(start) {
        Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(start),
        _ => Err(SysError::last("mmap")),
    };
    fault::or("mmap", mapped)
}

/// Gives a mapping back.
///
/// # Safety
/// The range is one that [`map`] gave, whole, and no code uses it from now on.
pub(crate) unsafe fn unmap(start: NonNull<c_void>, length: usize) -> SysResult<()> {
    // SAFETY: - the caller's promise.
    check_int("munmap", unsafe { libc::munmap(start.as_ptr(), length) }).map(drop)
}
