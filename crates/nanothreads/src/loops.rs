//! Parallel loops: a range dealt to the members of a team by a schedule.
//!
//! # Map
//! | what | where |
//! |---|---|
//! | which chunk comes next | [`Schedule`], formulas and papers in [`chunk`] |
//! | loops | [`par_for`] with [`ParFor::run`], [`ParFor::run_chunks`]; [`par_for_2d`], [`par_for_3d`], [`par_chunks_mut`] |
//! | values | [`ParFor::reduce`], [`ParFor::reduce_chunks`], [`ParFor::try_reduce`], [`ParFor::count`], [`ParFor::min`], [`ParFor::max`] |
//! | vectors | [`ParFor::collect`], [`ParFor::filter_map`], [`ParFor::flat_map`] |
//! | loops that end early | [`ParFor::try_run`], [`ParFor::try_for_each`], [`ParFor::find_first`], [`ParFor::any`], [`ParFor::all`] |
//! | order | [`ParFor::ordered`] (sections in order), [`pipeline`], [`pipeline_2d`] (dependences on neighbours), [`doacross`] (on chosen iterations) |
//! | different work | [`sections`] |
//! | protocols | [`ranges`] (affinity), [`turns`] (ordered), [`stages`] (pipelines, doacross) |
//!
//! # Rules
//! The team is what the program has when the loop begins, at most one member for each iteration. A
//! panic of the body reaches the caller with its payload when all members are done; nothing new is
//! begun meanwhile, and no worker is lost. A member that has to wait for another one spins as long
//! as that can pay, then sleeps.

mod cancel;
mod chunk;
mod collapse;
mod collect;
mod dealer;
mod doacross;
mod gather;
mod grain;
mod look;
mod ordered;
mod pipeline;
pub(crate) mod ranges;
mod reduce;
pub(crate) mod schedule;
mod sections;
mod slices;
pub(crate) mod stages;
pub(crate) mod stop;
pub(crate) mod turns;

pub(crate) use chunk::static_block;
pub use collapse::{ParFor2d, ParFor3d, par_for_2d, par_for_3d};
pub use doacross::{Cross, Doacross, doacross};
pub use ordered::Order;
pub use pipeline::{Pipeline, Pipeline2d, pipeline, pipeline_2d};
pub use schedule::{Alpha, InvalidAlpha, InvalidSchedule, Schedule};
pub use sections::{Sections, sections};
pub use slices::{ParChunksMut, ParChunksMut2, par_chunks_mut};

use crate::parts;
use crate::per_thread::{self, PerThread};
use dealer::{Dealer, TeamLoop};
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// A loop to be run in parallel; made by [`par_for`].
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct ParFor {
    range: Range<usize>,
    schedule: Option<Schedule>,
}

/// A parallel loop over `range`, dealt by [`Schedule::Static`] unless told otherwise.
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
#[doc(alias = "par_iter")]
#[doc(alias = "into_par_iter")]
pub fn par_for(range: Range<usize>) -> ParFor {
    ParFor { range, schedule: None }
}

impl ParFor {
    /// Deals the iterations by `schedule`.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self { schedule: Some(schedule), ..self }
    }

    /// Runs `body` once for each number of the range, on all processors that the program has now.
    /// Iterations must not wait for each other: any number of them may run one after the other on
    /// the same thread.
    ///
    /// # Panics
    /// With the payload of the first iteration that panics; chunks not started by then are skipped.
    #[doc(alias = "for_each")]
    pub fn run<F: Fn(usize) + Sync>(self, body: F) {
        // The body moves along: what the workers need is in one place.
        self.run_chunks(move |chunk| chunk.for_each(&body));
    }

    /// Runs `body` once for each number of the range, with the value that `storage` has for the
    /// thread. The value is looked up once for each chunk, and not in each iteration as by
    /// [`PerThread::with`]. Where iterations are a few instructions,
    /// [`ParFor::reduce_chunks`] with a table of the chunk's own is faster still.
    ///
    /// ```
    /// use nanothreads::{PerThread, par_for};
    /// let histograms = PerThread::new(|| [0_u32; 10]);
    /// par_for(0..1_000).run_with(&histograms, |own, i| own[i % 10] += 1);
    /// assert_eq!(histograms.into_values().map(|own| own[3]).sum::<u32>(), 100);
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::run`]; and when `storage` is in use on the thread, as [`PerThread::with`]:
    /// `body` may not ask it for its value again.
    #[track_caller]
    pub fn run_with<T, M, F>(self, storage: &PerThread<T, M>, body: F)
    where
        T: Send,
        M: Fn() -> T + Sync,
        F: Fn(&mut T, usize) + Sync,
    {
        /// What ends the loop then, without a word: the caller's panic has the caller's line.
        struct InUse;
        let run = move |chunk: Range<usize>| {
            if storage.try_with(|own| chunk.for_each(|i| body(own, i))).is_none() {
                resume_unwind(Box::new(InUse));
            }
        };
        // The caller gets any other panic as it is, before it sees what the closures captured.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.run_chunks(run))) {
            if payload.is::<InUse>() {
                per_thread::refuse();
            }
            resume_unwind(payload);
        }
    }

    /// Runs `body` once for each chunk of the range. Chunks are not empty.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run_chunks<F: Fn(Range<usize>) + Sync>(self, body: F) {
        let (range, schedule) = self.plan(Schedule::Static);
        if schedule == Schedule::Static {
            return run_static(range, body);
        }
        let range = run_ahead(range, schedule, &body);
        let Some(team) = TeamLoop::reserve(range, schedule) else { return };
        let member = move |id, dealer: &Dealer| {
            dealer.deal(id, |chunk| {
                body(chunk);
                ControlFlow::Continue(())
            });
        };
        team.run(member, || {});
    }

    /// How many iterations it has.
    fn length(&self) -> usize {
        self.range.len()
    }

    /// The range, and the schedule: `default` unless the program chose one.
    fn plan(self, default: Schedule) -> (Range<usize>, Schedule) {
        (self.range, self.schedule.unwrap_or(default))
    }
}

/// One block for each member: nothing is shared, and nothing is left to be stopped.
fn run_static(range: Range<usize>, body: impl Fn(Range<usize>) + Sync) {
    if range.is_empty() {
        return;
    }
    let team = dealer::reserve_team(range.len());
    parts::run(&team, move |member| {
        let block = static_block(range.len(), member.id as usize, member.size as usize);
        body(range.start + block.start..range.start + block.end);
    });
}

/// Under [`Schedule::Auto`] the caller runs the beginning of the range alone, so that a loop that
/// is over in no time needs no team. Returns what is left.
fn run_ahead(
    range: Range<usize>,
    schedule: Schedule,
    mut body: impl FnMut(Range<usize>),
) -> Range<usize> {
    if schedule != Schedule::Auto {
        return range;
    }
    let run = |begin, end| body(range.start + begin..range.start + end);
    range.start + grain::begin_alone(range.len(), engine::team_limit(), run)..range.end
}

#[cfg(all(test, loom))]
mod model;
