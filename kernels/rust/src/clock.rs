//! The wall clock that times the kernels.

use std::time::Instant;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(Instant);

impl Moment {
    /// This moment.
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    /// Seconds since then.
    pub(crate) fn elapsed(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
