//! The local work descriptor (LWD): one cache line through which a master gives a worker
//! its next work, and through which the worker reports that it is done.
//!
//! # Protocol
//! The descriptor stands *in* the line, after a sequence number, and the arrival word stands in the
//! same line: an empty region costs one line out and one line back, which is the least that two
//! processors can do.
//! 1. `supply` (master): writes the descriptor, then the next number with Release (S1).
//! 2. `poll` (worker): sees a number that it has not seen with Acquire (S2), copies the descriptor.
//! 3. `finish` (worker): writes the number to `done` with Release (S3).
//! 4. `is_done` (master): sees it with Acquire (S4), may supply again.
//!
//! Beside the descriptor may stand a *cargo*, which is not copied but used in place, by the worker
//! between 2 and 3 and by the master from 1 on.
//!
//! A result of up to the size of both rides home on the line: between 2 and 3 the worker may `put`
//! it where they stood, if no thread reads them any more; after 4 the master may `take` it. A
//! reduction of small values thus moves no line that an empty region would not move.
//!
//! # Taking work back
//! A worker that lost its processor, or is still being woken, would keep its master waiting for
//! work that has not begun. Work that was supplied as *recoverable* (a bit beside the number)
//! belongs to the thread that first raises `claim` to its number: the worker before it reads the
//! descriptor (C1), or the master when it is done with its own part (C2). The master runs what it
//! took back itself; it writes `done` (no other thread will), and may supply the next descriptor at
//! once: the worker finds out that it came too late, or sees the next number only.
//!
//! # Invariants
//! - I1 A slot has one master at a time (the one that reserved the worker), and at most one
//!   unjoined descriptor.
//! - I2 The descriptor is written by the master only while `done` is the last number: no thread
//!   reads it then. Its place is written by the thread that runs the work, after the descriptor was
//!   copied and before S3.
//!
//! # Races
//! *Late start.* A (worker) sees number n at S2 and loses its processor. B (master) takes n back
//! (C2), runs it, and supplies n + 1 in the same line. A goes on: its claim of n finds n or more,
//! so it reads nothing, and polls again. Had B taken n + 1 back as well, A would find n + 1: claims
//! compare by order, not by equality.
//!
//! *Both at once.* One read-modify-write on one word comes first. The other one finds the number
//! and stays away.
//!
//! # Orderings
//! | access | order | other end |
//! |---|---|---|
//! | S1 `seq` store | Release: the descriptor, and all that the master did before the fork | S2 Acquire |
//! | S3 `done` store | Release: all that the work did, and the result in the line | S4 Acquire |
//! | C1, C2 `claim` | Relaxed: the loser reads nothing that the other one wrote | each other |
//!
//! Without recoverable work there is no read-modify-write and no fence: each word has one writer
//! (I1). A thread that sleeps instead of polling pays for it
//! ([`WaitPoint`](crate::protocols::wait_point::WaitPoint)).
//!
//! # Papers
//! P1 section 3.1 (LWD, F4, F5). Deviations: the published ring holds pointers and is cleared by
//! the master; here the descriptor is inline and a sequence number says what is new, which saves a
//! dependent miss and the clearing store. The arrival in the same line replaces the DJS for small
//! teams (F6). Taking back is what M5 (P2) asks for, for work that is not yet begun.

use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Set beside the number of a descriptor that its master may take back.
const RECOVERABLE: u64 = 1;

/// One supply line of a worker: descriptor `W` out, arrival back. A cargo `C` may travel
/// with the descriptor, to be used where it stands.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot<W, C = ()> {
    /// Twice the number of the last supplied descriptor, and [`RECOVERABLE`]. Writer: the master.
    seq: AtomicU64,
    /// The descriptor and its cargo. Writer: the master (I2).
    contents: HandCell<SlotContents<W, C>>,
    /// Number of the last descriptor that is finished or taken back. Writer: the thread that
    /// claimed it; else the worker.
    done: AtomicU64,
    /// Number of the last recoverable descriptor that was claimed. Both threads write it. After all
    /// that every region needs: on the next line when that is full.
    claim: AtomicU64,
}

/// What the master writes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct SlotContents<W, C> {
    work: W,
    cargo: C,
}

/// What a worker finds in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supplied<W> {
    /// Work to be run and finished, with its number.
    Work(u64, W),
    /// The master took the work with this number back.
    TakenBack(u64),
    /// No number that it has not seen.
    Nothing,
}

// SAFETY: - `seq`, `claim` and `done` are atomic.
//         - `work` is handed over by the protocol above: written while no thread reads it (I2),
//           read between S2 (and C1, if it is recoverable) and S3.
//         - the cargo is written with the descriptor, and until the join read only.
unsafe impl<W: Copy + Send, C: Copy + Send + Sync> Sync for Slot<W, C> {}

impl<W: Copy> Slot<W> {
    /// An empty slot; `idle` is never handed out.
    pub fn new(idle: W) -> Self {
        Self::with_room(idle, ())
    }

    /// Supplies the next descriptor and returns its number. Cost: stores to one line.
    ///
    /// # Safety
    /// - The caller is the slot's only master (I1).
    /// - The last supplied descriptor is joined: `is_joined` is true (I2).
    #[inline]
    pub unsafe fn supply(&self, work: W, recoverable: bool) -> u64 {
        // SAFETY: - caller's contract.
        unsafe { self.supply_with(work, (), recoverable) }
    }
}

impl<W: Copy, C: Copy> Slot<W, C> {
    /// An empty slot with room for cargo; neither `idle` nor `empty` is ever handed out.
    pub fn with_room(idle: W, empty: C) -> Self {
        Self {
            seq: AtomicU64::new(0),
            contents: HandCell::new(SlotContents { work: idle, cargo: empty }),
            done: AtomicU64::new(0),
            claim: AtomicU64::new(0),
        }
    }

    /// As [`Slot::supply`], with `cargo` beside the descriptor.
    ///
    /// # Safety
    /// - As there.
    #[inline]
    pub unsafe fn supply_with(&self, work: W, cargo: C, recoverable: bool) -> u64 {
        // ORDERING: Relaxed - the master reads the number that it (or the master before it, whose
        // release of the worker happened before) wrote.
        let next = (self.seq.load(Relaxed) >> 1) + 1;
        // SAFETY: - I1, I2: no other thread touches the descriptor until S1.
        unsafe { self.contents.with_mut(|contents| *contents = SlotContents { work, cargo }) };
        // ORDERING: Release (S1) - pairs with S2.
        self.seq.store((next << 1) | if recoverable { RECOVERABLE } else { 0 }, Release);
        next
    }

    /// What there is after descriptor `last`. Cost: one load of a line in the own cache, and a
    /// read-modify-write on it when there is recoverable work.
    ///
    /// # Safety
    /// - The caller is the slot's worker, has finished `last` or found it taken back, and has not
    ///   seen a later number.
    #[inline]
    pub unsafe fn poll(&self, last: u64) -> Supplied<W> {
        // ORDERING: Acquire (S2) - pairs with S1.
        let word = self.seq.load(Acquire);
        let number = word >> 1;
        if number == last {
            return Supplied::Nothing;
        }
        if word & RECOVERABLE != 0 && !self.claim(number) {
            return Supplied::TakenBack(number);
        }
        // SAFETY: - S2 saw S1; the master does not write again before S3, for it cannot take this
        // work back (I2). The cargo is not touched: another thread may be using it already, in ways
        // that allow no plain copy.
        Supplied::Work(number, unsafe { self.contents.with(|contents| (*contents).work) })
    }

    /// Calls `body` with the last descriptor's cargo where it stands. Cost: none beyond the line's.
    ///
    /// # Safety
    /// - The caller is the master, between supply and join or right after; or the worker
    ///   between `poll` and `finish`, before it `put` a result.
    #[inline]
    pub unsafe fn with_cargo<R>(&self, body: impl FnOnce(*const C) -> R) -> R {
        // SAFETY: - I2: no thread writes the contents meanwhile (caller's contract). No reference
        // is made to them.
        unsafe { self.contents.with(|contents| body(&raw const (*contents).cargo)) }
    }

    /// True when something was supplied after descriptor `last`; [`Self::poll`] says what. Cost:
    /// one load of a line in the own cache.
    #[inline]
    pub fn has_news(&self, last: u64) -> bool {
        // ORDERING: Relaxed - a hint; S2 reads the word again.
        self.seq.load(Relaxed) >> 1 != last
    }

    /// Takes the last supplied descriptor back (C2); true when the master now has to run it, and
    /// may then supply the next. False when the worker has begun. Cost: one read-modify-write, of a
    /// line in the own cache if the worker is not there to poll it.
    ///
    /// # Safety
    /// - The caller is the slot's only master (I1), supplied that descriptor as recoverable, and
    ///   has not taken it back.
    #[inline]
    pub unsafe fn take_back(&self) -> bool {
        // ORDERING: Relaxed - the master's own number.
        let number = self.seq.load(Relaxed) >> 1;
        let won = self.claim(number);
        if won {
            // ORDERING: Relaxed - read by the master only; the worker does not write this number
            // any more.
            self.done.store(number, Relaxed);
        }
        won
    }

    /// C1, C2.
    #[inline]
    fn claim(&self, number: u64) -> bool {
        // ORDERING: Relaxed - see the table.
        self.claim.fetch_max(number, Relaxed) < number
    }

    /// Leaves a result where the descriptor stood. Cost: stores to a line that [`Self::finish`]
    /// writes anyway.
    ///
    /// ```compile_fail,E0277
    /// let slot = nanothreads_engine::slot::Slot::new([0_u64; 5]);
    /// // Another thread takes it.
    /// unsafe { slot.put(std::rc::Rc::new(1)) };
    /// ```
    ///
    /// # Safety
    /// - The caller runs the last descriptor's work: the worker between `poll` and
    ///   `finish`, or the master that took it back.
    #[inline]
    pub unsafe fn put<V: Send>(&self, value: V) {
        assert!(Self::carries::<V>(), "the result is larger than the descriptor's place");
        // SAFETY: - I2: no other thread touches the place before S3; the loser of the claim reads
        // nothing.
        //         - it is large enough and aligned (checked above); what is overwritten is a copy,
        //           never dropped.
        unsafe { self.contents.with_mut(|place| place.cast::<V>().write(value)) };
    }

    /// Takes the result that was left for the last descriptor.
    ///
    /// # Safety
    /// - The caller is the slot's only master, and saw the last descriptor done, or ran it itself.
    /// - A `V` was `put` for it, which was not taken yet.
    #[inline]
    pub unsafe fn take<V: Send>(&self) -> V {
        assert!(Self::carries::<V>(), "the result is larger than the descriptor's place");
        // SAFETY: - S4 saw S3, which is after the `put` of a `V` (caller's contract).
        unsafe { self.contents.with(|place| place.cast::<V>().read()) }
    }

    /// True when a `V` fits where the descriptor stands.
    pub const fn carries<V>() -> bool {
        size_of::<V>() <= size_of::<SlotContents<W, C>>()
            && align_of::<V>() <= align_of::<SlotContents<W, C>>()
    }

    /// True when the last supplied descriptor is finished or taken back. For the master. Cost: two
    /// loads of one line.
    #[inline]
    pub fn is_joined(&self) -> bool {
        // ORDERING: Relaxed - the master's own number.
        self.is_done(self.seq.load(Relaxed) >> 1)
    }

    /// Numbers of the last descriptors that were supplied, claimed, and done; for reports.
    pub fn numbers(&self) -> [u64; 3] {
        // ORDERING: Relaxed - numbers on their own.
        [self.seq.load(Relaxed) >> 1, self.claim.load(Relaxed), self.done.load(Relaxed)]
    }

    /// Reports number `number` as finished. Cost: one store.
    ///
    /// ```compile_fail,E0133
    /// nanothreads_engine::slot::Slot::new(0).finish(1); // not for every caller
    /// ```
    ///
    /// # Safety
    /// - The caller is the slot's worker, got `number` from the last [`Self::poll`] that found
    ///   work, and is done with it: a thread that sees this may free what the work used, and write
    ///   the descriptor's place (I2).
    #[inline]
    pub unsafe fn finish(&self, number: u64) {
        // ORDERING: Release (S3) - pairs with S4.
        self.done.store(number, Release);
    }

    /// True when number `number`, or a later one, is finished; what its work wrote is visible.
    /// Cost: one load.
    #[inline]
    pub fn is_done(&self, number: u64) -> bool {
        // ORDERING: Acquire (S4) - pairs with S3.
        self.done.load(Acquire) >= number
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn descriptor_and_cargo_of_48_bytes_share_one_line_with_what_every_region_needs() {
        assert!(std::mem::offset_of!(Slot<[u64; 3], [u64; 3]>, done) + 8 <= 64);
        assert_eq!(std::mem::align_of::<Slot<[u64; 3], [u64; 3]>>(), 128);
    }

    #[test]
    fn cargo_is_used_where_it_stands_by_both() {
        let slot = Slot::with_room(0_u32, 0_u64);
        // SAFETY: single thread plays both parties in turn.
        unsafe {
            let number = slot.supply_with(7, 8, false);
            let seen = slot.with_cargo(|cargo| cargo);
            assert_eq!(slot.poll(0), Supplied::Work(number, 7));
            assert_eq!(slot.with_cargo(|cargo| (cargo, *cargo)), (seen, 8));
            slot.finish(number);
        }
    }

    #[test]
    fn supplied_work_arrives_once_and_is_done_only_after_finish() {
        let slot = Slot::new(0_u32);
        // SAFETY: single thread plays both parties in turn.
        unsafe {
            assert_eq!(slot.poll(0), Supplied::Nothing);
            let number = slot.supply(7, false);
            assert_eq!(slot.poll(0), Supplied::Work(number, 7));
            assert!(!slot.is_done(number));
            slot.finish(number);
            assert!(slot.is_done(number));
            assert_eq!(slot.poll(number), Supplied::Nothing);
        }
    }

    #[test]
    fn recoverable_work_belongs_to_the_thread_that_claims_it_first() {
        let slot = Slot::new(0_u32);
        // SAFETY: single thread plays both parties in turn.
        unsafe {
            assert_eq!(slot.supply(7, true), 1);
            assert!(slot.take_back() && slot.is_joined());
            assert_eq!(slot.poll(0), Supplied::TakenBack(1));
            // Supplied at once, though the first was not finished.
            assert_eq!(slot.supply(8, true), 2);
            assert_eq!(slot.poll(1), Supplied::Work(2, 8));
            assert!(!slot.take_back());
            slot.finish(2);
            assert!(slot.is_joined());
        }
    }

    #[test]
    fn a_virtual_processor_that_slept_through_several_numbers_gets_the_last() {
        let slot = Slot::new(0_u32);
        // SAFETY: single thread plays both parties in turn.
        unsafe {
            for work in [7, 8] {
                slot.supply(work, true);
                assert!(slot.take_back());
            }
            slot.supply(9, false);
            assert_eq!(slot.poll(0), Supplied::Work(3, 9));
        }
    }

    #[test]
    fn a_result_rides_where_the_descriptor_stood() {
        let slot = Slot::new([0_u64; 5]);
        for round in 1..6_u8 {
            let recoverable = round % 2 == 0;
            // SAFETY: single thread plays both parties in turn.
            unsafe {
                let number = slot.supply([u64::from(round); 5], recoverable);
                if recoverable {
                    assert!(slot.take_back());
                    slot.put(vec![round; 3]);
                } else {
                    assert!(matches!(slot.poll(number - 1), Supplied::Work(..)));
                    slot.put(vec![round; 3]);
                    slot.finish(number);
                }
                assert!(slot.is_joined());
                assert_eq!(slot.take::<Vec<u8>>(), [round; 3]);
            }
        }
        assert!(
            Slot::<[u64; 5]>::carries::<Option<f64>>() && !Slot::<[u64; 5]>::carries::<[u64; 6]>()
        );
        assert!(!Slot::<[u64; 5]>::carries::<u128>(), "alignment counts, too");
    }
}

#[cfg(all(test, loom))]
mod model;
