//! The ratios of a record as a CSV file beside it: one row for each program of each scenario on
//! each runtime. They are of all runs together, so that the file is written anew at each end.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use super::row::Row;
use super::runtime::Runtime;
use super::summary::{Summary, Verdict};

/// One line.
#[derive(Serialize)]
struct Ratio<'a> {
    scenario: String,
    program: String,
    runtime: Runtime,
    /// `verified`, `killed` at the cap (then `ratio` is a lower bound), or what was wrong.
    outcome: String,
    runs: Option<usize>,
    /// Seconds that a copy takes at best: see the head of `summary`.
    ideal: Option<f64>,
    /// Median of the runs' mean turnarounds by the ideal.
    ratio: Option<f64>,
    ratio_least: Option<f64>,
    ratio_most: Option<f64>,
    /// Median of the runs' longest turnarounds by their mean ones.
    longest_by_mean: Option<f64>,
    processors: usize,
    machine: &'a str,
    kernel: &'a str,
    commit: String,
    compiler: &'a str,
    flags: &'a str,
}

/// Writes the file; returns its path.
pub(super) fn write(record: &Path, summary: &Summary<'_>, rows: &[Row]) -> anyhow::Result<PathBuf> {
    let path = record.with_extension("ratios.csv");
    let shown = || format!("cannot write {}", path.display());
    let first = rows.first().context("no rows")?;
    let mut writer = csv::Writer::from_path(&path).with_context(shown)?;
    for scenario in summary.scenarios() {
        for runtime in Runtime::ALL {
            for (program, verdict) in summary.verdicts(&scenario, runtime) {
                let program = program.or_else(|| scenario.program().map(str::to_owned));
                let program = program.unwrap_or_default();
                let (outcome, ratio, inequality) = match verdict {
                    Verdict::Ratio { ratio, inequality } => {
                        ("verified".to_owned(), Some(ratio), Some(inequality))
                    }
                    Verdict::Above(ratio) => {
                        ("killed".to_owned(), crate::measure::Spread::of(&[ratio]), None)
                    }
                    Verdict::Wrong(what) => (what, None, None),
                };
                let row = Ratio {
                    ideal: summary.yardstick(&scenario, &program),
                    scenario: scenario.name(),
                    program,
                    runtime,
                    outcome,
                    runs: inequality.map(|it| it.runs),
                    ratio: ratio.map(|it| it.median),
                    ratio_least: ratio.map(|it| it.least),
                    ratio_most: ratio.map(|it| it.most),
                    longest_by_mean: inequality.map(|it| it.median),
                    processors: first.processors,
                    machine: &first.machine,
                    kernel: &first.kernel,
                    commit: super::about::commits(rows),
                    compiler: &first.compiler,
                    flags: &first.flags,
                };
                writer.serialize(row).with_context(shown)?;
            }
        }
    }
    writer.flush().with_context(shown)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::super::row::KILLED;
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn each_program_of_each_scenario_has_its_ratio_and_its_ideal() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = vec![
            row("a*1", Runtime::One, 0, 4.0),
            row("a*1", Runtime::Managed, 0, 5.0),
            row("a*1", Runtime::Libgomp, 0, 20.0),
        ];
        rows[2].outcome = KILLED.into();
        for runtime in [Runtime::One, Runtime::Managed] {
            rows.extend((0..2).map(|copy| row("a+b", runtime, copy, 6.0)));
        }
        rows[1].commit = "later".into();
        let summary = Summary::new(&rows).unwrap();
        let path = write(&folder.path().join("suite.csv"), &summary, &rows).unwrap();
        assert!(path.ends_with("suite.ratios.csv"));
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let found: Vec<csv::StringRecord> =
            reader.records().map(|record| record.unwrap()).collect();
        let of = |scenario: &str, program: &str, runtime: &str| {
            let same =
                |it: &&csv::StringRecord| [&it[0], &it[1], &it[2]] == [scenario, program, runtime];
            found.iter().find(same).unwrap()
        };
        let managed = of("a*1", "a", "managed");
        assert_eq!([&managed[5], &managed[6], &managed[7]], ["4.0", "1.25", "1.25"]);
        assert_eq!(&of("a*1", "a", "libgomp")[3], "killed");
        assert_eq!(&of("a*1", "a", "libgomp")[6], "5.0");
        let mixed = of("a+b", "b", "managed");
        assert_eq!([&mixed[5], &mixed[6]], ["6.0", "1.0"]);
        assert!(found.iter().all(|it| &it[13] == "abc+ later"), "{found:?}");
    }
}
