//! `cargo xtask reproduce policies`: what the papers publish of the policies, compared with what
//! the simulator says.
//!
//! Reads `workloads/published.csv`, has `cpumgr simulate` run each workload under the row's policy
//! and under the one that it is compared with (`none`, the native system, or another policy), and
//! puts times and ratios side by side.
//!
//! # Verdicts
//! The score counts how many simulated times and ratios lie within 10, 25 and 50 % of the published
//! ones, and how often the same of the two systems wins: over all rows, whether or not the paper
//! names a cause. Each number must reach what stands in [`score::HELD`]; a test of `cpumgr` holds
//! the same.
//! A row that differs is listed with its cause, which the file must give. Nothing is tuned per row:
//! parameters stand in the workload files, the same for all programs of a machine; what is fitted
//! stands in `docs/simulator.md`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;

mod score;

use score::Score;

use crate::setup::{Workspace, must_succeed, shown};

/// The policy that stands for the native system.
const NATIVE: &str = "none";
/// Ratios farther apart than this are marked.
const APART: f64 = 1.5;

/// Which comparisons.
#[derive(Args)]
pub(crate) struct Options {
    /// Writes the table as comma-separated values, too.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Only workloads whose name begins so.
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
}

/// A published comparison.
struct Row {
    table: String,
    workload: String,
    copies: u32,
    program: String,
    is_makespan: bool,
    policy: String,
    /// The policy of the column `native`: `none`, or another one.
    against: String,
    native: f64,
    managed: f64,
    named: bool,
    cause: String,
}

#[derive(Deserialize)]
struct Report {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    policy: String,
    measures: Measures,
    programs: Vec<Program>,
    sensitivity: Vec<Variant>,
}

#[derive(Deserialize)]
struct Variant {
    parameter: String,
    factor: f64,
    measures: Measures,
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Measures {
    makespan_s: f64,
}

#[derive(Deserialize)]
struct Program {
    program: String,
    execution: f64,
}

/// A row with the simulator's answer.
struct Answer<'a> {
    row: &'a Row,
    native: f64,
    managed: f64,
    /// The least and the most ratio with each parameter of the native model 25 % off, and the
    /// parameter that did most.
    range: (f64, f64),
    strongest: String,
    /// The ratio with each parameter 25 % off, in the order in which the simulator tries them.
    changes: Vec<Changed>,
}

/// The ratio with one parameter of the native model changed.
struct Changed {
    parameter: String,
    factor: f64,
    ratio: f64,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let folder = workspace.root.join("workloads");
    let file = folder.join("published.csv");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let rows = rows(&text).with_context(|| file.display().to_string())?;
    must_succeed(&mut workspace.cargo(["build", "--quiet", "-p", "cpumgr"]))?;
    let program = workspace.target.join("debug/cpumgr");

    let mut reports: BTreeMap<(&str, u32, &str, &str), Report> = BTreeMap::new();
    let mut answers = Vec::new();
    for row in rows.iter().filter(|row| row.workload.starts_with(&options.only)) {
        let key = (row.workload.as_str(), row.copies, row.policy.as_str(), row.against.as_str());
        let report = match reports.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(simulate(&program, &folder, row)?),
        };
        answers.push(answer(row, report)?);
    }
    ensure!(!answers.is_empty(), "no workload begins with {:?}", options.only);
    let score = Score::of(&answers);
    print!("{}\n{}\n{score}", table(&answers), changes(&answers));
    if let Some(path) = &options.csv {
        std::fs::write(path, csv(&answers))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if options.only.is_empty() {
        let lost = score.lost();
        ensure!(lost.is_empty(), "the score fell:\n  {}", lost.join("\n  "));
    }
    Ok(())
}

fn rows(text: &str) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut has_head = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        if !has_head {
            ensure!(line.starts_with("paper,table,workload,"), "line {}: no head", index + 1);
            has_head = true;
            continue;
        }
        rows.push(row(line).with_context(|| format!("line {}", index + 1))?);
    }
    Ok(rows)
}

fn row(line: &str) -> anyhow::Result<Row> {
    let fields: Vec<&str> = line.splitn(12, ',').collect();
    let &[
        paper,
        table,
        workload,
        copies,
        program,
        measure,
        policy,
        against,
        native,
        managed,
        named,
        cause,
    ] = fields.as_slice()
    else {
        bail!("{} fields; there are 12", fields.len());
    };
    ensure!(!cause.is_empty(), "no cause");
    Ok(Row {
        table: format!("{paper} {table}"),
        workload: workload.to_owned(),
        copies: copies.parse().context("copies")?,
        program: program.to_owned(),
        is_makespan: match measure {
            "makespan" => true,
            "execution" => false,
            other => bail!("measure {other:?}; it is `execution` or `makespan`"),
        },
        policy: policy.to_owned(),
        against: against.to_owned(),
        native: native.parse().context("native")?,
        managed: managed.parse().context("managed")?,
        named: match named {
            "yes" => true,
            "no" => false,
            other => bail!("named {other:?}; it is `yes` or `no`"),
        },
        cause: cause.to_owned(),
    })
}

fn simulate(program: &Path, folder: &Path, row: &Row) -> anyhow::Result<Report> {
    let mut command = Command::new(program);
    command
        .arg("simulate")
        .arg(folder.join(&row.workload).with_extension("toml"))
        .args(["--json", "--sensitivity", "--copies", &row.copies.to_string()])
        .args(["--policy", &row.against, "--policy", &row.policy]);
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(&command), String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("cannot read what {} printed", shown(&command)))
}

fn answer<'a>(row: &'a Row, report: &Report) -> anyhow::Result<Answer<'a>> {
    let run = |name: &str| {
        report
            .runs
            .iter()
            .find(|run| run.policy == name)
            .with_context(|| format!("no run of policy {name}"))
    };
    let measure = |measures: &Measures, programs: &[Program]| {
        if row.is_makespan {
            return Ok(measures.makespan_s);
        }
        let found = programs.iter().find(|program| program.program == row.program);
        let found =
            found.with_context(|| format!("{} has no program {:?}", row.workload, row.program))?;
        anyhow::Ok(found.execution)
    };
    let (native, managed) = (run(&row.against)?, run(&row.policy)?);
    let times = [
        measure(&native.measures, &native.programs)?,
        measure(&managed.measures, &managed.programs)?,
    ];
    let ratio = times[0] / times[1];
    let (mut range, mut strongest, mut most) = ((ratio, ratio), "none".to_owned(), 0.01);
    let mut changes = Vec::new();
    for (off, on) in native.sensitivity.iter().zip(&managed.sensitivity) {
        let varied = measure(&off.measures, &off.programs)? / measure(&on.measures, &on.programs)?;
        range = (range.0.min(varied), range.1.max(varied));
        changes.push(Changed {
            parameter: off.parameter.clone(),
            factor: off.factor,
            ratio: varied,
        });
        if (varied / ratio).ln().abs() > most {
            most = (varied / ratio).ln().abs();
            strongest = format!("{} x {}", off.parameter, off.factor);
        }
    }
    Ok(Answer { row, native: times[0], managed: times[1], range, strongest, changes })
}

impl Answer<'_> {
    fn published(&self) -> f64 {
        self.row.native / self.row.managed
    }

    fn simulated(&self) -> f64 {
        self.native / self.managed
    }

    fn is_apart(&self) -> bool {
        let apart = self.published() / self.simulated();
        !(1.0 / APART..=APART).contains(&apart)
    }

    fn has_same_winner(&self) -> bool {
        Self::winner(self.published()) == Self::winner(self.simulated())
    }

    /// Whether one of the columns is the native system.
    fn is_native(&self) -> bool {
        self.row.against == NATIVE
    }

    /// Which of the two is faster; neither within 5 %.
    fn winner(ratio: f64) -> &'static str {
        match ratio {
            ratio if ratio > 1.05 => "managed",
            ratio if ratio < 0.95 => "native",
            _ => "even",
        }
    }
}

/// The policies of a row.
fn against(row: &Row) -> String {
    if row.against == NATIVE {
        row.policy.clone()
    } else {
        format!("{}/{}", row.against, row.policy)
    }
}

fn table(answers: &[Answer<'_>]) -> String {
    let mut text = format!(
        "{:<11} {:<14} {:>6} {:<15} {:>9} {:>9} {:>6} | {:>9} {:>9} {:>6} {:>13} {:<18}\n",
        "table",
        "program",
        "copies",
        "policy",
        "native s",
        "managed",
        "ratio",
        "simulated",
        "managed",
        "ratio",
        "+-25 %",
        "most by"
    );
    for answer in answers {
        let row = answer.row;
        let mark = if answer.is_apart() { " *" } else { "" };
        let winner = if answer.has_same_winner() { "" } else { " other winner" };
        let _infallible = writeln!(
            text,
            "{:<11} {:<14} {:>6} {:<15} {:>9.2} {:>9.2} {:>6.2} | {:>9.2} {:>9.2} {:>6.2} {:>6.2}-{:<6.2} {:<18}{mark}{winner}",
            row.table,
            row.program,
            row.copies,
            against(row),
            row.native,
            row.managed,
            answer.published(),
            answer.native,
            answer.managed,
            answer.simulated(),
            answer.range.0,
            answer.range.1,
            answer.strongest,
        );
    }
    text.push_str("\n* more than 1.5 times apart, and the rows with another winner:\n");
    for answer in answers {
        let row = answer.row;
        if answer.is_apart() || !answer.has_same_winner() {
            let by = if row.named { "the paper" } else { "no cause in the paper" };
            let _infallible = writeln!(
                text,
                "  {} {} x{} {}: published {:.2}, simulated {:.2} ({by}): {}",
                row.table,
                row.program,
                row.copies,
                row.policy,
                answer.published(),
                answer.simulated(),
                row.cause
            );
        }
    }
    text
}

/// What each parameter of the native model, 25 % less and more, makes of each ratio, in per cent of
/// it.
fn changes(answers: &[Answer<'_>]) -> String {
    let mut text =
        "what 25 % less and 25 % more of each parameter of the native model change of the ratio, in %\n".to_owned();
    let _infallible = write!(
        text,
        "{:<11} {:<14} {:>6} {:<15} {:>6} |",
        "table", "program", "copies", "policy", "ratio"
    );
    for change in answers.first().map_or(&[][..], |answer| &answer.changes) {
        let head = format!("{} x{}", change.parameter, change.factor);
        let _infallible = write!(text, " {head:>17}");
    }
    text.push('\n');
    for answer in answers {
        let row = answer.row;
        let _infallible = write!(
            text,
            "{:<11} {:<14} {:>6} {:<15} {:>6.2} |",
            row.table,
            row.program,
            row.copies,
            against(row),
            answer.simulated()
        );
        for change in &answer.changes {
            let _infallible =
                write!(text, " {:>+17.1}", 100.0 * (change.ratio / answer.simulated() - 1.0));
        }
        text.push('\n');
    }
    text
}

fn csv(answers: &[Answer<'_>]) -> String {
    let mut text =
        "table,workload,copies,program,policy,against,published_native,published_managed,simulated_native,simulated_managed,published_ratio,simulated_ratio,least,most,most_by"
            .to_owned();
    for change in answers.first().map_or(&[][..], |answer| &answer.changes) {
        let _infallible = write!(text, ",{}_x{}", change.parameter, change.factor);
    }
    text.push('\n');
    for answer in answers {
        let row = answer.row;
        let _infallible = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{:.4},{:.4},{:.4},{:.4},{:.4},{:.4},{}{}",
            row.table,
            row.workload,
            row.copies,
            row.program,
            row.policy,
            row.against,
            row.native,
            row.managed,
            answer.native,
            answer.managed,
            answer.published(),
            answer.simulated(),
            answer.range.0,
            answer.range.1,
            answer.strongest,
            answer.changes.iter().map(|change| format!(",{:.4}", change.ratio)).collect::<String>()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const LINE: &str =
        "P2,Table 3,p2-table3,1,workload,makespan,pdpa,none,606,132,yes,waiting, and more";

    pub(super) fn answer_of(row: &Row, native: f64) -> Answer<'_> {
        let changed = |factor: f64| Changed {
            parameter: "slice".to_owned(),
            factor,
            ratio: native * (1.0 + factor) / 2.0,
        };
        let changes = vec![changed(0.75), changed(1.25)];
        Answer {
            row,
            native,
            managed: 1.0,
            range: (native, native),
            strongest: String::new(),
            changes,
        }
    }

    #[test]
    fn rows_are_read_and_bad_ones_refused() {
        let good = row(LINE).expect("it is a row");
        assert!(good.is_makespan && good.named && good.against == NATIVE);
        assert_eq!(good.cause, "waiting, and more");
        for (from, to) in
            [("makespan", "total"), ("606", "x"), ("yes", "perhaps"), (",waiting, and more", "")]
        {
            assert!(row(&LINE.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn each_parameters_change_is_printed_for_each_row() {
        let row = row(LINE).expect("it is a row");
        let (table, values) = (changes(&[answer_of(&row, 4.0)]), csv(&[answer_of(&row, 4.0)]));
        assert!(table.contains("slice x0.75") && table.contains("slice x1.25"), "{table}");
        // 4.0 x 0.875 and 4.0 x 1.125.
        assert!(table.contains("-12.5") && table.contains("+12.5"), "{table}");
        assert!(
            values.contains("most_by,slice_x0.75,slice_x1.25\n")
                && values.ends_with(",3.5000,4.5000\n"),
            "{values}"
        );
    }
}
