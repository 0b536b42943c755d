//! `marginal`: the next processor goes to the application that gains most from it.
//!
//! # Rule
//! From the speedups that an application reports follows a curve. Each application has a processor;
//! the others go out one by one, each to the application of which S(p + 1) - S(p), times its
//! weight, is the largest. Gains that are about the same (within a tenth or so) count as equal, and
//! `dss` decides. Applications that have not reported have what `dss` gives them. When all requests
//! fit, each has its own.
//!
//! # The curve
//! - Of the reports on each number of processors the last one that differs counts. The curve is
//!   their concave hull; below the first and beyond the last one Amdahl's law through that one, but
//!   no steeper than the curve before.
//! - It belongs to the program: further executions, and copies, begin with it.
//! - A first report is often relative to itself (S(p) = p, see [`Speedups`](crate::Speedups)) and
//!   says nothing. While applications wait for processors, one execution of such a program *looks*:
//!   it has half as many until it reports from there, and again while the smaller number turns out
//!   to be about as fast.
//!
//! # Decisions
//! - Minima are floors in order of arrival, as in `dss`. More applications than processors: as
//!   there.
//! - No application gets a processor that makes it slower, while others can use it or not.
//! - A report within a twentieth of what is known changes nothing: reports are noisy, and a
//!   processor that moves costs caches.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::decision::{Allocation, Decision};
use crate::dss;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::{Needs, Policy};
use crate::quick::{QuickMap, QuickSet};
use crate::share;
use crate::snapshot::{AppId, AppView, Nanos, Snapshot};

/// Reports that differ by less than this part are the same.
const SAME: f64 = 0.05;
/// Programs that are remembered when none of their executions is here.
const MOST_PROGRAMS: usize = 1024;

parameters! {
    /// Parameters of `marginal`.
    pub struct MarginalParameters {
        /// An application whose first report is relative to itself looks what it does on fewer.
        "look" look: bool = true, false => true;
        /// It looks further while an added processor brings less than this.
        "enough" enough: f64 = 0.5, 0.0 => 1.0;
    }
}

/// What is known of a program.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Speedup by processors.
    points: BTreeMap<u32, f64>,
    /// The execution that looks, and on how many processors.
    looks: Option<(AppId, u32)>,
}

/// By program where that is known, else by application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Program(u64),
    App(AppId),
}

fn key(app: &AppView) -> Key {
    app.program.map_or(Key::App(app.id), Key::Program)
}

/// Allocation by marginal speedup. O((n + P) log n).
#[derive(Debug, Clone, Default)]
pub struct Marginal {
    parameters: MarginalParameters,
    known: BTreeMap<Key, Known>,
    /// When each application reported last.
    heard: QuickMap<AppId, Nanos>,
}

impl Marginal {
    /// Its name in the registry.
    pub const NAME: &'static str = "marginal";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "the next processor to the program that gains most from it, by reported speedups";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: MarginalParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, ..Self::default() })
    }

    /// Takes the reports that are new, and forgets those that left.
    fn learn(&mut self, snapshot: &Snapshot<'_>) {
        let here: QuickSet<AppId> = snapshot.apps.iter().map(|app| app.id).collect();
        self.heard.retain(|app, _| here.contains(app));
        for known in self.known.values_mut() {
            known.looks = known.looks.filter(|(app, _)| here.contains(app));
        }
        self.known.retain(|key, _| match key {
            Key::App(app) => here.contains(app),
            Key::Program(_) => true,
        });
        for app in snapshot.apps {
            let Some(report) = app.speedup else { continue };
            let is_new = self.heard.insert(app.id, report.at) != Some(report.at);
            let is_one =
                report.speedup.is_finite() && report.speedup > 0.0 && report.processors > 0;
            if !is_new || !is_one {
                continue;
            }
            let known = self.known.entry(key(app)).or_default();
            if known.looks == Some((app.id, report.processors)) {
                known.looks = None;
            }
            if report.processors == 1 && !known.points.contains_key(&1) {
                // All others were relative to something else.
                known.points.clear();
            }
            let before = known.points.get(&report.processors);
            if before.is_none_or(|before| (report.speedup / before - 1.0).abs() > SAME) {
                known.points.insert(report.processors, report.speedup);
            }
        }
        if self.known.len() > MOST_PROGRAMS {
            let keys: BTreeSet<Key> = snapshot.apps.iter().map(key).collect();
            self.known.retain(|key, _| keys.contains(key));
        }
    }

    /// Applications that shall look begin, one of each program.
    fn begin_looks(&mut self, snapshot: &Snapshot<'_>) {
        if !self.parameters.look {
            return;
        }
        for app in snapshot.apps {
            let Some(known) = self.known.get_mut(&key(app)) else { continue };
            // Its minimum is more by now.
            known.looks = known.looks.filter(|(it, most)| *it != app.id || *most >= app.floor());
            if known.looks.is_some() {
                continue;
            }
            let mut points = known.points.iter();
            let (Some((&first, &speedup)), next) = (points.next(), points.next()) else { continue };
            let is_relative = first > 1 && speedup >= f64::from(first);
            let brings = |(&second, &more): (&u32, &f64)| {
                let scale = f64::from(first) / speedup;
                (more - speedup) * scale / f64::from(second - first)
            };
            let brings_enough = |brings| brings >= self.parameters.enough;
            let on = (first / 2).max(app.floor());
            if is_relative && on < first && !next.map(brings).is_some_and(brings_enough) {
                known.looks = Some((app.id, on));
            }
        }
    }

    /// Processors of each, not crowded and not all that is wanted.
    fn divide(&self, snapshot: &Snapshot<'_>) -> Vec<u32> {
        let apps = snapshot.apps;
        let by_dss = dss::divide(apps, snapshot.processors);
        let (mut curves, mut rooms): (Vec<Option<Curve>>, Vec<u32>) = (Vec::new(), Vec::new());
        for app in apps {
            let known = self.known.get(&key(app));
            curves.push(known.and_then(|known| Curve::new(&known.points)));
            let looks = known.and_then(|known| known.looks).filter(|(it, _)| *it == app.id);
            let most = looks.map_or(u32::MAX, |(_, most)| most);
            rooms.push(app.wants().min(most.max(1)));
        }
        let mut parts = by_dss.clone();
        let mut rest = 0_u64;
        for (i, part) in parts.iter_mut().enumerate().filter(|(i, _)| curves[*i].is_some()) {
            (rest, *part) = (rest + u64::from(by_dss[i] - 1), 1);
        }
        for (i, part) in parts.iter_mut().enumerate().filter(|(i, _)| curves[*i].is_some()) {
            let more = u64::from(apps[i].floor().min(rooms[i]) - 1).min(rest);
            rest -= more;
            *part += u32::try_from(more).expect("it is at most the floor, a u32");
        }
        let turn = |i: usize, part: u32| {
            let gain = curves[i].as_ref()?.gain(part) * apps[i].weight.max(f64::MIN_POSITIVE);
            let open = part < rooms[i] && gain > 0.0;
            // Steps of a quarter.
            let step = (gain.ln() / 1.25_f64.ln()).round().clamp(-1000.0, 1000.0) as i32;
            let key = share::key(apps[i].weight, apps[i].request);
            open.then_some(Turn { step, key, odd: 2 * u128::from(part) + 1, at: i })
        };
        let mut turns: BinaryHeap<Turn> =
            (0..apps.len()).filter_map(|i| turn(i, parts[i])).collect();
        while rest > 0
            && let Some(Turn { at, .. }) = turns.pop()
        {
            parts[at] += 1;
            rest -= 1;
            turns.extend(turn(at, parts[at]));
        }
        // What no reporter gains from is for those of which nothing is known.
        for (i, part) in parts.iter_mut().enumerate().filter(|(i, _)| curves[*i].is_none()) {
            let more = u64::from(rooms[i] - *part).min(rest);
            rest -= more;
            *part += u32::try_from(more).expect("it is at most the room, a u32");
        }
        parts
    }
}

impl Policy for Marginal {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn needs(&self) -> Needs {
        Needs { reports: true, ..Needs::NOTHING }
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        self.learn(snapshot);
        if snapshot.is_crowded() {
            return Decision::everybody_waits(snapshot, dss::crowd(snapshot));
        }
        if dss::fits(snapshot.apps, snapshot.processors) {
            self.known.values_mut().for_each(|known| known.looks = None);
            return Decision::everybody_waits(snapshot, dss::space_share(snapshot));
        }
        self.begin_looks(snapshot);
        let parts = self.divide(snapshot);
        let own = |(app, part): (&AppView, u32)| Allocation::own(app.id, part);
        let allocations = snapshot.apps.iter().zip(parts).map(own).collect();
        Decision::everybody_waits(snapshot, allocations)
    }
}

/// A concave curve through reports.
#[derive(Debug)]
struct Curve {
    /// Processors and speedup, ascending; the hull.
    hull: Vec<(f64, f64)>,
}

impl Curve {
    /// `None` without reports.
    fn new(points: &BTreeMap<u32, f64>) -> Option<Self> {
        let (first, speedup) = points.first_key_value()?;
        // No program is known to be more than fully efficient on the fewest: that is its measure.
        let scale = (f64::from(*first) / speedup).min(1.0);
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for (processors, speedup) in points {
            let point = (f64::from(*processors), speedup * scale);
            while let [.., a, b] = hull[..]
                && slope(a, b) <= slope(b, point)
            {
                hull.pop();
            }
            hull.push(point);
        }
        Some(Self { hull })
    }

    /// What one more than `processors` brings.
    fn gain(&self, processors: u32) -> f64 {
        let (p, next) = (f64::from(processors), f64::from(processors) + 1.0);
        let (first, last) = (self.hull[0], self.hull[self.hull.len() - 1]);
        if next <= first.0 {
            return amdahl(first, next) - amdahl(first, p);
        }
        let at = self.hull.partition_point(|point| point.0 <= p);
        match (at.checked_sub(1).map(|before| self.hull[before]), self.hull.get(at)) {
            (Some(before), Some(after)) => slope(before, *after),
            _ => {
                let steepest = match self.hull[..] {
                    [.., a, b] => slope(a, b),
                    _ => f64::INFINITY,
                };
                (amdahl(last, next) - amdahl(last, p)).min(steepest)
            }
        }
    }
}

fn slope(from: (f64, f64), to: (f64, f64)) -> f64 {
    (to.1 - from.1) / (to.0 - from.0)
}

/// The speedup on `p` by Amdahl's law through a point; linear, where that is more than fully
/// efficient, or on one processor.
fn amdahl((processors, speedup): (f64, f64), p: f64) -> f64 {
    if processors <= 1.0 || speedup >= processors {
        return p * speedup / processors;
    }
    let serial = ((processors / speedup - 1.0) / (processors - 1.0)).min(1.0);
    1.0 / (serial + (1.0 - serial) / p)
}

/// An application that may get the next one; the largest comes first.
#[derive(PartialEq, Eq)]
struct Turn {
    step: i32,
    key: u128,
    odd: u128,
    at: usize,
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_dss = (self.key * other.odd).cmp(&(other.key * self.odd));
        self.step.cmp(&other.step).then(by_dss).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
