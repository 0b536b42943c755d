//! What every measurement here uses: copies of programs that start together and are timed one by
//! one, a manager of their own, the load of others, the round trip of a cache line.

mod copies;
mod load;
mod manager;
mod round_trip;

pub(crate) use self::copies::{
    Finish, Household, check_interrupt, is_interrupted, monotonic_ns, run_copies, run_together,
};
pub(crate) use self::load::{Load, busy, processors, usable};
pub(crate) use self::manager::Manager;
pub(crate) use self::round_trip::round_trip_ns;

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
