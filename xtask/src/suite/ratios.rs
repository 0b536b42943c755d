//! The ratios of a record as a CSV file beside it: one row for each program of each scenario on
//! each runtime. They are of all runs together, so that the file is written anew at each end.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use super::row::Row;
use super::runtime::Runtime;
use super::summary::{Summaries, Verdict, Yardstick};
use crate::measure::Spread;

/// One line.
#[derive(Serialize)]
struct Ratio<'a> {
    scenario: String,
    program: String,
    class: &'a str,
    /// How often a copy solves it.
    repeat: u32,
    runtime: Runtime,
    /// How far the processors were apart; empty with one processor.
    distance: Option<&'static str>,
    /// `verified`, `killed` at the cap (then the ratios are lower bounds), or what was wrong.
    outcome: String,
    runs: Option<usize>,
    /// Seconds that a copy takes at best, by as many one-thread copies: see the head of `summary`.
    ideal: Option<f64>,
    /// Median of the runs' mean turnarounds by that.
    ratio: Option<f64>,
    ratio_least: Option<f64>,
    ratio_most: Option<f64>,
    /// Median of the runs' longest turnarounds by their mean ones.
    longest_by_mean: Option<f64>,
    /// The same by one one-thread copy alone.
    ideal_alone: Option<f64>,
    ratio_alone: Option<f64>,
    ratio_alone_least: Option<f64>,
    ratio_alone_most: Option<f64>,
    processors: usize,
    machine: &'a str,
    kernel: &'a str,
    commit: String,
    compiler: &'a str,
    flags: &'a str,
}

/// The ratio that a verdict says.
fn ratio_of(verdict: &Verdict) -> Option<Spread> {
    match verdict {
        Verdict::Ratio { ratio, .. } => Some(*ratio),
        Verdict::Above(ratio) => Spread::of(&[*ratio]),
        Verdict::Wrong(_) => None,
    }
}

/// Writes the file; returns its path.
pub(super) fn write(
    record: &Path,
    summaries: &Summaries<'_>,
    rows: &[Row],
) -> anyhow::Result<PathBuf> {
    let path = record.with_extension("ratios.csv");
    let shown = || format!("cannot write {}", path.display());
    let mut writer = csv::Writer::from_path(&path).with_context(shown)?;
    for summary in &summaries.all {
        for (scenario, runtime) in summary
            .scenarios()
            .into_iter()
            .flat_map(|scenario| Runtime::ALL.map(|runtime| (scenario.clone(), runtime)))
        {
            let alone = summary.verdicts(Yardstick::Alone, &scenario, runtime);
            for (program, verdict) in summary.verdicts(Yardstick::Together, &scenario, runtime) {
                let alone = alone.iter().find(|(of, _)| *of == program);
                let alone = alone.and_then(|(_, verdict)| ratio_of(verdict));
                let program = program.or_else(|| scenario.program().map(str::to_owned));
                let program = program.unwrap_or_default();
                let (outcome, inequality) = match &verdict {
                    Verdict::Ratio { inequality, .. } => ("verified".to_owned(), Some(inequality)),
                    Verdict::Above(_) => ("killed".to_owned(), None),
                    Verdict::Wrong(what) => (what.clone(), None),
                };
                let ratio = ratio_of(&verdict);
                let is_own = |row: &&Row| row.program == program && row.runtime == runtime;
                let own = rows.iter().find(is_own).context("a verdict without a run")?;
                let ideal = |by| summary.yardstick(by, &scenario, &program, None);
                let row = Ratio {
                    distance: summary.distance.map(|it| it.name()),
                    ideal: ideal(Yardstick::Together),
                    ideal_alone: ideal(Yardstick::Alone),
                    scenario: scenario.name(),
                    class: &own.class,
                    repeat: own.repeat,
                    runtime,
                    outcome,
                    runs: inequality.map(|it| it.runs),
                    ratio: ratio.map(|it| it.median),
                    ratio_least: ratio.map(|it| it.least),
                    ratio_most: ratio.map(|it| it.most),
                    longest_by_mean: inequality.map(|it| it.median),
                    ratio_alone: alone.map(|it| it.median),
                    ratio_alone_least: alone.map(|it| it.least),
                    ratio_alone_most: alone.map(|it| it.most),
                    processors: own.processors,
                    machine: &own.machine,
                    kernel: &own.kernel,
                    commit: super::about::commits(rows),
                    compiler: &own.compiler,
                    flags: &own.flags,
                    program,
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
        rows[2].compiler = "gcc 12, libomp".into();
        let summaries = Summaries::new(&rows).unwrap();
        let path = write(&folder.path().join("suite.csv"), &summaries, &rows).unwrap();
        assert!(path.ends_with("suite.ratios.csv"));
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let header = reader.headers().unwrap().clone();
        let found: Vec<csv::StringRecord> =
            reader.records().map(|record| record.unwrap()).collect();
        let field = |record: &csv::StringRecord, name: &str| {
            record[header.iter().position(|it| it == name).unwrap()].to_owned()
        };
        let of = |scenario: &str, program: &str, runtime: &str| {
            let of = [("scenario", scenario), ("program", program), ("runtime", runtime)];
            let same = |it: &&csv::StringRecord| of.iter().all(|(name, is)| field(it, name) == *is);
            let row = found.iter().find(same).unwrap();
            |names: &[&str]| names.iter().map(|name| field(row, name)).collect::<Vec<_>>()
        };
        let managed = of("a*1", "a", "managed");
        assert_eq!(managed(&["distance", "outcome", "runs"]), ["near", "verified", "1"]);
        assert_eq!(managed(&["ideal", "ratio", "ratio_least"]), ["4.0", "1.25", "1.25"]);
        assert_eq!(managed(&["ideal_alone", "ratio_alone"]), ["4.0", "1.25"]);
        assert_eq!(managed(&["class", "repeat", "compiler", "flags"]), ["W", "3", "gcc 12", "-O3"]);
        let libgomp = of("a*1", "a", "libgomp");
        assert_eq!(libgomp(&["outcome", "ratio"]), ["killed", "5.0"]);
        assert_eq!(libgomp(&["compiler"]), ["gcc 12, libomp"], "its own");
        let mixed = of("a+b", "b", "managed");
        assert_eq!(mixed(&["ideal", "ratio", "ratio_alone"]), ["6.0", "1.0", ""]);
        assert!(found.iter().all(|it| field(it, "commit") == "abc+ later"), "{found:?}");
    }
}
