//! A mapped area as its layout type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use platform::shm::{ForeignMemoryError, Mapping, SharedMemory};
use platform::{SysError, SysResult};

use crate::header::{HeaderError, Layout};

/// A mapping that holds a `T` from its first byte on.
#[derive(Debug)]
pub(crate) struct Area<T: Layout> {
    mapping: Mapping,
    layout: PhantomData<fn() -> T>,
}

/// Why a received area is refused.
#[derive(Debug)]
pub enum AreaError {
    /// It is no sealed memory of the right size.
    Memory(ForeignMemoryError),
    /// It cannot be mapped.
    System(SysError),
    /// Its header is wrong.
    Header(HeaderError),
}

impl fmt::Display for AreaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(inner) => inner.fmt(f),
            Self::System(inner) => inner.fmt(f),
            Self::Header(inner) => inner.fmt(f),
        }
    }
}

impl std::error::Error for AreaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Memory(inner) => inner.source(),
            Self::System(inner) => inner.source(),
            Self::Header(inner) => inner.source(),
        }
    }
}

impl From<ForeignMemoryError> for AreaError {
    fn from(inner: ForeignMemoryError) -> Self {
        Self::Memory(inner)
    }
}

impl From<SysError> for AreaError {
    fn from(inner: SysError) -> Self {
        Self::System(inner)
    }
}

impl From<HeaderError> for AreaError {
    fn from(inner: HeaderError) -> Self {
        Self::Header(inner)
    }
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

    /// One of zeroes, which no other process shares: what a program has before its first manager.
    pub(crate) fn blank() -> SysResult<Self> {
        let mapping = SharedMemory::create("nanos-blank", T::SIZE)?.map_read_write()?;
        mapping.dont_fork()?;
        Ok(Self::new(mapping))
    }

    /// Puts another area of the same kind at this one's place. Other threads go on using this one,
    /// and find the new words in it; what they wrote into the old ones is lost.
    pub(crate) fn replace(&self, by: Self) -> SysResult<()> {
        self.mapping.replace(by.mapping)
    }
}

/// A shared area at a known place: reading it goes through one pointer.
#[derive(Debug)]
pub(crate) struct Pinned<T: Layout> {
    area: Arc<Area<T>>,
    at: NonNull<T>,
}

// SAFETY: - it is an `Arc<Area<T>>` and a pointer into that; the pointee is atomics only
// (`Layout`), shared by design.
unsafe impl<T: Layout> Send for Pinned<T> {}
// SAFETY: - as above.
unsafe impl<T: Layout> Sync for Pinned<T> {}

impl<T: Layout> Pinned<T> {
    pub(crate) fn new(area: Area<T>) -> Self {
        let area = Arc::new(area);
        Self { at: NonNull::from(&**area), area }
    }

    /// The same area, for another thread.
    pub(crate) fn share(&self) -> Arc<Area<T>> {
        Arc::clone(&self.area)
    }
}

impl<T: Layout> Deref for Pinned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: - points to the start of the mapping of `area`, which lives as long as `self` and
        //           never moves (`Area::replace` keeps the place); the rest as in `Area::deref`.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Layout> Deref for Area<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: - the mapping is page-aligned, at least `T::SIZE` long (asserted in `new`), lives
        //           as long as `self`, and its file cannot shrink (sealed: `SharedMemory`).
        //         - `T` is made of atomics, for which any bits are valid and foreign writes are no
        //           data race (`Layout`). A store through a read-only mapping is a fault of this
        //           process, not undefined behaviour elsewhere.
        unsafe { &*self.mapping.as_ptr().cast::<T>() }
    }
}
