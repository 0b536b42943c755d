//! The two areas of a program as they lie in memory: headers, lines, sizes.
//!
//! Lines of different writers are 128 bytes apart (the adjacent-line prefetcher moves pairs of 64). Fields are only
//! ever added at the end of a line or of an area; whatever moves or changes meaning is a new [`VERSION`]. All zeros is
//! a valid state of every field.

use platform::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::grant::GrantArea;

/// The first word of every area: "NANOSARE", so that a hex dump says what it is.
pub const MAGIC: u64 = u64::from_le_bytes(*b"NANOSARE");
/// The layout's version. Another version is refused.
pub const VERSION: u32 = 1;
/// Virtual processors that a program can publish.
pub const MAX_VPS: usize = 1024;
/// The size of the `down` area.
pub const DOWN_SIZE: usize = 4096;
/// The size of the `up` area.
pub const UP_SIZE: usize = 17 * 4096;

/// Which of the two areas a mapping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Manager to program.
    Down = 1,
    /// Program to manager.
    Up = 2,
}

/// The head of an area. Written by the manager before the program gets the area, and never again.
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Not an area at all.
    #[error("the shared area begins with {found:#018x}, not with the arena's magic number")]
    Magic {
        /// What stands there.
        found: u64,
    },
    /// An area of another layout.
    #[error("the shared area has layout version {found}, this side speaks {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// The other area of the pair, or an unknown one.
    #[error("the shared area is of kind {found}, expected {expected:?}")]
    Kind {
        /// Its kind.
        found: u32,
        /// The kind that belongs here.
        expected: Kind,
    },
    /// An area whose size is not the layout's.
    #[error("the shared area says {found} bytes, the layout has {expected}")]
    Size {
        /// What its header says.
        found: u64,
        /// What the layout says.
        expected: usize,
    },
}

impl Header {
    /// Fills the header in. The manager's side, before anybody else has the area.
    pub fn write(&self, kind: Kind, size: usize, slot: u64) {
        // ORDERING: Relaxed, all five - the area travels through the socket afterwards, which orders everything.
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

/// Signs of life of the manager.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct ManagerLine {
    heartbeat_ns: AtomicU64,
    quantum_ns: AtomicU64,
}

impl ManagerLine {
    /// The manager's side: "I ran at `now`", on the monotonic clock.
    pub fn beat(&self, now_ns: u64) {
        // ORDERING: Relaxed - a sign of life, publishes nothing.
        self.heartbeat_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When the manager ran last.
    pub fn heartbeat_ns(&self) -> u64 {
        // ORDERING: Relaxed - a sign of life, publishes nothing.
        self.heartbeat_ns.load(Ordering::Relaxed)
    }

    /// The manager's side: the quantum in force.
    pub fn set_quantum_ns(&self, quantum_ns: u64) {
        // ORDERING: Relaxed - a number on its own.
        self.quantum_ns.store(quantum_ns, Ordering::Relaxed);
    }

    /// The quantum in force.
    pub fn quantum_ns(&self) -> u64 {
        // ORDERING: Relaxed - a number on its own.
        self.quantum_ns.load(Ordering::Relaxed)
    }
}

/// Manager to program. The program maps it read-only.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Down {
    /// What this area is.
    pub header: Header,
    /// What the program may use.
    pub grant: GrantArea,
    /// That the manager lives.
    pub manager: ManagerLine,
}

/// What the program wants.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct RequestLine {
    requested: AtomicU32,
    max: AtomicU32,
    flags: AtomicU32,
}

/// The program's teams have a fixed size: it gains nothing from processors beyond its request and cannot use fewer
/// without sharing.
pub const FLAG_FIXED_TEAM: u32 = 1;

/// One copy of the request line, each word read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Processors that the program wants now. Unchecked.
    pub requested: u32,
    /// The most that it could use. Unchecked.
    pub max: u32,
    /// `FLAG_*`. Unchecked.
    pub flags: u32,
}

impl RequestLine {
    /// The program's side: the number wanted now; true when it differs from the number before.
    pub fn ask(&self, processors: u32) -> bool {
        // ORDERING: Relaxed - only this process writes the word; two of its threads are ordered by the swap below.
        if self.requested.load(Ordering::Relaxed) == processors {
            return false;
        }
        // ORDERING(request.ask): Release - everything the program did before it asked; pairs with
        // ORDERING(request.read). The doorbell's system call comes after it.
        self.requested.swap(processors, Ordering::Release) != processors
    }

    /// Fills the line in. The manager's side, before the program gets the area: so it never reads zeros for a request.
    pub fn write(&self, request: Request) {
        // ORDERING: Relaxed, all three - the area travels through the socket afterwards.
        self.requested.store(request.requested, Ordering::Relaxed);
        self.max.store(request.max, Ordering::Relaxed);
        self.flags.store(request.flags, Ordering::Relaxed);
    }

    /// One copy of what stands there. The manager's side; nothing of it may be trusted.
    pub fn read(&self) -> Request {
        Request {
            // ORDERING(request.read): Acquire - pairs with ORDERING(request.ask).
            requested: self.requested.load(Ordering::Acquire),
            // ORDERING: Relaxed - numbers on their own.
            max: self.max.load(Ordering::Relaxed),
            // ORDERING: Relaxed - as above.
            flags: self.flags.load(Ordering::Relaxed),
        }
    }
}

/// What the program says of one virtual processor.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct VpLine {
    tid: AtomicU32,
    state: AtomicU32,
}

impl VpLine {
    /// The program's side: the kernel thread of this virtual processor; 0 = none.
    pub fn set_tid(&self, tid: u32) {
        // ORDERING: Relaxed - a number on its own; the manager uses it for reports only.
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// The kernel thread that the program names. Unchecked.
    pub fn tid(&self) -> u32 {
        // ORDERING: Relaxed - a number on its own.
        self.tid.load(Ordering::Relaxed)
    }

    /// The state that the program names; 0 = not said. Reserved for the park protocol.
    pub fn state(&self) -> u32 {
        // ORDERING: Relaxed - nothing hangs on it yet.
        self.state.load(Ordering::Relaxed)
    }
}

/// Program to manager. The manager trusts nothing in it.
#[derive(Debug)]
#[repr(C)]
pub struct Up {
    /// What this area is.
    pub header: Header,
    /// What the program wants.
    pub request: RequestLine,
    /// Its virtual processors.
    pub vps: [VpLine; MAX_VPS],
}

/// A type that may lie at the start of a shared mapping.
///
/// # Safety
/// - `repr(C)`, made of atomic integers only: any bit pattern is valid, and another process may write at any time.
/// - `SIZE` is at least the type's size.
pub unsafe trait Layout {
    /// The size of the area that holds it.
    const SIZE: usize;
    /// Which area it is.
    const KIND: Kind;

    /// Its header.
    fn header(&self) -> &Header;
}

// SAFETY: - `repr(C)`, atomics only (see the type).
//         - the size is asserted below and in tests/golden_layout.rs.
unsafe impl Layout for Down {
    const SIZE: usize = DOWN_SIZE;
    const KIND: Kind = Kind::Down;

    fn header(&self) -> &Header {
        &self.header
    }
}

// SAFETY: - `repr(C)`, atomics only (see the type).
//         - the size is asserted below and in tests/golden_layout.rs.
unsafe impl Layout for Up {
    const SIZE: usize = UP_SIZE;
    const KIND: Kind = Kind::Up;

    fn header(&self) -> &Header {
        &self.header
    }
}

// Loom's atomics are larger than words; a model never maps an area.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Down>() <= DOWN_SIZE && size_of::<Up>() <= UP_SIZE);
