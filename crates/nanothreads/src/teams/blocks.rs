//! Kept teams on slices: each member has its block, in one buffer or in two that change places.
//!
//! # Protocol
//! Two buffers: in step k every member reads the whole of one (the *old* one) and writes its own
//! block of the other. Then all meet, and the buffers change places.
//!
//! # Invariants
//! - B1 A member reads the old buffer of step k, or writes its block of the new one, only after all
//!   members have ended step k - 1: they meet at a barrier that is the exchange's own, so that
//!   barriers in the body, matched or not, cannot stand for it.
//! - B2 A member that left a step by unwinding, or did not meet the others, makes no other step,
//!   and does not look at the data: the others may have gone on.

use super::departures::Departures;
use super::{Meeting, Team, TeamMember};
use crate::loops::static_block;
use crate::loops::stop::{Stop, abandon};
use engine::barrier::Barrier;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An exchange is for one region.
const REGION: u64 = 1;

/// A slice that members share.
struct SharedSlice<'a, T> {
    begin: *mut T,
    length: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: - what is made of it is handed out by the two functions below, whose contracts say that
//           no element is mutable for one thread while another has it; elements move to other
//           threads (`Send`), and are seen by several only where `T: Sync` (`Buffers`).
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}
// SAFETY: - as above.
unsafe impl<T: Send> Send for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    fn new(slice: &'a mut [T]) -> Self {
        Self { begin: slice.as_mut_ptr(), length: slice.len(), slice: PhantomData }
    }

    /// The member's block.
    ///
    /// # Safety
    /// - No part of the block is in use elsewhere while the answer is.
    #[expect(clippy::mut_from_ref, reason = "the contract")]
    unsafe fn block(&self, block: Range<usize>) -> &mut [T] {
        debug_assert!(block.start <= block.end && block.end <= self.length);
        // SAFETY: - within the slice; caller's contract.
        unsafe { slice::from_raw_parts_mut(self.begin.add(block.start), block.len()) }
    }

    /// All of it.
    ///
    /// # Safety
    /// - No part of it is mutable elsewhere while the answer is in use.
    unsafe fn whole(&self) -> &[T] {
        // SAFETY: - the slice itself; caller's contract.
        unsafe { slice::from_raw_parts(self.begin, self.length) }
    }
}

/// Two buffers and what their members share.
struct Exchange<'a, T> {
    buffers: [SharedSlice<'a, T>; 2],
    /// Where members meet between steps (B1).
    barrier: Barrier,
    stop: Stop,
    departures: Departures,
    /// Steps that member 0 has made. Writer: member 0.
    steps: AtomicUsize,
}

impl<T> Exchange<'_, T> {
    fn wake_all(&self) {
        self.barrier.stir();
    }
}

/// Two buffers that change places after each step; a member's view of them, made by
/// [`Team::run_on_two`].
pub struct Buffers<'a, T> {
    member: &'a TeamMember<'a>,
    meeting: &'a Meeting,
    exchange: &'a Exchange<'a, T>,
    steps: usize,
    /// It made all steps to their ends (B2).
    is_whole: bool,
}

impl<T> fmt::Debug for Buffers<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers")
            .field("member", &self.member.id())
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl<T: Send + Sync> Buffers<'_, T> {
    /// One step of all members: `body` gets the whole of the old buffer, where the member's block
    /// begins, and the member's block of the new one, which holds what it held two steps ago. All
    /// members then wait for each other, and the buffers change places. Every member has to come to
    /// each step. Cost: a barrier.
    ///
    /// # Panics
    /// With the payload of `body`. When another member panicked, the step does not return; when one
    /// has ended without coming to the step, with a text that says which one. In a member that left
    /// a step by a panic and caught that: no other step can follow, so the region fails.
    #[track_caller]
    pub fn step(&mut self, body: impl FnOnce(&[T], usize, &mut [T])) {
        self.must_be_whole();
        let Exchange { buffers, barrier, stop, departures, .. } = self.exchange;
        let [old, new] = [&buffers[self.steps % 2], &buffers[(self.steps + 1) % 2]];
        let (id, size) = (self.member.id(), self.member.size());
        let block = static_block(new.length, id, size);
        let begin = block.start;
        // B2: until it has met the others.
        self.is_whole = false;
        // SAFETY: - B1: this member's block, and only this member writes it in this step; the old
        //           buffer is written by no member before all have ended this step.
        unsafe { body(old.whole(), begin, new.block(block)) };
        let number = self.steps as u64 + 1;
        let missing = || departures.of_region(REGION).before_barrier(number);
        self.steps += 1;
        if id == 0 {
            // ORDERING: Relaxed - read by the same thread after the join.
            self.exchange.steps.store(self.steps, Relaxed);
        }
        if !barrier.wait_unless(id, || stop.is_raised() || missing().is_some()) {
            match missing() {
                Some(missing) if !stop.is_raised() => {
                    self.meeting.report(id, &missing, "the end of a step", Location::caller());
                }
                _ => abandon(),
            }
        }
        self.is_whole = true;
    }

    /// The data as the last step left them.
    ///
    /// # Panics
    /// In a member that left a step by a panic and caught that.
    #[track_caller]
    pub fn latest(&self) -> &[T] {
        self.must_be_whole();
        // SAFETY: - B1: the old buffer of the next step, which no member writes before all have
        //           ended that one; this member cannot while it holds the answer (`step` wants
        //           the view for itself).
        unsafe { self.exchange.buffers[self.steps % 2].whole() }
    }
}

impl<T> Buffers<'_, T> {
    /// Goes on only where this member has ended each step that it began. Where it has not, another
    /// member's panic is what the region ends with; without one it is this member's own, which it
    /// caught: that must not end in silence, since the step is done by halves.
    #[track_caller]
    fn must_be_whole(&self) {
        if self.is_whole {
            return;
        }
        if self.exchange.stop.is_raised() {
            abandon();
        }
        panic!(
            "Buffers: member {} left a step by a panic and caught that; the step is not whole, and \
             no other can follow: let the panic leave the member's body",
            self.member.id()
        );
    }
}

impl Team {
    /// As [`Team::run`], and each member has its block of `data`: member i the i-th of
    /// equal ones ([`TeamMember::block`]).
    ///
    /// ```
    /// let team = nanothreads::Team::exact(3)?;
    /// let mut squares = [0; 10];
    /// team.run_on(&mut squares, |member, block| {
    ///     let begin = member.block(0..10).start;
    ///     block.iter_mut().enumerate().for_each(|(k, square)| *square = (begin + k).pow(2));
    ///     member.barrier();
    /// });
    /// assert_eq!(squares[7], 49);
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Team::run`].
    #[track_caller]
    pub fn run_on<T, F>(&self, data: &mut [T], body: F)
    where
        T: Send,
        F: Fn(&TeamMember<'_>, &mut [T]) + Sync,
    {
        let shared = SharedSlice::new(data);
        self.run(|member| {
            let block = static_block(shared.length, member.id(), member.size());
            // SAFETY: - blocks of different members are disjoint, and each member is called once.
            body(member, unsafe { shared.block(block) });
        });
    }

    /// As [`Team::run`], with two buffers for steps that read all and write their own part: in each
    /// [`step`](Buffers::step) the members read one buffer (`data` in the first step) and write
    /// their blocks of the other, then the buffers change places. Returns the one that the last
    /// step wrote; `data` when there was no step.
    ///
    /// ```
    /// // Heat on a ring.
    /// let team = nanothreads::Team::exact(2)?;
    /// let (mut now, mut next) = ([0.0; 64], [0.0; 64]);
    /// now[32] = 64.0;
    /// let after = team.run_on_two(&mut now, &mut next, |_member, buffers| {
    ///     for _ in 0..1000 {
    ///         buffers.step(|old, begin, new| {
    ///             for (k, x) in new.iter_mut().enumerate() {
    ///                 let i = begin + k;
    ///                 let (left, right) = (old[(i + 63) % 64], old[(i + 1) % 64]);
    ///                 *x = old[i] + 0.25 * (left - 2.0 * old[i] + right);
    ///             }
    ///         });
    ///     }
    /// });
    /// assert!(after.iter().all(|x| (0.5..1.5).contains(x)), "{after:?}");
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    /// What a step reads cannot be changed by other threads:
    /// ```compile_fail,E0277
    /// let (mut now, mut next) = ([std::cell::Cell::new(0)], [std::cell::Cell::new(0)]);
    /// nanothreads::Team::available().run_on_two(&mut now, &mut next, |_, _| ());
    /// ```
    ///
    /// # Panics
    /// As [`Team::run`], and when the buffers are not of one length.
    #[track_caller]
    pub fn run_on_two<'a, T, F>(
        &self,
        data: &'a mut [T],
        other: &'a mut [T],
        body: F,
    ) -> &'a mut [T]
    where
        T: Send + Sync,
        F: Fn(&TeamMember<'_>, &mut Buffers<'_, T>) + Sync,
    {
        assert!(
            data.len() == other.len(),
            "Team::run_on_two: buffers of {} and {} elements cannot change places: give two of one \
             length",
            data.len(),
            other.len()
        );
        let team = self.reserve();
        let exchange = Exchange {
            buffers: [SharedSlice::new(&mut *data), SharedSlice::new(&mut *other)],
            barrier: Barrier::new(team.size()),
            stop: Stop::default(),
            departures: Departures::new(team.size()),
            steps: AtomicUsize::new(0),
        };
        Self::run_as(&team, |member| {
            let exchange = &exchange;
            let guard = exchange.stop.raise_on_unwind(|| exchange.wake_all());
            let meeting = member.meeting;
            let mut view = Buffers { member, meeting, exchange, steps: 0, is_whole: true };
            body(member, &mut view);
            exchange.departures.of_region(REGION).note(member.id(), view.steps as u64, 0);
            exchange.wake_all();
            guard.disarm();
        });
        let steps = exchange.steps.into_inner();
        if steps.is_multiple_of(2) { data } else { other }
    }
}
