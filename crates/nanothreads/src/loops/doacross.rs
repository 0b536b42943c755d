//! Doacross loops: iterations that wait for chosen earlier ones.
//!
//! Each member has one progress line ([`Stage`]). Iterations are dealt round robin, so that each
//! member knows which one has a given iteration, and the numbers of each member rise: the iteration
//! that waits for number j looks at one line for a number of at least j. No deadlock: the lowest
//! iteration that is not done waits only for lower ones.
//!
//! The drop-in library's OpenMP loops have the same protocol ([`engine::stage`]) and another map:
//! where OpenMP's schedule deals, the owner of an iteration is not known, so that there a number
//! stands for a chunk and not for a member.
//!
//! # Papers
//! P1 section 5.2 (F9). Where the dependences are those of neighbours in nested loops,
//! [`pipeline`](super::pipeline) hands over a block at a time.

use super::ONE;
use super::dealer::{Dealer, TeamLoop};
use super::schedule::Schedule;
use super::stages::Stage;
use super::stop::{abandon, unless_abandoned};
use crate::per_member::PerMember;
use std::cell::Cell;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};

/// A doacross loop to be run; made by [`doacross`].
#[derive(Clone, Debug)]
#[must_use = "a loop does nothing until it is run"]
pub struct Doacross {
    range: Range<usize>,
    chunk: NonZeroUsize,
}

/// A parallel loop whose iterations may wait for earlier ones.
///
/// ```
/// use nanothreads::doacross;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// // x[i] = a[i] + x[i - 3]: three chains, and work that overlaps freely.
/// let x: Vec<AtomicU64> = (0..100).map(|_| AtomicU64::new(0)).collect();
/// doacross(0..100).run(|i, cross| {
///     let a = (i * i) as u64; // at the same time as others
///     cross.wait_back(3);
///     let before = if i >= 3 { x[i - 3].load(Relaxed) } else { 0 };
///     x[i].store(a + before, Relaxed);
///     cross.post(); // those that need x[i] may go on
/// });
/// assert_eq!(x[9].load(Relaxed), 81 + 36 + 9);
/// ```
pub fn doacross(range: Range<usize>) -> Doacross {
    Doacross { range, chunk: ONE }
}

impl Doacross {
    /// Deals this many iterations at a time, round robin, instead of one. Distances of dependences
    /// shorter than this are between iterations of one member, mostly, and wait for nothing.
    pub fn chunks(self, chunk: NonZeroUsize) -> Self {
        Self { chunk, ..self }
    }

    /// Runs `body` once for each number of the range.
    ///
    /// Cost of a dependence between members: one cache line. A member that waits long sleeps.
    ///
    /// # Panics
    /// With the payload of the first iteration that panics; bodies that wait for another one are
    /// unwound then.
    pub fn run<F: Fn(usize, Cross<'_>) + Sync>(self, body: F) {
        let Self { range, chunk } = self;
        let start = range.start;
        let Some(team) = TeamLoop::reserve_threads(range, Schedule::StaticChunks(chunk)) else {
            return;
        };
        let size = team.size();
        let progress = PerMember::new(size, |_| Stage::default());
        let member = |id, dealer: &Dealer| {
            unless_abandoned(|| {
                dealer.deal(id, |numbers| {
                    for i in numbers {
                        let posted = Cell::new(false);
                        let iteration = Iteration {
                            progress: &progress,
                            dealer,
                            start,
                            chunk,
                            size,
                            id,
                            i,
                            posted: &posted,
                        };
                        body(i, Cross(&iteration));
                        iteration.post();
                    }
                    ControlFlow::Continue(())
                });
            });
        };
        team.run(member, || (0..size).for_each(|id| progress[id].point().notify_all()));
    }
}

/// Where an iteration stands.
struct Iteration<'a> {
    progress: &'a PerMember<Stage>,
    dealer: &'a Dealer,
    start: usize,
    chunk: NonZeroUsize,
    size: usize,
    id: usize,
    i: usize,
    posted: &'a Cell<bool>,
}

impl Iteration<'_> {
    fn post(&self) {
        if !self.posted.replace(true) {
            self.progress[self.id].finish_up_to(self.i - self.start + 1);
        }
    }
}

/// An iteration's links to others; see [`doacross`].
#[derive(Clone, Copy)]
pub struct Cross<'a>(&'a Iteration<'a>);

impl fmt::Debug for Cross<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cross")
            .field("iteration", &self.0.i)
            .field("posted", &self.0.posted.get())
            .finish()
    }
}

impl Cross<'_> {
    /// Waits until the iteration `distance` before this one has posted, or ended: what it wrote
    /// until then is visible. Returns at once when the range has no such iteration.
    ///
    /// # Panics
    /// When `distance` is 0: an iteration that waits for itself would wait for ever.
    #[track_caller]
    pub fn wait_back(&self, distance: usize) {
        let iteration = self.0;
        assert!(
            distance > 0,
            "iteration {} of a doacross loop waits for itself: give a distance of at least 1",
            iteration.i
        );
        let Some(number) = (iteration.i - iteration.start).checked_sub(distance) else { return };
        let owner = number / iteration.chunk % iteration.size;
        if owner == iteration.id {
            return;
        }
        let (stage, stop) = (&iteration.progress[owner], iteration.dealer.stop());
        engine::wait(stage.point(), || stage.has_finished(number + 1) || stop.is_raised());
        if stop.is_raised() {
            abandon();
        }
    }

    /// Lets the members that wait for this iteration go on. Without it they do so when it ends.
    pub fn post(&self) {
        self.0.post();
    }
}
