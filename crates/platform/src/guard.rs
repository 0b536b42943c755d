//! Guards: addresses of shared memory at which every access faults, without a mapping of their own
//! (`MADV_GUARD_INSTALL`, Linux 6.13; on shared memory 6.15).
//!
//! # What a guard does to a page
//! The kernel takes the page out of the page table and leaves a mark there. A page of *private*
//! memory is freed by that, with what it holds. A page of *shared* memory belongs to its file, or
//! to the kernel's nameless one, and comes back as it was when the guard is gone. So there are
//! guards for shared memory only, and [`Guards::probe`] looks whether they keep it.
//!
//! # Protocol
//! 1. [`Guards::install`]: an access raises SIGSEGV, as if nothing was mapped (`SEGV_MAPERR`);
//!    system calls fail with `EFAULT`.
//! 2. [`Guards::remove`], of any part: accesses are as before. A forked child has the guards of its
//!    parent, and removes its own ones.

use std::ops::Range;

use crate::error::{SysError, SysResult, check_int};
use crate::numa::{Pages, page_bytes};

// The kernel's numbers (uapi/asm-generic/mman-common.h), which the C library's bindings lack.
const INSTALL: libc::c_int = 102;
const REMOVE: libc::c_int = 103;

/// Shown to work on this system.
#[derive(Clone, Copy, Debug)]
pub struct Guards(());

impl Guards {
    /// Tries guards on a page of its own.
    ///
    /// # Errors
    /// `EINVAL`: this kernel has none for shared memory; `ENODATA`: it has, and they lose what the
    /// page held; `ENOSYS`: it takes the call and does nothing, as emulators of programs do.
    pub fn probe() -> SysResult<Self> {
        const MARK: u64 = 0x6775_6172_6465_6421;
        let page = Pages::map_shared(page_bytes())?;
        let word = page.first().cast::<u64>().as_ptr();
        // SAFETY: - a word of a fresh mapping, which no other thread knows.
        unsafe { word.write_volatile(MARK) };
        let guards = Self(());
        // SAFETY: - as above; only a system call looks at it before the guard is gone.
        unsafe { guards.install(&page.addresses()) }?;
        // The kernel reads a name there and finds none, or it is kept from reading.
        // SAFETY: - a name is looked for, in memory that ends it: the mark is all that is not zero.
        let looked = check_int("access", unsafe { libc::access(word.cast(), libc::F_OK) });
        if !looked.is_err_and(|error| error.is(libc::EFAULT)) {
            return Err(SysError::new("madvise", libc::ENOSYS));
        }
        guards.remove(&page.addresses())?;
        // SAFETY: - as above.
        let found = unsafe { word.read_volatile() };
        if found == MARK { Ok(guards) } else { Err(SysError::new("madvise", libc::ENODATA)) }
    }

    /// Makes every access to whole pages of shared memory fault.
    ///
    /// # Safety
    /// - The memory is shared, and the caller's: accesses raise SIGSEGV from now on, in every
    ///   thread, and the caller's handler resolves them.
    ///
    /// # Errors
    /// `EINVAL`: memory that takes no guards (locked, of huge pages, of a device); `ENOMEM`:
    /// nothing is mapped at a part of it.
    pub unsafe fn install(&self, addresses: &Range<usize>) -> SysResult<()> {
        let begin = std::ptr::without_provenance_mut(addresses.start);
        // SAFETY: - the caller's promise: nothing is lost, and faults are resolved.
        check_int("madvise", unsafe { libc::madvise(begin, addresses.len(), INSTALL) }).map(drop)
    }

    /// Removes the guards of whole pages, where there are some. A signal handler may call it: it is
    /// one system call, and leaves `errno`.
    ///
    /// # Errors
    /// `EINVAL`: memory that takes no guards; `ENOMEM`: nothing is mapped at a part of it; the
    /// other parts have none any more.
    pub fn remove(&self, addresses: &Range<usize>) -> SysResult<()> {
        let _kept = crate::aside::SavedErrno::now();
        let begin = std::ptr::without_provenance_mut(addresses.start);
        // SAFETY: - changes nothing that memory holds.
        check_int("madvise", unsafe { libc::madvise(begin, addresses.len(), REMOVE) }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_keeps_what_it_holds_below_a_guard_and_system_calls_fail_meanwhile() {
        let guards = match Guards::probe() {
            Ok(guards) => guards,
            Err(error) => return crate::skip!("no guards on shared memory here: {error}"),
        };
        let page = page_bytes();
        let pages = Pages::map_shared(3 * page).unwrap();
        let byte = |index: usize| pages.first().as_ptr().cast::<u8>().wrapping_add(index * page);
        // SAFETY: - the test's memory.
        (0..3).for_each(|index| unsafe { byte(index).write_volatile(7) });
        let middle = pages.addresses().start + page..pages.addresses().start + 2 * page;
        // SAFETY: - as above; only a system call looks at it meanwhile.
        unsafe { guards.install(&middle) }.unwrap();
        let mut ends = [0; 2];
        // SAFETY: - room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: - the kernel checks the memory.
        let write = |index| unsafe { libc::write(ends[1], byte(index).cast(), 1) };
        assert_eq!([0, 1, 2].map(write), [1, -1, 1]);
        guards.remove(&pages.addresses()).unwrap();
        assert_eq!(write(1), 1);
        // SAFETY: - the test's memory.
        assert!((0..3).all(|index| unsafe { byte(index).read_volatile() } == 7));
        for end in ends {
            // SAFETY: - the test's descriptors.
            unsafe { libc::close(end) };
        }
    }

    #[test]
    fn memory_without_a_mapping_takes_no_guard() {
        let Ok(guards) = Guards::probe() else { return crate::skip!("no guards here") };
        // SAFETY: - no system of ours maps its first page, and a refused call changes nothing.
        let refused = unsafe { guards.install(&(0..page_bytes())) };
        assert!(refused.unwrap_err().is(libc::ENOMEM));
    }
}
