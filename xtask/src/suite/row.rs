//! A row of the suite's record, and rows as the text of a CSV file.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow, ensure};
use serde::{Deserialize, Serialize};

use super::plan::{Cell, Scenario};
use super::runtime::Runtime;

/// One copy of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Programs that ran at the same time.
    pub(crate) scenario: String,
    pub(crate) runtime: Runtime,
    /// From 0.
    pub(crate) repetition: u32,
    /// Which of the scenario's programs, from 0.
    pub(crate) copy: usize,
    pub(crate) program: String,
    pub(crate) class: String,
    /// Repetitions of the timed section in this copy.
    pub(crate) repeat: u32,
    /// `verified`, `killed` at the cap, or what was wrong.
    pub(crate) outcome: String,
    /// From the copy's start to its end, in seconds, its set-up included.
    pub(crate) turnaround: f64,
    /// The sum of the timed sections, in seconds; empty without a result.
    pub(crate) timed: Option<f64>,
    /// Millions of operations a second, as the benchmarks count them; empty without a result.
    pub(crate) mops: Option<f64>,
    /// Processor time of the copy, user and system, in seconds.
    pub(crate) processor_time: f64,
    /// Threads of its regions, as it says; empty without a result.
    pub(crate) threads: Option<u32>,
    /// From the first copy's start to the last one's end, in seconds.
    pub(crate) makespan: f64,
    /// Seconds after which copies are killed.
    pub(crate) cap: f64,
    /// Processors that others used meanwhile, on average.
    pub(crate) others: f64,
    /// Nanoseconds of a cache line's round trip before and after the run; empty with one processor.
    pub(crate) round_trip_before: Option<f64>,
    pub(crate) round_trip_after: Option<f64>,
    /// The load average of one minute before the run.
    pub(crate) load: f64,
    /// Seconds since 1970 at the end of the run.
    pub(crate) time: u64,
    pub(crate) processors: usize,
    pub(crate) machine: String,
    pub(crate) kernel: String,
    /// The commit, with `+` and a hash of what differs when the tree differs from it.
    pub(crate) commit: String,
    pub(crate) compiler: String,
    pub(crate) flags: String,
}

/// The columns, in their order.
const FIELDS: [&str; 26] = [
    "scenario",
    "runtime",
    "repetition",
    "copy",
    "program",
    "class",
    "repeat",
    "outcome",
    "turnaround",
    "timed",
    "mops",
    "processor_time",
    "threads",
    "makespan",
    "cap",
    "others",
    "round_trip_before",
    "round_trip_after",
    "load",
    "time",
    "processors",
    "machine",
    "kernel",
    "commit",
    "compiler",
    "flags",
];

/// The outcome of a copy that ended with a verified result.
pub(crate) const VERIFIED: &str = "verified";
/// The outcome of a copy that was ended at the cap.
pub(crate) const KILLED: &str = "killed";

impl Row {
    pub(crate) fn is_verified(&self) -> bool {
        self.outcome == VERIFIED
    }
}

/// Whether copies of a run were ended at the cap, and none gave a wrong result, which counts
/// whatever the others did.
pub(super) fn is_only_killed(rows: &[Row]) -> bool {
    let is_wrong = |row: &Row| !row.is_verified() && row.outcome != KILLED;
    rows.iter().any(|row| row.outcome == KILLED) && !rows.iter().any(is_wrong)
}

/// Fails where the record has a wrong result, of this suite or of an earlier one that it goes on
/// with.
pub(super) fn must_be_right(rows: &[Row]) -> anyhow::Result<()> {
    let is_wrong = |row: &&Row| !row.is_verified() && row.outcome != KILLED;
    let wrong: Vec<String> = rows
        .iter()
        .filter(is_wrong)
        .map(|row| {
            format!("{}, {}, repetition {}", row.scenario, row.runtime.name(), row.repetition)
        })
        .collect();
    ensure!(
        wrong.is_empty(),
        "{} copies of the record gave no verified result; the first: {}",
        wrong.len(),
        wrong[0]
    );
    Ok(())
}

/// Rows as they stand in the file.
pub(super) fn text_of(rows: &[Row], has_header: bool) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(has_header).from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).context("a row that cannot be written")?;
    }
    writer.into_inner().map_err(|fault| anyhow!("a row that cannot be written: {fault}"))
}

/// A record that is gone on with has exactly our columns; its first line may be torn.
pub(super) fn must_be_ours(bytes: &[u8]) -> anyhow::Result<()> {
    let ours = FIELDS.join(",") + "\n";
    let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    ensure!(
        ours.as_bytes().starts_with(first),
        "no record that this suite could go on with: its first line is `{}`, and not `{}`",
        String::from_utf8_lossy(&first[..first.len().min(200)]).trim().escape_debug(),
        ours.trim()
    );
    Ok(())
}

/// Every row that ends with its line is whole.
pub(super) fn rows_of(bytes: &[u8]) -> anyhow::Result<Vec<Row>> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(&bytes[..end]);
    let header = reader.headers().context("its header")?.clone();
    let mut rows: Vec<Row> = Vec::new();
    let mut known = BTreeSet::new();
    let mut torn: Option<anyhow::Error> = None;
    for found in reader.records() {
        if let Some(fault) = torn.take() {
            return Err(fault);
        }
        let line = match &found {
            Ok(record) => record.position().map(csv::Position::line),
            Err(fault) => fault.position().map(csv::Position::line),
        };
        let line = line.map_or("a line".to_owned(), |line| format!("line {line}"));
        let row = found.map_err(anyhow::Error::new).and_then(|record| {
            ensure!(record.len() == header.len(), "{} fields of {}", record.len(), header.len());
            Ok(record.deserialize::<Row>(Some(&header))?)
        });
        match row {
            Ok(row) => {
                let cell = sound(&row).with_context(|| line.clone())?;
                ensure!(known.insert((cell, row.copy)), "{line}: this copy has a row already");
                rows.push(row);
            }
            Err(fault) => torn = Some(fault.context(line)),
        }
    }
    match torn {
        Some(fault) if rows.is_empty() => Err(fault),
        _ => Ok(rows),
    }
}

/// Whether a row agrees with itself.
fn sound(row: &Row) -> anyhow::Result<Cell> {
    let cell = cell_of(row)?;
    ensure!(
        cell.scenario.0.get(row.copy) == Some(&row.program),
        "copy {} of {} is not {}",
        row.copy,
        row.scenario,
        row.program
    );
    ensure!(row.processors > 0, "no processors");
    for time in [row.turnaround, row.processor_time, row.makespan, row.cap] {
        ensure!(time.is_finite() && time >= 0.0, "a time of {time} s");
    }
    Ok(cell)
}

/// The run that a row belongs to.
pub(crate) fn cell_of(row: &Row) -> anyhow::Result<Cell> {
    Ok(Cell {
        repetition: row.repetition,
        scenario: Scenario::parse(&row.scenario)?,
        runtime: row.runtime,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A verified row; what a test does not say is plain.
    pub(crate) fn row(scenario: &str, runtime: Runtime, copy: usize, turnaround: f64) -> Row {
        Row {
            scenario: scenario.into(),
            runtime,
            repetition: 0,
            copy,
            program: Scenario::parse(scenario).unwrap().0[copy].clone(),
            class: "W".into(),
            repeat: 3,
            outcome: VERIFIED.into(),
            turnaround,
            timed: Some(turnaround),
            mops: Some(10.0),
            processor_time: turnaround,
            threads: Some(2),
            makespan: turnaround,
            cap: 60.0,
            others: 0.0,
            round_trip_before: Some(50.0),
            round_trip_after: None,
            load: 0.5,
            time: 7,
            processors: 2,
            machine: "a, \"b\"".into(),
            kernel: "6.1".into(),
            commit: "abc+".into(),
            compiler: "gcc 12".into(),
            flags: "-O3".into(),
        }
    }

    #[test]
    fn a_wrong_result_is_more_than_a_killed_copy() {
        let of = |outcome: &str| Row { outcome: outcome.into(), ..row("a", Runtime::One, 0, 1.0) };
        let [good, killed, wrong] = [VERIFIED, KILLED, "exit status: 1"].map(of);
        assert!(!is_only_killed(std::slice::from_ref(&good)));
        assert!(is_only_killed(&[good, killed.clone()]));
        assert!(!is_only_killed(&[killed.clone(), wrong.clone()]));
        assert!(must_be_right(std::slice::from_ref(&killed)).is_ok());
        let fault = must_be_right(&[killed, wrong]).unwrap_err().to_string();
        let said =
            "1 copies of the record gave no verified result; the first: a, one, repetition 0";
        assert_eq!(fault, said);
    }

    #[test]
    fn the_columns_are_those_of_a_row() {
        let text = String::from_utf8(text_of(&[row("a", Runtime::One, 0, 1.0)], true).unwrap());
        assert_eq!(text.unwrap().lines().next().unwrap(), FIELDS.join(","));
    }
}
