//! Deals the iterations of one loop to the members of its region. OpenMP has a dealer of its own,
//! `schedule` and `worksharing` of `omp-shim`: its chunks are fixed by the standard, and its loops
//! need not know their range before they begin. A new schedule of the library comes here and into
//! [`Schedule`].

use super::chunk::{Factoring, Trapezoid, guided_chunk, safe_chunk, static_block};
use super::gather;
use super::grain::Grain;
use super::ranges::Ranges;
use super::schedule::Schedule;
use super::stop::Stop;
use crate::parts::{self, TeamOrParts};
use engine::local::local;
use engine::safe_point;
use platform::sync::CachePadded;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A loop that has a team.
pub(super) struct TeamLoop {
    team: TeamOrParts,
    dealer: Dealer,
}

impl TeamLoop {
    /// Reserves a team for the loop; `None` when there is nothing to do.
    #[inline]
    pub(super) fn reserve(range: Range<usize>, schedule: Schedule) -> Option<Self> {
        if range.is_empty() {
            return None;
        }
        let team = reserve_team(range.len());
        Some(Self::on(team, range, schedule))
    }

    /// The same for a loop whose members wait for each other in any order: each has a thread.
    pub(super) fn reserve_threads(range: Range<usize>, schedule: Schedule) -> Option<Self> {
        if range.is_empty() {
            return None;
        }
        let team = parts::reserve_threads(local().wish().min(range.len()));
        Some(Self::on(team, range, schedule))
    }

    #[inline]
    fn on(team: TeamOrParts, range: Range<usize>, schedule: Schedule) -> Self {
        let dealer = Dealer::new(schedule, range, team.size());
        Self { team, dealer }
    }

    /// Members of the team.
    pub(super) fn size(&self) -> usize {
        self.team.size()
    }

    /// Calls `body` with each member's number and where its iterations come from. After a panic
    /// nothing new is dealt, and the guilty member calls `wake`.
    pub(super) fn run(self, body: impl Fn(usize, &Dealer) + Sync, wake: impl Fn() + Sync) {
        let Self { team, dealer } = self;
        // What the members need moves into one place, whose lines they fetch at once and not one
        // after the other.
        parts::run(&team, move |member| {
            let guard = dealer.stop.raise_on_unwind(&wake);
            body(member.id as usize, &dealer);
            guard.disarm();
        });
    }

    /// As [`Self::run`]; returns what the members return, in their order.
    pub(super) fn gather<T: Send>(
        self,
        body: impl Fn(usize, &Dealer) -> Option<T> + Sync,
        wake: impl Fn() + Sync,
    ) -> impl Iterator<Item = T> {
        let Self { team, dealer } = self;
        gather::gather(&team, move |member| {
            let guard = dealer.stop.raise_on_unwind(&wake);
            let value = body(member.id as usize, &dealer);
            guard.disarm();
            value
        })
    }
}

/// A team for a loop of `length` iterations.
#[inline]
pub(super) fn reserve_team(length: usize) -> TeamOrParts {
    parts::reserve(local().wish().min(length))
}

/// See the module head.
#[repr(C)]
pub(super) struct Dealer {
    start: usize,
    length: usize,
    size: usize,
    stop: Stop,
    source: ChunkSource,
    /// What members share that are dealt from one place: the first iteration, or the number of the
    /// first chunk, that no member has taken. On a line of its own: all others are only read.
    next: Counter,
}

/// Where the chunks come from.
enum ChunkSource {
    Static,
    StaticChunks(usize),
    Dynamic(usize),
    Trapezoid(Trapezoid),
    Factoring,
    /// Chunks whose length depends on what is left, or on the member.
    Remaining(Schedule),
    Affinity(Ranges),
    Auto(Ranges),
}

impl ChunkSource {
    fn new(schedule: Schedule, length: usize, size: usize) -> Self {
        match schedule {
            Schedule::Static => Self::Static,
            Schedule::StaticChunks(chunk) => Self::StaticChunks(chunk.get()),
            Schedule::Dynamic(chunk) => Self::Dynamic(chunk.get()),
            Schedule::Trapezoid => Self::Trapezoid(Trapezoid::new(length, size)),
            Schedule::TrapezoidFrom { first, last } => {
                Self::Trapezoid(Trapezoid::between(length, first.get(), last.get()))
            }
            Schedule::Factoring => Self::Factoring,
            Schedule::Guided(_) | Schedule::Safe(_) => Self::Remaining(schedule),
            Schedule::Affinity => Self::Affinity(Ranges::new(length, size)),
            Schedule::Auto => Self::Auto(Ranges::new(length, size)),
        }
    }
}

impl Dealer {
    #[inline]
    fn new(schedule: Schedule, range: Range<usize>, size: usize) -> Self {
        let length = range.len();
        let source = ChunkSource::new(schedule, length, size);
        Self {
            start: range.start,
            length,
            size,
            stop: Stop::default(),
            source,
            next: Counter::default(),
        }
    }

    /// The flag that ends the loop early.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Calls `take` with each chunk of member `id`, until the loop is stopped. A break of `take`
    /// says that no iteration after this chunk is wanted; the member then gets none of them, and
    /// others as before.
    pub(super) fn deal(&self, id: usize, mut take: impl FnMut(Range<usize>) -> ControlFlow<()>) {
        let take = |chunk: Range<usize>| {
            safe_point::between_pieces();
            if self.stop.is_raised() {
                return ControlFlow::Break(());
            }
            take(self.start + chunk.start..self.start + chunk.end)
        };
        // A break is passed through each of these only to leave their loops.
        let _ = match &self.source {
            ChunkSource::Static => self.deal_static(id, take),
            ChunkSource::StaticChunks(chunk) => self.deal_round_robin(id, *chunk, take),
            ChunkSource::Dynamic(chunk) => self.deal_dynamic(*chunk, take),
            ChunkSource::Trapezoid(chunks) => self.next.each(|number| chunks.chunk(number), take),
            ChunkSource::Factoring => {
                let mut chunks = Factoring::new(self.length, self.size);
                self.next.each(|number| chunks.chunk(number), take)
            }
            ChunkSource::Remaining(schedule) => self.deal_remaining(*schedule, take),
            ChunkSource::Affinity(ranges) => self.deal_affinity(id, ranges, take),
            ChunkSource::Auto(ranges) => self.deal_timed(id, ranges, take),
        };
    }

    fn deal_static(
        &self,
        id: usize,
        mut take: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let block = static_block(self.length, id, self.size);
        if block.is_empty() { ControlFlow::Continue(()) } else { take(block) }
    }

    fn deal_round_robin(
        &self,
        id: usize,
        chunk: usize,
        mut take: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let stride = chunk.saturating_mul(self.size);
        let mut begin = chunk.saturating_mul(id);
        while begin < self.length {
            take(begin..begin.saturating_add(chunk).min(self.length))?;
            begin = begin.saturating_add(stride);
        }
        ControlFlow::Continue(())
    }

    fn deal_dynamic(
        &self,
        chunk: usize,
        take: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let chunk_at = |number: usize| {
            let begin = number.saturating_mul(chunk).min(self.length);
            begin..begin.saturating_add(chunk).min(self.length)
        };
        self.next.each(chunk_at, take)
    }

    fn deal_remaining(
        &self,
        schedule: Schedule,
        mut take: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // Chunks that this member had: what safe self-scheduling goes by.
        let mut index = 0;
        loop {
            let chunk_of = |remaining: usize| match schedule {
                Schedule::Safe(alpha) => {
                    safe_chunk(self.length, index, self.size, alpha).min(remaining)
                }
                Schedule::Guided(least) => guided_chunk(remaining, self.size, least),
                _ => remaining,
            };
            match self.next.advance(self.length, chunk_of) {
                Some(chunk) => take(chunk)?,
                None => return ControlFlow::Continue(()),
            }
            index = index.saturating_add(1);
        }
    }

    fn deal_affinity(
        &self,
        id: usize,
        ranges: &Ranges,
        mut take: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let part = |rest: usize| rest.div_ceil(self.size);
        while let Some(chunk) = ranges.take_own(id, part).or_else(|| ranges.steal(part)) {
            if take(chunk).is_break() {
                self.drop_own(id, ranges)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn deal_timed(
        &self,
        id: usize,
        ranges: &Ranges,
        mut take: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut grain = Grain::new();
        loop {
            while let Some(chunk) = ranges.take_own(id, |rest| grain.length().min(rest)) {
                if grain.time(chunk.len(), || take(chunk)).is_break() {
                    self.drop_own(id, ranges)?;
                }
            }
            if !ranges.steal_into(id, |rest| rest.div_ceil(2)) {
                return ControlFlow::Continue(());
            }
        }
    }

    /// After a break: what is left in the own word is after the chunk (R3), what others have may
    /// not be.
    fn drop_own(&self, id: usize, ranges: &Ranges) -> ControlFlow<()> {
        ranges.take_own(id, |rest| rest);
        if self.stop.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A number that all members advance, on a line of its own.
///
/// All accesses are relaxed: it deals numbers, and what iterations read and write travels by fork
/// and join.
#[derive(Debug, Default)]
struct Counter(CachePadded<AtomicUsize>);

impl Counter {
    /// Takes numbers and calls `take` with the chunk of each, until a chunk is empty. No overflow:
    /// each member takes at most one number after the last chunk's.
    fn each(
        &self,
        mut chunk_at: impl FnMut(usize) -> Range<usize>,
        mut take: impl FnMut(Range<usize>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        loop {
            // ORDERING: Relaxed - see the type.
            let chunk = chunk_at(self.0.fetch_add(1, Relaxed));
            if chunk.is_empty() {
                return ControlFlow::Continue(());
            }
            take(chunk)?;
        }
    }

    /// Takes what `chunk_of(remaining)` says of the rest of `0..length`; `None` when nothing is
    /// left.
    fn advance(&self, length: usize, chunk_of: impl Fn(usize) -> usize) -> Option<Range<usize>> {
        // ORDERING: Relaxed throughout - see the type.
        let mut begin = self.0.load(Relaxed);
        while begin < length {
            let end = begin + chunk_of(length - begin);
            match self.0.compare_exchange_weak(begin, end, Relaxed, Relaxed) {
                Ok(_) => return Some(begin..end),
                Err(now) => begin = now,
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::loops::schedule::Alpha;
    use proptest::prelude::*;
    use std::num::NonZeroUsize;

    fn schedules() -> impl Strategy<Value = Schedule> {
        let chunk = || (1_usize..50).prop_map(|n| NonZeroUsize::new(n).expect("not 0"));
        prop_oneof![
            Just(Schedule::Static),
            chunk().prop_map(Schedule::StaticChunks),
            chunk().prop_map(Schedule::Dynamic),
            chunk().prop_map(Schedule::Guided),
            Just(Schedule::Trapezoid),
            (chunk(), chunk()).prop_map(|(first, last)| Schedule::TrapezoidFrom { first, last }),
            (1_u32..=100)
                .prop_map(|n| Schedule::Safe(Alpha::new(f64::from(n) / 100.0).expect("in (0, 1]"))),
            Just(Schedule::Factoring),
            Just(Schedule::Affinity),
            Just(Schedule::Auto),
        ]
    }

    /// All chunks of member `id`, taken without interruption.
    fn chunks_of(dealer: &Dealer, id: usize) -> Vec<Range<usize>> {
        let mut chunks = Vec::new();
        dealer.deal(id, |chunk| {
            chunks.push(chunk);
            ControlFlow::Continue(())
        });
        chunks
    }

    proptest! {
        #[test]
        fn every_schedule_deals_each_iteration_to_exactly_one_member(
            schedule in schedules(), start in 0_usize..100, length in 0_usize..500, size in 1_usize..9,
        ) {
            let dealer = Dealer::new(schedule, start..start + length, size);
            let mut dealt = vec![0; length];
            for id in 0..size {
                let chunks = chunks_of(&dealer, id);
                prop_assert!(chunks.iter().all(|chunk| !chunk.is_empty()));
                let is_rising = !matches!(schedule, Schedule::Affinity | Schedule::Auto);
                prop_assert!(!is_rising || chunks.is_sorted_by_key(|chunk| chunk.start));
                chunks.into_iter().flatten().for_each(|i| dealt[i - start] += 1);
            }
            prop_assert!(dealt.iter().all(|&times| times == 1));
        }

        #[test]
        fn guided_chunks_follow_the_published_formula(
            length in 1_usize..5000, size in 1_usize..65, least in 1_usize..20,
        ) {
            // Oracle: ceil(R / P) of what remains, each time, at least `least`.
            let dealer = Dealer::new(Schedule::Guided(least.try_into().unwrap()), 0..length, size);
            let mut remaining = length;
            for chunk in chunks_of(&dealer, 0) {
                prop_assert_eq!(chunk.len(), remaining.div_ceil(size).max(least).min(remaining));
                remaining -= chunk.len();
            }
            prop_assert_eq!(remaining, 0);
        }

        #[test]
        fn dynamic_chunks_have_the_given_length(length in 1_usize..5000, chunk in 1_usize..100) {
            let dealer = Dealer::new(Schedule::Dynamic(chunk.try_into().unwrap()), 0..length, 3);
            let oracle: Vec<_> = (0..length).step_by(chunk).map(|i| i..(i + chunk).min(length)).collect();
            prop_assert_eq!(chunks_of(&dealer, 1), oracle);
        }

        #[test]
        fn round_robin_chunks_go_to_the_member_of_their_number(
            length in 1_usize..2000, chunk in 1_usize..100, size in 1_usize..9,
        ) {
            let dealer = Dealer::new(Schedule::StaticChunks(chunk.try_into().unwrap()), 0..length, size);
            for id in 0..size {
                for i in chunks_of(&dealer, id).into_iter().flatten() {
                    prop_assert_eq!(i / chunk % size, id);
                }
            }
        }

        #[test]
        fn members_of_safe_self_scheduling_go_by_their_own_count(
            length in 100_usize..5000, size in 1_usize..9, turns in prop::collection::vec(0_usize..9, 0..60),
        ) {
            // Members take one chunk at a time, in an arbitrary order.
            let next = Counter::default();
            let mut taken = vec![0_u32; size];
            let mut begin = 0;
            for id in turns.into_iter().map(|turn| turn % size) {
                let published = (0.5_f64.powi(taken[id] as i32) * length as f64 * 0.5 / size as f64).ceil() as usize;
                let oracle = published.max(1).min(length - begin);
                let chunk = next.advance(length, |rest| safe_chunk(length, taken[id], size, Alpha::HALF).min(rest));
                prop_assert_eq!(chunk, (oracle > 0).then_some(begin..begin + oracle));
                taken[id] += 1;
                begin += oracle;
            }
        }
    }

    #[test]
    fn chunks_larger_than_memory_do_not_overflow() {
        let huge = NonZeroUsize::MAX;
        for schedule in [
            Schedule::StaticChunks(huge),
            Schedule::Dynamic(huge),
            Schedule::Guided(huge),
            Schedule::TrapezoidFrom { first: huge, last: huge },
        ] {
            let dealer = Dealer::new(schedule, 0..10, 3);
            let dealt: usize =
                (0..3).flat_map(|id| chunks_of(&dealer, id)).map(|chunk| chunk.len()).sum();
            assert_eq!(dealt, 10, "{schedule:?}");
        }
    }

    #[test]
    fn what_comes_after_a_chunk_that_broke_is_not_dealt_to_that_member() {
        for schedule in [
            Schedule::Static,
            Schedule::PURE,
            Schedule::Affinity,
            Schedule::Auto,
            Schedule::Guided(NonZeroUsize::MIN),
        ] {
            let dealer = Dealer::new(schedule, 0..100, 2);
            let mut dealt = Vec::new();
            dealer.deal(1, |chunk| {
                dealt.push(chunk.clone());
                if chunk.contains(&55) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let broke = dealt.iter().position(|chunk| chunk.contains(&55)).unwrap();
            let behind = dealt[broke].end;
            assert!(
                dealt[broke + 1..].iter().all(|chunk| chunk.start < behind),
                "{schedule:?}: {dealt:?}"
            );
            if schedule == Schedule::Affinity {
                // The other member's block is all that this one may still help with.
                assert_eq!(dealt[broke + 1..].iter().map(Range::len).sum::<usize>(), 50);
            }
        }
    }

    #[test]
    fn a_stopped_loop_deals_nothing_more() {
        for schedule in [
            Schedule::Static,
            Schedule::PURE,
            Schedule::Affinity,
            Schedule::Auto,
            Schedule::Factoring,
        ] {
            let dealer = Dealer::new(schedule, 0..100, 2);
            let mut chunks = 0;
            dealer.deal(0, |_| {
                chunks += 1;
                dealer.stop().raise();
                ControlFlow::Continue(())
            });
            dealer.deal(1, |_| {
                chunks += 1;
                ControlFlow::Continue(())
            });
            assert_eq!(chunks, 1, "{schedule:?}");
        }
    }
}
