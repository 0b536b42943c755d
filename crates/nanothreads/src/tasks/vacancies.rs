//! Members' places at a scope that a thread has left, for another thread to take.
//!
//! # Protocol
//! 1. A member's thread that leaves before the scope's end (`seat::company`) sets the member's bit
//!    (V1), as the last thing that it does as that member.
//! 2. A member that queues a task takes a place by clearing its bit (V2), and offers it to the
//!    threads of the join or scope around (`offers`). The thread that comes for it is the member
//!    from then on.
//!
//! # Race
//! *What the last thread left.* A leaves place i, whose queue, numbers and stacks are plain memory.
//! B takes the place and hands it to C. V1 is before V2, and V2 before C's start, by the deque in
//! which B offers it: C sees all that A did.
//!
//! # Orderings
//! V1 Release with V2 Acquire.

use platform::sync::CachePadded;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// See the module head.
#[derive(Debug)]
pub(crate) struct Vacancies {
    words: Box<[CachePadded<AtomicU64>]>,
}

const BITS: usize = u64::BITS as usize;

impl Vacancies {
    /// A team of `size`, all of whose places have a thread, or had none yet.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            words: (0..size.div_ceil(BITS)).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
        }
    }

    /// The thread of `member` is gone. By that thread, or by the one that took the place and gives
    /// it back.
    pub(crate) fn leave(&self, member: usize) {
        // ORDERING: Release (V1) - pairs with V2.
        self.words[member / BITS].fetch_or(1 << (member % BITS), Release);
    }

    /// True when there may be a place without a thread. Cost: a load for 64 members.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        // ORDERING: Relaxed - a hint; `take` looks again.
        self.words.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// A place without a thread, which is the caller's to hand on now.
    pub(crate) fn take(&self) -> Option<usize> {
        self.words.iter().enumerate().find_map(|(at, word)| {
            // ORDERING: Relaxed - the exchange below decides.
            let mut bits = word.load(Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                // ORDERING: Acquire (V2) - pairs with V1.
                match word.compare_exchange_weak(bits, bits & !bit, Acquire, Relaxed) {
                    Ok(_) => return Some(at * BITS + bit.trailing_zeros() as usize),
                    Err(now) => bits = now,
                }
            }
            None
        })
    }

    /// For another scope: no place was left. All threads have gone.
    pub(crate) fn clear(&mut self) {
        for word in &self.words {
            // ORDERING: Relaxed - no other thread has the scheduler.
            word.store(0, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_once_and_in_teams_of_any_size() {
        for size in [1, 63, 64, 65, 130] {
            let mut vacancies = Vacancies::new(size);
            assert_eq!((vacancies.is_any(), vacancies.take()), (false, None));
            (0..size).for_each(|member| vacancies.leave(member));
            assert!(vacancies.is_any());
            let taken: Vec<_> = std::iter::from_fn(|| vacancies.take()).collect();
            assert_eq!(taken, (0..size).collect::<Vec<_>>());
            vacancies.leave(size - 1);
            vacancies.clear();
            assert!(!vacancies.is_any());
        }
    }
}
