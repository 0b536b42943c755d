//! The turn of an ordered loop ([`engine::turn`]) on a few lines, each with a place to wait, chosen
//! by the number of the chunk's first iteration.
//!
//! Two chunks that share a line share its sleepers: a wake for one of them makes the other look and
//! sleep again. Sleeping: [`WaitPoint`]; T1 is its N1.

use engine::turn::OrderedTurn;
use engine::wait_point::WaitPoint;
use platform::sync::CachePadded;
use std::num::NonZeroUsize;

/// See the module head.
#[derive(Debug)]
pub(crate) struct Turns {
    /// An odd number of lines, so that chunks that begin at multiples of a power of two spread,
    /// too.
    lines: Box<[CachePadded<Line>]>,
    first: usize,
    stride: NonZeroUsize,
}

#[derive(Debug)]
struct Line {
    turn: OrderedTurn,
    waiters: WaitPoint,
}

/// More lines than this would save no transfer: only the next few chunks' owners wait.
const MOST_LINES: usize = 64;

impl Turns {
    /// The token of a loop that begins with iteration `first`, for `members` that may wait at once.
    /// When chunks are `stride` iterations long, each of those members waits on a line of its own;
    /// any other stride is right, too.
    pub(crate) fn new(first: usize, stride: NonZeroUsize, members: usize) -> Self {
        let lines = members.min(MOST_LINES) | 1;
        let line = |_| {
            CachePadded::new(Line {
                turn: OrderedTurn::new(first as u64),
                waiters: WaitPoint::new(),
            })
        };
        Self { lines: (0..lines).map(line).collect(), first, stride }
    }

    fn line(&self, begin: usize) -> &Line {
        &self.lines[begin.wrapping_sub(self.first) / self.stride % self.lines.len()]
    }

    /// True when the chunk that begins with `begin` has the token.
    #[inline]
    pub(crate) fn is_turn(&self, begin: usize) -> bool {
        self.line(begin).turn.is_at(begin as u64)
    }

    /// Hands the token to the chunk that begins with `next`. Only by the member that has it.
    #[inline]
    pub(crate) fn pass(&self, next: usize) {
        let line = self.line(next);
        line.turn.pass_on(next as u64);
        line.waiters.notify_all();
    }

    /// Where the owner of the chunk that begins with `begin` waits.
    pub(crate) fn point(&self, begin: usize) -> &WaitPoint {
        &self.line(begin).waiters
    }

    /// Wakes all members that wait: the loop was stopped.
    pub(crate) fn wake_all(&self) {
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
        for (members, stride) in [(1, 1), (2, 5), (3, 1), (64, 2), (1000, usize::MAX)] {
            let turns = Turns::new(7, NonZeroUsize::new(stride).unwrap(), members);
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
        for chunk in [1, 2, 3, 4, 10, 64, 100, 1000, 4096] {
            let turns = Turns::new(5, NonZeroUsize::new(chunk).unwrap(), 8);
            for from in 0..30 {
                let waiting =
                    (from..from + 8).map(|k| std::ptr::from_ref(turns.line(5 + k * chunk)));
                let lines: std::collections::HashSet<_> = waiting.collect();
                assert_eq!(lines.len(), 8, "chunks of {chunk}");
            }
        }
    }
}
