//! The turn of an ordered loop: a token that goes from chunk to chunk in the order of the iterations.
//!
//! # Protocol
//! The token is the number of the first iteration whose chunk may run its ordered sections. It is written to one of a
//! few lines, chosen by that number, so that a hand-over moves one line between two processors, whoever else waits.
//! 1. `pass` (who has the token): writes the next chunk's begin to the line of that number: T1.
//! 2. `is_turn` (the next one): sees its own begin in its line: T2.
//!
//! # Invariants
//! T-a Each number is passed once, by the chunk before it: a line that holds a chunk's number means that all chunks
//!     before it are done, and nobody overwrites it before that chunk itself passes the token on.
//! T-b Two chunks that share a line share its sleepers: a wake for one of them makes the other look and sleep again.
//!
//! # Orderings
//! T1 Release with T2 Acquire: what all sections before did is seen by the next one, since each of them saw the one
//! before it. Sleeping: [`WaitPoint`]; T1 is its N1.

use crate::wait_point::WaitPoint;
use platform::sync::CachePadded;
use platform::sync::atomic::{AtomicUsize, Ordering::{Acquire, Release}};

/// See the module head.
#[derive(Debug)]
pub struct Turns {
    /// A power of two of lines.
    lines: Box<[CachePadded<Line>]>,
}

#[derive(Debug)]
struct Line {
    turn: AtomicUsize,
    waiters: WaitPoint,
}

/// More lines than this would save no transfer: only the next few chunks' owners wait.
const MOST_LINES: usize = 64;
/// 2^64 divided by the golden ratio: spreads equally spaced numbers evenly.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Turns {
    /// The token of a loop that begins with iteration `first`, for `members` that may wait at once.
    pub fn new(first: usize, members: usize) -> Self {
        let lines = members.clamp(1, MOST_LINES).next_power_of_two();
        let line = |_| CachePadded::new(Line { turn: AtomicUsize::new(first), waiters: WaitPoint::new() });
        Self { lines: (0..lines).map(line).collect() }
    }

    fn line(&self, begin: usize) -> &Line {
        let spread = (begin as u64).wrapping_mul(SPREAD) >> u32::BITS;
        &self.lines[spread as usize & (self.lines.len() - 1)]
    }

    /// Step T2: true when the chunk that begins with `begin` has the token.
    #[inline]
    pub fn is_turn(&self, begin: usize) -> bool {
        // ORDERING: Acquire (T2) - pairs with T1.
        self.line(begin).turn.load(Acquire) == begin
    }

    /// Step T1: hands the token to the chunk that begins with `next`. Only by who has it.
    #[inline]
    pub fn pass(&self, next: usize) {
        let line = self.line(next);
        // ORDERING: Release (T1) - pairs with T2.
        line.turn.store(next, Release);
        line.waiters.notify_all();
    }

    /// Where the owner of the chunk that begins with `begin` waits.
    pub fn point(&self, begin: usize) -> &WaitPoint {
        &self.line(begin).waiters
    }

    /// Wakes all who wait: the loop was stopped.
    pub fn wake_all(&self) {
        for line in &self.lines {
            line.waiters.notify_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_token_starts_at_the_first_iteration_and_is_nowhere_else_than_where_it_was_passed() {
        for members in [1, 2, 3, 64, 1000] {
            let turns = Turns::new(7, members);
            assert!(turns.is_turn(7));
            for (turn, next) in [(7, 9), (9, 14), (14, 100), (100, usize::MAX)] {
                assert!(turns.is_turn(turn) && !turns.is_turn(next));
                turns.pass(next);
                assert!(turns.is_turn(next));
            }
        }
    }

    #[test]
    fn chunks_of_equal_length_wait_on_different_lines() {
        let turns = Turns::new(0, 8);
        for chunk in [1, 2, 4, 10, 64, 1000] {
            let lines: Vec<_> = (0..8).map(|k| std::ptr::from_ref(turns.line(k * chunk))).collect();
            let distinct = lines.iter().collect::<std::collections::HashSet<_>>().len();
            assert!(distinct >= 5, "chunks of {chunk}: {distinct} lines of 8");
        }
    }
}
