//! The open ring of a worker: a few lines through which any thread may supply it, beside its own
//! master (F4: any processor can supply work to any other).
//!
//! Three things go this way: a member of a region calls others back to tasks, which have arrived
//! ([`recall`](crate::teams::recall)); a program that is done with the threads has them renewed
//! (`serve::heir`); a visit of each worker ([`on_each_worker`](crate::on_each_worker)). What the
//! first of them saves is counted (`openmp` beside `openmp-had-task` in
//! `cargo xtask vm smp --count`): two of five lines for each worker of an OpenMP region.
//!
//! # Protocol
//! Ticket t is slot `t % SLOTS` in its round `t / SLOTS + 1`; each slot is a [`Slot`] whose master
//! is the holder of the ticket.
//! 1. `offer` (any thread): reads the next ticket, sees that the slot's former work is done (O1:
//!    credit), takes the ticket by one compare-and-swap (O2), supplies the slot.
//! 2. `poll` (worker): looks at the one slot that is next in turn.
//! 3. `finish` (worker); `is_done` (the holder of the ticket).
//!
//! # Invariants
//! - I1 A ticket is taken once (O2), and a slot's next ticket only after its last work is done
//!   (O1): so each slot has one master at a time and at most one work, which is what [`Slot`] asks
//!   for.
//! - I2 Tickets are served in order. A holder that was preempted between O2 and the supply holds up
//!   those after it, not the worker, which does its own master's work meanwhile.
//!
//! # Orderings
//! O1 is the slot's Acquire of `done`: the former work was copied, and its number written, before
//! this supply. O2 is relaxed: it only orders which thread has which ticket.
//!
//! # Why four slots
//! A worker's own master has one work open, so its line is a ring of one
//! ([`crate::protocols::slot`]). Other threads do not know of each other: with one slot the second
//! would wait for the first's work to be *done*; with four, four wait side by side. The ticket word
//! is on a line of the suppliers; what the worker polls is written only when there is work for it,
//! so an unused open ring costs it one load of a line in its own cache.
//!
//! # Papers
//! P1 section 3.1.1 (F4, F5): the producer's index, there advanced under mutual exclusion by LL/SC.

use crate::protocols::slot::{Slot, Supplied};
use platform::sync::CachePadded;
use platform::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Works that may wait at once.
#[cfg(not(loom))]
pub(crate) const SLOTS: usize = 4;
/// Works that may wait at once; models fill the ring with few works.
#[cfg(loom)]
pub(crate) const SLOTS: usize = 2;

/// See the module head.
#[derive(Debug)]
pub(crate) struct OpenRing<W> {
    slots: [Slot<W>; SLOTS],
    /// The next ticket. Writers: suppliers.
    tickets: CachePadded<AtomicU64>,
}

impl<W: Copy> OpenRing<W> {
    /// An empty ring; `idle` is never handed out.
    pub(crate) fn new(idle: W) -> Self {
        Self {
            slots: std::array::from_fn(|_| Slot::new(idle)),
            tickets: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Supplies `work` and returns its ticket; `None` when the ring is full. Cost: one
    /// compare-and-swap and stores to one line.
    #[inline]
    pub(crate) fn offer(&self, work: W) -> Option<u64> {
        // ORDERING: Relaxed - the compare-and-swap decides, and it orders nothing but tickets.
        let mut ticket = self.tickets.load(Relaxed);
        loop {
            let (slot, round) = self.slot(ticket);
            // O1. A ticket that another thread took meanwhile passes here, too, and fails below.
            if !slot.is_done(round - 1) {
                return None;
            }
            // ORDERING: Relaxed (O2) - see the module head.
            match self.tickets.compare_exchange_weak(ticket, ticket + 1, Relaxed, Relaxed) {
                Ok(_) => {
                    // SAFETY: - I1: this thread is the slot's only master until the work is done,
                    //           and O1 saw the former one done.
                    unsafe { slot.supply(work, false) };
                    return Some(ticket);
                }
                Err(now) => ticket = now,
            }
        }
    }

    /// The work with `ticket`, if it is there.
    ///
    /// # Safety
    /// - The caller is the ring's worker, has finished all tickets before, and not yet this one.
    #[inline]
    pub(crate) unsafe fn poll(&self, ticket: u64) -> Option<W> {
        let (slot, round) = self.slot(ticket);
        // SAFETY: - caller's contract; the slot's rounds are consecutive.
        match unsafe { slot.poll(round - 1) } {
            Supplied::Work(_, work) => Some(work),
            // An offer is never taken back.
            Supplied::TakenBack(_) | Supplied::Nothing => None,
        }
    }

    /// True when the work with `ticket` is there, for the worker.
    #[inline]
    pub(crate) fn has_news(&self, ticket: u64) -> bool {
        let (slot, round) = self.slot(ticket);
        slot.has_news(round - 1)
    }

    /// Reports `ticket` as done.
    ///
    /// # Safety
    /// - The caller is the ring's worker, got the work with `ticket` from
    ///   [`Self::poll`], is done with it, and has not reported it yet.
    #[inline]
    pub(crate) unsafe fn finish(&self, ticket: u64) {
        let (slot, round) = self.slot(ticket);
        // SAFETY: - caller's contract: the slot's last work is that of `ticket`.
        unsafe { slot.finish(round) };
    }

    /// True when the work with `ticket` is done; what it wrote is visible. For any time after
    /// [`Self::offer`].
    #[inline]
    pub(crate) fn is_done(&self, ticket: u64) -> bool {
        let (slot, round) = self.slot(ticket);
        slot.is_done(round)
    }

    fn slot(&self, ticket: u64) -> (&Slot<W>, u64) {
        let count = SLOTS as u64;
        (&self.slots[(ticket % count) as usize], ticket / count + 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn works_are_taken_in_order_and_a_full_ring_refuses() {
        let ring = OpenRing::new(0);
        for ticket in 0..4 {
            assert_eq!(ring.offer(ticket * 10), Some(ticket));
        }
        assert_eq!(ring.offer(99), None);
        for ticket in 0..20 {
            // SAFETY: this thread plays the worker, in turn.
            assert_eq!(unsafe { ring.poll(ticket) }, Some(ticket * 10));
            assert_eq!(ring.offer(99), None, "taken is not done");
            assert!(!ring.is_done(ticket));
            // SAFETY: as above.
            unsafe { ring.finish(ticket) };
            assert!(ring.is_done(ticket));
            assert_eq!(ring.offer((ticket + 4) * 10), Some(ticket + 4));
        }
        assert!(ring.is_done(0), "a ticket stays done when its slot is used again");
    }
}
