//! What every measurement here uses: copies of programs that start together and are timed one by
//! one, from outside or by themselves, a manager of their own, hogs, the load of others, the round
//! trip of a cache line.

mod affinity;
mod copies;
mod dialogue;
mod distance;
mod household;
mod load;
mod manager;
mod process;
mod prompted;
mod round_trip;
mod servant;

pub(crate) use self::affinity::{free_hog, hog};
pub(crate) use self::copies::{Finish, run_copies, run_together};
pub(crate) use self::dialogue::Dialogue;
pub(crate) use self::distance::Distance;
pub(crate) use self::household::{Household, check_interrupt, is_interrupted};
pub(crate) use self::load::{Load, processors, usable};
pub(crate) use self::manager::Manager;
pub(crate) use self::prompted::Prompted;
pub(crate) use self::round_trip::round_trip_ns;
pub(crate) use self::servant::Servant;

/// Runs are compared whose round trips of a cache line differ by at most this factor.
pub(crate) const AGREE: f64 = 1.5;

/// Several runs of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) runs: usize,
}

impl Spread {
    /// Of no numbers there is none.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let fold = |start: f64, pick: fn(f64, f64) -> f64| values.iter().copied().fold(start, pick);
        (!values.is_empty()).then(|| Spread {
            median: median(values),
            least: fold(f64::INFINITY, f64::min),
            most: fold(f64::NEG_INFINITY, f64::max),
            runs: values.len(),
        })
    }
}

/// The middle of some numbers; of an even count the mean of the two in the middle. NaN of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (middle, 0) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        (middle, _) => sorted[middle],
    }
}
