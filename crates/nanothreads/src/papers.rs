//! The papers' schemes that the library does not need: regions that overlap, and the choice between
//! both ways to dispatch work. Off the default path: only with the feature `papers`.
//!
//! # Papers
//! P1 section 3.1 compares the two ways (Figures 3 and 4); sections 3.1.1 and 3.2 open several
//! parallel constructs of one master at once (F3, F6).

mod overlap;

pub use engine::Dispatch;
pub use overlap::{Overlap, Pending};

use crate::builder::Builder;
use crate::teams::Team;

impl Builder {
    /// How work reaches the members of teams that say nothing else. Default:
    /// [`Dispatch::Lines`].
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.config.dispatch = dispatch;
        self
    }
}

impl Team {
    /// How the work of [`Team::run`] reaches the members; as the [`Builder`] says unless this says
    /// otherwise.
    #[must_use]
    pub fn dispatched(self, dispatch: Dispatch) -> Self {
        self.with_dispatch(dispatch)
    }

    /// Runs `body` on the caller, which may fork several regions on the team before it joins any of
    /// them.
    ///
    /// [`Overlap::fork`] lets the workers begin and returns at once; the caller does something
    /// else, forks again, and joins when it needs the results. What is not joined when `body` ends
    /// is joined then.
    ///
    /// ```
    /// use nanothreads::Team;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    ///
    /// let team = Team::exact(3)?;
    /// let (squares, cubes) = (AtomicU64::new(0), AtomicU64::new(0));
    /// let part = |id: u32| (0..300).filter(move |i| i % 3 == u64::from(id));
    /// let roots = team.overlap(|o| {
    ///     let first = o.fork(|member| _ = squares.fetch_add(part(member.id).map(|i| i * i).sum(), Relaxed));
    ///     let second = o.fork(|member| _ = cubes.fetch_add(part(member.id).map(|i| i * i * i).sum(), Relaxed));
    ///     // The workers are at it; meanwhile something of the caller's own.
    ///     let roots: f64 = (0..300).map(f64::from).map(f64::sqrt).sum();
    ///     first.join();
    ///     assert_eq!(squares.load(Relaxed), 8_955_050);
    ///     drop(second);
    ///     roots
    /// });
    /// assert_eq!(cubes.into_inner(), 2_011_522_500);
    /// assert!(roots > 3_450.0);
    /// # Ok::<(), nanothreads::TeamError>(())
    /// ```
    /// Cost: one region, and for each fork what a fork costs.
    ///
    /// # Panics
    /// With the payload of `body`, else of the first member of a construct that was not joined by
    /// [`Pending::join`]; after all are done.
    ///
    /// [`Pending::join`]: crate::papers::Pending::join
    pub fn overlap<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Overlap<'scope, 'env>) -> R,
    ) -> R {
        overlap::run(&self.reserve(), body)
    }
}
