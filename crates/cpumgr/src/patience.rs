//! How long this process waits for another one, where tests may be on a machine that stands still
//! for longer.

use std::time::Duration;

/// The seconds instead, in debug builds only.
const VARIABLE: &str = "NANOS_PATIENCE";

/// This time, or the one that a debug build is told: a test of what comes of an answer is no test
/// of how fast the machine is.
pub(crate) fn patience(usual: Duration) -> Duration {
    if !cfg!(debug_assertions) {
        return usual;
    }
    let told = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    told.map_or(usual, Duration::from_secs)
}
