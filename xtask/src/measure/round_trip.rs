//! One cache line to another processor and back: the unit of fork and join, which differs from
//! machine to machine, and in guests from minute to minute.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Context;

use super::affinity::bind;

const TRIPS: u64 = 4000;
const BATCHES: u64 = 5;
/// In place of a number: one of the two threads has failed.
const GIVEN_UP: u64 = u64::MAX;

/// A value with cache lines of its own, also where lines are fetched in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

/// The median time of a round trip between the first two processors of the affinity mask, in
/// nanoseconds; `None` where there is one.
pub(crate) fn round_trip_ns() -> anyhow::Result<Option<f64>> {
    let &[here, there, ..] = &super::processors()?[..] else { return Ok(None) };
    let line = Line(AtomicU64::new(0));
    let line = &line;
    let (echo, times) = thread::scope(|scope| {
        let echo = scope.spawn(|| {
            // Without its echo the other thread would wait for ever.
            bind(there).inspect_err(|_| line.0.store(GIVEN_UP, Ordering::Release))?;
            for trip in 0..TRIPS * BATCHES {
                wait_for(line, 2 * trip + 1);
                line.0.store(2 * trip + 2, Ordering::Release);
            }
            anyhow::Ok(())
        });
        let measure = scope.spawn(|| {
            bind(here).inspect_err(|_| line.0.store(GIVEN_UP, Ordering::Release))?;
            let mut trip = 0;
            let mut batch = |_| {
                let begin = Instant::now();
                for _ in 0..TRIPS {
                    line.0.store(2 * trip + 1, Ordering::Release);
                    wait_for(line, 2 * trip + 2);
                    trip += 1;
                }
                begin.elapsed().as_secs_f64() * 1e9 / TRIPS as f64
            };
            anyhow::Ok((0..BATCHES).map(&mut batch).collect::<Vec<f64>>())
        });
        (echo.join(), measure.join())
    });
    echo.ok().context("the echo of the round trip panicked")??;
    let times = times.ok().context("the measuring thread panicked")??;
    Ok(Some(super::median(&times)))
}

/// Spins until the other side has written `value`; another program may have its processor.
fn wait_for(line: &Line, value: u64) {
    let mut looks = 0_u32;
    // ORDERING: Acquire - pairs with the other side's Release; only the number travels.
    while ![value, GIVEN_UP].contains(&line.0.load(Ordering::Acquire)) {
        looks += 1;
        if looks.is_multiple_of(10_000) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_some_time_where_there_are_two_processors() {
        let several = super::super::processors().unwrap().len() > 1;
        assert_eq!(round_trip_ns().unwrap().is_some_and(|time| time > 1.0), several);
    }
}
