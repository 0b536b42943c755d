//! The turn of ordered regions in a loop: a token that goes from chunk to chunk in the order of the
//! iterations.
//!
//! # Protocol
//! The token is the number of the iteration whose chunk may run its ordered regions. It is written
//! to one of a few words ([`OrderedTurn`]), which its holder chooses by that number, the same way
//! in all members, and otherwise for the next chunk. So no member polls a word that it passed on
//! itself, and a hand-over moves one line between two processors, however many members wait. With
//! one word for all, the member that has just passed the token on polls the line that the next one
//! is to write: 150 ns more of an iteration between processors far from each other.
//! 1. `pass_on` (the member that has the token): writes the next chunk's begin to the word of that
//!    number: T1.
//! 2. `is_at` (the next one): sees its own begin in its word: T2.
//!
//! # Invariants
//! T-a Each number is passed once, by the chunk before it: a word that holds a chunk's number means
//!     that all chunks before it are done, and no member overwrites it before that chunk itself
//!     passes the token on.
//!
//! # Orderings
//! T1 Release with T2 Acquire: what all regions before did is seen by the next one, since each of
//! them saw the one before it.
//!
//! # Not here
//! Where members wait, and what wakes them after T1: a wait point for each word, or one for all.

use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// One word of the token; see the module head.
#[derive(Debug, Default)]
pub struct OrderedTurn(AtomicU64);

impl OrderedTurn {
    /// The word of a loop that begins with iteration `first`.
    pub fn new(first: u64) -> Self {
        Self(AtomicU64::new(first))
    }

    /// The loop begins with iteration `first`. Before the members look.
    #[inline]
    pub fn reset(&self, first: u64) {
        // ORDERING: Relaxed - published with the loop.
        self.0.store(first, Relaxed);
    }

    /// T2: true when the chunk that begins with `begin`, and has this word, has the token.
    #[inline]
    pub fn is_at(&self, begin: u64) -> bool {
        // ORDERING: Acquire (T2) - pairs with T1.
        self.0.load(Acquire) == begin
    }

    /// T1: hands the token to the chunk that begins with `next`, and has this word. Only by the
    /// member that has it.
    #[inline]
    pub fn pass_on(&self, next: u64) {
        // ORDERING: Release (T1) - pairs with T2.
        self.0.store(next, Release);
    }
}

#[cfg(all(test, loom))]
mod model;
