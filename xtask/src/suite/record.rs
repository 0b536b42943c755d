//! The suite's record: a CSV file with one row for each copy of each run, written run by run, so
//! that what was measured is there whenever the suite ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::plan::Cell;
use super::row::{KILLED, Row, cell_of, must_be_ours, rows_of, text_of};
use super::runs::{fault, sort};

/// A record on disk, with all its rows.
pub(crate) struct Record {
    path: PathBuf,
    /// Held with a lock, so that two suites do not write one record.
    file: File,
    pub(crate) rows: Vec<Row>,
}

impl Record {
    /// A new file, which must not be there yet; or, to go on, one that is.
    ///
    /// A run whose rows are not all there (the suite ended while they were written) is dropped from
    /// the file and runs again.
    pub(crate) fn open(path: &Path, resume: bool) -> anyhow::Result<Record> {
        Self::open_within(LET_GO, path, resume)
    }

    /// The same; another process may hold it for `patience`.
    fn open_within(patience: Duration, path: &Path, resume: bool) -> anyhow::Result<Record> {
        let shown = path.display();
        if resume {
            ensure!(path.exists(), "{shown} is not there: without `--resume` a new record begins");
        } else if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(!resume);
        let file = options.open(path).with_context(|| format!("cannot open {shown}"))?;
        lock(&file, path, patience)?;
        let mut record = Record { path: path.to_owned(), file, rows: Vec::new() };
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        if !resume {
            ensure!(
                bytes.is_empty(),
                "{shown} is there already: `--resume` goes on with it, `--record FILE` names \
                 another"
            );
            return Ok(record);
        }
        must_be_ours(&bytes).with_context(|| shown.to_string())?;
        let rows = rows_of(&bytes).with_context(|| shown.to_string())?;
        let whole = Self::done(&rows);
        record.rows = rows
            .into_iter()
            .filter(|row| cell_of(row).is_ok_and(|cell| whole.contains(&cell)))
            .collect();
        if text_of(&record.rows, true)? != bytes {
            record.write_all()?;
        }
        Ok(record)
    }

    /// Cells of a record that need not run again; where `again` is said, those that do not count
    /// have to.
    pub(crate) fn look(path: &Path, again: bool) -> anyhow::Result<BTreeSet<Cell>> {
        let rows = read(path)?;
        let mut done = Self::done(&rows);
        if again {
            sort(&rows)?.left_out.iter().for_each(|it| _ = done.remove(&it.cell));
        }
        Ok(done)
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

    /// Whether copies of this kind of run were ended at the cap in an earlier repetition: a runtime
    /// of others that collapsed does so again, which takes time and tells nothing new. What others
    /// disturbed may not: they may have been the reason.
    pub(crate) fn has_collapsed(&self, cell: &Cell) -> bool {
        let is_same = |row: &Row| {
            row.runtime == cell.runtime
                && cell_of(row).is_ok_and(|other| other.scenario == cell.scenario)
        };
        let has = |row: &Row| row.outcome == KILLED && is_same(row) && fault(row).is_none();
        cell.runtime.is_peer() && self.rows.iter().any(has)
    }

    /// Drops the runs that do not count, so that they run again; returns how many these were.
    pub(crate) fn drop_left_out(&mut self) -> anyhow::Result<usize> {
        let left_out = sort(&self.rows)?.left_out;
        let left_out: BTreeSet<Cell> = left_out.into_iter().map(|it| it.cell).collect();
        if left_out.is_empty() {
            return Ok(0);
        }
        self.rows.retain(|row| !cell_of(row).is_ok_and(|cell| left_out.contains(&cell)));
        self.write_all()?;
        Ok(left_out.len())
    }

    /// Adds one run, to the file too.
    pub(crate) fn add(&mut self, rows: Vec<Row>) -> anyhow::Result<()> {
        let text = text_of(&rows, self.rows.is_empty())?;
        let shown = || {
            format!(
                "cannot write {}; `--resume` goes on with the runs that are in it",
                self.path.display()
            )
        };
        self.file.write_all(&text).with_context(shown)?;
        self.rows.extend(rows);
        Ok(())
    }

    /// Writes the file anew; it is the old one or the new one at any time.
    fn write_all(&mut self) -> anyhow::Result<()> {
        let aside = self.path.with_extension("csv.new");
        let shown = || format!("cannot write {}", aside.display());
        let mut options = OpenOptions::new();
        // What another process left is lost on purpose: it never became the record.
        let _ = std::fs::remove_file(&aside);
        let mut file =
            options.read(true).append(true).create_new(true).open(&aside).with_context(shown)?;
        lock(&file, &aside, LET_GO)?;
        let moved = text_of(&self.rows, true)
            .and_then(|text| file.write_all(&text).with_context(shown))
            .and_then(|()| std::fs::rename(&aside, &self.path).with_context(shown));
        if moved.is_err() {
            // The first fault is the one to report.
            let _ = std::fs::remove_file(&aside);
        }
        self.file = file;
        moved
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

/// A process that was just started holds what its parent had open until its own program begins.
/// Tests of this program start many, on a busy machine.
const LET_GO: Duration = Duration::from_millis(if cfg!(test) { 10_000 } else { 500 });

/// Fails where another suite holds the record for longer than `patience`.
fn lock(file: &File, path: &Path, patience: Duration) -> anyhow::Result<()> {
    let shown = path.display();
    let begin = Instant::now();
    // SAFETY: takes two numbers; `file` keeps the descriptor open.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let fault = std::io::Error::last_os_error();
        if fault.kind() != std::io::ErrorKind::WouldBlock {
            return Err(fault).with_context(|| format!("cannot lock {shown}"));
        }
        if begin.elapsed() > patience {
            bail!("another suite writes {shown}: wait for its end, or `--record FILE`");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // It may have been replaced before we had the lock.
    let numbers = file.metadata().map(|it| it.ino()).ok();
    ensure!(
        numbers.is_some() && numbers == std::fs::metadata(path).map(|it| it.ino()).ok(),
        "{shown} was replaced by another suite just now: start again"
    );
    Ok(())
}

/// The rows of a record. The last line may be torn.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let shown = || format!("cannot read {}", path.display());
    let bytes = std::fs::read(path).with_context(shown)?;
    let rows = rows_of(&bytes).with_context(shown)?;
    ensure!(!rows.is_empty(), "{} has no whole row", path.display());
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::super::runtime::Runtime;
    use super::*;

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
        drop(record);

        let again = Record::open(&path, true).unwrap();
        assert_eq!(again.rows.len(), 2);
        assert_eq!(again.rows[0], first, "commas and quotes come back");
        assert_eq!(again.cells().into_iter().next().unwrap().runtime, Runtime::Managed);
        assert_eq!(read(&path).unwrap().len(), 2, "what was torn is gone from the file");
        assert_eq!(again.repeat_of("a").unwrap(), Some(("W".into(), 3)));
        assert_eq!(again.repeat_of("b").unwrap(), None);
        drop(again);
        let fault = format!("{:#}", Record::open(&path, false).err().unwrap());
        assert!(fault.contains("is there already"), "a record is not written over: {fault}");
    }

    /// A record of one whole run, closed, and its text.
    fn written(folder: &Path) -> (PathBuf, String) {
        let path = folder.join("suite.csv");
        let mut record = Record::open(&path, false).unwrap();
        record.add(vec![row("a", Runtime::One, 0, 3.0)]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    }

    #[test]
    fn wherever_a_record_was_torn_it_is_gone_on_with_and_whole_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, whole) = written(folder.path());
        let second = text_of(&[row("a", Runtime::Managed, 0, 4.0)], false).unwrap();
        let both = [whole.as_bytes(), &second].concat();
        for end in 0..=both.len() {
            std::fs::write(&path, &both[..end]).unwrap();
            let mut record = Record::open(&path, true).unwrap();
            let left = usize::from(end >= whole.len()) + usize::from(end >= both.len());
            assert_eq!(record.rows.len(), left, "{end} bytes");
            record.add(vec![row("a", Runtime::Alone, 0, 5.0)]).unwrap();
            drop(record);
            assert_eq!(read(&path).unwrap().len(), left + 1, "{end} bytes");
        }
    }

    #[test]
    fn a_record_that_another_suite_writes_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = written(folder.path());
        let holder = Record::open(&path, true).unwrap();
        let refused = Record::open_within(Duration::ZERO, &path, true).err().unwrap();
        let fault = format!("{refused:#}");
        assert!(fault.contains("another suite writes"), "{fault}");
        drop(holder);
        assert!(Record::open(&path, true).is_ok());
    }

    #[test]
    fn a_fresh_record_needs_no_file_and_one_to_go_on_with_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.csv");
        let fault = format!("{:#}", Record::open(&path, true).err().unwrap());
        assert!(fault.contains("without `--resume`"), "{fault}");
        // One that measured nothing leaves an empty file, which is no record yet.
        drop(Record::open(&path, false).unwrap());
        assert!(Record::open(&path, false).is_ok());
    }

    #[test]
    fn a_row_that_contradicts_itself_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.csv");
        let good = row("a*2", Runtime::One, 0, 3.0);
        let wrong = [
            (Row { program: "b".into(), ..good.clone() }, "is not b"),
            (Row { copy: 2, ..good.clone() }, "copy 2"),
            (Row { turnaround: f64::NAN, ..good.clone() }, "NaN"),
            (Row { scenario: "*".into(), ..good.clone() }, "*"),
            (Row { processors: 0, ..good.clone() }, "no processors"),
            (good.clone(), "has a row already"),
        ];
        for (row, said) in wrong {
            std::fs::write(&path, text_of(&[good.clone(), row], true).unwrap()).unwrap();
            let fault = format!("{:#}", Record::open(&path, true).err().unwrap());
            assert!(fault.contains("line 3") && fault.contains(said), "{fault}");
        }
    }

    #[test]
    fn what_others_lost_to_the_cap_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(&folder.path().join("suite.csv"), false).unwrap();
        for runtime in [Runtime::Libgomp, Runtime::Managed] {
            record.add(vec![Row { outcome: KILLED.into(), ..row("a", runtime, 0, 9.0) }]).unwrap();
        }
        let has_collapsed = |runtime| {
            let cell = Cell { repetition: 1, ..cell_of(&row("a", runtime, 0, 1.0)).unwrap() };
            record.has_collapsed(&cell)
        };
        assert!(has_collapsed(Runtime::Libgomp) && !has_collapsed(Runtime::Libomp));
        assert!(!has_collapsed(Runtime::Managed), "ours must not, which each repetition shows");
    }

    #[test]
    fn what_others_disturbed_is_repeated_and_runs_again_where_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.csv");
        let mut record = Record::open(&path, false).unwrap();
        let of = |runtime| row("a", runtime, 0, 9.0);
        let killed = Row { outcome: KILLED.into(), others: 1.5, ..of(Runtime::Libgomp) };
        let wrong = Row { outcome: "exit status: 1".into(), others: 1.5, ..of(Runtime::Libomp) };
        for row in [killed, wrong, of(Runtime::Managed)] {
            record.add(vec![row]).unwrap();
        }
        let cell = Cell { repetition: 1, ..cell_of(&of(Runtime::Libgomp)).unwrap() };
        assert!(!record.has_collapsed(&cell), "others may have been the reason");
        let looked = |again| Record::look(&path, again).unwrap().len();
        assert_eq!((looked(false), looked(true)), (3, 2));
        assert_eq!(record.drop_left_out().unwrap(), 1);
        let left: Vec<Runtime> = read(&path).unwrap().iter().map(|row| row.runtime).collect();
        assert_eq!(left, [Runtime::Libomp, Runtime::Managed], "a wrong result is never lost");
        assert_eq!(record.drop_left_out().unwrap(), 0);
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let (path, whole) = written(folder.path());
        let (header, line) = whole.split_once('\n').unwrap();
        std::fs::write(&path, format!("{header}\nnonsense\n{line}")).unwrap();
        let fault = format!("{:#}", read(&path).unwrap_err());
        assert!(fault.contains("line 2"), "{fault}");
        std::fs::write(&path, "x,y\n1,2\n").unwrap();
        assert!(read(&path).is_err());
        let fault = format!("{:#}", Record::open(&path, true).err().unwrap());
        assert!(fault.contains("its first line is `x,y`"), "{fault}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x,y\n1,2\n", "and left as it is");
        std::fs::write(&path, [0xff, 0x0a, 0x00, 0xfe]).unwrap();
        assert!(Record::open(&path, true).is_err());
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
