//! Faults on pages that are there but not mapped: `userfaultfd` with minor faults of shared memory,
//! delivered as SIGBUS to the thread that accesses it.
//!
//! # Protocol
//! 1. [`Userfault::watch`] a range of shared anonymous memory, then [`Userfault::unmap`] it: its
//!    pages stay in memory, with what they hold.
//! 2. An access to such a page raises SIGBUS; the handler of `page_fault` calls
//!    [`Userfault::resolve`]. A page that was never touched faults as always, without a signal.
//! 3. After [`Userfault::release`] accesses map pages as always.
//!
//! A forked child has none of this: its accesses map pages.

use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::descriptor::above_streams;
use crate::error::{SysError, SysResult, check, check_int};

// The kernel's numbers (linux/userfaultfd.h), which the C library's bindings lack.
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_MINOR_SHMEM: u64 = 1 << 10;
const MODE_MINOR: u64 = 1 << 2;
const IOCTL_API: libc::c_ulong = 0xc018_aa3f;
const IOCTL_REGISTER: libc::c_ulong = 0xc020_aa00;
const IOCTL_UNREGISTER: libc::c_ulong = 0x8010_aa01;
const IOCTL_CONTINUE: libc::c_ulong = 0xc020_aa07;

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRange {
    start: u64,
    length: u64,
}

#[repr(C)]
struct UffdioRegister {
    span: UffdioRange,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioContinue {
    span: UffdioRange,
    mode: u64,
    mapped: i64,
}

fn span(addresses: &Range<usize>) -> UffdioRange {
    UffdioRange { start: addresses.start as u64, length: addresses.len() as u64 }
}

/// A descriptor that watches memory of this process.
#[derive(Debug)]
pub struct Userfault(OwnedFd);

impl Userfault {
    /// One for minor faults of shared memory, in user mode.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM`: the system has none, or forbids it; `EINVAL`: it has no such faults.
    pub fn new() -> SysResult<Self> {
        let flags = libc::O_CLOEXEC | USER_MODE_ONLY;
        // SAFETY: - takes a number.
        let raw = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        let raw = check("userfaultfd", raw)?;
        let raw = i32::try_from(raw).map_err(|_| SysError::new("userfaultfd", libc::EBADF))?;
        // SAFETY: - a fresh descriptor, which is ours.
        let fd = above_streams(unsafe { OwnedFd::from_raw_fd(raw) })?;
        let features = FEATURE_SIGBUS | FEATURE_MINOR_SHMEM;
        let mut api = UffdioApi { api: API, features, ioctls: 0 };
        // SAFETY: - the struct is what the call reads and writes.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), IOCTL_API, &raw mut api) };
        check_int("ioctl(UFFDIO_API)", result)?;
        Ok(Self(fd))
    }

    /// Watches whole pages of shared anonymous memory.
    ///
    /// # Errors
    /// `EINVAL`: it is other memory; `EBUSY`: another descriptor watches it.
    ///
    /// # Safety
    /// - The memory is the caller's: from [`Userfault::unmap`] on accesses raise SIGBUS, in every
    ///   thread, and the caller's handler resolves them.
    pub unsafe fn watch(&self, addresses: &Range<usize>) -> SysResult<()> {
        let mut register = UffdioRegister { span: span(addresses), mode: MODE_MINOR, ioctls: 0 };
        // SAFETY: - the struct is what the call reads and writes; the memory is the caller's.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_REGISTER, &raw mut register) };
        check_int("ioctl(UFFDIO_REGISTER)", result).map(drop)
    }

    /// Unmaps the pages of a watched range, which keep what they hold.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Safety
    /// - As for [`Userfault::watch`], which was called for it: so it is shared memory, whose pages
    ///   this does not lose.
    pub unsafe fn unmap(&self, addresses: &Range<usize>) -> SysResult<()> {
        let begin = std::ptr::without_provenance_mut(addresses.start);
        // SAFETY: - shared memory keeps its pages; the caller resolves the faults.
        let result = unsafe { libc::madvise(begin, addresses.len(), libc::MADV_DONTNEED) };
        check_int("madvise", result).map(drop)
    }

    /// Maps pages of a watched range that are there; true when all of them are mapped now, by this
    /// call or before. A signal handler may call it: it is one system call for each page at most,
    /// and leaves `errno`.
    pub fn resolve(&self, addresses: &Range<usize>, page: usize) -> bool {
        let _kept = crate::aside::SavedErrno::now();
        if self.map(addresses).is_ok() {
            return true;
        }
        let pages = addresses.clone().step_by(page);
        pages.fold(true, |all, begin| {
            let outcome = self.map(&(begin..begin + page));
            // `EFAULT`: it was never touched, and faults as always.
            let is_mapped = |errno| errno == libc::EEXIST || errno == libc::EFAULT;
            all & outcome.map_or_else(|error| is_mapped(error.errno()), |()| true)
        })
    }

    fn map(&self, addresses: &Range<usize>) -> SysResult<()> {
        let mut range = UffdioContinue { span: span(addresses), mode: 0, mapped: 0 };
        // SAFETY: - the struct is what the call reads and writes; to map pages that are there
        // changes nothing that they hold.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_CONTINUE, &raw mut range) };
        if result == 0 { Ok(()) } else { Err(SysError::last("ioctl(UFFDIO_CONTINUE)")) }
    }

    /// Ends watching: accesses map pages as always.
    ///
    /// # Errors
    /// The kernel's.
    pub fn release(&self, addresses: &Range<usize>) -> SysResult<()> {
        let mut range = span(addresses);
        // SAFETY: - the struct is what the call reads.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_UNREGISTER, &raw mut range) };
        check_int("ioctl(UFFDIO_UNREGISTER)", result).map(drop)
    }
}
