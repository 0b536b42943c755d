//! How far a thread is in its worksharing construct. The thread's own.

use crate::construct::{Construct, Plan};
use platform::sync::atomic::AtomicU64;
use std::ops::Range;
use std::ptr;

/// How far a thread is in its current construct.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Null outside constructs.
    pub(crate) construct: *const Construct,
    /// Its number.
    pub(crate) number: u64,
    /// How its loop is to be run.
    pub(crate) plan: Plan,
    /// Turns taken in a static schedule.
    pub(crate) round: u64,
    /// In a schedule on demand: the thread was told that nothing is left.
    pub(crate) is_used_up: bool,
    /// In a dynamic schedule: chunks are taken without a look whether any is left.
    pub(crate) overshoots: bool,
    /// In the plainest kind of loop on demand: the counter that chunks are taken from, until it is
    /// used up. Else null.
    pub(crate) quick: *const AtomicU64,
    /// The chunk that the thread runs now; empty before the first.
    pub(crate) chunk: Range<u64>,
    /// In a loop with ordered regions: it is not known yet that those of all iterations before
    /// `chunk` are over.
    pub(crate) awaits_turn: bool,
}

impl Progress {
    /// Not in a construct.
    pub(crate) const NONE: Self = Self::of(ptr::null(), 0, Plan::NONE, false);

    /// At the beginning of a construct.
    #[inline]
    pub(crate) const fn of(
        construct: *const Construct,
        number: u64,
        plan: Plan,
        overshoots: bool,
    ) -> Self {
        Self {
            construct,
            number,
            plan,
            round: 0,
            is_used_up: false,
            overshoots,
            quick: ptr::null(),
            chunk: 0..0,
            awaits_turn: false,
        }
    }
}
