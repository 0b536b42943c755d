//! How long the time slices of a master, its turns, are on a processor that several programs use in
//! turn.
//!
//! Where a manager has more programs than processors, several have the same one, and the kernel
//! hands it on some 350 times a second: each time the next one's data are no longer in the caches.
//! Compute-bound programs lose a tenth of their time by that (eight copies of cg:
//! `cargo xtask demo --programs cg --copies 8`). So a master whose regions have one thread there
//! asks the kernel for turns of [`TURN`]: the same share, in fewer pieces. By EEVDF's rules a
//! thread that wakes up with usual turns does not wait for the end of a longer one; masters with
//! long ones may wait for each other that long.
//!
//! # Protocol
//! - S1 A master forks: when the grant has become such a one since its last fork, its turns become
//!   long; when it is no more, usual.
//! - S2 A region of more than one thread has usual turns: its members share the processor, hand it
//!   to each other by yields, and the kernel takes the rest of a turn from a thread that yields
//!   ([`LateYields`](crate::contention::LateYields)). The turns stay usual for the rest of the
//!   grant's time, so that a program with both kinds of regions does not change them at each.
//! - S3 A thread that starts a thread or a program has usual turns before, and for the rest of the
//!   grant's time: what is started would inherit them ([`inheritance`](crate::inheritance)). A
//!   child of `fork` gets usual ones when it begins.
//!
//! Only the thread itself writes this. What the kernel refuses is not asked again until the next
//! such grant: the turns are as they were, and nothing else depends on them. A policy that the
//! program chose for the thread is left alone ([`LongTurns`]).
//!
//! # Papers
//! None. The kernel of their machine had slices of 30 ms (IRIX; `docs/simulator.md`), where ours
//! has 3.

use platform::scheduling::LongTurns;
use std::cell::Cell;
use std::time::Duration;

/// Shorter ones lose more to the caches (10 % at 3 ms, 2 % at 20), longer ones gain little more.
const TURN: Duration = Duration::from_millis(20);

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct TimeSlice {
    /// The last fork found a grant in turn with others.
    in_turn: Cell<bool>,
    long: Cell<Option<LongTurns>>,
}

impl TimeSlice {
    /// S1. Cost in most cases: a load.
    #[inline]
    pub(super) fn follow(&self, in_turn: bool) {
        if self.in_turn.get() != in_turn {
            self.change(in_turn);
        }
    }

    #[cold]
    fn change(&self, in_turn: bool) {
        self.in_turn.set(in_turn);
        self.end();
        if in_turn {
            // Refused: see the module head.
            self.long.set(LongTurns::begin(TURN).ok().flatten());
        }
    }

    /// True while the turns are long.
    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.long.get().is_some()
    }

    /// S2, S3. Cost in most cases: a load.
    #[inline]
    pub(super) fn end(&self) {
        if self.is_long() {
            self.restore();
            self.long.set(None);
        }
    }

    /// Gives the caller usual turns: the thread itself, or a child that shares its memory, for
    /// which nothing may be written.
    #[cold]
    pub(super) fn restore(&self) {
        if let Some(long) = self.long.get() {
            // Refused, where begin was not: a filter that came meanwhile. The turns stay long, and
            // the shares are the same.
            let _ = long.end();
        }
    }
}
