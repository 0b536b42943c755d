//! The arrival line of a worker, which is its entry of the distributed join structure (DJS), and
//! the private last-seen values (PJV) of the threads that wait for it.
//!
//! # Protocol
//! 1. `arrive` (worker): writes its own next join number with Release (A1). No other thread writes
//!    the line.
//! 2. `is_passed` (waiter): sees a number *greater* than the last one seen with Acquire (A2),
//!    wrapping around; `record` makes it the last one seen.
//!
//! A result that fits into the line may ride along: `put` before 1, `take` after 2.
//!
//! # Invariants
//! - A-I1 One party waits for a line's next arrival at a time: the master that broadcast, or the
//!   leader that arrives for it (below). Each has its own last-seen value, taken while the worker
//!   has nothing to do.
//! - A-I2 The place is written by the worker between its copy of the work and A1, and read after A2
//!   by the master before it supplies again.
//!
//! # Why numbers of the worker, and not of the region
//! A worker may take part in any number of other regions, of other masters, before it meets this
//! master again (F6): its number then stands anywhere. The master need not know where, since only
//! "greater than when I last looked" counts.
//!
//! # Leaders
//! In a large team the first member of each *cluster* (a last-level cache's members) gathers its
//! cluster's lines and then arrives for all of them. What a member did before A1 is seen by its
//! leader (A2), hence by every thread that sees the leader's A1.
//!
//! # Orderings
//! | access | order | other end |
//! |---|---|---|
//! | A1 store | Release: what the work did, the result, and for a leader what its cluster did | A2 Acquire |
//!
//! # Papers
//! P1 section 3.2 (F6). Deviations: one number to a line instead of four, because members that
//! arrive together would hand the line to each other; the entry belongs to the worker and not to
//! the master's stack, so that several masters need no structure each, and the last-seen value is
//! what tells their regions apart.

use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::cell::Cell;
use std::mem::MaybeUninit;

/// Where the join numbers start: close enough to the end that every run wraps around.
const START: u64 = u64::MAX - 2;

/// One arrival line; results have room in a `P`.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Arrival<P> {
    /// The result. Writer: the worker (A-I2).
    place: HandCell<MaybeUninit<P>>,
    /// Number of the last join. Writer: the worker.
    number: AtomicU64,
}

// SAFETY: - `number` is atomic; `place` is handed over by the protocol above, by value.
unsafe impl<P> Sync for Arrival<P> {}
// SAFETY: - as above; an arrival line owns nothing.
unsafe impl<P> Send for Arrival<P> {}

impl<P> Arrival<P> {
    /// A line of a worker that has not arrived anywhere.
    pub fn new() -> Self {
        Self { place: HandCell::new(MaybeUninit::uninit()), number: AtomicU64::new(START) }
    }

    /// Step 1. Cost: one store.
    ///
    /// ```compile_fail,E0133
    /// nanothreads_engine::arrival::Arrival::<u64>::new().arrive(); // not for every caller
    /// ```
    ///
    /// # Safety
    /// - The caller is the line's worker, is done with the work that it arrives from, and arrives
    ///   once for it: a thread that sees this may free what the work used, and take the result.
    #[inline]
    pub unsafe fn arrive(&self) {
        // ORDERING: Relaxed - the own word.
        let next = self.number.load(Relaxed).wrapping_add(1);
        // ORDERING: Release (A1) - pairs with A2.
        self.number.store(next, Release);
    }

    /// How often the worker has arrived; for reports.
    pub fn count(&self) -> u64 {
        // ORDERING: Relaxed - a number on its own.
        self.number.load(Relaxed).wrapping_sub(START)
    }

    /// Leaves a result in the line.
    ///
    /// ```compile_fail,E0277
    /// let line = nanothreads_engine::arrival::Arrival::<[u64; 5]>::new();
    /// // Another thread takes it.
    /// unsafe { line.put(std::rc::Rc::new(1)) };
    /// ```
    ///
    /// # Safety
    /// - The caller is the line's worker, between taking a work and [`Self::arrive`] for
    ///   it.
    #[inline]
    pub unsafe fn put<V: Send>(&self, value: V) {
        assert!(Self::carries::<V>(), "the result is larger than its place");
        // SAFETY: - A-I2: no other thread touches the place now; it is large enough and aligned
        // (checked above).
        unsafe { self.place.with_mut(|place| place.cast::<V>().write(value)) };
    }

    /// Takes the result.
    ///
    /// # Safety
    /// - The caller is the master of the region that the worker arrived from last, after
    ///   its join.
    /// - The member has `put` a `V` for this arrival, which was not taken yet.
    #[inline]
    pub unsafe fn take<V: Send>(&self) -> V {
        assert!(Self::carries::<V>(), "the result is larger than its place");
        // SAFETY: - A2 saw A1, which is after the `put` of a `V` (caller's contract).
        unsafe { self.place.with(|place| place.cast::<V>().read()) }
    }

    /// True when a `V` fits into the line.
    pub const fn carries<V>() -> bool {
        size_of::<V>() <= size_of::<P>() && align_of::<V>() <= align_of::<P>()
    }
}

impl<P> Default for Arrival<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// The last arrival that one waiting party saw of one line (an entry of the PJV).
#[derive(Debug)]
pub struct LastSeen(Cell<u64>);

impl LastSeen {
    /// The value now. The worker must have nothing to do that would end in an arrival.
    pub fn of<P>(line: &Arrival<P>) -> Self {
        // ORDERING: Acquire - not needed for the number, which stands still; pairs with A1 of the
        // last region.
        Self(Cell::new(line.number.load(Acquire)))
    }

    /// Step 2: true when the worker arrived since. Cost: one load.
    #[inline]
    pub fn is_passed<P>(&self, line: &Arrival<P>) -> bool {
        // ORDERING: Acquire (A2) - pairs with A1.
        is_greater(line.number.load(Acquire), self.0.get())
    }

    /// Records the arrival that [`Self::is_passed`] saw.
    #[inline]
    pub fn record<P>(&self, line: &Arrival<P>) {
        // ORDERING: Relaxed - the number that A2 saw: the next arrival comes after the next supply.
        self.0.set(line.number.load(Relaxed));
    }

    /// Records one arrival, of which [`Self::is_passed`] saw at least one: where several works are
    /// open, the worker may have arrived from younger ones, too.
    #[inline]
    pub fn record_one(&self) {
        self.0.set(self.0.get().wrapping_add(1));
    }
}

/// The paper's `greater than`, for numbers that wrap around.
#[inline]
fn is_greater(now: u64, before: u64) -> bool {
    now.wrapping_sub(before).cast_signed() > 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn number_and_result_share_one_line() {
        assert!(std::mem::offset_of!(Arrival<[u64; 5]>, number) + 8 <= 64);
        assert_eq!(align_of::<Arrival<[u64; 5]>>(), 128);
    }

    #[test]
    fn each_arrival_is_seen_once_also_where_the_numbers_wrap_around() {
        let line = Arrival::<[u64; 5]>::new();
        let last = LastSeen::of(&line);
        for _ in 0..6 {
            assert!(!last.is_passed(&line));
            // SAFETY: single thread plays both parties in turn.
            unsafe { line.arrive() };
            assert!(last.is_passed(&line));
            last.record(&line);
        }
        assert!(line.number.into_inner() < START, "the test wrapped around");
    }

    #[test]
    fn joins_elsewhere_are_skipped_by_looking_again() {
        let line = Arrival::<[u64; 5]>::new();
        let here = LastSeen::of(&line);
        for _ in 0..5 {
            // SAFETY: single thread plays both parties in turn.
            unsafe { line.arrive() };
        }
        assert!(here.is_passed(&line), "a stale value takes joins elsewhere for an arrival");
        assert!(!LastSeen::of(&line).is_passed(&line));
    }

    #[test]
    fn greater_holds_over_half_of_the_circle() {
        for (now, before, expected) in [
            (1, 0, true),
            (0, 0, false),
            (0, 1, false),
            (0, u64::MAX, true),
            (u64::MAX, 0, false),
            (1 << 62, 0, true),
        ] {
            assert_eq!(is_greater(now, before), expected, "{now} > {before}");
        }
    }
}
