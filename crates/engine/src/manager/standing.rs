//! Where a program stands while programs take turns.

/// See the module head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has its turn, with so many processors.
    InTurn {
        /// As granted.
        processors: u32,
    },
    /// It has a part of a processor until its turn comes.
    Outside {
        /// When that is, on the monotonic clock, as the manager expects.
        comes_ns: u64,
    },
}
