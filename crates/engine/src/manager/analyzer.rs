//! SelfAnalyzer: measures, while the program runs, how much faster it is on its processors than on
//! [`BASE`] (M15).
//!
//! # Protocol
//! Where the policy decides by what is reported (pdpa), for the only master, at each outermost
//! region that it forks:
//! 1. *Look*: the region goes to the detector ([`crate::period`]) until a loop is found. A program
//!    that says where its iterations begin ([`iteration`](crate::iteration)) is not guessed at.
//! 2. *Base*: what a loop takes on [`BASE`] processors is measured once: regions get no more
//!    meanwhile. One sample before that tells what it will cost: no program pays more than
//!    [`SHARE`] of the time that it has run for so far, nor for iterations longer than
//!    [`MOST_BASE`].
//! 3. *Time*: iterations are timed on what the program has. A *sample* is as many whole iterations
//!    as take [`SAMPLE`]; one in which a region had another number of threads than the others is
//!    thrown away.
//! 4. *Report*: the shortest but one of the last [`SAMPLES`] on one number of processors goes to
//!    the manager together with the base's, times and not a speedup: the manager divides, checks,
//!    and smooths.
//! 5. *Rest*, for as many regions as took [`REST`] before: a fork costs a load and a store then.
//!    Again from 1; a loop whose base is known goes from 1 to 3.
//!
//! A program whose teams have sizes of their own cannot be measured on fewer: it is left alone for
//! a long rest.
//!
//! # Noise
//! What disturbs makes a sample longer, never shorter: of five, two may be disturbed as much as
//! they like. Where even the three shortest differ by more than [`SPREAD`], the iterations are not
//! alike, or all are disturbed, and nothing is reported.
//!
//! # Papers
//! P2 section 4.4. There the base is up to four processors, measured in the first iterations, and
//! Amdahl's law is used to go on to one; here it is one, and measured when the program has run for
//! long enough to bear it.

use crate::period::{Loop, Period};
use arena::client::Client;
use std::time::Duration;

/// Processors of the base.
pub(super) const BASE: u32 = 1;
/// Nanoseconds of a sample, at least.
const SAMPLE: u64 = 2_000_000;
/// Samples of a measurement.
const SAMPLES: usize = 5;
/// Of iterations as long as this, two that agree are enough.
const LONG: u64 = 100_000_000;
/// The longest iteration, in nanoseconds on [`BASE`] processors, for which a base is measured.
const MOST_BASE: u64 = 500_000_000;
/// A program spends at most 1 / `SHARE` of its time on [`BASE`] processors.
const SHARE: u64 = 10;
/// Loops whose bases are remembered.
const BASES: usize = 8;
/// How much the shortest and the third of five samples may differ.
const SPREAD: f64 = 1.2;
/// Nanoseconds between a report and the next measurement.
const REST: u64 = 100_000_000;
/// Nanoseconds after samples that did not agree.
const VAIN_REST: u64 = 1_000_000_000;
/// Regions in which no loop is found before the search rests.
const VAIN: u32 = 4_096;
/// Samples in a row that are of no use before the analyzer rests.
const DISAGREED: u32 = 8;
/// Regions of a rest after a search in vain, or of a program that cannot be measured.
const LONG_REST: u32 = 65_536;

/// What a region of the master may have, and what is to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Analysis {
    /// The most processors for this region.
    pub(super) most: Option<u32>,
    /// What was measured.
    pub(super) report: Option<Measured>,
    /// The number of regions for which nothing is to be asked.
    pub(super) rest: u32,
}

/// How long an iteration takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) processors: u32,
    pub(super) time: u64,
    pub(super) base_time: u64,
}

impl Measured {
    pub(super) fn send(self, client: &Client) {
        let time = Duration::from_nanos;
        client.report(self.processors, time(self.time), BASE, time(self.base_time));
    }
}

/// The sample that is being taken.
#[derive(Clone, Copy, Debug)]
struct OpenSample {
    began: u64,
    iterations: u64,
    /// Regions in it, and how many of them had more than one thread.
    regions: u32,
    forked: u32,
    /// Threads of the latter.
    size: u32,
    /// They had different sizes.
    mixed: bool,
}

impl OpenSample {
    fn begin(now: u64) -> Self {
        Self { began: now, iterations: 0, regions: 0, forked: 0, size: BASE, mixed: false }
    }

    /// Threads of all its regions, if it is the same number.
    fn size(&self) -> Option<u32> {
        let is_one = !self.mixed && (self.forked == 0 || self.forked == self.regions);
        is_one.then_some(self.size)
    }
}

/// See the module head.
#[derive(Debug)]
pub(super) struct Analyzer {
    period: Period,
    /// The program says where its iterations begin.
    explicit: bool,
    /// Regions looked at since the search began.
    looked: u32,
    /// Regions since the last rest, and when and with how many of them the first iteration after it
    /// began.
    regions: u32,
    since: Option<(u64, u32)>,
    /// The loop that is being timed, and how far its iteration is.
    timed: Option<(Loop, usize)>,
    sample: Option<OpenSample>,
    /// Times of an iteration, on `size` processors.
    times: Vec<u64>,
    size: u32,
    /// The loop whose base may be measured.
    probed: Option<Loop>,
    /// The loops whose bases are known, and their times; the youngest last.
    bases: Vec<(Loop, u64)>,
    /// When the first iteration began.
    began: Option<u64>,
    /// Nanoseconds that bases took, as expected before.
    spent: u64,
}

/// The loop of a program that says where its iterations begin.
const SAID: Loop = Loop { length: usize::MAX, identity: 0 };

impl Analyzer {
    pub(super) fn new() -> Self {
        Self {
            period: Period::new(),
            explicit: false,
            looked: 0,
            regions: 0,
            since: None,
            timed: None,
            sample: None,
            times: Vec::with_capacity(SAMPLES),
            size: 0,
            probed: None,
            bases: Vec::with_capacity(BASES),
            began: None,
            spent: 0,
        }
    }

    /// The master is about to fork `region`; `now`: nanoseconds, asked for where they are needed
    /// only.
    pub(super) fn forks(&mut self, region: usize, now: impl FnOnce() -> u64) -> Analysis {
        self.regions = self.regions.saturating_add(1);
        let analysis = self.look_at(region, now);
        if let Some(sample) = &mut self.sample {
            sample.regions += 1;
        }
        analysis
    }

    fn look_at(&mut self, region: usize, now: impl FnOnce() -> u64) -> Analysis {
        if self.explicit {
            return self.advise();
        }
        let Some(found) = self.period.note(region) else {
            if self.timed.take().is_some() {
                self.forget_times();
            }
            self.looked += 1;
            return if self.looked >= VAIN { self.rests(LONG_REST) } else { Analysis::default() };
        };
        match &mut self.timed {
            Some((timed, at)) if *timed == found => {
                *at += 1;
                if *at < found.length {
                    return self.advise();
                }
                *at = 0;
            }
            timed => {
                (*timed, self.looked) = (Some((found, 0)), 0);
                self.forget_times();
            }
        }
        self.iteration_begins(now())
    }

    /// The program says that an iteration of its outer loop begins.
    pub(super) fn is_told(&mut self, now: u64) -> Analysis {
        if !self.explicit {
            (self.explicit, self.timed) = (true, Some((SAID, 0)));
            self.forget_times();
        }
        self.iteration_begins(now)
    }

    /// The region that was forked has `size` threads, more than one. Without this call a region has
    /// one thread.
    pub(super) fn forked(&mut self, size: u32) {
        if let Some(sample) = &mut self.sample {
            sample.mixed |= sample.forked > 0 && sample.size != size;
            sample.forked += 1;
            sample.size = size;
        }
    }

    fn forget_times(&mut self) {
        self.sample = None;
        self.times.clear();
    }

    /// What the loop that is timed takes on the base, if that is known.
    fn base(&self) -> Option<u64> {
        let (timed, _) = self.timed?;
        self.bases.iter().find(|(known, _)| *known == timed).map(|(_, time)| *time)
    }

    /// True when the base is what has to be measured now.
    fn wants_base(&self) -> bool {
        self.timed.is_some() && self.base().is_none()
    }

    /// Whether a loop may be measured on the base that takes `on_base` there; what that will cost
    /// counts as spent.
    fn affords(&mut self, on_base: u64, now: u64) -> bool {
        let samples = if on_base >= LONG { 2 } else { SAMPLES as u64 };
        let spent = self.spent.saturating_add(on_base.max(SAMPLE).saturating_mul(samples));
        let lived = now.saturating_sub(self.began.unwrap_or(now));
        let can = on_base <= MOST_BASE && spent <= lived / SHARE;
        if can {
            self.spent = spent;
        }
        can
    }

    fn advise(&self) -> Analysis {
        let is_probed = self.timed.is_some_and(|(timed, _)| self.probed == Some(timed));
        Analysis { most: (is_probed && self.wants_base()).then_some(BASE), ..Analysis::default() }
    }

    /// A rest of about so long, at the pace since the last one. `now` is later than the first
    /// iteration.
    fn rests_for(&mut self, nanoseconds: u64, now: u64) -> Analysis {
        let (since, regions_then) = self.since.unwrap_or((now, self.regions));
        let regions = u64::from(self.regions - regions_then).saturating_mul(nanoseconds)
            / now.saturating_sub(since).max(1);
        self.rests(u32::try_from(regions).unwrap_or(u32::MAX).clamp(1, LONG_REST))
    }

    fn rests(&mut self, regions: u32) -> Analysis {
        self.period.begin_again();
        self.forget_times();
        self.probed = None;
        self.timed = if self.explicit { Some((SAID, 0)) } else { None };
        (self.looked, self.regions, self.since) = (0, 0, None);
        Analysis { rest: regions, ..Analysis::default() }
    }

    /// An iteration ends here, if one was timed, and the next one begins.
    fn iteration_begins(&mut self, now: u64) -> Analysis {
        self.began.get_or_insert(now);
        self.since.get_or_insert((now, self.regions));
        let Some(sample) = &mut self.sample else {
            self.sample = Some(OpenSample::begin(now));
            return self.advise();
        };
        sample.iterations += 1;
        let taken = now.saturating_sub(sample.began);
        if taken < SAMPLE && sample.size().is_some() {
            return self.advise();
        }
        let done = *sample;
        self.sample = Some(OpenSample::begin(now));
        let Some(size) = done.size() else { return self.advise() };
        if self.wants_base() && size != BASE {
            let timed = self.timed.map(|(timed, _)| timed);
            if self.probed != timed {
                let on_base = (taken / done.iterations).saturating_mul(u64::from(size));
                if !self.affords(on_base, now) {
                    return self.rests_for(REST, now);
                }
                self.probed = timed;
                return self.advise();
            }
            // The first region of a sample may have been forked before it was asked for less; a
            // team with a size of its own is never smaller.
            self.looked += 1;
            return if self.looked >= DISAGREED { self.rests(LONG_REST) } else { self.advise() };
        }
        if size != self.size {
            self.times.clear();
            self.size = size;
        }
        self.times.push(taken / done.iterations);
        let enough = self.times.len() >= SAMPLES;
        let Some(time) = self.measured() else {
            // They do not agree. No program stays on the base's processors for want of a number.
            self.looked += u32::from(enough);
            return if self.looked >= DISAGREED {
                self.rests_for(VAIN_REST, now)
            } else {
                self.advise()
            };
        };
        self.times.clear();
        let Some(base_time) = self.base() else {
            if self.bases.len() == BASES {
                self.bases.remove(0);
            }
            self.bases.extend(self.timed.map(|(timed, _)| (timed, time)));
            self.sample = None;
            return Analysis::default();
        };
        let report = (size > BASE).then_some(Measured { processors: size, time, base_time });
        Analysis { report, ..self.rests_for(REST, now) }
    }

    /// The time of the undisturbed samples, once there are enough that agree. The oldest of others
    /// is thrown away.
    fn measured(&mut self) -> Option<u64> {
        if let [.., one, other] = self.times[..]
            && one.min(other) >= LONG
            && one.max(other) as f64 <= one.min(other) as f64 * SPREAD
        {
            return Some(one.min(other));
        }
        if self.times.len() < SAMPLES {
            return None;
        }
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let agree = sorted[SAMPLES / 2] as f64 <= sorted[0] as f64 * SPREAD;
        if !agree {
            self.times.remove(0);
        }
        agree.then_some(sorted[1])
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
