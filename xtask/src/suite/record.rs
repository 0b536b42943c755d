//! The suite's record: a CSV file with one row for each copy of each run, written run by run, so
//! that what was measured is there whenever the suite ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
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
    /// The commit, with `+` when the tree differs from it.
    pub(crate) commit: String,
    pub(crate) compiler: String,
    pub(crate) flags: String,
}

/// The outcome of a copy that ended with a verified result.
pub(crate) const VERIFIED: &str = "verified";
/// The outcome of a copy that was ended at the cap.
pub(crate) const KILLED: &str = "killed";

impl Row {
    pub(crate) fn is_verified(&self) -> bool {
        self.outcome == VERIFIED
    }
}

/// A record on disk, with all its rows.
pub(crate) struct Record {
    path: PathBuf,
    pub(crate) rows: Vec<Row>,
}

impl Record {
    /// A new file, which must not be there yet; or, to go on, one that is.
    ///
    /// A run whose rows are not all there (the suite ended while they were written) is dropped from
    /// the rows and runs again.
    pub(crate) fn open(path: &Path, resume: bool) -> anyhow::Result<Record> {
        let shown = path.display();
        if !resume {
            ensure!(
                !path.exists(),
                "{shown} is there already: `--resume` goes on with it, `--record FILE` names another"
            );
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("cannot create {}", folder.display()))?;
            }
            return Ok(Record { path: path.to_owned(), rows: Vec::new() });
        }
        let rows = read(path)?;
        let whole = Self::done(&rows);
        let (kept, torn): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| cell_of(row).is_ok_and(|cell| whole.contains(&cell)));
        let record = Record { path: path.to_owned(), rows: kept };
        if !torn.is_empty() {
            record.write_all()?;
        }
        Ok(record)
    }

    /// Cells whose copies all have their row.
    fn done(rows: &[Row]) -> BTreeSet<Cell> {
        let mut copies: BTreeMap<Cell, BTreeSet<usize>> = BTreeMap::new();
        for row in rows {
            if let Ok(cell) = cell_of(row) {
                copies.entry(cell).or_default().insert(row.copy);
            }
        }
        copies
            .into_iter()
            .filter_map(|(cell, found)| (found.len() == cell.scenario.0.len()).then_some(cell))
            .collect()
    }

    /// Cells that need not run again.
    pub(crate) fn cells(&self) -> BTreeSet<Cell> {
        Self::done(&self.rows)
    }

    /// Adds one run, to the file too.
    pub(crate) fn add(&mut self, rows: Vec<Row>) -> anyhow::Result<()> {
        let shown = || format!("cannot write {}", self.path.display());
        let is_new = self.rows.is_empty();
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&self.path).with_context(shown)?;
        let mut writer = csv::WriterBuilder::new().has_headers(is_new).from_writer(file);
        for row in &rows {
            writer.serialize(row).with_context(shown)?;
        }
        writer.flush().with_context(shown)?;
        self.rows.extend(rows);
        Ok(())
    }

    /// Writes the file anew.
    fn write_all(&self) -> anyhow::Result<()> {
        let aside = self.path.with_extension("csv.new");
        let shown = || format!("cannot write {}", aside.display());
        let file = File::create(&aside).with_context(shown)?;
        let mut writer = csv::Writer::from_writer(file);
        for row in &self.rows {
            writer.serialize(row).with_context(shown)?;
        }
        writer.flush().with_context(shown)?;
        std::fs::rename(&aside, &self.path).with_context(shown)
    }

    /// How often a copy of a program does its timed section, where the record says it: a suite that
    /// goes on measures the same work.
    pub(crate) fn repeat_of(&self, program: &str) -> anyhow::Result<Option<(String, u32)>> {
        let mut found = self.rows.iter().filter(|row| row.program == program);
        let Some(first) = found.next() else { return Ok(None) };
        let work = (first.class.clone(), first.repeat);
        if let Some(other) = found.find(|row| (&row.class, row.repeat) != (&work.0, work.1)) {
            bail!(
                "{} has {program} with class {} x {} and class {} x {}: not one measurement",
                self.path.display(),
                work.0,
                work.1,
                other.class,
                other.repeat
            );
        }
        Ok(Some(work))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The rows of a record. The last line may be torn.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let shown = path.display();
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_path(path)
        .with_context(|| format!("cannot read {shown}"))?;
    let header = reader.headers().with_context(|| format!("{shown}: its header"))?.clone();
    let mut rows = Vec::new();
    let mut torn = None;
    for (index, found) in reader.records().enumerate() {
        if let Some(fault) = torn.take() {
            return Err(fault);
        }
        let line = index + 2;
        let row = found.map_err(anyhow::Error::new).and_then(|record| {
            ensure!(record.len() == header.len(), "{} fields of {}", record.len(), header.len());
            Ok(record.deserialize(Some(&header))?)
        });
        match row {
            Ok(row) => rows.push(row),
            Err(fault) => torn = Some(fault.context(format!("{shown}, line {line}"))),
        }
    }
    if torn.is_some() && rows.is_empty() {
        return Err(torn.unwrap_or_else(|| anyhow::anyhow!("{shown} has no rows")));
    }
    Ok(rows)
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
    fn a_record_is_gone_on_with_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/suite.csv");
        let mut record = Record::open(&path, false).unwrap();
        let [first, second] = [0, 1].map(|copy| row("a*2", Runtime::Managed, copy, 3.0));
        record.add(vec![first.clone(), second]).unwrap();
        // Of this run one row of two is there, and of the next one half a row.
        record.add(vec![row("a*2", Runtime::One, 0, 3.0)]).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}a*2,lib")).unwrap();

        let again = Record::open(&path, true).unwrap();
        assert_eq!(again.rows.len(), 2);
        assert_eq!(again.rows[0], first, "commas and quotes come back");
        assert_eq!(again.cells().into_iter().next().unwrap().runtime, Runtime::Managed);
        assert_eq!(read(&path).unwrap().len(), 2, "what was torn is gone from the file");
        assert_eq!(again.repeat_of("a").unwrap(), Some(("W".into(), 3)));
        assert_eq!(again.repeat_of("b").unwrap(), None);
        assert!(Record::open(&path, false).is_err(), "a record is not written over");
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.csv");
        let mut record = Record::open(&path, false).unwrap();
        record.add(vec![row("a", Runtime::One, 0, 3.0)]).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        let (header, line) = whole.split_once('\n').unwrap();
        std::fs::write(&path, format!("{header}\nnonsense\n{line}")).unwrap();
        let fault = format!("{:#}", read(&path).unwrap_err());
        assert!(fault.contains("line 2"), "{fault}");
        std::fs::write(&path, "x,y\n1,2\n").unwrap();
        assert!(read(&path).is_err());
        assert!(read(&folder.path().join("none")).is_err());
    }

    #[test]
    fn two_amounts_of_work_are_not_one_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(&folder.path().join("suite.csv"), false).unwrap();
        record.add(vec![row("a", Runtime::One, 0, 3.0)]).unwrap();
        record.add(vec![Row { repeat: 4, ..row("a", Runtime::Libgomp, 0, 3.0) }]).unwrap();
        assert!(record.repeat_of("a").is_err());
    }
}
