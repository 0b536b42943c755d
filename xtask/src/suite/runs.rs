//! The runs of a record, near and far apart, and which of them say nothing.
//!
//! # What is left out
//! - A run beside which others used more than a twentieth of the processors: that alone can make it
//!   longer by all that the bar leaves. One-thread copies are no exception where they leave
//!   processors idle: others share caches and memory with them, and a slow yardstick flatters.
//! - A run whose processors were near to each other before it and far apart after it, or the
//!   reverse.
//!
//! Wrong results are never left out.

use std::collections::BTreeMap;
use std::fmt;

use super::plan::{Cell, Scenario};
use super::row::{KILLED, Row, cell_of};
use super::runtime::Runtime;
use crate::measure::{AGREE, Distance};

/// What others may use beside a run, as a part of the processors.
const LARGEST_OTHERS: f64 = 0.05;

/// The copies of one run.
#[derive(Clone, Debug)]
pub(super) struct Run<'a> {
    rows: Vec<&'a Row>,
}

/// Runs of one kind by their repetition, by scenario and runtime.
pub(super) type Kinds<'a> = BTreeMap<(Scenario, Runtime), BTreeMap<u32, Run<'a>>>;

/// The runs of a record that count.
pub(super) struct Sorted<'a> {
    /// `None`: there is one processor.
    pub(super) apart: BTreeMap<Option<Distance>, Kinds<'a>>,
    /// The others.
    pub(super) left_out: Vec<LeftOut>,
}

/// A run that says nothing.
pub(super) struct LeftOut {
    pub(super) cell: Cell,
    /// Why.
    fault: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { repetition, scenario, runtime } = &self.cell;
        let (scenario, runtime) = (scenario.name(), runtime.name());
        write!(f, "{scenario}, {runtime}, repetition {repetition}: {}", self.fault)
    }
}

/// Why a run says nothing, by what each of its rows says.
pub(super) fn fault(row: &Row) -> Option<String> {
    let limit = LARGEST_OTHERS * row.processors as f64;
    if row.others > limit {
        return Some(format!("others used {:.2} processors, and may use {limit:.2}", row.others));
    }
    let (before, after) = (row.round_trip_before?, row.round_trip_after?);
    (Distance::of(before) != Distance::of(after))
        .then(|| format!("the round trip was {before:.0} ns before it and {after:.0} after it"))
}

impl<'a> Run<'a> {
    pub(super) fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().copied()
    }

    /// Of the copies of one program.
    pub(super) fn of(&self, program: &str) -> Run<'a> {
        Run { rows: self.rows().filter(|row| row.program == program).collect() }
    }

    pub(super) fn mean(&self, of: impl Fn(&Row) -> f64) -> f64 {
        self.rows().map(of).sum::<f64>() / self.rows.len() as f64
    }

    pub(super) fn turnaround(&self) -> f64 {
        self.mean(|row| row.turnaround)
    }

    /// The mean of the copies' processor times.
    pub(super) fn processor_time(&self) -> f64 {
        self.mean(|row| row.processor_time)
    }

    /// The mean of the copies' timed sections; `None` unless all are verified.
    pub(super) fn timed(&self) -> Option<f64> {
        let all: Option<Vec<f64>> = self.rows().map(|row| row.timed).collect();
        let all = all.filter(|_| self.is_verified())?;
        Some(all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The longest turnaround by the mean one: of copies of one program.
    pub(super) fn inequality(&self) -> f64 {
        let longest = self.rows().map(|row| row.turnaround).fold(0.0, f64::max);
        longest / self.turnaround()
    }

    pub(super) fn is_verified(&self) -> bool {
        self.rows().all(Row::is_verified)
    }

    /// What a copy did wrong.
    pub(super) fn wrong(&self) -> Option<&'a str> {
        let wrong = self.rows().find(|row| !row.is_verified() && row.outcome != KILLED);
        wrong.map(|row| row.outcome.as_str())
    }

    /// Round trips before and after, as far as there are any.
    fn trips(&self) -> Vec<f64> {
        let first = self.rows.first();
        first
            .into_iter()
            .flat_map(|row| [row.round_trip_before, row.round_trip_after])
            .flatten()
            .collect()
    }

    pub(super) fn agrees_with(&self, other: &Run<'_>) -> bool {
        let all = [self.trips(), other.trips()].concat();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        all.iter().all(|trip| *trip <= least * AGREE)
    }

    fn distance(&self) -> Option<Distance> {
        self.trips().first().map(|trip| Distance::of(*trip))
    }
}

/// Sorts the runs of a record.
pub(super) fn sort(rows: &[Row]) -> anyhow::Result<Sorted<'_>> {
    let mut runs: BTreeMap<Cell, Run<'_>> = BTreeMap::new();
    for row in rows {
        runs.entry(cell_of(row)?).or_insert(Run { rows: Vec::new() }).rows.push(row);
    }
    let mut sorted = Sorted { apart: BTreeMap::new(), left_out: Vec::new() };
    for (cell, run) in runs {
        match run.rows.first().and_then(|row| fault(row)) {
            Some(fault) if run.wrong().is_none() => sorted.left_out.push(LeftOut { cell, fault }),
            _ => {
                let Cell { repetition, scenario, runtime } = cell;
                let kinds = sorted.apart.entry(run.distance()).or_default();
                kinds.entry((scenario, runtime)).or_default().insert(repetition, run);
            }
        }
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    fn of(others: f64, trips: [f64; 2]) -> Row {
        let [before, after] = trips.map(Some);
        let row = row("a", Runtime::Managed, 0, 3.0);
        Row { others, round_trip_before: before, round_trip_after: after, ..row }
    }

    #[test]
    fn what_others_disturbed_is_left_out_and_named() {
        let rows = [
            of(0.09, [50.0, 60.0]),
            Row { repetition: 1, ..of(0.11, [50.0, 60.0]) },
            Row { repetition: 2, processors: 8, ..of(0.11, [50.0, 60.0]) },
            Row { runtime: Runtime::One, ..of(0.11, [50.0, 60.0]) },
        ];
        let sorted = sort(&rows).unwrap();
        let kinds = &sorted.apart[&Some(Distance::Near)];
        let repetitions: Vec<u32> = kinds.values().flat_map(|kind| kind.keys().copied()).collect();
        assert_eq!(repetitions, [0, 2]);
        let said = &sorted.left_out;
        assert_eq!(said.len(), 2);
        assert_eq!(
            said[1].to_string(),
            "a*1, managed, repetition 1: others used 0.11 processors, and may use 0.10"
        );
    }

    #[test]
    fn near_and_far_runs_are_apart_and_what_was_both_is_left_out() {
        let rows = [
            of(0.0, [50.0, 90.0]),
            Row { repetition: 1, ..of(0.0, [340.0, 200.0]) },
            Row { repetition: 2, ..of(0.0, [50.0, 345.0]) },
        ];
        let sorted = sort(&rows).unwrap();
        assert_eq!(
            sorted.apart.keys().copied().collect::<Vec<_>>(),
            [Some(Distance::Near), Some(Distance::Far)]
        );
        let said = &sorted.left_out;
        assert_eq!(said.len(), 1);
        let said = said[0].to_string();
        assert!(said.contains("repetition 2: the round trip was 50 ns before"), "{said}");
    }

    #[test]
    fn a_wrong_result_counts_however_disturbed_it_was() {
        let wrong = Row { outcome: "exit status: 1".into(), ..of(1.5, [50.0, 345.0]) };
        let killed = Row { repetition: 1, outcome: KILLED.into(), ..of(1.5, [50.0, 50.0]) };
        let rows = [wrong, killed];
        let sorted = sort(&rows).unwrap();
        assert_eq!(sorted.apart.len(), 1);
        assert_eq!(sorted.left_out.len(), 1, "others may have been the reason for the cap");
    }

    #[test]
    fn one_processor_has_no_distance() {
        let row = Row { round_trip_before: None, round_trip_after: None, ..of(0.0, [1.0, 1.0]) };
        let rows = [Row { processors: 1, ..row }];
        assert_eq!(sort(&rows).unwrap().apart.keys().collect::<Vec<_>>(), [&None]);
    }
}
