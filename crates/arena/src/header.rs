//! The head of each area: what it is, so that nothing else is taken for it.

use platform::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::fmt;

/// The first word of every area: "NANOSARE", so that a hex dump says what it is.
pub const MAGIC: u64 = u64::from_le_bytes(*b"NANOSARE");
/// The layout's version. Another version is refused.
pub const VERSION: u32 = 2;

/// Which area a mapping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Manager to program.
    Down = 1,
    /// Program to manager.
    Up = 2,
    /// Manager to all programs.
    Global = 3,
    /// Every program of a domain to every other one.
    Domain = 4,
}

/// The head of an area. Written by the manager before a program gets the area, and never again.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    kind: AtomicU32,
    size: AtomicU64,
    slot: AtomicU64,
}

/// Why an area is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Not an area at all.
    Magic {
        /// What stands there.
        found: u64,
    },
    /// An area of another layout.
    Version {
        /// Its version.
        found: u32,
    },
    /// Another area than the one that belongs here, or an unknown one.
    Kind {
        /// Its kind.
        found: u32,
        /// The kind that belongs here.
        expected: Kind,
    },
    /// An area whose size is not the layout's.
    Size {
        /// What its header says.
        found: u64,
        /// What the layout says.
        expected: usize,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { found } => write!(
                f,
                "the shared area begins with {found:#018x}, not with the arena's magic number"
            ),
            Self::Version { found } => {
                write!(f, "the shared area has layout version {found}, this side speaks {VERSION}")
            }
            Self::Kind { found, expected } => {
                write!(f, "the shared area is of kind {found}, expected {expected:?}")
            }
            Self::Size { found, expected } => {
                write!(f, "the shared area says {found} bytes, the layout has {expected}")
            }
        }
    }
}

impl std::error::Error for HeaderError {}

impl Header {
    /// Fills the header in. The manager's side, before any other process has the area.
    pub fn write(&self, kind: Kind, size: usize, slot: u64) {
        // ORDERING: Relaxed, all five - the area travels through the socket afterwards, which
        // orders everything.
        self.magic.store(MAGIC, Ordering::Relaxed);
        self.version.store(VERSION, Ordering::Relaxed);
        self.kind.store(kind as u32, Ordering::Relaxed);
        self.size.store(size as u64, Ordering::Relaxed);
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// Pretends another layout version.
    #[cfg(test)]
    pub(crate) fn write_version(&self, version: u32) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// Checks that this is the area `kind` of the layout that this code speaks.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order magic, version, kind, size.
    pub fn check(&self, kind: Kind, size: usize) -> Result<(), HeaderError> {
        // ORDERING: Relaxed, all four - written before the area was sent (see `write`).
        let magic = self.magic.load(Ordering::Relaxed);
        if magic != MAGIC {
            return Err(HeaderError::Magic { found: magic });
        }
        let version = self.version.load(Ordering::Relaxed);
        if version != VERSION {
            return Err(HeaderError::Version { found: version });
        }
        let found = self.kind.load(Ordering::Relaxed);
        if found != kind as u32 {
            return Err(HeaderError::Kind { found, expected: kind });
        }
        let found = self.size.load(Ordering::Relaxed);
        if found != size as u64 {
            return Err(HeaderError::Size { found, expected: size });
        }
        Ok(())
    }
}

/// A type that may lie at the start of a shared mapping.
///
/// # Safety
/// - `repr(C)`, made of atomic integers only: any bit pattern is valid, and another process may
///   write at any time.
/// - `SIZE` is at least the type's size.
pub unsafe trait Layout {
    /// The size of the area that holds it.
    const SIZE: usize;
    /// Which area it is.
    const KIND: Kind;

    /// Its header.
    fn header(&self) -> &Header;
}
