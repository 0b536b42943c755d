//! The samples that count, what the closing table says of them, and the raw record.

use super::options::Compare;
use super::place::Row;
use super::{AGREE, Bar, Bench, Case, Engine, FAR_NS, about, median};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What came of one sample.
pub(crate) enum Record {
    /// The time of an operation in nanoseconds, and the extras.
    Values(Vec<f64>),
    /// The engine cannot be run here.
    Absent(String),
    /// A wrong result, or a process that broke.
    Wrong(String),
}

impl Record {
    /// A sample's line of CSV.
    pub(crate) fn parse(text: &str) -> Self {
        let values: Result<Vec<f64>, _> = text.trim().split(',').map(str::parse).collect();
        match values {
            Ok(values) => Self::Values(values),
            Err(_) => Self::Wrong(format!("a sample printed {:?}", text.trim())),
        }
    }
}

/// One sample that counts.
struct Sample {
    round_trip: f64,
    values: Vec<f64>,
}

/// A line of a closing table.
pub(super) enum Line {
    Measured(Measured),
    /// A row without numbers.
    Without {
        engine: String,
        row: &'static str,
        why: String,
    },
}

/// Medians of the samples of a row whose round trips were near, or far.
pub(super) struct Measured {
    pub engine: String,
    pub row: &'static str,
    /// How far the processors were from each other.
    pub distance: &'static str,
    pub count: usize,
    /// In nanoseconds, as the time.
    pub round_trip: f64,
    pub time: f64,
    /// The least and the most of the samples.
    pub spread: (f64, f64),
    pub per_trip: f64,
    /// The time over that of our first engine.
    pub to_ours: Option<f64>,
    pub extras: Vec<f64>,
    /// The bar in words, and whether it is met.
    pub bar: Option<(String, bool)>,
}

/// A row: case, place of the engine in it, bound or not.
type Key = (usize, String, Row);

/// All samples.
#[derive(Default)]
pub(crate) struct Table {
    /// No sample is dropped or sorted by its round trips.
    keeps_all: bool,
    kept: BTreeMap<Key, Vec<Sample>>,
    /// Rows that have nothing to measure, with the reason.
    closed: BTreeMap<Key, (bool, String)>,
    dropped: u32,
    /// Columns of the raw record.
    raw: Vec<Vec<String>>,
}

impl Table {
    /// No samples yet.
    pub(crate) fn new(keeps_all: bool) -> Self {
        Self { keeps_all, ..Self::default() }
    }

    /// True when the row will have no samples.
    pub(crate) fn is_closed(&self, case: usize, engine: &Engine, row: Row) -> bool {
        self.closed.contains_key(&(case, engine.name.clone(), row))
    }

    /// Takes a sample in. False when it was dropped.
    pub(crate) fn add(
        &mut self,
        (index, case): (usize, &Case),
        engine: &Engine,
        row: Row,
        round: u32,
        (before, after): (f64, f64),
        record: Record,
    ) -> bool {
        let key = (index, engine.name.clone(), row);
        match record {
            Record::Absent(why) => drop(self.closed.insert(key, (false, why))),
            Record::Wrong(why) => drop(self.closed.insert(key, (true, why))),
            Record::Values(values) => {
                let names = [
                    case.name.clone(),
                    engine.name.clone(),
                    row.name().to_owned(),
                    round.to_string(),
                ];
                let trips = [before, after].map(|trip| format!("{trip:.1}"));
                self.raw.push(
                    names
                        .into_iter()
                        .chain(trips)
                        .chain(values.iter().map(f64::to_string))
                        .collect(),
                );
                if !self.keeps_all && before.max(after) > AGREE * before.min(after) {
                    self.dropped += 1;
                    return false;
                } else {
                    let round_trip = f64::midpoint(before, after);
                    self.kept.entry(key).or_default().push(Sample { round_trip, values });
                }
            }
        }
        true
    }

    /// The closing table of a case, a line for each row that has samples or a reason for having
    /// none.
    pub(super) fn lines(&self, index: usize, case: &Case, options: &Compare) -> Vec<Line> {
        let mut lines = Vec::new();
        for engine in case.engines.iter().filter(|engine| options.wants(case, engine)) {
            for &row in engine.rows {
                let known = |row: Row| {
                    self.closed.get(&(index, engine.name.clone(), row)).map(|(_, why)| why)
                };
                if let (Some(here), [first, ..]) = (known(row), engine.rows)
                    && row != *first
                    && known(*first) == Some(here)
                {
                    continue;
                }
                let key = (index, engine.name.clone(), row);
                let without = |why: String| Line::Without {
                    engine: engine.name.clone(),
                    row: row.name(),
                    why,
                };
                if let Some((wrong, why)) = self.closed.get(&key) {
                    lines
                        .push(without(format!("{}: {why}", if *wrong { "WRONG" } else { "none" })));
                }
                lines.extend(
                    [false, true]
                        .into_iter()
                        .filter_map(|far| self.line(index, case, engine, row, far, options)),
                );
                if !self.closed.contains_key(&key) && !self.kept.contains_key(&key) {
                    lines.push(without("none: all samples were dropped".into()));
                }
            }
        }
        lines
    }

    /// How many samples were dropped.
    pub(super) fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Rows with wrong results: case, engine and row, reason.
    pub(super) fn wrong(&self) -> impl Iterator<Item = (usize, &str, Row, &str)> {
        let all = self.closed.iter().filter(|(_, (wrong, _))| *wrong);
        all.map(|((index, engine, row), (_, why))| (*index, engine.as_str(), *row, why.as_str()))
    }

    fn line(
        &self,
        index: usize,
        case: &Case,
        engine: &Engine,
        row: Row,
        far: bool,
        options: &Compare,
    ) -> Option<Line> {
        let samples = self.samples(index, &engine.name, row, far);
        if samples.is_empty() {
            return None;
        }
        let of = |pick: &dyn Fn(&Sample) -> f64| {
            median(&mut samples.iter().map(|s| pick(s)).collect::<Vec<_>>())
        };
        let time = of(&|s| s.values[0]);
        let per_trip = of(&|s| s.values[0] / s.round_trip);
        let extra = |number: usize| of(&|s| s.values.get(number).copied().unwrap_or(f64::NAN));
        let ours = self.time(index, &case.engines[0].name, row, far);
        let bar = if is_ours(engine) {
            let bar = self.bar(index, case, row, far, (time, per_trip), &extra);
            let missing = self.missing(index, case, row, options);
            if missing.is_empty() || case.bar.is_none() { bar } else { Some(unmet(bar, &missing)) }
        } else {
            None
        };
        Some(Line::Measured(Measured {
            engine: engine.name.clone(),
            row: row.name(),
            distance: match far {
                _ if self.keeps_all => "any",
                true => "far",
                false => "near",
            },
            count: samples.len(),
            round_trip: of(&|s| s.round_trip),
            time,
            spread: samples
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), sample| {
                    (least.min(sample.values[0]), most.max(sample.values[0]))
                }),
            per_trip,
            to_ours: ours.map(|ours| time / ours),
            extras: (1..=case.extras.len()).map(extra).collect(),
            bar,
        }))
    }

    /// Peers of the run that have the construct, but no sample that counts.
    pub(super) fn missing<'a>(
        &self,
        index: usize,
        case: &'a Case,
        row: Row,
        options: &Compare,
    ) -> Vec<&'a str> {
        let is_missing = |peer: &&Engine| {
            let is_meant = !is_ours(peer) && peer.make.is_ok() && peer.rows.contains(&row);
            is_meant
                && options.wants(case, peer)
                && !self.kept.contains_key(&(index, peer.name.clone(), row))
        };
        case.engines.iter().filter(is_missing).map(|peer| peer.name.as_str()).collect()
    }

    /// The bar in words, and whether it is met.
    fn bar(
        &self,
        index: usize,
        case: &Case,
        row: Row,
        far: bool,
        (time, per_trip): (f64, f64),
        extra: &dyn Fn(usize) -> f64,
    ) -> Option<(String, bool)> {
        Some(match case.bar? {
            Bar::RoundTrips { near, far: limit_far } => {
                let limit = if far { limit_far } else { near };
                (format!("{limit} rtt"), per_trip <= limit)
            }
            Bar::Nanoseconds(limit) => (duration(limit), time <= limit),
            Bar::TimesOfEach(peers) => {
                let limits = peers.iter().map(|(name, factor)| {
                    Some((format!("{factor} x {name}"), factor * self.time(index, name, row, far)?))
                });
                // Without one of them at this distance nothing can be said.
                let limits: Vec<(String, f64)> = limits.collect::<Option<_>>()?;
                let least = limits.iter().map(|(_, limit)| *limit).min_by(f64::total_cmp)?;
                let words: Vec<String> = limits.into_iter().map(|(words, _)| words).collect();
                (format!("{} = {}", words.join(", "), duration(least)), time <= least)
            }
            Bar::NotBehind => self.not_behind(index, case, row, far, time, &[])?,
            Bar::NotBehindWithout { index: number } => {
                let has_some = |engine: &&Engine| {
                    self.samples(index, &engine.name, row, far)
                        .iter()
                        .any(|sample| sample.values[number] != 0.0)
                };
                let others: Vec<&str> = case
                    .engines
                    .iter()
                    .filter(has_some)
                    .map(|engine| engine.name.as_str())
                    .collect();
                let (words, is_met) = self.not_behind(index, case, row, far, time, &others)?;
                let what = case.extras.get(number - 1).unwrap_or(&"");
                let words = match &*others {
                    [] => words,
                    others => format!("{words}; {what} not 0, not compared: {}", others.join(", ")),
                };
                (words, is_met && extra(number) == 0.0)
            }
            Bar::Extra { index, limit } => (
                format!("{} {limit}", case.extras.get(index - 1).unwrap_or(&"")),
                extra(index) <= limit,
            ),
            Bar::TimesOf { engines, row: peer_row, factor } => {
                let is_meant =
                    |known: &&Engine| engines.iter().any(|name| known.name.starts_with(name));
                let peers = case.engines.iter().skip(1).filter(is_meant);
                let times = peers
                    .filter_map(|peer| self.time(index, &peer.name, peer_row.unwrap_or(row), far));
                let best = times.min_by(f64::total_cmp)?;
                let peer_row = peer_row.map_or(String::new(), |row| format!(" {}", row.name()));
                (format!("{factor} x {}{peer_row}", engines.join(", ")), time <= best * factor)
            }
        })
    }

    /// [`Bar::NotBehind`] of the peers that are not `left_out`.
    fn not_behind(
        &self,
        index: usize,
        case: &Case,
        row: Row,
        far: bool,
        time: f64,
        left_out: &[&str],
    ) -> Option<(String, bool)> {
        let peers = case
            .engines
            .iter()
            .skip(1)
            .map(|peer| peer.name.as_str())
            .filter(|name| !left_out.contains(name));
        let times = peers.filter_map(|name| Some((name, self.time(index, name, row, far)?)));
        let (name, best) = times.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let times: Vec<f64> =
            self.samples(index, name, row, far).iter().map(|s| s.values[0]).collect();
        let limit = best + forgiven(best, &times);
        Some((
            format!("{name} {}, within {}", duration(best), duration(limit - best)),
            time <= limit,
        ))
    }

    fn samples(&self, index: usize, engine: &str, row: Row, far: bool) -> Vec<&Sample> {
        let all =
            self.kept.get(&(index, engine.to_owned(), row)).map(Vec::as_slice).unwrap_or_default();
        let is_far = |sample: &&Sample| !self.keeps_all && sample.round_trip > FAR_NS;
        all.iter().filter(|sample| is_far(sample) == far).collect()
    }

    /// The median of a row whose samples are not sorted by their round trips.
    pub(super) fn median(&self, index: usize, engine: &Engine) -> Option<f64> {
        self.time(index, &engine.name, *engine.rows.first()?, false)
    }

    fn time(&self, index: usize, engine: &str, row: Row, far: bool) -> Option<f64> {
        let mut times: Vec<f64> =
            self.samples(index, engine, row, far).iter().map(|s| s.values[0]).collect();
        (!times.is_empty()).then(|| median(&mut times))
    }

    /// Writes the raw record, and on what it was taken.
    pub(crate) fn write(&self, bench: &Bench, options: &Compare) -> Result<(), String> {
        let folder = (!options.record).then(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
        let width = self.raw.iter().map(Vec::len).max().unwrap_or(0).max(FIXED.len());
        let mut heads: Vec<String> = FIXED.map(str::to_owned).into();
        heads.extend(
            (FIXED.len()..width).map(|column| format!("extra_{}", column - FIXED.len() + 1)),
        );
        // Every row has every column.
        let rows = self.raw.iter().map(|row| {
            let mut row = row.clone();
            row.resize(width, String::new());
            row
        });
        let path = about::record(folder, bench.name, &heads, rows)?;
        println!("raw record: {}", path.display());
        Ok(())
    }
}

/// The columns that every record has.
const FIXED: [&str; 7] =
    ["case", "engine", "row", "round", "rtt_before_ns", "rtt_after_ns", "time_ns"];

pub(super) fn is_ours(engine: &Engine) -> bool {
    engine.name.starts_with("nanothreads")
}

/// A comparison that lacks a peer is not won, also when the numbers are better.
fn unmet(bar: Option<(String, bool)>, missing: &[&str]) -> (String, bool) {
    let words = bar.map_or(String::new(), |(words, _)| words + "; ");
    (format!("{words}bar unmet: peer missing: {}", missing.join(", ")), false)
}

/// How much slower ours may be than a peer with this median of these times: 5 %, 2 ns or two
/// standard errors.
pub(crate) fn forgiven(best: f64, times: &[f64]) -> f64 {
    (best.abs() * 0.05).max(2.0).max(2.0 * error_of_the_mean(times))
}

/// The standard error of the samples' mean; 0 for one.
fn error_of_the_mean(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    if values.len() > 1 { (squares / (count - 1.0) / count).sqrt() } else { 0.0 }
}

/// Nanoseconds, in a unit that suits.
pub(super) fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 10_000.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}
