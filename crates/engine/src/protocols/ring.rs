//! The broadcast ring of a team (global work descriptor, GWD): the master writes one line, all
//! workers read it.
//!
//! # Protocol
//! Work number n stands in entry `n % ENTRIES`. Numbers begin at 1 and have no gaps.
//! 1. `publish` (master): marks the entry as being written (B1), writes the words (B2), then the
//!    number (B3).
//! 2. `Follower::look` (worker): sees the number that it expects (B4), copies the words
//!    (B5), and checks that the number still stands (B6).
//!
//! A worker that takes part (decided by the words) is joined by the master before the entry is used
//! again (I2), so it finds the number that it expects. A worker that does not take part may be away
//! for any number of works: it then finds a greater number, and goes on with the oldest one that
//! may still be open.
//!
//! # Invariants
//! - I1 One publisher.
//! - I2 Number n is published only when all that take part in number n - ENTRIES, and in those
//!   before it, have arrived: at most ENTRIES works are open at once.
//!
//! # Races
//! *Torn read.* A (master) overwrites an entry that B, which does not take part in what stood
//! there, is reading. If B copied any word of the new work (B5), then B's check (B6) sees A's mark
//! or something later: B1 is before B2 by the Release fence, B5 before B6 by the Acquire fence. B
//! then drops the copy and looks again.
//!
//! *Skipped work.* B is lapped: it expects n and finds n + ENTRIES. With several works open, B may
//! take part in one between the two. B therefore goes on at n + 1, the oldest that I2 lets be open,
//! and not after the number that it found.
//!
//! *Sleep after a skipped work.* A published n, in which B takes no part, and n + 1, in which it
//! does, and found B awake. B, about to sleep, looks for the last time: a look that skipped n and
//! said "nothing" would be a lost wake. A look therefore ends only where nothing stands, or at an
//! entry being written, whose publisher has yet to look for sleepers.
//!
//! # Orderings
//! | access | order | other end |
//! |---|---|---|
//! | B1 mark, then fence | Relaxed; Release fence (no instruction on x86) | B6 |
//! | B2 words | Relaxed: racing reads are allowed, and found by B6 | B5 |
//! | B3 number | Release: the words, and all that the master did before the fork | B4 Acquire |
//! | B6 number again, after an Acquire fence | Relaxed | B1 |
//!
//! # Papers
//! P1 section 3.1.1 (F3, F5). Deviations: the published ring holds pointers, is cleared by the
//! master and advanced under mutual exclusion. Here the descriptor stands in the entry after a
//! number (one dependent miss less, no clearing store); each team has a ring of its own with one
//! publisher, so nothing is exclusive. Work for another master's worker goes through its open ring
//! ([`crate::protocols::open_ring`]).

use platform::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use std::ptr;

/// Set in an entry's number while the entry is written.
const BUSY: u64 = 1 << 63;

/// A word of a work: a pointer, or a number without provenance.
pub type Word = *mut ();

#[derive(Debug)]
#[repr(C, align(128))]
struct Entry<const WORDS: usize> {
    /// Number of the work that stands here, or that number with [`BUSY`]. Writer: the master.
    number: AtomicU64,
    words: [AtomicPtr<()>; WORDS],
}

/// See the module head. A work is `WORDS` words; `ENTRIES` works may be open at once.
#[derive(Debug)]
pub struct Ring<const WORDS: usize, const ENTRIES: usize> {
    entries: [Entry<WORDS>; ENTRIES],
}

impl<const WORDS: usize, const ENTRIES: usize> Default for Ring<WORDS, ENTRIES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const WORDS: usize, const ENTRIES: usize> Ring<WORDS, ENTRIES> {
    /// An empty ring.
    pub fn new() -> Self {
        let entry = |_| Entry {
            number: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        };
        Self { entries: std::array::from_fn(entry) }
    }

    fn entry(&self, number: u64) -> &Entry<WORDS> {
        &self.entries[(number % ENTRIES as u64) as usize]
    }

    /// Steps B1 to B3, by the one publisher, for numbers 1, 2, ... under I2. Cost: stores to one
    /// line.
    #[inline]
    pub fn publish(&self, number: u64, words: [Word; WORDS]) {
        let entry = self.entry(number);
        // ORDERING: Relaxed (B1), kept before B2 by the fence; pairs with B6.
        entry.number.store(number | BUSY, Relaxed);
        fence(Release);
        for (place, word) in entry.words.iter().zip(words) {
            // ORDERING: Relaxed (B2) - published by B3; racing readers check (B6).
            place.store(word, Relaxed);
        }
        // ORDERING: Release (B3) - pairs with B4.
        entry.number.store(number, Release);
    }
}

/// One worker's place in a ring.
#[derive(Debug)]
pub struct Follower {
    next: u64,
}

impl Follower {
    /// Begins with work number `next`.
    pub fn new(next: u64) -> Self {
        Self { next }
    }

    /// The next work in which it `takes_part`, if that is there; what stands before it is skipped.
    /// Cost when nothing is new: one load.
    #[inline]
    pub fn look<const WORDS: usize, const ENTRIES: usize>(
        &mut self,
        ring: &Ring<WORDS, ENTRIES>,
        takes_part: impl Fn(&[Word; WORDS]) -> bool,
    ) -> Option<[Word; WORDS]> {
        loop {
            let entry = ring.entry(self.next);
            // ORDERING: Acquire (B4) - pairs with B3.
            let seen = entry.number.load(Acquire);
            let number = seen & !BUSY;
            if number > self.next {
                // Lapped: on with the oldest that may be open. `number` is a multiple of ENTRIES
                // ahead: progress.
                self.next = number - ENTRIES as u64 + 1;
                continue;
            }
            if seen != self.next {
                return None;
            }
            // ORDERING: Relaxed (B5) - valid only if B6 finds the same number.
            let words = std::array::from_fn(|at| entry.words[at].load(Relaxed));
            // ORDERING: Acquire fence (B6) - keeps B5 before the second look; pairs with the
            // Release fence after B1.
            fence(Acquire);
            if entry.number.load(Relaxed) != seen {
                continue;
            }
            self.next += 1;
            if takes_part(&words) {
                return Some(words);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    type Four = Ring<1, 4>;

    fn word(number: usize) -> [Word; 1] {
        [ptr::without_provenance_mut(number)]
    }

    #[test]
    fn five_words_and_the_number_share_one_line() {
        assert!(size_of::<u64>() + 5 * size_of::<Word>() <= 64);
        assert_eq!(size_of::<Ring<5, 4>>(), 4 * 128);
    }

    #[test]
    fn a_follower_sees_each_work_once_and_in_order() {
        let ring = Four::new();
        let mut follower = Follower::new(1);
        for number in 1..20 {
            assert_eq!(follower.look(&ring, |_| true), None);
            ring.publish(number, word(number as usize));
            assert_eq!(follower.look(&ring, |_| true), Some(word(number as usize)));
        }
    }

    #[test]
    fn several_works_are_open_at_once_and_taken_in_turn() {
        let ring = Four::new();
        (1..=4).for_each(|number| ring.publish(number, word(number as usize)));
        let mut follower = Follower::new(1);
        let taken: Vec<_> = std::iter::from_fn(|| follower.look(&ring, |_| true)).collect();
        assert_eq!(taken, [word(1), word(2), word(3), word(4)]);
    }

    #[test]
    fn a_worker_that_was_lapped_takes_part_in_every_work_that_is_still_open() {
        for published in 1..30_u64 {
            let ring = Four::new();
            (1..=published).for_each(|number| ring.publish(number, word(number as usize)));
            // Takes part in the last four only: those may be open.
            let mut follower = Follower::new(1);
            let open = published.saturating_sub(3).max(1);
            let mut taken = Vec::new();
            for _ in 0..40 {
                taken.extend(follower.look(&ring, |words| words[0].addr() as u64 >= open));
            }
            let expected: Vec<_> = (open..=published).map(|number| word(number as usize)).collect();
            assert_eq!(taken, expected);
        }
    }
}

#[cfg(all(test, loom))]
mod model;
