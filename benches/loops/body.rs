//! The loop's body: work that depends on the iteration, and a sum that shows whether each ran once.

use crate::harness::median;
use crate::harness::sample::Measure;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Iterations of a loop.
pub(crate) const LENGTH: usize = 2048;
/// Steps of one unit of work: about 70 ns.
const UNIT: u32 = 50;
/// Units of a mean iteration.
const MEAN: u32 = 4;

/// How the work is spread over the iterations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Uniform,
    Triangular,
    Random,
    /// One iteration has half of all the work.
    OneHeavy,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] =
        [Kind::Uniform, Kind::Triangular, Kind::Random, Kind::OneHeavy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Uniform => "uniform",
            Kind::Triangular => "triangular",
            Kind::Random => "random",
            Kind::OneHeavy => "one heavy of all",
        }
    }

    /// Units of each iteration.
    fn units(self) -> Vec<u32> {
        const COUNT: u32 = LENGTH as u32;
        let heavy = COUNT / 3;
        (0..COUNT)
            .map(|i| match self {
                Kind::Uniform => MEAN,
                Kind::Triangular => 2 * MEAN * i / COUNT,
                // A few are long: the third power of an even distribution.
                Kind::Random => {
                    let even = u64::from(i.wrapping_mul(2_654_435_761) >> 16);
                    u32::try_from((4 * u64::from(MEAN) * even * even * even) >> 48).unwrap_or(MEAN)
                }
                Kind::OneHeavy if i == heavy => MEAN / 2 * COUNT,
                Kind::OneHeavy => MEAN / 2,
            })
            .collect()
    }
}

static UNITS: OnceLock<Vec<u32>> = OnceLock::new();
static SUMS: [AtomicU64; LENGTH] = [const { AtomicU64::new(0) }; LENGTH];

/// Chooses the body of this sample.
pub(crate) fn choose(kind: Kind) {
    UNITS.get_or_init(|| kind.units());
}

fn work(i: u32) -> u64 {
    let units = UNITS.get().map_or(0, |units| units[i as usize]);
    let mut state = u64::from(i);
    for _ in 0..units * UNIT {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    state | 1
}

/// One iteration.
pub(crate) extern "C" fn iterate(i: u32) {
    let sum = &SUMS[i as usize];
    let value = work(i);
    // ORDERING: Relaxed - one thread at a time runs an iteration, and the loop orders them.
    sum.store(sum.load(Relaxed).wrapping_add(value), Relaxed);
}

/// Says whether each iteration ran once in each call.
pub(crate) fn check(calls: u64) -> Result<(), String> {
    let is_wrong = |i: &u32| {
        // ORDERING: Relaxed - the loops are joined.
        SUMS[*i as usize].load(Relaxed) != work(*i).wrapping_mul(calls)
    };
    match (0..LENGTH as u32).filter(is_wrong).count() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} iterations did not run once in each of {calls} loops")),
    }
}

/// Measures by `measure`; an extra says how often the ideal time that is.
pub(crate) fn against_ideal(measure: Measure) -> Measure {
    Box::new(move |subject| {
        let all = time(|| (0..LENGTH as u32).for_each(|i| let_go(work(i))));
        let units = UNITS.get().map(Vec::as_slice).unwrap_or_default();
        let heaviest = (0..LENGTH as u32).max_by_key(|&i| units[i as usize]).unwrap_or(0);
        let ideal = (all / 2.0).max(time(|| let_go(work(heaviest))));
        let mut values = measure(subject);
        values.push(values[0] / ideal);
        values
    })
}

/// Median time in nanoseconds.
fn time(run: impl Fn()) -> f64 {
    let once = || {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e9
    };
    median(&mut (0..15).map(|_| once()).collect::<Vec<_>>())
}

fn let_go(value: u64) {
    black_box(value);
}
