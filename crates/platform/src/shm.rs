//! Shared memory between processes that do not trust each other: sealed memfds and their mappings.
//!
//! # Invariants
//! M1  a [`SharedMemory`] can neither shrink nor grow: the kernel holds `F_SEAL_SHRINK` and
//!     `F_SEAL_GROW` for it, and no process can take seals away. Without this the other process
//!     could truncate it, and our next load would be a SIGBUS.
//! M2  a [`Mapping`] lies within the file at the time of mapping, and by M1 for ever.
//! # Not here
//! What the memory means: everything another process may write is hostile input. The layout's owner
//! reads it through atomics only, and copies and checks each value once.

use std::ffi::CStr;
use std::fmt;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use crate::descriptor::above_streams;
use crate::error::{SysError, SysResult, check_int, check_made, uninterrupted};
use crate::mapping;

/// The seals that make a memory safe to share (M1).
const REQUIRED_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// The owner of a memfd whose size is fixed for ever.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    size: usize,
}

/// Why a descriptor from another process is not taken as shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignMemoryError {
    /// A system call on it failed: it is no memfd, or it is closed.
    Sys(SysError),
    /// Its owner could still change its size.
    NotSealed {
        /// What is still possible.
        missing: &'static str,
    },
    /// It has another size than agreed upon.
    WrongSize {
        /// The size that the protocol asks for.
        expected: usize,
        /// The size that it has.
        actual: usize,
    },
}

impl fmt::Display for ForeignMemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sys(inner) => {
                write!(f, "shared memory from another process: {inner} (expected a sealed memfd)")
            }
            Self::NotSealed { missing } => write!(
                f,
                "shared memory from another process is not sealed against {missing}: refused, \
                 since its owner could truncate it"
            ),
            Self::WrongSize { expected, actual } => write!(
                f,
                "shared memory from another process has {actual} bytes instead of {expected}: \
                 refused"
            ),
        }
    }
}

impl std::error::Error for ForeignMemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Sys(inner) => Some(inner),
            _ => None,
        }
    }
}

impl From<SysError> for ForeignMemoryError {
    fn from(inner: SysError) -> Self {
        Self::Sys(inner)
    }
}

impl SharedMemory {
    /// The largest memory that [`SharedMemory::create`] makes. The kernel would not refuse more
    /// than the machine has: it would kill processes to make room. What programs share are some
    /// pages.
    pub const MAX_SIZE: usize = 1 << 30;

    /// Creates zeroed memory of exactly `size` bytes. All pages are there from the start, so that a
    /// machine without memory is noticed here instead of by a SIGBUS later. Other users cannot open
    /// it (mode 0600). `name` shows in `/proc/PID/maps` only.
    ///
    /// # Errors
    /// - `EINVAL`: `size` is 0, or the name is longer than 249 bytes or holds a zero byte.
    /// - `EFBIG`: `size` is above [`SharedMemory::MAX_SIZE`].
    /// - `ENOMEM`, `ENOSPC`, `EMFILE`, `ENFILE`: the system is short of something.
    pub fn create(name: &str, size: usize) -> SysResult<Self> {
        let invalid = || SysError::new("memfd_create", libc::EINVAL);
        if size == 0 {
            return Err(invalid());
        }
        let too_big = SysError::new("memfd_create", libc::EFBIG);
        if size > Self::MAX_SIZE {
            return Err(too_big);
        }
        let length = libc::off_t::try_from(size).map_err(|_| too_big)?;
        let name = std::ffi::CString::new(name).map_err(|_| invalid())?;
        let memory = Self { fd: create_memfd(&name).and_then(above_streams)?, size };
        // Before any seal or mapping: the default mode of a memfd lets other users reopen it for
        // writing through /proc.
        let fd = memory.fd.as_raw_fd();
        // SAFETY: - takes two numbers.
        check_int("fchmod", unsafe { libc::fchmod(fd, libc::S_IRUSR | libc::S_IWUSR) })?;
        // SAFETY: - takes four numbers.
        uninterrupted(|| check_int("fallocate", unsafe { libc::fallocate(fd, 0, 0, length) }))?;
        let seals = REQUIRED_SEALS | libc::F_SEAL_SEAL;
        // SAFETY: - this fcntl takes a number.
        check_int("fcntl(F_ADD_SEALS)", unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) })?;
        Ok(memory)
    }

    /// Takes a descriptor that came from another process, after checking M1. Compare
    /// [`SharedMemory::size`] with what the protocol asks for, or use
    /// [`SharedMemory::from_fd_of_size`].
    ///
    /// # Errors
    /// When it is not a memfd, is not sealed, or is empty.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, ForeignMemoryError> {
        // Seals first: a size that is read before the seals are known could still change.
        // SAFETY: - this fcntl takes no argument.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        let seals = check_int("fcntl(F_GET_SEALS)", seals)?;
        for (seal, missing) in [(libc::F_SEAL_SHRINK, "shrinking"), (libc::F_SEAL_GROW, "growing")]
        {
            if seals & seal == 0 {
                return Err(ForeignMemoryError::NotSealed { missing });
            }
        }
        let size = file_size(fd.as_fd())?;
        if size == 0 {
            return Err(ForeignMemoryError::WrongSize { expected: 1, actual: 0 });
        }
        Ok(Self { fd, size })
    }

    /// [`SharedMemory::from_fd`] for a protocol that knows the size.
    ///
    /// # Errors
    /// As `from_fd`, and when the size is another one.
    pub fn from_fd_of_size(fd: OwnedFd, expected: usize) -> Result<Self, ForeignMemoryError> {
        let memory = Self::from_fd(fd)?;
        if memory.size != expected {
            return Err(ForeignMemoryError::WrongSize { expected, actual: memory.size });
        }
        Ok(memory)
    }

    /// A second descriptor that cannot write, for a process that must not: not by `write`, not by a
    /// mapping, not by `mprotect`. Since the mode is 0600, another user cannot turn it into a
    /// writable one; the same user can.
    ///
    /// # Errors
    /// `ENOENT` without `/proc`; `EMFILE` when descriptors are used up.
    pub fn reopen_read_only(&self) -> SysResult<OwnedFd> {
        let path = format!("/proc/self/fd/{}\0", self.fd.as_raw_fd());
        let path = CStr::from_bytes_with_nul(path.as_bytes()).expect("a number has no zero byte");
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let fd = uninterrupted(|| {
            // SAFETY: - a text that ends with a zero byte and lives through the call.
            let fd = unsafe { libc::open(path.as_ptr(), flags) };
            // SAFETY: - open has just made the descriptor, and no other code knows it.
            unsafe { check_made("open(/proc/self/fd)", fd) }
        })?;
        above_streams(fd)
    }

    /// The size in bytes, fixed for ever (M1).
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Maps all of it for reading and writing.
    ///
    /// # Errors
    /// Those of [`Mapping::map_read_write`].
    pub fn map_read_write(&self) -> SysResult<Mapping> {
        Mapping::map_read_write(self.as_fd(), self.size)
    }

    /// Maps all of it for reading.
    ///
    /// # Errors
    /// Those of [`Mapping::map_read_only`].
    pub fn map_read_only(&self) -> SysResult<Mapping> {
        Mapping::map_read_only(self.as_fd(), self.size)
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<SharedMemory> for OwnedFd {
    fn from(memory: SharedMemory) -> Self {
        memory.fd
    }
}

fn create_memfd(name: &CStr) -> SysResult<OwnedFd> {
    let create = |flags| {
        // SAFETY: - a text that ends with a zero byte and lives through the call.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        // SAFETY: - memfd_create has just made the descriptor, and no other code knows it.
        unsafe { check_made("memfd_create", fd) }
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Never executable. Kernels before 6.3 do not know the flag; some later ones refuse a memfd
    // without it (sysctl vm.memfd_noexec).
    match create(flags | libc::MFD_NOEXEC_SEAL) {
        Err(error) if SysError::is(&error, libc::EINVAL) => create(flags),
        outcome => outcome,
    }
}

fn file_size(fd: BorrowedFd<'_>) -> SysResult<usize> {
    let size = crate::file::status(fd)?.st_size;
    usize::try_from(size).map_err(|_| SysError::new("fstat", libc::EOVERFLOW))
}

/// A shared mapping of a file from its beginning.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: - a mapping belongs to the process, not to a thread; `munmap` may be called from any.
unsafe impl Send for Mapping {}
// SAFETY: - through `&Mapping` one gets only a raw pointer and a length; the code that dereferences
// it answers for the accesses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `size` bytes for reading. A store through the mapping is a SIGSEGV.
    ///
    /// # Errors
    /// - `EINVAL`: `size` is 0.
    /// - `ENXIO` of `mmap beyond the end of the file`: the file is shorter than `size`.
    /// - `EACCES`: the descriptor is not open for reading.
    pub fn map_read_only(fd: impl AsFd, size: usize) -> SysResult<Self> {
        Self::map(fd.as_fd(), size, libc::PROT_READ)
    }

    /// Maps the first `size` bytes for reading and writing.
    ///
    /// # Errors
    /// As [`Mapping::map_read_only`], and `EACCES` when the descriptor is not open for writing.
    pub fn map_read_write(fd: impl AsFd, size: usize) -> SysResult<Self> {
        Self::map(fd.as_fd(), size, mapping::READ_WRITE)
    }

    fn map(fd: BorrowedFd<'_>, size: usize, protection: libc::c_int) -> SysResult<Self> {
        let len = NonZeroUsize::new(size).ok_or(SysError::new("mmap", libc::EINVAL))?;
        // mmap itself would succeed, and the first access be a SIGBUS (M2).
        if file_size(fd)? < size {
            return Err(SysError::new("mmap beyond the end of the file", libc::ENXIO));
        }
        let start = mapping::map(len, protection, libc::MAP_SHARED, Some(fd))?;
        Ok(Self { start: start.cast(), len: size })
    }

    /// The first byte, page-aligned. Valid for [`Mapping::len`] bytes while the mapping lives;
    /// writable only after `map_read_write`. Other processes may write the memory at any time:
    /// access it by atomics.
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The length in bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a mapping is never empty: the constructors refuse size 0"
    )]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Puts another mapping of the same length at this one's place. A thread that holds a pointer
    /// into this one goes on with the other's memory, at once and without a gap (the kernel holds
    /// the address space's lock meanwhile). What was asked of the other one (`dont_fork`) stays.
    ///
    /// # Errors
    /// `EINVAL` when the lengths differ. `ENOMEM` when the kernel is out of memory: then this
    /// mapping is private zeroes.
    pub fn replace(&self, by: Self) -> SysResult<()> {
        const CALL: &str = "mremap";
        if by.len != self.len {
            return Err(SysError::new(CALL, libc::EINVAL));
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: - both ranges are whole mappings of the same length, and do not overlap (both
        //           live).
        //         - users of `self.as_ptr()` access the memory by atomics and expect foreign
        //           writes; what they find changes, that it is there does not.
        let moved =
            unsafe { libc::mremap(by.as_ptr().cast(), by.len, by.len, flags, self.as_ptr()) };
        if moved != libc::MAP_FAILED {
            // Its range is ours now.
            std::mem::forget(by);
            return Ok(());
        }
        let error = SysError::last(CALL);
        // The kernel may have taken the old range away before it failed, and another thread may
        // read there. SAFETY: - replaces exactly this mapping's range.
        let filled = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(self.as_ptr().cast(), self.len, protection, flags, -1, 0)
        };
        assert_ne!(
            filled,
            libc::MAP_FAILED,
            "the address space has no room for what it held a moment ago"
        );
        Err(error)
    }

    /// Keeps the mapping out of children that `fork` makes: an access there is a SIGSEGV instead of
    /// a write in the parent's name.
    ///
    /// # Errors
    /// `ENOMEM` when the kernel cannot split its records of the address space.
    pub fn dont_fork(&self) -> SysResult<()> {
        // SAFETY: - the range is this mapping; DONTFORK changes nothing in this process.
        let result = unsafe { libc::madvise(self.as_ptr().cast(), self.len, libc::MADV_DONTFORK) };
        check_int("madvise(MADV_DONTFORK)", result).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: - the range was mapped by `map` and is unmapped once, here; users of `as_ptr`
        // hold the mapping.
        let result = unsafe { mapping::unmap(self.start.cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of a whole mapping cannot fail: {result:?}");
    }
}
