//! What the rows come to: the table, the figures, and the paper's sentences beside what was
//! measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::version::{Grain, Version};
use super::{KILLED, Row};
use crate::measure::{Spread, median};
use crate::report::{Chart, Label, Section, Unit, Value};

/// What ASAT may take of the better of FTS and SINGLE.
const BAR: f64 = 1.05;

/// What the rows come to.
pub(super) struct Table {
    /// Mean wall time of a run's copies, over the repetitions, and their share at joins.
    cases: BTreeMap<(Grain, usize, Version), Case>,
}

#[derive(Default)]
struct Case {
    /// Of each run: the mean over its copies.
    walls: Vec<f64>,
    /// Of each run: the longest copy over the shortest.
    spreads: Vec<f64>,
    joins: Vec<f64>,
    is_killed: bool,
}

impl Table {
    pub(super) fn of(rows: &[Row]) -> Table {
        let mut runs: BTreeMap<(Grain, usize, Version, u32), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            let key = (row.grain, row.copies, row.version, row.repetition);
            runs.entry(key).or_default().push(row);
        }
        let mut cases: BTreeMap<_, Case> = BTreeMap::new();
        for ((grain, copies, version, _), run) in runs {
            let case = cases.entry((grain, copies, version)).or_default();
            let walls: Vec<f64> = run.iter().map(|row| row.wall).collect();
            let spread = Spread::of(&walls).map_or(1.0, |spread| spread.most / spread.least);
            case.walls.push(walls.iter().sum::<f64>() / walls.len() as f64);
            case.spreads.push(spread);
            case.joins.extend(run.iter().filter_map(|row| row.joins));
            case.is_killed |= run.iter().any(|row| row.outcome == KILLED);
        }
        Table { cases }
    }

    fn wall(&self, grain: Grain, copies: usize, version: Version) -> Option<f64> {
        self.cases.get(&(grain, copies, version)).map(|case| median(&case.walls))
    }

    fn joins(&self, grain: Grain, copies: usize, version: Version) -> Option<f64> {
        let joins = &self.cases.get(&(grain, copies, version))?.joins;
        (!joins.is_empty()).then(|| median(joins))
    }

    /// What everything is compared with.
    fn better(&self, grain: Grain, copies: usize) -> Option<f64> {
        let of = |version| self.wall(grain, copies, version);
        match (of(Version::Single), of(Version::Fts)) {
            (Some(single), Some(fts)) => Some(single.min(fts)),
            (one, other) => one.or(other),
        }
    }

    /// Each grain's wall times, to the better of FTS and SINGLE, and shares at joins.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{:>5} {:>6} {:<16} {:>9} {:>9} {:>8} {:>8}\n",
            "grain", "copies", "version", "wall s", "to best", "joins %", "spread"
        );
        for (&(grain, copies, version), case) in &self.cases {
            let wall = median(&case.walls);
            let ratio = self.better(grain, copies).map_or(f64::NAN, |better| wall / better);
            let joins = self.joins(grain, copies, version).map_or(f64::NAN, |joins| joins * 100.0);
            let mark = match version {
                _ if case.is_killed => " ended at the cap",
                Version::Asat | Version::Paper | Version::Reset if ratio > BAR => " above the bar",
                _ => "",
            };
            let (grain, spread) = (grain.to_string(), median(&case.spreads));
            let _infallible = writeln!(
                text,
                "{grain:>5} {copies:>6} {:<16} {wall:>9.2} {ratio:>9.2} {joins:>8.1} {spread:>8.2}{mark}",
                version.name()
            );
        }
        text
    }

    /// The paper's sentences, each with the figure here. The paper had four processors and four
    /// copies at most: its "four copies" are as many here as there are processors times one.
    pub(super) fn beside_the_paper(&self) -> String {
        let mut text = String::from("published (4 processors) beside measured here\n");
        let ratio = |over: Option<f64>, under: Option<f64>| Some(over? / under?);
        let s = Grain::S;
        let per_cent = |share: Option<f64>| share.map(|share| share * 100.0);
        let lines = [
            (
                "10K: FTS in 4 copies to FTS alone",
                "21",
                ratio(self.wall(s, 4, Version::Fts), self.wall(s, 1, Version::Fts)),
            ),
            (
                "10K: libgomp (FTS that spins) in 4 copies to alone",
                "21",
                ratio(self.wall(s, 4, Version::Libgomp), self.wall(s, 1, Version::Libgomp)),
            ),
            (
                "10K: FTS to ASAT in 4 copies",
                "3.5",
                ratio(self.wall(s, 4, Version::Fts), self.wall(s, 4, Version::Asat)),
            ),
            (
                "10K: libgomp to ASAT in 4 copies",
                "3.5",
                ratio(self.wall(s, 4, Version::Libgomp), self.wall(s, 4, Version::Asat)),
            ),
            ("10K: joins, ASAT alone, %", "10", per_cent(self.joins(s, 1, Version::Asat))),
            ("10K: joins, FTS in 4 copies, %", "50", per_cent(self.joins(s, 4, Version::Fts))),
            ("10K: joins, ASAT in 4 copies, %", "6", per_cent(self.joins(s, 4, Version::Asat))),
            (
                "1M: FTS to ASAT in 4 copies",
                "1",
                ratio(self.wall(Grain::A, 4, Version::Fts), self.wall(Grain::A, 4, Version::Asat)),
            ),
        ];
        for (what, published, measured) in lines {
            if let Some(measured) = measured {
                let _infallible = writeln!(text, "  {what:<52} {published:>5}  {measured:>7.2}");
            }
        }
        text
    }

    /// The figures.
    pub(super) fn section(&self) -> Section {
        let mut grains: Vec<Grain> = self.cases.keys().map(|&(grain, ..)| grain).collect();
        grains.dedup();
        let mut charts = Vec::new();
        for &grain in &grains {
            let walls = self.chart(grain, |copies, case| {
                let better = self.better(grain, copies)?;
                let ratios: Vec<f64> = case.walls.iter().map(|wall| wall / better).collect();
                Spread::of(&ratios)
            });
            charts.push(Chart {
                title: format!("grain {grain}: wall time to the better of FTS and SINGLE"),
                unit: Unit::Ratio,
                values: walls,
            });
            let joins = self.chart(grain, |_, case| {
                let shares: Vec<f64> = case.joins.iter().map(|share| share * 100.0).collect();
                Spread::of(&shares)
            });
            charts.push(Chart {
                title: format!("grain {grain}: per cent of the threads' time at joins"),
                unit: Unit::Ratio,
                values: joins,
            });
        }
        Section {
            title: "ASAT".to_owned(),
            about: vec![
                "Copies of a loop with a serial and a parallel part, started together.".to_owned(),
                "Reproduces the figures of the ASAT paper; `asat.txt` compares.".to_owned(),
            ],
            charts,
            missed: Vec::new(),
        }
    }

    fn chart(
        &self,
        grain: Grain,
        value: impl Fn(usize, &Case) -> Option<Spread>,
    ) -> Vec<(Label, Value)> {
        let of_grain = self.cases.iter().filter(|((of, ..), _)| *of == grain);
        let values = of_grain.filter_map(|(&(_, copies, version), case)| {
            let label = Label {
                group: format!("{copies} {}", if copies == 1 { "copy" } else { "copies" }),
                engine: version.name().to_owned(),
                distance: None,
            };
            let spread = value(copies, case)?;
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
mod tests {
    use super::super::VERIFIED;
    use super::*;

    fn row(version: Version, repetition: u32, copy: usize, wall: f64, joins: f64) -> Row {
        Row {
            grain: Grain::S,
            copies: 2,
            version,
            repetition,
            copy,
            repeat: 1,
            outcome: VERIFIED.to_owned(),
            wall,
            joins: Some(joins),
            processor_time: wall,
            others: 0.0,
            round_trip_before: None,
            round_trip_after: None,
            processors: 2,
            interval: 0.1,
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
        assert_eq!(table.better(Grain::S, 2), Some(2.0));
        assert_eq!(table.wall(Grain::S, 2, Version::Asat), Some(2.5));
        let text = table.text();
        let asat = text.lines().find(|line| line.contains(" ASAT ")).expect("a line");
        assert!(asat.contains("1.25") && asat.ends_with("above the bar"), "{asat}");
        assert!(!text.contains("SINGLE               2.00      1.00      0.0     1.00 above"));
        assert_eq!(table.section().charts.len(), 2);
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
}
