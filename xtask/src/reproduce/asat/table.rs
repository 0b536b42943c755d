//! What the rows come to: the table and the figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::beside::Beside;
use super::version::{Grain, Version};
use super::{KILLED, Row};
use crate::measure::{Spread, median};
use crate::report::{Chart, Label, Section, Unit, Value};

/// What ASAT may take of the better of FTS and SINGLE.
const BAR: f64 = 1.05;
/// The same where a copy is alone.
const ALONE: f64 = 1.01;

/// What the rows come to.
pub(super) struct Table {
    /// Mean wall time of a run's copies, over the repetitions, and their share at joins.
    cases: BTreeMap<Key, Case>,
}

/// Grain, what was beside, copies, version.
pub(super) type Key = (Grain, Beside, usize, Version);

#[derive(Default)]
struct Case {
    /// Of each run: the mean over its copies.
    walls: Vec<f64>,
    /// Of each run: the longest copy over the shortest.
    spreads: Vec<f64>,
    joins: Vec<f64>,
    teams: Vec<f64>,
    /// Of each run: the mean of its copies' sleeps, and of the times that they lost a processor.
    voluntary: Vec<f64>,
    involuntary: Vec<f64>,
    is_killed: bool,
}

impl Table {
    pub(super) fn of(rows: &[Row]) -> Table {
        let mut runs: BTreeMap<(Key, u32), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            let key = (row.grain, row.beside, row.copies, row.version);
            runs.entry((key, row.repetition)).or_default().push(row);
        }
        let mut cases: BTreeMap<Key, Case> = BTreeMap::new();
        for ((key, _), run) in runs {
            let case = cases.entry(key).or_default();
            let walls: Vec<f64> = run.iter().map(|row| row.wall).collect();
            let spread = Spread::of(&walls).map_or(1.0, |spread| spread.most / spread.least);
            case.walls.push(walls.iter().sum::<f64>() / walls.len() as f64);
            case.spreads.push(spread);
            let mean = |of: fn(&Row) -> u64| {
                run.iter().map(|row| of(row) as f64).sum::<f64>() / run.len() as f64
            };
            case.voluntary.push(mean(|row| row.voluntary));
            case.involuntary.push(mean(|row| row.involuntary));
            case.joins.extend(run.iter().filter_map(|row| row.joins));
            case.teams.extend(run.iter().filter_map(|row| row.team));
            case.is_killed |= run.iter().any(|row| row.outcome == KILLED);
        }
        Table { cases }
    }

    pub(super) fn of_key(&self, key: Key) -> Option<f64> {
        self.cases.get(&key).map(|case| median(&case.walls))
    }

    /// Of the paper's cases.
    pub(super) fn wall(&self, grain: Grain, copies: usize, version: Version) -> Option<f64> {
        self.of_key((grain, Beside::Nothing, copies, version))
    }

    pub(super) fn joins(&self, key: Key) -> Option<f64> {
        let joins = &self.cases.get(&key)?.joins;
        (!joins.is_empty()).then(|| median(joins))
    }

    /// What everything is compared with.
    fn better(&self, grain: Grain, beside: Beside, copies: usize) -> Option<f64> {
        let of = |version| self.of_key((grain, beside, copies, version));
        match (of(Version::Single), of(Version::Fts)) {
            (Some(single), Some(fts)) => Some(single.min(fts)),
            (one, other) => one.or(other),
        }
    }

    /// Each grain's wall times, to the better of FTS and SINGLE, and shares at joins.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{:>5} {:<10} {:>6} {:<16} {:>9} {:>9} {:>8} {:>5} {:>8} {:>8} {:>8}\n",
            "grain",
            "beside",
            "copies",
            "version",
            "wall s",
            "to best",
            "joins %",
            "team",
            "spread",
            "sleeps",
            "lost"
        );
        for (&key, case) in &self.cases {
            let (grain, beside, copies, version) = key;
            let wall = median(&case.walls);
            let better = self.better(grain, beside, copies);
            let ratio = better.map_or(f64::NAN, |better| wall / better);
            let joins = self.joins(key).map_or(f64::NAN, |joins| joins * 100.0);
            let mark = match version {
                _ if case.is_killed => " ended at the cap",
                Version::Asat | Version::Paper | Version::Reset if ratio > BAR => " above the bar",
                _ => "",
            };
            let (grain, spread) = (grain.to_string(), median(&case.spreads));
            let _infallible = writeln!(
                text,
                "{grain:>5} {:<10} {copies:>6} {:<16} {wall:>9.2} {ratio:>9.2} {joins:>8.1} \
                 {:>5.2} {spread:>8.2} {:>8.0} {:>8.0}{mark}",
                beside.name(),
                version.name(),
                median(&case.teams),
                median(&case.voluntary),
                median(&case.involuntary)
            );
        }
        text
    }

    /// Of the sleeps of a copy.
    pub(super) fn sleeps(&self, grain: Grain, copies: usize, version: Version) -> Option<f64> {
        let case = self.cases.get(&(grain, Beside::Nothing, copies, version))?;
        Some(median(&case.voluntary))
    }

    /// How far the copies of a run are apart, in per cent of the shortest.
    pub(super) fn spread(&self, grain: Grain, copies: usize, version: Version) -> Option<f64> {
        let case = self.cases.get(&(grain, Beside::Nothing, copies, version))?;
        Some((median(&case.spreads) - 1.0) * 100.0)
    }

    /// The bars that this version misses: [`BAR`] at each number of copies and in each mix,
    /// [`ALONE`] alone.
    fn missed(&self) -> Vec<String> {
        let missed = self.cases.iter().filter_map(|(&key, case)| {
            let (grain, beside, copies, version) = key;
            let ratio = median(&case.walls) / self.better(grain, beside, copies)?;
            let is_alone = beside == Beside::Nothing && copies == 1;
            let bar = if is_alone { ALONE } else { BAR };
            (version == Version::Asat && ratio > bar).then(|| {
                format!("grain {grain}, {copies} copies, beside {beside}: {ratio:.3}, bar {bar}")
            })
        });
        missed.collect()
    }

    /// The figures.
    pub(super) fn section(&self) -> Section {
        let mut grains: Vec<Grain> = self.cases.keys().map(|&(grain, ..)| grain).collect();
        grains.dedup();
        let mut charts = Vec::new();
        for &grain in &grains {
            for (of_mixes, what) in [(false, ""), (true, ", beside others")] {
                let walls = self.chart(grain, of_mixes, |beside, copies, case| {
                    let better = self.better(grain, beside, copies)?;
                    let ratios: Vec<f64> = case.walls.iter().map(|wall| wall / better).collect();
                    Spread::of(&ratios)
                });
                let joins = self.chart(grain, of_mixes, |_, _, case| {
                    let shares: Vec<f64> = case.joins.iter().map(|share| share * 100.0).collect();
                    Spread::of(&shares)
                });
                let titles = ["wall time to the better of FTS and SINGLE", "% of time at joins"];
                for (title, values) in titles.into_iter().zip([walls, joins]) {
                    if !values.is_empty() {
                        let title = format!("grain {grain}{what}: {title}");
                        charts.push(Chart { title, unit: Unit::Ratio, values });
                    }
                }
            }
        }
        let (title, missed) = ("ASAT".to_owned(), self.missed());
        Section { title, charts, missed, ..Section::default() }
    }

    /// One value for each version, of the paper's cases or of mixes.
    fn chart(
        &self,
        grain: Grain,
        of_mixes: bool,
        value: impl Fn(Beside, usize, &Case) -> Option<Spread>,
    ) -> Vec<(Label, Value)> {
        let is_meant =
            |&(of, beside, ..): &Key| of == grain && (beside != Beside::Nothing) == of_mixes;
        let values =
            self.cases.iter().filter(|(key, _)| is_meant(key)).filter_map(|(key, case)| {
                let &(_, beside, copies, version) = key;
                let group = match beside {
                    Beside::Nothing if copies == 1 => "1 copy".to_owned(),
                    Beside::Nothing => format!("{copies} copies"),
                    Beside::Memory => format!("{copies} copies that page"),
                    _ => format!("beside {beside}"),
                };
                let label = Label { group, engine: version.name().to_owned(), distance: None };
                let spread = value(beside, copies, case)?;
                let value = match case.is_killed {
                    true => Value::Above(spread.median),
                    false => Value::Measured(spread),
                };
                Some((label, value))
            });
        values.collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::VERIFIED;
    use super::*;

    pub(in super::super) fn row(
        version: Version,
        repetition: u32,
        copy: usize,
        wall: f64,
        joins: f64,
    ) -> Row {
        Row {
            grain: Grain::S,
            beside: Beside::Nothing,
            copies: 2,
            version,
            repetition,
            copy,
            elements: 10_000,
            wanted: 10_000,
            work: 120,
            repeat: 1,
            outcome: VERIFIED.to_owned(),
            wall,
            joins: Some(joins),
            team: Some(1.5),
            processor_time: wall,
            voluntary: 100 * (copy as u64 + 1),
            involuntary: 7,
            others: 0.0,
            round_trip_before: None,
            round_trip_after: None,
            processors: 2,
            interval: 0.1,
            machine: "one".to_owned(),
            kernel: "6.1".to_owned(),
            commit: "abc".to_owned(),
            compiler: "13".to_owned(),
            flags: "-O2".to_owned(),
        }
    }

    #[test]
    fn a_version_is_compared_with_the_better_of_one_thread_and_all() {
        let rows = [
            row(Version::Single, 0, 0, 2.0, 0.0),
            row(Version::Single, 0, 1, 2.0, 0.0),
            row(Version::Fts, 0, 0, 8.0, 0.5),
            row(Version::Fts, 0, 1, 8.0, 0.5),
            row(Version::Asat, 0, 0, 2.0, 0.1),
            row(Version::Asat, 0, 1, 3.0, 0.1),
        ];
        let table = Table::of(&rows);
        assert_eq!(table.better(Grain::S, Beside::Nothing, 2), Some(2.0));
        assert_eq!(table.wall(Grain::S, 2, Version::Asat), Some(2.5));
        let text = table.text();
        let asat = text.lines().find(|line| line.contains(" ASAT ")).expect("a line");
        assert!(asat.contains("1.25") && asat.ends_with("above the bar"), "{asat}");
        assert!(!text.contains("SINGLE               2.00      1.00      0.0     1.00 above"));
        assert!(asat.contains(" 150 "), "the mean of both copies' sleeps: {asat}");
        assert_eq!(table.section().charts.len(), 2);
        assert_eq!(table.section().missed, ["grain 10K, 2 copies, beside none: 1.250, bar 1.05"]);
        assert_eq!(table.sleeps(Grain::S, 2, Version::Fts), Some(150.0));
        assert_eq!(table.spread(Grain::S, 2, Version::Asat), Some(50.0));
    }

    #[test]
    fn a_copy_alone_has_a_bar_of_its_own() {
        let alone = |version, wall| Row { copies: 1, ..row(version, 0, 0, wall, 0.1) };
        let missed = |wall| {
            let rows = [alone(Version::Fts, 1.0), alone(Version::Asat, wall)];
            Table::of(&rows).section().missed
        };
        assert_eq!(missed(1.009), Vec::<String>::new());
        assert_eq!(missed(1.02), ["grain 10K, 1 copies, beside none: 1.020, bar 1.01"]);
    }

    #[test]
    fn a_run_that_was_ended_is_no_measured_value() {
        let mut killed = row(Version::Libgomp, 0, 0, 50.0, 0.0);
        (killed.outcome, killed.joins) = (KILLED.to_owned(), None);
        let table = Table::of(&[row(Version::Single, 0, 0, 2.0, 0.0), killed]);
        assert!(table.text().contains("ended at the cap"));
        let charts = table.section().charts;
        assert_eq!(charts[0].values[1].1, Value::Above(25.0));
        assert_eq!(charts[1].values.len(), 1, "it has no share at joins");
    }

    #[test]
    fn a_mix_is_compared_with_plain_versions_of_the_same_mix() {
        let beside = |version, wall| Row {
            beside: Beside::Bound,
            copies: 1,
            ..row(version, 0, 0, wall, 0.2)
        };
        let rows = [
            row(Version::Single, 0, 0, 2.0, 0.0),
            row(Version::Asat, 0, 0, 2.0, 0.0),
            beside(Version::Single, 4.0),
            beside(Version::Asat, 4.4),
        ];
        let table = Table::of(&rows);
        assert_eq!(table.wall(Grain::S, 2, Version::Single), Some(2.0));
        let text = table.text();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" ASAT ")).collect();
        assert!(lines[0].contains(" none ") && lines[0].contains("1.00"), "{text}");
        assert!(lines[1].contains(" bound ") && lines[1].contains("1.10"), "{text}");
        assert!(lines[1].ends_with("above the bar") && !lines[0].ends_with("bar"), "{text}");
        let charts = table.section().charts;
        assert_eq!(charts.len(), 4);
        assert_eq!(charts[2].values[0].0.group, "beside bound");
    }
}
