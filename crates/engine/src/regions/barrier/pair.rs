//! The barrier of two members: each waits for the other's arrival, and neither has to release the
//! other.
//!
//! # Protocol
//! Round r: each member writes its *arrival*, which is r and whether it knows of work to be
//! completed first (P1), and looks for the other's (P2). If neither knows of work, the round is
//! over with the later arrival: one line each way, and both travel at the same time, where a gather
//! and a release travel one after the other. Where two share a processor, the later one goes on at
//! once, so that a barrier costs one change between them instead of two. If one of them knows of
//! work, both see that: member 0 waits until the work is complete and then writes r into `closed`
//! (P3), for which member 1 waits (P4).
//!
//! Member 1 may go on after P1 (P5), if it knows of no work and does nothing more in the region
//! than join it. Member 0, which closes rounds, may not: it would wait in the join for a member 1
//! that waits for P3.
//! - A: member 1 arrives in the last round and leaves; B: member 0 comes with work. B sees the
//!   arrival, completes the work, closes the round, for which no member waits, and joins. The next
//!   arrival of A is of a region that B forks after that.
//! - A: member 1 arrives and leaves; B: member 0 waits in the same round from another place, and
//!   goes on to the next barrier, where member 1 does not come: such a program waits for ever with
//!   every barrier, as member 1 has none left.
//!
//! # Invariants
//! - I1 Both decide the same: an arrival of round r does not change before its writer has left
//!   round r.
//! - I2 An arrival of round r + 1 says that round r is over: its writer has left it, by P5 only at
//!   the end of a region, and member 0 has left it before it forks the next. So one word for each
//!   is enough.
//! - I3 Neither member is more than one round ahead: round r + 1 needs both arrivals, or (P5) the
//!   join after round r.
//!
//! # Orderings
//! P1 Release with P2 Acquire: what one did before the barrier is seen by the other, both ways. P3
//! Release with P4 Acquire: what was seen by member 0 when it found the work complete is seen by
//! member 1. No read-modify-write.

use platform::sync::CachePadded;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};

/// See the module head.
#[derive(Debug)]
pub struct Pair {
    /// The last round that each has arrived at, twice, and 1 if it knows of work. Writer: the
    /// member.
    arrivals: [CachePadded<AtomicU64>; 2],
    /// The last round with work that is over. Writer: member 0.
    closed: CachePadded<AtomicU64>,
}

/// A member's part in a round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    id: usize,
    number: u64,
    has_work: bool,
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// A barrier without arrivals.
    pub fn new() -> Self {
        let word = || CachePadded::new(AtomicU64::new(0));
        Self { arrivals: [word(), word()], closed: word() }
    }

    /// Step P1 of member `id`, which is 0 or 1, in round `number`, counted from 1.
    #[inline]
    pub fn arrive(&self, id: usize, number: u64, has_work: bool) -> Round {
        // ORDERING: Release (P1) - pairs with P2.
        self.arrivals[id].store(number << 1 | u64::from(has_work), Release);
        Round { id, number, has_work }
    }

    /// Steps P2 and P4: true when the member may go on. A member 0 that knows of work, or whose
    /// partner does, has to [`close`](Self::close) the round instead.
    #[inline]
    pub fn is_over(&self, round: Round) -> bool {
        // ORDERING: Acquire (P2) - pairs with P1.
        let other = self.arrivals[1 - round.id].load(Acquire);
        // Neither knows of work, or (I2) the other has left the round.
        if (other == round.number << 1 && !round.has_work) || other >> 1 > round.number {
            return true;
        }
        // ORDERING: Acquire (P4) - pairs with P3.
        round.id == 1 && self.closed.load(Acquire) == round.number
    }

    /// True when the other one has arrived, with or without work.
    #[inline]
    pub fn is_met(&self, round: Round) -> bool {
        // ORDERING: Acquire (P2) - pairs with P1.
        self.arrivals[1 - round.id].load(Acquire) >> 1 >= round.number
    }

    /// Step P3, by member 0 of a round that is met, not over, and whose work is complete.
    pub fn close(&self, round: Round) {
        // ORDERING: Release (P3) - pairs with P4.
        self.closed.store(round.number, Release);
    }
}
