//! How long a test has to watch a team on this kernel, so that a thread which shares its processor
//! is missed in it.
//!
//! # Rule
//! A *turn* is the scheduler's slice, up to the next tick: the kernel looks whose turn it is at
//! ticks only. In the worst case a thread has just begun its own turn when the watch begins, and
//! the rival's comes after it. Two turns and [`MARGIN`] show the rival's whole, within
//! [`SHORTEST`] (the kernel may be late) and [`LONGEST`] (a test must not cost more than it tells).

use platform::{clock, scheduling};
use std::time::Duration;

/// What is longer than this is seen as a gap; beyond two turns.
const MARGIN: Duration = Duration::from_millis(1);
/// No watch is shorter.
pub(crate) const SHORTEST: Duration = Duration::from_millis(9);
/// No watch is longer.
pub(crate) const LONGEST: Duration = Duration::from_millis(20);

/// How long to watch where a turn is of `slice`, and ticks are `tick` apart; `None`: the kernel
/// does not say.
fn watch_of(slice: Option<Duration>, tick: Option<Duration>) -> Duration {
    let tick = tick.unwrap_or_default().min(LONGEST);
    let slice = slice.unwrap_or(tick).clamp(tick, LONGEST);
    let turn = match tick.as_nanos() {
        0 => slice,
        // At most twenty milliseconds divided by some: it fits.
        long => tick * slice.as_nanos().div_ceil(long) as u32,
    };
    (turn * 2 + MARGIN).clamp(SHORTEST, LONGEST)
}

/// How long to watch here, as the kernel says of the calling thread. Cost: three system calls.
pub(crate) fn watch() -> Duration {
    watch_of(scheduling::slice(), clock::scheduler_tick())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(slice: u64, tick: u64) -> u128 {
        let [slice, tick] = [slice, tick].map(|us| (us > 0).then(|| Duration::from_micros(us)));
        watch_of(slice, tick).as_micros()
    }

    #[test]
    fn two_turns_that_end_at_ticks_are_watched() {
        // Linux 6.18 at 250 Hz: a turn is one tick.
        assert_eq!(of(1_400, 4_000), 9_000);
        assert_eq!(of(2_800, 1_000), 9_000);
        assert_eq!(of(4_100, 4_000), 17_000);
        assert_eq!(of(6_000, 1_000), 13_000);
        assert_eq!(of(6_500, 0), 14_000);
        // Nothing is known of the slice: a tick at least.
        assert_eq!(of(0, 4_000), 9_000);
        assert_eq!(of(0, 8_000), 17_000);
        assert_eq!(of(0, 0), 9_000);
        assert_eq!(of(100_000, 10_000), 20_000);
        assert_eq!(of(1, 1), 9_000);
    }

    proptest! {
        #[test]
        fn longer_turns_are_never_watched_for_less_and_none_is_beyond_the_bounds(
            slice in 0_u64..200_000, more in 0_u64..200_000, tick in 0_u64..100_000
        ) {
            let (short, long) = (of(slice.max(1), tick), of(slice.max(1) + more, tick));
            prop_assert!(short <= long, "{short} {long}");
            prop_assert!((SHORTEST.as_micros()..=LONGEST.as_micros()).contains(&short));
        }
    }

    #[test]
    fn the_watch_here_is_longer_than_two_turns_that_this_kernel_tells() {
        let watch = watch();
        assert!((SHORTEST..=LONGEST).contains(&watch), "{watch:?}");
        match (scheduling::slice(), clock::scheduler_tick()) {
            (Some(slice), Some(tick)) if (slice.max(tick) * 2) < LONGEST => {
                assert!(watch > slice.max(tick) * 2, "{watch:?}: {slice:?}, {tick:?}");
            }
            known => platform::skip!("the kernel says too little, or has long turns: {known:?}"),
        }
    }
}
