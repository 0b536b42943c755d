//! Parallel loops: a range dealt to the members of a team by a schedule.
//!
//! # Papers
//! The schedules are named by P3 section 3: static (PSS-like blocks), chunked self-scheduling (CSS; chunk 1 is PSS), guided
//! self-scheduling (GSS, Polychronopoulos & Kuck 1987).

use crate::engine_state::engine;
use crate::region;
use platform::sync::CachePadded;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// How a loop's iterations are dealt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// One contiguous block for each member, computed without shared state.
    #[default]
    Static,
    /// Chunks of this size, round robin, computed without shared state.
    StaticChunks(NonZeroUsize),
    /// Chunks of this size, to whoever is ready. Cost: one atomic add for each chunk.
    Dynamic(NonZeroUsize),
    /// Each time a P-th of what is left, at least this much, to whoever is ready.
    Guided(NonZeroUsize),
}

/// The block of member `id` of `size` under [`Schedule::Static`]: sizes differ by at most one.
pub fn static_block(length: usize, id: usize, size: usize) -> Range<usize> {
    let (quotient, rest) = (length / size, length % size);
    let begin = id * quotient + id.min(rest);
    begin..begin + quotient + usize::from(id < rest)
}

/// The next chunk length of guided self-scheduling: ceil(R / P), at least `least`, at most what is left.
pub fn guided_chunk(remaining: usize, size: usize, least: NonZeroUsize) -> usize {
    remaining.div_ceil(size).max(least.get()).min(remaining)
}

/// A loop to be run in parallel; made by [`par_for`].
#[derive(Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct ParFor {
    range: Range<usize>,
    schedule: Schedule,
}

/// A parallel loop over `range`.
///
/// ```
/// use nanothreads::{Schedule, par_for};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let sum = AtomicUsize::new(0);
/// par_for(0..1000).run(|i| { sum.fetch_add(i, Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 499_500);
///
/// let squares: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
/// par_for(0..100).schedule(Schedule::Guided(4.try_into()?)).run_chunks(|chunk| {
///     for i in chunk {
///         squares[i].store(i * i, Ordering::Relaxed);
///     }
/// });
/// assert_eq!(squares[9].load(Ordering::Relaxed), 81);
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
pub fn par_for(range: Range<usize>) -> ParFor {
    ParFor { range, schedule: Schedule::Static }
}

impl ParFor {
    /// Deals the iterations by `schedule`.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// Runs `body` once for each number of the range, on all processors that the program has now.
    ///
    /// # Panics
    /// With the payload of the first iteration that panics; chunks not started by then are skipped.
    pub fn run<F: Fn(usize) + Sync>(self, body: F) {
        self.run_chunks(|chunk| chunk.for_each(&body));
    }

    /// Runs `body` once for each chunk of the range.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run_chunks<F: Fn(Range<usize>) + Sync>(self, body: F) {
        let length = self.range.len();
        if length == 0 {
            return;
        }
        let start = self.range.start;
        let dealer = Dealer::new(self.schedule, length);
        let wanted = engine().wish().min(length);
        region::run(wanted, |member| {
            let stop = StopOnPanic(&dealer.stopped);
            let (id, size) = (member.id as usize, member.size as usize);
            dealer.deal(id, size, |chunk| body(start + chunk.start..start + chunk.end));
            std::mem::forget(stop);
        });
    }
}

/// Tells the other members to take no further chunk when this one panics.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed - a hint; the join carries the panic.
        self.0.store(true, Relaxed);
    }
}

/// Deals `0..length` to the members of one region.
struct Dealer {
    schedule: Schedule,
    length: usize,
    /// First iteration that nobody has taken; for schedules that share.
    next: CachePadded<AtomicUsize>,
    stopped: AtomicBool,
}

impl Dealer {
    fn new(schedule: Schedule, length: usize) -> Self {
        Self { schedule, length, next: CachePadded::new(AtomicUsize::new(0)), stopped: AtomicBool::new(false) }
    }

    fn is_stopped(&self) -> bool {
        // ORDERING: Relaxed - see `StopOnPanic`.
        self.stopped.load(Relaxed)
    }

    /// Calls `take` with each chunk of member `id`.
    fn deal(&self, id: usize, size: usize, mut take: impl FnMut(Range<usize>)) {
        match self.schedule {
            Schedule::Static => {
                let block = static_block(self.length, id, size);
                if !block.is_empty() {
                    take(block);
                }
            }
            Schedule::StaticChunks(chunk) => {
                let chunk = chunk.get();
                let stride = chunk.saturating_mul(size);
                let mut begin = chunk.saturating_mul(id);
                while begin < self.length && !self.is_stopped() {
                    take(begin..begin.saturating_add(chunk).min(self.length));
                    begin = begin.saturating_add(stride);
                }
            }
            Schedule::Dynamic(chunk) => {
                self.share(|_| chunk.get(), take);
            }
            Schedule::Guided(least) => {
                self.share(|remaining| guided_chunk(remaining, size, least), take);
            }
        }
    }

    /// Takes chunks of the length that `chunk_of(remaining)` says from the common counter until none is left.
    fn share(&self, chunk_of: impl Fn(usize) -> usize, mut take: impl FnMut(Range<usize>)) {
        // ORDERING: Relaxed throughout - the counter only deals numbers; data of iterations travels by fork and join.
        let mut begin = self.next.load(Relaxed);
        while begin < self.length && !self.is_stopped() {
            let end = begin.saturating_add(chunk_of(self.length - begin)).min(self.length);
            match self.next.compare_exchange_weak(begin, end, Relaxed, Relaxed) {
                Ok(_) => {
                    take(begin..end);
                    begin = self.next.load(Relaxed);
                }
                Err(now) => begin = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedules() -> impl Strategy<Value = Schedule> {
        let chunk = (1_usize..50).prop_map(|n| NonZeroUsize::new(n).unwrap());
        prop_oneof![
            Just(Schedule::Static),
            chunk.clone().prop_map(Schedule::StaticChunks),
            chunk.clone().prop_map(Schedule::Dynamic),
            chunk.prop_map(Schedule::Guided),
        ]
    }

    proptest! {
        #[test]
        fn every_schedule_deals_each_iteration_to_exactly_one_member(
            schedule in schedules(), length in 0_usize..500, size in 1_usize..9,
        ) {
            let dealer = Dealer::new(schedule, length);
            let mut dealt = vec![0; length];
            for id in 0..size {
                dealer.deal(id, size, |chunk| chunk.for_each(|i| dealt[i] += 1));
            }
            prop_assert!(dealt.iter().all(|&times| times == 1));
        }

        #[test]
        fn guided_chunks_follow_the_published_formula(length in 1_usize..5000, size in 1_usize..65) {
            // Oracle: ceil(R / P) of what remains, each time.
            let dealer = Dealer::new(Schedule::Guided(NonZeroUsize::MIN), length);
            let (mut remaining, mut right) = (length, true);
            dealer.deal(0, size, |chunk| {
                right &= chunk.len() == remaining.div_ceil(size);
                remaining -= chunk.len();
            });
            prop_assert!(right && remaining == 0);
        }
    }

    #[test]
    fn chunks_larger_than_memory_do_not_overflow() {
        let huge = NonZeroUsize::MAX;
        for schedule in [Schedule::StaticChunks(huge), Schedule::Dynamic(huge), Schedule::Guided(huge)] {
            let dealer = Dealer::new(schedule, 10);
            let mut dealt = 0;
            for id in 0..3 {
                dealer.deal(id, 3, |chunk| dealt += chunk.len());
            }
            assert_eq!(dealt, 10);
        }
    }
}
