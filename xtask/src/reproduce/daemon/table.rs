//! Cells: copies of a program on one side, as measured and as simulated. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, anyhow};
use serde::Serialize;

use super::model::Side;
use crate::measure::{Spread, median};
use crate::suite::{Row, cell_of};

/// Program, side, copies.
type Key = (String, Side, usize);

/// Mean turnarounds of the copies, in seconds.
#[derive(Clone, Copy, Debug)]
struct Cell {
    measured: Spread,
    predicted: f64,
}

impl Cell {
    /// How far the prediction is off, by what was measured.
    fn error(&self) -> f64 {
        self.predicted / self.measured.median - 1.0
    }
}

/// All cells of a record.
pub(super) struct Cells {
    cells: BTreeMap<Key, Cell>,
    /// Those that are none, in words: a copy was ended at the cap, or its result was wrong.
    failed: Vec<String>,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    program: &'a str,
    class: &'a str,
    repeat: u32,
    side: &'a str,
    copies: usize,
    /// A copy alone is what the model is made of.
    is_input: bool,
    measured: f64,
    least: f64,
    most: f64,
    repetitions: usize,
    predicted: f64,
    error: f64,
    /// Processors that others used meanwhile.
    others: f64,
    processors: usize,
    machine: &'a str,
    kernel: &'a str,
    commit: &'a str,
    compiler: &'a str,
    flags: &'a str,
}

fn side_of(row: &Row) -> Option<Side> {
    Side::ALL.into_iter().find(|side| side.runtime() == row.runtime)
}

impl Cells {
    /// Those of which every copy of every repetition has a verified result, and what is wrong with
    /// the others.
    pub(super) fn of(rows: &[Row]) -> anyhow::Result<Cells> {
        let mut runs: BTreeMap<Key, BTreeMap<u32, Vec<&Row>>> = BTreeMap::new();
        for row in rows {
            let scenario = cell_of(row)?.scenario;
            if let (Some(side), Some(program)) = (side_of(row), scenario.program()) {
                let key = (program.to_owned(), side, scenario.0.len());
                runs.entry(key).or_default().entry(row.repetition).or_default().push(row);
            }
        }
        let (mut cells, mut failed) = (BTreeMap::new(), Vec::new());
        for (key, runs) in runs {
            if let Some(row) = runs.values().flatten().find(|row| !row.is_verified()) {
                let (program, side, copies) = (&key.0, key.1.runtime().name(), key.2);
                failed.push(format!("{copies} copies of {program}, {side}: {}", row.outcome));
                continue;
            }
            let mean = |rows: &Vec<&Row>| {
                rows.iter().map(|row| row.turnaround).sum::<f64>() / rows.len() as f64
            };
            let times: Vec<f64> = runs.values().map(mean).collect();
            let measured = Spread::of(&times).context("a cell without a run")?;
            cells.insert(key, Cell { measured, predicted: f64::NAN });
        }
        Ok(Cells { cells, failed })
    }

    pub(super) fn programs(&self) -> Vec<String> {
        let mut programs: Vec<String> =
            self.cells.keys().map(|(program, ..)| program.clone()).collect();
        programs.dedup();
        programs
    }

    /// The sides and numbers of copies that there are of a program.
    pub(super) fn of_program(&self, program: &str) -> Vec<(Side, usize)> {
        let of = self.cells.keys().filter(|(name, ..)| name == program);
        of.map(|(_, side, copies)| (*side, *copies)).collect()
    }

    pub(super) fn predict(&mut self, program: &str, side: Side, copies: usize, seconds: f64) {
        if let Some(cell) = self.cells.get_mut(&(program.to_owned(), side, copies)) {
            cell.predicted = seconds;
        }
    }

    /// Errors of the cells that are no input, without their signs.
    fn errors(&self) -> Vec<f64> {
        let predicted = self.cells.iter().filter(|((.., copies), _)| *copies > 1);
        predicted.map(|(_, cell)| cell.error().abs()).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "{:<16} {:<8} {:>6} {:>11} {:>17} {:>12} {:>8}\n",
            "program", "side", "copies", "measured s", "least, most", "simulated s", "error"
        );
        for ((program, side, copies), cell) in &self.cells {
            let Spread { median, least, most, .. } = cell.measured;
            let note = if *copies == 1 { "  (input)" } else { "" };
            // Writing to a string cannot fail.
            let _written = writeln!(
                text,
                "{program:<16} {:<8} {copies:>6} {median:>11.3} {:>17} {:>12.3} {:>+7.1}%{note}",
                side.runtime().name(),
                format!("{least:.3}, {most:.3}"),
                cell.predicted,
                100.0 * cell.error(),
            );
        }
        let errors = self.errors();
        let worst = errors.iter().copied().fold(f64::NAN, f64::max);
        let _written = writeln!(
            text,
            "{} cells without those of one copy: errors of {:.1} % in the middle, {:.1} % at worst",
            errors.len(),
            100.0 * median(&errors),
            100.0 * worst,
        );
        text
    }

    /// Which bars are missed.
    pub(super) fn missed(&self, middle: f64, worst: f64) -> Vec<String> {
        let mut missed: Vec<String> =
            self.failed.iter().map(|what| format!("missed: {what}")).collect();
        // Errors that are no numbers are missed, too.
        let found = median(&self.errors());
        if found.is_nan() || found > middle {
            missed.push(format!(
                "missed: the middle error is {:.1} %, at most {:.0} % are allowed",
                100.0 * found,
                100.0 * middle
            ));
        }
        for ((program, side, copies), cell) in
            self.cells.iter().filter(|((.., copies), _)| *copies > 1)
        {
            let error = cell.error().abs();
            if error.is_nan() || error > worst {
                missed.push(format!(
                    "missed: {copies} copies of {program}, {}: {:+.1} %, at most {:.0} % are allowed",
                    side.runtime().name(),
                    100.0 * cell.error(),
                    100.0 * worst
                ));
            }
        }
        missed
    }

    /// The cells with what they were measured on.
    pub(super) fn csv(&self, rows: &[Row]) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for ((program, side, copies), cell) in &self.cells {
            let of_cell = |row: &&Row| {
                row.program == *program
                    && side_of(row) == Some(*side)
                    && cell_of(row).is_ok_and(|it| it.scenario.0.len() == *copies)
            };
            let rows: Vec<&Row> = rows.iter().filter(of_cell).collect();
            let row = rows.first().context("a cell without a row")?;
            let others: Vec<f64> = rows.iter().map(|row| row.others).collect();
            writer.serialize(Line {
                program,
                class: &row.class,
                repeat: row.repeat,
                side: side.runtime().name(),
                copies: *copies,
                is_input: *copies == 1,
                measured: cell.measured.median,
                least: cell.measured.least,
                most: cell.measured.most,
                repetitions: cell.measured.runs,
                predicted: cell.predicted,
                error: cell.error(),
                others: median(&others),
                processors: row.processors,
                machine: &row.machine,
                kernel: &row.kernel,
                commit: &row.commit,
                compiler: &row.compiler,
                flags: &row.flags,
            })?;
        }
        let bytes = writer.into_inner().map_err(|fault| anyhow!("cannot write cells: {fault}"))?;
        String::from_utf8(bytes).context("a cell that is no text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Runtime, row_of_test as row};

    fn cells() -> (Vec<Row>, Cells) {
        let mut rows = vec![row("a*1", Runtime::Managed, 0, 1.0)];
        for copy in 0..2 {
            rows.push(row("a*2", Runtime::Managed, copy, 2.0 + copy as f64));
            rows.push(row("a*2", Runtime::Passive, copy, 4.0));
            rows.push(row("a*2", Runtime::One, copy, 9.0));
        }
        let cells = Cells::of(&rows).unwrap();
        (rows, cells)
    }

    #[test]
    fn a_cell_is_the_mean_of_its_copies_and_one_copy_does_not_count() {
        let (rows, mut cells) = cells();
        let of = cells.of_program("a");
        assert_eq!(of, [(Side::Managed, 1), (Side::Managed, 2), (Side::Native, 2)]);
        cells.predict("a", Side::Managed, 1, 7.0);
        cells.predict("a", Side::Managed, 2, 2.25);
        cells.predict("a", Side::Native, 2, 4.2);
        let table = cells.table();
        assert!(table.contains("-10.0%") && table.contains("+5.0%"), "{table}");
        assert!(table.contains("2 cells") && table.contains("7.5 % in the middle"), "{table}");
        assert!(table.contains("10.0 % at worst"), "{table}");
        let text = cells.csv(&rows).unwrap();
        assert!(text.contains("a,W,3,managed,1,true,1.0,1.0,1.0,1,7.0,6.0,0.0,2,"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn bars_are_missed_by_the_middle_and_by_each_cell() {
        let (_, mut cells) = cells();
        cells.predict("a", Side::Managed, 2, 2.5);
        cells.predict("a", Side::Native, 2, 4.6);
        assert!(cells.missed(0.1, 0.2).is_empty(), "{:?}", cells.missed(0.1, 0.2));
        let missed = cells.missed(0.05, 0.14);
        assert!(missed.len() == 2 && missed[1].contains("2 copies of a, passive: +15.0 %"));
        cells.predict("a", Side::Native, 2, f64::NAN);
        assert_eq!(cells.missed(0.5, 0.5).len(), 2);
    }

    #[test]
    fn where_a_copy_has_no_result_there_is_no_cell_and_a_bar_is_missed() {
        let (mut rows, _) = cells();
        rows[1].outcome = "killed".into();
        let mut cells = Cells::of(&rows).unwrap();
        assert_eq!(cells.of_program("a"), [(Side::Managed, 1), (Side::Native, 2)]);
        cells.predict("a", Side::Native, 2, 4.0);
        assert_eq!(cells.missed(0.1, 0.2), ["missed: 2 copies of a, managed: killed"]);
    }
}
