//! The manager's side of SelfAnalyzer: from times that programs report to the speedups that
//! policies use.
//!
//! # Rule
//! A program sends how long a region (an iteration of its outer loop) took on how many processors.
//! It sends times and no speedups, so that what is not possible can be refused here. The speedup on
//! p processors is the time on one divided by the time on p. A program that never ran on one
//! processor is believed to have been fully efficient on the fewest on which it was first measured:
//! S(base) = base. A time on one processor, once it comes, takes the place of that belief.
//!
//! # Decisions
//! - Times are smoothed: a new one counts `smoothing`, the mean so far the rest.
//! - Refused, with the reason: no processors or more than the machine has; a time of 0 or beyond an
//!   hour; a speedup of more than `superlinear` per processor against what is known. What is
//!   refused changes nothing.
//! - A program whose times stay impossible has changed (another input, another phase): after
//!   [`REPEATED`] refusals in a row on one number of processors its region is measured anew from
//!   that time on.
//! - What is known is kept by name of the program and region, so that the next execution begins
//!   with it; at most `programs` of them, and [`MOST_TIMES`] numbers of processors each: the one
//!   that was silent longest is forgotten.
//!
//! # Papers
//! P2 section 4.4 (SelfAnalyzer), section 3.4 (pdpa with S(base) = base).

use std::collections::BTreeMap;

use crate::parameter::{ParameterError, parameters};
use crate::snapshot::{Nanos, Speedup};

/// After this many impossible times in a row a region is measured anew.
pub const REPEATED: u32 = 3;
/// At most this many numbers of processors are remembered for a region.
pub const MOST_TIMES: usize = 256;
/// No region takes longer.
const LONGEST: Nanos = 3_600_000_000_000;

parameters! {
    /// Parameters of [`Speedups`].
    pub struct SpeedupParameters {
        /// How much a new time counts against the mean of earlier ones.
        "smoothing" smoothing: f64 = 0.5, 0.01 => 1.0;
        /// More speedup per processor than this is impossible.
        "superlinear" superlinear: f64 = 2.0, 1.0 => 16.0;
        /// Programs and regions that are remembered.
        "programs" programs: u32 = 1024, 1 => 65_536;
    }
}

/// A time that a program sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Which of its regions; the program's own number.
    pub region: u64,
    /// Processors that it ran on from beginning to end.
    pub processors: u32,
    /// How long it took.
    pub time: Nanos,
    /// When it was received.
    pub at: Nanos,
}

/// Why a time is not believed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No program runs on this many processors.
    #[error("a time on {processors} processors; the machine has 1 to {most}")]
    Processors {
        /// The number sent.
        processors: u32,
        /// Those of the machine.
        most: u32,
    },
    /// No region takes this long, or no time at all.
    #[error("a region of {time} ns; it takes more than 0 and at most {LONGEST}")]
    Time {
        /// The time sent.
        time: Nanos,
    },
    /// It would be too fast.
    #[error(
        "a speedup of {speedup} on {processors} processors; at most {most} per processor is believed"
    )]
    Superlinear {
        /// The speedup that it would be.
        speedup: f64,
        /// The processors on which it would be so: of the two numbers that do not go together the
        /// larger one.
        processors: u32,
        /// The limit, per processor.
        most: f64,
    },
}

/// What is known of one region of one program.
#[derive(Debug, Clone, Default)]
struct Region {
    /// Smoothed time by processors.
    times: BTreeMap<u32, f64>,
    /// The processors that speedups refer to.
    base: u32,
    /// Impossible times in a row, and on how many processors.
    refused: (u32, u32),
    heard: Nanos,
}

impl Region {
    /// Time on one processor, measured or believed.
    fn reference(&self) -> Option<f64> {
        self.times.get(&self.base).map(|time| time * f64::from(self.base))
    }

    fn speedup(&self, processors: u32) -> Option<f64> {
        Some(self.reference()? / self.times.get(&processors)?)
    }
}

/// Speedups of all programs, by program and region. A sample costs O(log n), with a look at all
/// when one is forgotten.
#[derive(Debug, Clone, Default)]
pub struct Speedups {
    parameters: SpeedupParameters,
    regions: BTreeMap<(String, u64), Region>,
}

impl Speedups {
    /// With the default parameters; nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: SpeedupParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, regions: BTreeMap::new() })
    }

    /// Takes a time that the program called `program` sent on a machine of `machine` processors.
    /// Returns the speedup on that number of processors, as
    /// [`AppView::speedup`](crate::AppView::speedup) has it.
    ///
    /// # Errors
    /// Why the time is not believed; what is known is then as before.
    pub fn sample(
        &mut self,
        program: &str,
        sample: Sample,
        machine: u32,
    ) -> Result<Speedup, Refused> {
        let Sample { processors, time, .. } = sample;
        if !(1..=machine).contains(&processors) {
            return Err(Refused::Processors { processors, most: machine });
        }
        if !(1..=LONGEST).contains(&time) {
            return Err(Refused::Time { time });
        }
        let key = (program.to_owned(), sample.region);
        if !self.regions.contains_key(&key) {
            self.make_room();
        }
        let (smoothing, most) = (self.parameters.smoothing, self.parameters.superlinear);
        let region = self.regions.entry(key).or_default();
        region.heard = sample.at;
        let speedup = take(region, processors, time as f64, smoothing, most)?;
        Ok(Speedup { processors, speedup, at: sample.at })
    }

    /// The speedup of a region on this many processors, as far as it was measured.
    #[must_use]
    pub fn recall(&self, program: &str, region: u64, processors: u32) -> Option<f64> {
        self.regions.get(&(program.to_owned(), region))?.speedup(processors)
    }

    /// Forgets one region of a program.
    pub fn forget_region(&mut self, program: &str, region: u64) {
        self.regions.remove(&(program.to_owned(), region));
    }

    /// Forgets a program: it was built anew.
    pub fn forget(&mut self, program: &str) {
        self.regions.retain(|(name, _), _| name != program);
    }

    fn make_room(&mut self) {
        while self.regions.len() >= self.parameters.programs as usize {
            let oldest = self
                .regions
                .iter()
                .min_by_key(|(_, region)| region.heard)
                .map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.regions.remove(&oldest);
        }
    }
}

/// Writes a time down, if it is possible.
fn take(
    region: &mut Region,
    processors: u32,
    time: f64,
    smoothing: f64,
    most: f64,
) -> Result<f64, Refused> {
    // Against every other number of processors: fewer must not be faster than possible, either.
    let n = f64::from(processors);
    let worst =
        region.times.iter().filter(|(other, _)| **other != processors).map(|(&larger, &known)| {
            let other = f64::from(larger);
            // Speedup per processor of the larger number relative to the smaller one.
            if other < n {
                (known * other / (time * n), processors)
            } else {
                (time * n / (known * other), larger)
            }
        });
    let (worst, larger) =
        worst.fold((0.0, processors), |worst, next| if next.0 > worst.0 { next } else { worst });
    if worst > most {
        let again = if region.refused.1 == processors { region.refused.0 + 1 } else { 1 };
        region.refused = (again, processors);
        if again < REPEATED {
            return Err(Refused::Superlinear {
                speedup: worst * f64::from(larger),
                processors: larger,
                most,
            });
        }
        *region = Region { heard: region.heard, ..Region::default() };
    }
    region.refused = (0, 0);
    let mean =
        region.times.get(&processors).map_or(time, |known| known + (time - known) * smoothing);
    if region.times.len() >= MOST_TIMES && !region.times.contains_key(&processors) {
        // The number farthest from what is measured now says least; the base stays.
        let base = region.base;
        let far = region
            .times
            .keys()
            .copied()
            .filter(|p| *p != base)
            .max_by_key(|p| p.abs_diff(processors));
        if let Some(far) = far {
            region.times.remove(&far);
        }
    }
    region.times.insert(processors, mean);
    if region.base == 0 || processors == 1 {
        region.base = processors;
    }
    // The entry for `processors` and the one for the base are both there.
    Ok(region.speedup(processors).unwrap_or(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn sample(speedups: &mut Speedups, processors: u32, time: Nanos) -> Result<f64, Refused> {
        let sample = Sample { region: 0, processors, time, at: 7 };
        speedups.sample("a", sample, 64).map(|speedup| speedup.speedup)
    }

    fn sharp() -> Speedups {
        let parameters = SpeedupParameters { smoothing: 1.0, ..SpeedupParameters::default() };
        Speedups::with(parameters).expect("it is in range")
    }

    #[test]
    fn the_first_number_of_processors_is_the_base_until_one_is_measured() {
        let mut speedups = sharp();
        assert_eq!(sample(&mut speedups, 4, 100 * MS), Ok(4.0));
        // 4 x 100 / 80 = 5.
        assert_eq!(sample(&mut speedups, 6, 80 * MS), Ok(5.0));
        // In truth one processor takes 250: S(4) = 2.5, S(6) = 250 / 80.
        assert_eq!(sample(&mut speedups, 1, 250 * MS), Ok(1.0));
        assert_eq!(speedups.recall("a", 0, 4), Some(2.5));
        assert_eq!(speedups.recall("a", 0, 6), Some(3.125));
        assert_eq!((speedups.recall("a", 0, 5), speedups.recall("b", 0, 4)), (None, None));
    }

    #[test]
    fn times_are_smoothed() {
        let mut speedups = Speedups::new();
        sample(&mut speedups, 1, 100 * MS).expect("it is possible");
        sample(&mut speedups, 2, 50 * MS).expect("it is possible");
        // (50 + 70) / 2 = 60: 100 / 60.
        assert_eq!(sample(&mut speedups, 2, 70 * MS), Ok(100.0 / 60.0));
    }

    #[test]
    fn impossible_times_are_refused_and_change_nothing() {
        let mut speedups = sharp();
        sample(&mut speedups, 2, 100 * MS).expect("it is the first");
        assert_eq!(
            sample(&mut speedups, 0, MS),
            Err(Refused::Processors { processors: 0, most: 64 })
        );
        assert_eq!(
            sample(&mut speedups, 65, MS),
            Err(Refused::Processors { processors: 65, most: 64 })
        );
        assert_eq!(sample(&mut speedups, 2, 0), Err(Refused::Time { time: 0 }));
        assert_eq!(sample(&mut speedups, 2, u64::MAX), Err(Refused::Time { time: u64::MAX }));
        // On 4 processors 100 -> 20: 2.5 per processor of the two.
        let error = sample(&mut speedups, 4, 20 * MS).expect_err("it is too fast");
        assert!(matches!(error, Refused::Superlinear { processors: 4, .. }), "{error}");
        assert_eq!(speedups.recall("a", 0, 4), None);
        // On one processor 1000 would make two of them 5 times as fast each.
        let error =
            sample(&mut speedups, 1, 1000 * MS).expect_err("two are too fast then").to_string();
        assert_eq!(error, "a speedup of 10 on 2 processors; at most 2 per processor is believed");
        assert_eq!(sample(&mut speedups, 4, 25 * MS), Ok(8.0), "twice per processor is believed");
    }

    #[test]
    fn a_program_that_changed_is_measured_anew() {
        let mut speedups = sharp();
        sample(&mut speedups, 4, 100 * MS).expect("it is the first");
        for _ in 1..REPEATED {
            assert!(sample(&mut speedups, 8, MS).is_err());
        }
        assert_eq!(sample(&mut speedups, 8, MS), Ok(8.0), "the base is now 8");
        assert_eq!(speedups.recall("a", 0, 4), None);
    }

    #[test]
    fn memory_is_bounded_and_the_silent_are_forgotten() {
        let parameters = SpeedupParameters { programs: 2, ..SpeedupParameters::default() };
        let mut speedups = Speedups::with(parameters).expect("it is in range");
        for (name, at) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
            let sample = Sample { region: 0, processors: 1, time: MS, at };
            speedups.sample(name, sample, 64).expect("it is possible");
        }
        assert_eq!(speedups.recall("b", 0, 1), None);
        assert_eq!(
            (speedups.recall("a", 0, 1), speedups.recall("c", 0, 1)),
            (Some(1.0), Some(1.0))
        );
        for processors in 1..2000 {
            let sample = Sample { region: 1, processors, time: MS, at: 5 };
            speedups.sample("d", sample, 4096).expect("no speedup at all is possible");
        }
        assert_eq!(speedups.recall("d", 1, 1), Some(1.0), "the base stays");
        speedups.forget("d");
        assert_eq!(speedups.recall("d", 1, 1), None);
    }
}
