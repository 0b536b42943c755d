//! Memory for stacks: mapped pages above a guard that faults.

use crate::error::{SysError, SysResult, check_int};
use crate::mapping::{self, READ_WRITE};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Private memory of its own, whose lowest bytes fault when they are touched; unmapped when
/// dropped. Memory is committed by the page, as it is touched: the size is address space.
#[derive(Debug)]
pub struct GuardedMapping {
    low: NonNull<c_void>,
    length: NonZeroUsize,
    guard: usize,
}

// SAFETY: - the mapping belongs to the value, and to no thread.
unsafe impl Send for GuardedMapping {}

impl GuardedMapping {
    /// Maps at least `size` usable bytes above a guard of at least `guard` bytes, both rounded up
    /// to whole pages. Cost: two system calls, and a page fault for each page when it is touched.
    ///
    /// # Errors
    /// - `ENOMEM`: there is no such space, or the process has as many mappings as it may
    ///   (`vm.max_map_count`).
    /// - `EINVAL`: `size` and `guard` are 0.
    pub fn new(size: usize, guard: usize) -> SysResult<Self> {
        let page = page_size();
        let too_large = SysError::new("mmap", libc::ENOMEM);
        let guard = guard.checked_next_multiple_of(page).ok_or(too_large)?;
        let size = size.checked_next_multiple_of(page).ok_or(too_large)?;
        let length = size.checked_add(guard).ok_or(too_large)?;
        let length = NonZeroUsize::new(length).ok_or(SysError::new("mmap", libc::EINVAL))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE | libc::MAP_STACK;
        let low = mapping::map(length, libc::PROT_NONE, flags, None)?;
        let this = Self { low, length, guard };
        // SAFETY: - the range lies in the mapping above (`guard` is at most `length`), which no
        // other code knows.
        let opened = unsafe { libc::mprotect(low.as_ptr().byte_add(guard), size, READ_WRITE) };
        check_int("mprotect", opened)?;
        Ok(this)
    }

    /// The lowest address, the guard's. A pointer made of it may reach all of the mapping (its
    /// provenance is exposed). Page-aligned, and not 0.
    pub fn low(&self) -> NonZeroUsize {
        self.low.as_ptr().expose_provenance();
        self.low.addr()
    }

    /// The address after the highest byte: where a stack begins that grows down. Page-aligned.
    pub fn high(&self) -> NonZeroUsize {
        self.low().saturating_add(self.length.get())
    }

    /// Bytes from the lowest address that fault.
    pub fn guard(&self) -> usize {
        self.guard
    }

    /// Bytes above the guard.
    pub fn size(&self) -> usize {
        self.length.get() - self.guard
    }
}

impl Drop for GuardedMapping {
    fn drop(&mut self) {
        // SAFETY: - our mapping; code that made pointers into it has dropped them (what lives in
        //           the mapping borrows it, or is the owner's to end first, like the stack of a
        //           coroutine).
        let result = unsafe { mapping::unmap(self.low, self.length.get()) };
        debug_assert_eq!(result, Ok(()), "munmap of a whole mapping");
    }
}

fn page_size() -> usize {
    // SAFETY: - sysconf of a number touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("the kernel knows its page size")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `/proc/self/maps` says of the bytes from `low` to `high`, if they are one area.
    fn rights(low: usize, high: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (first, end) = range.split_once('-')?;
            let within = usize::from_str_radix(first, 16).ok()? <= low
                && high <= usize::from_str_radix(end, 16).ok()?;
            within.then(|| rest[..4].to_owned())
        })
    }

    #[test]
    fn the_guard_is_closed_and_all_above_it_can_be_written() {
        for (size, guard) in [(1, 1), (100_001, 64 << 10), (3 << 20, 4096)] {
            let mapping = GuardedMapping::new(size, guard).unwrap();
            let (low, high) = (mapping.low().get(), mapping.high().get());
            assert!(mapping.size() >= size && mapping.guard() >= guard);
            assert_eq!(high - low, mapping.size() + mapping.guard());
            assert_eq!(rights(low, low + mapping.guard()).as_deref(), Some("---p"));
            assert_eq!(rights(low + mapping.guard(), high).as_deref(), Some("rw-p"));
            for at in [low + mapping.guard(), high - 1] {
                // SAFETY: - within the usable part, which no other code uses.
                unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write(7) };
            }
        }
    }

    #[test]
    fn a_size_that_no_machine_has_is_an_error() {
        for size in [usize::MAX, usize::MAX - (64 << 10), 1 << 60] {
            let error = GuardedMapping::new(size, 64 << 10).map(drop).expect_err("no such memory");
            assert_eq!((error.call(), error.errno()), ("mmap", libc::ENOMEM));
        }
        assert!(GuardedMapping::new(0, 0).is_err());
    }
}
