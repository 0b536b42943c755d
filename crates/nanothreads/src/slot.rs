//! The local work descriptor (LWD): one cache line through which a master gives a virtual processor its next work, and
//! through which the virtual processor reports that it is done.
//!
//! # Protocol
//! The descriptor stands *in* the line, behind a sequence number, and the arrival word stands in the same line: an
//! empty region costs one line out and one line back, which is the least that two processors can do.
//! 1. `supply` (master): writes the descriptor, then `seq + 1` with Release (S1).
//! 2. `poll` (virtual processor): sees the expected number with Acquire (S2), copies the descriptor.
//! 3. `finish` (virtual processor): writes the number to `done` with Release (S3).
//! 4. `is_done` (master): sees it with Acquire (S4), may supply again.
//!
//! # Invariants
//! I1  A slot has one master at a time (whoever reserved the virtual processor), and at most one unjoined descriptor.
//! I2  The descriptor is written only while `done == seq`: nobody reads it then.
//!
//! # Orderings
//! | access | order | other end |
//! |---|---|---|
//! | S1 `seq` store | Release: the descriptor, and all that the master did before the fork | S2 Acquire |
//! | S3 `done` store | Release: all that the work did | S4 Acquire |
//! No read-modify-write and no fence: each word has one writer (I1). Who sleeps instead of polling pays for it
//! ([`WaitPoint`](crate::wait_point::WaitPoint)).
//!
//! # Papers
//! P1 section 3.1 (LWD, F4, F5). Deviations: the published ring holds pointers and is cleared by the master; here the
//! descriptor is inline and a sequence number says what is new, which saves a dependent miss and the clearing store.
//! The arrival in the same line replaces the DJS for small teams (F6).

use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// One supply line of a virtual processor: descriptor `W` out, arrival back.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot<W> {
    /// Number of the last supplied descriptor. Writer: the master.
    seq: AtomicU64,
    /// The descriptor. Writer: the master, while `done == seq` (I2).
    work: HandCell<W>,
    /// Number of the last finished descriptor. Writer: the virtual processor.
    done: AtomicU64,
}

// SAFETY: - `seq` and `done` are atomic.
//         - `work` is handed over by the protocol above: written while done == seq, read between S2 and S3.
unsafe impl<W: Copy + Send> Sync for Slot<W> {}

impl<W: Copy> Slot<W> {
    /// An empty slot; `idle` is never handed out.
    pub fn new(idle: W) -> Self {
        Self { seq: AtomicU64::new(0), work: HandCell::new(idle), done: AtomicU64::new(0) }
    }

    /// Supplies the next descriptor and returns its number. Cost: stores to one line.
    ///
    /// # Safety
    /// - The caller is the slot's only master (I1).
    /// - The last supplied descriptor is finished: `is_done` was true (I2).
    #[inline]
    pub unsafe fn supply(&self, work: W) -> u64 {
        // ORDERING: Relaxed - the master reads the number that it (or the master before it, whose release of the
        // virtual processor happened before) wrote.
        let next = self.seq.load(Relaxed) + 1;
        // SAFETY: - I1, I2: no other thread touches the descriptor until S1.
        unsafe { self.work.with_mut(|cell| *cell = work) };
        // ORDERING: Release (S1) - pairs with S2.
        self.seq.store(next, Release);
        next
    }

    /// The descriptor with number `expected`, if it is there. Cost: one load of a line in the own cache.
    ///
    /// # Safety
    /// - The caller is the slot's virtual processor, has finished `expected - 1` and not yet `expected`.
    #[inline]
    pub unsafe fn poll(&self, expected: u64) -> Option<W> {
        // ORDERING: Acquire (S2) - pairs with S1.
        if self.seq.load(Acquire) == expected {
            // SAFETY: - S2 saw S1, and the master does not write again before S3 (I2).
            Some(unsafe { self.work.with(|cell| *cell) })
        } else {
            None
        }
    }

    /// True when number `expected` was supplied. Cost: one load.
    #[inline]
    pub fn is_supplied(&self, expected: u64) -> bool {
        // ORDERING: Acquire - may stand for S2; pairs with S1.
        self.seq.load(Acquire) >= expected
    }

    /// True when the last supplied descriptor is finished. For the master. Cost: two loads of one line.
    #[inline]
    pub fn is_joined(&self) -> bool {
        // ORDERING: Relaxed - the master's own number.
        self.is_done(self.seq.load(Relaxed))
    }

    /// Reports number `number` as finished. Cost: one store.
    #[inline]
    pub fn finish(&self, number: u64) {
        // ORDERING: Release (S3) - pairs with S4.
        self.done.store(number, Release);
    }

    /// True when number `number` is finished; what its work wrote is visible. Cost: one load.
    #[inline]
    pub fn is_done(&self, number: u64) -> bool {
        // ORDERING: Acquire (S4) - pairs with S3.
        self.done.load(Acquire) == number
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_of_forty_bytes_shares_one_line_with_both_numbers() {
        assert!(std::mem::offset_of!(Slot<[u64; 5]>, done) + 8 <= 64);
        assert_eq!(std::mem::align_of::<Slot<[u64; 5]>>(), 128);
    }

    #[test]
    fn supplied_work_arrives_once_and_is_done_only_after_finish() {
        let slot = Slot::new(0_u32);
        // SAFETY: single thread plays both parties in turn.
        unsafe {
            assert_eq!(slot.poll(1), None);
            let number = slot.supply(7);
            assert_eq!(slot.poll(number), Some(7));
            assert!(!slot.is_done(number));
            slot.finish(number);
            assert!(slot.is_done(number));
            assert_eq!(slot.poll(number + 1), None);
        }
    }
}
