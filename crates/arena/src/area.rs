//! A mapped area as its layout type.

use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::OwnedFd;

use platform::SysError;
use platform::shm::{ForeignMemoryError, Mapping, SharedMemory};

use crate::layout::{HeaderError, Layout};

/// A mapping that holds a `T` from its first byte on.
#[derive(Debug)]
pub(crate) struct Area<T: Layout> {
    mapping: Mapping,
    layout: PhantomData<fn() -> T>,
}

/// Why a received area is refused.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    /// It is no sealed memory of the right size.
    #[error(transparent)]
    Memory(#[from] ForeignMemoryError),
    /// It cannot be mapped.
    #[error(transparent)]
    System(#[from] SysError),
    /// Its header is wrong.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

impl<T: Layout> Area<T> {
    /// Takes a mapping of memory whose size is sealed.
    pub(crate) fn new(mapping: Mapping) -> Self {
        assert!(mapping.len() >= T::SIZE, "the caller maps T::SIZE bytes");
        Self { mapping, layout: PhantomData }
    }

    /// Takes a descriptor from the manager, checks seals, size and header, and maps it.
    pub(crate) fn receive(fd: OwnedFd, writable: bool) -> Result<Self, AreaError> {
        let memory = SharedMemory::from_fd_of_size(fd, T::SIZE)?;
        let mapping = if writable { memory.map_read_write()? } else { memory.map_read_only()? };
        mapping.dont_fork()?;
        let area = Self::new(mapping);
        area.header().check(T::KIND, T::SIZE)?;
        Ok(area)
    }
}

impl<T: Layout> Deref for Area<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: - the mapping is page-aligned, at least `T::SIZE` long (asserted in `new`), lives as long as `self`,
        //           and its file cannot shrink (sealed: `SharedMemory`).
        //         - `T` is made of atomics, for which any bits are valid and foreign writes are no data race (`Layout`).
        //           A store through a read-only mapping is a fault of this process, not undefined behaviour elsewhere.
        unsafe { &*self.mapping.as_ptr().cast::<T>() }
    }
}
