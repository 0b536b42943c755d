//! Loop schedules: how the iterations of a loop are cut into chunks. Arithmetic only, on iteration
//! numbers `0..trips`. The library has a dealer of its own, `loops/dealer.rs` of `nanothreads`,
//! with schedules that OpenMP does not name. A new kind of OpenMP comes here; how members take its
//! chunks is `worksharing`.
//!
//! A loop of C `long`s and one of `unsigned long long`s become the same [`Space`]: start and step
//! are added in wrapping 64-bit arithmetic, which is right for both. The last chunk ends at the
//! bound that the program gave, not at the next multiple of the step, which might not be
//! representable.

use platform::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::ops::Range;

/// The kinds of `omp_sched_t`, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Fixed before the loop starts.
    Static = 1,
    /// Chunks on demand.
    Dynamic = 2,
    /// Chunks on demand that shrink with what is left.
    Guided = 3,
    /// The runtime's choice: static.
    Auto = 4,
}

impl Kind {
    /// The kind with this number of `omp_sched_t` (modifier bit removed).
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Static,
            2 => Self::Dynamic,
            3 => Self::Guided,
            4 => Self::Auto,
            _ => return None,
        })
    }
}

/// The control variable run-sched-var.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// How to cut.
    pub(crate) kind: Kind,
    /// Chunk size; 0 = the kind's default.
    pub(crate) chunk: u64,
    /// Chunks must be taken in increasing order.
    pub(crate) monotonic: bool,
}

impl Schedule {
    /// `dynamic,1`, what a program gets that asks for `schedule(runtime)` and says nothing.
    pub(crate) const DEFAULT: Self = Self { kind: Kind::Dynamic, chunk: 1, monotonic: false };

    /// A schedule without modifiers.
    pub(crate) const fn new(kind: Kind, chunk: u64) -> Self {
        Self { kind, chunk, monotonic: false }
    }
}

/// The iterations of one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    start: u64,
    end: u64,
    step: u64,
    /// Number of iterations.
    pub(crate) trips: u64,
}

impl Space {
    /// No iterations.
    pub(crate) const EMPTY: Self = Self { start: 0, end: 0, step: 1, trips: 0 };

    /// `for (i = start; i < end; i += step)`, or `>` when the step is negative.
    pub(crate) fn signed(start: i64, end: i64, step: i64) -> Self {
        let distance = if step > 0 {
            if start < end { end.wrapping_sub(start).cast_unsigned() } else { 0 }
        } else if start > end {
            start.wrapping_sub(end).cast_unsigned()
        } else {
            0
        };
        Self::counted(
            start.cast_unsigned(),
            end.cast_unsigned(),
            step.cast_unsigned(),
            distance,
            step.unsigned_abs(),
        )
    }

    /// The same for unsigned bounds; `up` tells the direction, and a step downwards is the two's
    /// complement.
    pub(crate) fn unsigned(up: bool, start: u64, end: u64, step: u64) -> Self {
        let distance = if up { end.saturating_sub(start) } else { start.saturating_sub(end) };
        let magnitude = if up { step } else { step.wrapping_neg() };
        Self::counted(start, end, step, distance, magnitude)
    }

    fn counted(start: u64, end: u64, step: u64, distance: u64, magnitude: u64) -> Self {
        // A step of 0 is no OpenMP loop; it must not bring the process down either.
        let trips = if magnitude == 0 { 0 } else { distance.div_ceil(magnitude) };
        Self { start, end, step, trips }
    }

    /// The loop variable's bounds for iterations `chunk`, half open.
    #[inline]
    pub(crate) fn bounds(&self, chunk: &Range<u64>) -> (u64, u64) {
        let end = if chunk.end >= self.trips { self.end } else { self.value(chunk.end) };
        (self.value(chunk.start), end)
    }

    /// The loop variable in iteration `number`.
    #[inline]
    pub(crate) fn value(&self, number: u64) -> u64 {
        self.start.wrapping_add(number.wrapping_mul(self.step))
    }
}

/// The block of thread `id` of `threads` when `trips` iterations are dealt out in one block each:
/// the first ones get one more. Compilers rely on this very split.
pub(crate) fn static_block(trips: u64, threads: u64, id: u64) -> Range<u64> {
    let (each, more) = (trips / threads, trips % threads);
    let start = each * id + id.min(more);
    start..start + each + u64::from(id < more)
}

/// Chunk number `round` of thread `id` when chunks go round robin; `None` when the loop is used up.
pub(crate) fn static_chunk(
    trips: u64,
    chunk: u64,
    threads: u64,
    id: u64,
    round: u64,
) -> Option<Range<u64>> {
    let number = round.checked_mul(threads)?.checked_add(id)?;
    let start = number.checked_mul(chunk)?;
    (start < trips).then(|| start..start.saturating_add(chunk).min(trips))
}

/// What `thread` of `threads` gets in its `round`th turn of a static schedule.
pub(crate) fn static_share(
    trips: u64,
    chunk: u64,
    threads: u64,
    id: u64,
    round: u64,
) -> Option<Range<u64>> {
    if chunk > 0 {
        return static_chunk(trips, chunk, threads, id, round);
    }
    let block = static_block(trips, threads, id);
    (round == 0 && !block.is_empty()).then_some(block)
}

/// True when `threads` may each take one chunk more than there is, and the shared counter does not
/// wrap: then [`take_dynamic`] needs not look first.
#[inline]
pub(crate) fn may_overshoot(trips: u64, chunk: u64, threads: u64) -> bool {
    chunk.checked_mul(threads).and_then(|over| over.checked_add(trips)).is_some()
}

/// Takes the next chunk of a dynamic schedule. `overshoots`: what [`may_overshoot`] says; then a
/// caller that got `None` does not come again. Cost: one read-modify-write of the shared counter,
/// which brings its line once. (A look before it would bring the line twice: first to be read, then
/// to be written.)
#[inline]
pub(crate) fn take_dynamic(
    next: &AtomicU64,
    trips: u64,
    chunk: u64,
    overshoots: bool,
) -> Option<Range<u64>> {
    if !overshoots {
        return take(next, trips, |_| chunk);
    }
    // ORDERING: Relaxed, here and in `take` - the counter only deals out numbers; the data of the
    // iterations is ordered by the fork and the barrier.
    let start = next.fetch_add(chunk, Relaxed);
    (start < trips).then(|| start..(start + chunk).min(trips))
}

/// Takes the next chunk of a guided schedule: an equal share of what is left, at least `chunk`.
pub(crate) fn take_guided(
    next: &AtomicU64,
    trips: u64,
    chunk: u64,
    threads: u64,
) -> Option<Range<u64>> {
    take(next, trips, |left| left.div_ceil(threads).max(chunk))
}

fn take(next: &AtomicU64, trips: u64, size: impl Fn(u64) -> u64) -> Option<Range<u64>> {
    let mut start = next.load(Relaxed);
    while start < trips {
        let left = trips - start;
        let end = start + size(left).clamp(1, left);
        match next.compare_exchange_weak(start, end, Relaxed, Relaxed) {
            Ok(_) => return Some(start..end),
            Err(now) => start = now,
        }
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The values that a C compiler's loop takes.
    fn oracle(start: i64, end: i64, step: i64) -> Vec<i64> {
        let (mut values, mut i) = (Vec::new(), i128::from(start));
        while (step > 0 && i < i128::from(end)) || (step < 0 && i > i128::from(end)) {
            values.push(i as i64);
            i += i128::from(step);
        }
        values
    }

    /// Runs chunks as compiled code does: from the first bound, while below the second.
    fn run(space: &Space, chunks: &[Range<u64>], step: i64) -> Vec<i64> {
        let mut values = Vec::new();
        for chunk in chunks {
            let (from, to) = space.bounds(chunk);
            let (mut i, to) = (i128::from(from as i64), i128::from(to as i64));
            while (step > 0 && i < to) || (step < 0 && i > to) {
                values.push(i as i64);
                i += i128::from(step);
            }
        }
        values
    }

    fn chunks_of(kind: Kind, trips: u64, chunk: u64, threads: u64) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        let next = AtomicU64::new(0);
        match kind {
            Kind::Static | Kind::Auto => {
                for id in 0..threads {
                    all.extend(
                        (0..).map_while(|round| static_share(trips, chunk, threads, id, round)),
                    );
                }
                all.sort_by_key(|range| range.start);
            }
            Kind::Dynamic => {
                let overshoots = may_overshoot(trips, chunk, threads);
                all.extend(std::iter::from_fn(|| take_dynamic(&next, trips, chunk, overshoots)));
            }
            Kind::Guided => {
                all.extend(std::iter::from_fn(|| take_guided(&next, trips, chunk, threads)))
            }
        }
        all
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![Just(Kind::Static), Just(Kind::Dynamic), Just(Kind::Guided), Just(Kind::Auto)]
    }

    proptest! {
        #[test]
        fn every_schedule_covers_each_iteration_once_in_order(
            kind in kinds(), start in -60_i64..60, end in -60_i64..60, step in -9_i64..9,
            chunk in 1_u64..20, threads in 1_u64..9,
        ) {
            prop_assume!(step != 0);
            let space = Space::signed(start, end, step);
            let chunks = chunks_of(kind, space.trips, chunk, threads);
            prop_assert_eq!(run(&space, &chunks, step), oracle(start, end, step));
        }

        #[test]
        fn unsigned_loops_agree_with_signed_ones_where_both_can_count(
            start in 0_u64..1000, end in 0_u64..1000, step in 1_u64..50, up: bool,
        ) {
            let signed_step = if up { step as i64 } else { -(step as i64) };
            let unsigned = Space::unsigned(up, start, end, signed_step as u64);
            prop_assert_eq!(unsigned, Space::signed(start as i64, end as i64, signed_step));
        }

        #[test]
        fn static_blocks_differ_by_at_most_one(trips in 0_u64..10_000, threads in 1_u64..70) {
            let sizes: Vec<u64> = (0..threads).map(|id| {
                let block = static_block(trips, threads, id);
                block.end - block.start
            }).collect();
            prop_assert_eq!(sizes.iter().sum::<u64>(), trips);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            prop_assert!(most - least <= 1);
            prop_assert!(sizes.windows(2).all(|pair| pair[0] >= pair[1]));
        }

        #[test]
        fn guided_chunks_never_grow_and_respect_the_least(trips in 1_u64..100_000, chunk in 1_u64..50, threads in 1_u64..70) {
            let sizes: Vec<u64> = chunks_of(Kind::Guided, trips, chunk, threads).iter().map(|c| c.end - c.start).collect();
            prop_assert!(sizes.windows(2).all(|pair| pair[0] >= pair[1]));
            prop_assert!(sizes[..sizes.len() - 1].iter().all(|size| *size >= chunk));
        }
    }

    /// By the words of the standard: what is left, divided by the threads, but not less than the
    /// chunk.
    fn guided_by_hand(trips: u64, chunk: u64, threads: u64) -> Vec<Range<u64>> {
        let (mut chunks, mut start) = (Vec::new(), 0);
        while start < trips {
            let left = trips - start;
            let share = left / threads + u64::from(!left.is_multiple_of(threads));
            let end = trips.min(start + if share > chunk { share } else { chunk });
            chunks.push(start..end);
            start = end;
        }
        chunks
    }

    #[test]
    fn guided_chunks_are_equal_shares_of_what_is_left() {
        assert_eq!(chunks_of(Kind::Guided, 10, 2, 2), [0..5, 5..8, 8..10]);
        for (trips, chunk, threads) in
            [(1, 1, 1), (10, 1, 3), (1000, 1, 4), (1000, 7, 4), (999, 50, 64), (5, 9, 2)]
        {
            let found = chunks_of(Kind::Guided, trips, chunk, threads);
            assert_eq!(
                found,
                guided_by_hand(trips, chunk, threads),
                "{trips} trips, chunk {chunk}, {threads} threads"
            );
        }
    }

    #[test]
    fn loops_at_the_edges_of_the_number_range_do_not_wrap() {
        let all = Space::signed(i64::MIN, i64::MAX, 1);
        assert_eq!(all.trips, u64::MAX);
        let coarse = Space::signed(i64::MIN, i64::MAX, i64::MAX);
        assert_eq!(coarse.trips, 3);
        assert_eq!(coarse.bounds(&(2..3)).1 as i64, i64::MAX);
        let down = Space::signed(i64::MAX, i64::MIN, i64::MIN);
        assert_eq!(down.trips, 2);
        let ull = Space::unsigned(true, 5, u64::MAX, 10);
        assert_eq!(ull.bounds(&(ull.trips - 1..ull.trips)).1, u64::MAX);
    }

    #[test]
    fn a_huge_chunk_is_taken_once_and_does_not_wrap_the_counter() {
        for (trips, chunk, threads, chunks) in [
            (10, u64::MAX, 64, vec![(0, 10)]),
            (u64::MAX, u64::MAX - 1, 2, vec![(0, u64::MAX - 1), (u64::MAX - 1, u64::MAX)]),
            // The last counter that does not wrap, and the first that would.
            (u64::MAX - 4, 2, 2, vec![(0, 2), (2, 4)]),
            (u64::MAX - 3, 2, 2, vec![(0, 2), (2, 4)]),
        ] {
            let (next, overshoots) = (AtomicU64::new(0), may_overshoot(trips, chunk, threads));
            assert_eq!(overshoots, trips == u64::MAX - 4);
            for (from, to) in chunks {
                assert_eq!(take_dynamic(&next, trips, chunk, overshoots), Some(from..to));
            }
            // As if the others were taken.
            next.fetch_max(trips, Relaxed);
            for _ in 0..threads {
                assert_eq!(take_dynamic(&next, trips, chunk, overshoots), None);
            }
        }
        assert_eq!(static_share(10, u64::MAX, 4, 0, 0), Some(0..10));
        assert_eq!(static_share(10, u64::MAX, 4, 1, 0), None);
        assert_eq!(static_share(10, u64::MAX, 4, 0, 1), None);
    }

    #[test]
    fn a_step_of_zero_gives_no_iterations() {
        assert_eq!(Space::signed(0, 10, 0).trips, 0);
        assert_eq!(Space::unsigned(true, 0, 10, 0).trips, 0);
    }
}
