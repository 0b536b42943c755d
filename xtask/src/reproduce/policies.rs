//! `cargo xtask reproduce policies`: what the papers publish of the policies, compared with what
//! the simulator says.
//!
//! Reads `workloads/published.csv`, has `cpumgr simulate` run each workload under the row's policy
//! and under `none`, and puts the two ratios native / managed side by side. Absolute times are not
//! compared: the machines are gone.
//!
//! # Verdicts
//! A row whose ratios differ by more than 1.5 times is listed with its cause, which the file must
//! give. A row whose cause the paper names, or that has a least gain of its own, must have the same
//! winner, and that gain: else the task fails. Nothing is tuned per row: parameters stand in the
//! workload files, the same for all programs of a machine.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::setup::{Workspace, must_succeed, shown};

/// Ratios farther apart than this need a cause.
const APART: f64 = 1.5;
/// pdpa's gain on whole workloads whose parts do not scale.
const LEAST_GAIN: f64 = 3.0;

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
    native: f64,
    managed: f64,
    named: bool,
    /// The gain that must be reached.
    least: Option<f64>,
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

    let mut reports: BTreeMap<(&str, u32, &str), Report> = BTreeMap::new();
    let mut answers = Vec::new();
    for row in rows.iter().filter(|row| row.workload.starts_with(&options.only)) {
        let key = (row.workload.as_str(), row.copies, row.policy.as_str());
        let report = match reports.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(simulate(&program, &folder, row)?),
        };
        answers.push(answer(row, report)?);
    }
    ensure!(!answers.is_empty(), "no workload begins with {:?}", options.only);
    print!("{}\n{}", table(&answers), changes(&answers));
    if let Some(path) = &options.csv {
        std::fs::write(path, csv(&answers))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed: Vec<String> = answers.iter().filter_map(fault).collect();
    if !failed.is_empty() {
        bail!("{} rows are not as they must be:\n  {}", failed.len(), failed.join("\n  "));
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
    let fields: Vec<&str> = line.splitn(11, ',').collect();
    let &[paper, table, workload, copies, program, measure, policy, native, managed, named, cause] =
        fields.as_slice()
    else {
        bail!("{} fields; there are 11", fields.len());
    };
    ensure!(!cause.is_empty(), "no cause");
    let named_parts: Vec<&str> = named.split_whitespace().collect();
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
        native: native.parse().context("native")?,
        managed: managed.parse().context("managed")?,
        named: match named_parts.first() {
            Some(&"yes") => true,
            Some(&"no") => false,
            _ => {
                bail!(
                    "named {named:?}; it is `yes` or `no`, and `gain` after it where the gain must be {LEAST_GAIN}"
                )
            }
        },
        least: (named_parts.get(1) == Some(&"gain")).then_some(LEAST_GAIN),
        cause: cause.to_owned(),
    })
}

fn simulate(program: &Path, folder: &Path, row: &Row) -> anyhow::Result<Report> {
    let mut command = Command::new(program);
    command
        .arg("simulate")
        .arg(folder.join(&row.workload).with_extension("toml"))
        .args(["--json", "--sensitivity", "--copies", &row.copies.to_string()])
        .args(["--policy", "none", "--policy", &row.policy]);
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
    let (native, managed) = (run("none")?, run(&row.policy)?);
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

    /// Which of the two is faster; neither within 5 %.
    fn winner(ratio: f64) -> &'static str {
        match ratio {
            ratio if ratio > 1.05 => "managed",
            ratio if ratio < 0.95 => "native",
            _ => "even",
        }
    }
}

/// What must be and is not.
fn fault(answer: &Answer<'_>) -> Option<String> {
    let row = answer.row;
    let which = format!("{} {} x{} {}", row.table, row.program, row.copies, row.policy);
    let (published, simulated) =
        (Answer::winner(answer.published()), Answer::winner(answer.simulated()));
    if row.named && published != simulated {
        return Some(format!(
            "{which}: the paper names why {published} wins; the model says {simulated}"
        ));
    }
    let least = row.least.filter(|least| answer.simulated() < *least)?;
    Some(format!("{which}: a gain of {:.2}; it must be {least}", answer.simulated()))
}

fn table(answers: &[Answer<'_>]) -> String {
    let mut text = format!(
        "{:<11} {:<14} {:>6} {:<8} {:>9} {:>9} {:>6} | {:>9} {:>9} {:>6} {:>13} {:<18}\n",
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
        let winner = if Answer::winner(answer.published()) == Answer::winner(answer.simulated()) {
            ""
        } else {
            " other winner"
        };
        let _infallible = writeln!(
            text,
            "{:<11} {:<14} {:>6} {:<8} {:>9.2} {:>9.2} {:>6.2} | {:>9.2} {:>9.2} {:>6.2} {:>6.2}-{:<6.2} {:<18}{mark}{winner}",
            row.table,
            row.program,
            row.copies,
            row.policy,
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
        let differs = Answer::winner(answer.published()) != Answer::winner(answer.simulated());
        if answer.is_apart() || differs {
            let _infallible = writeln!(
                text,
                "  {} {} x{} {}: published {:.2}, simulated {:.2}: {}",
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
    let near = answers.iter().filter(|answer| !answer.is_apart()).count();
    let same = answers
        .iter()
        .filter(|answer| Answer::winner(answer.published()) == Answer::winner(answer.simulated()))
        .count();
    let all = answers.len();
    let _infallible = writeln!(
        text,
        "\n{near} of {all} ratios within {APART} times; {same} of {all} winners the same"
    );
    text
}

/// What each parameter of the native model, 25 % less and more, makes of each ratio, in per cent of
/// it.
fn changes(answers: &[Answer<'_>]) -> String {
    let mut text =
        "what 25 % less and 25 % more of each parameter of the native model change of the ratio, in %\n".to_owned();
    let _infallible = write!(
        text,
        "{:<11} {:<14} {:>6} {:<8} {:>6} |",
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
            "{:<11} {:<14} {:>6} {:<8} {:>6.2} |",
            row.table,
            row.program,
            row.copies,
            row.policy,
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
        "table,workload,copies,program,policy,published_ratio,simulated_ratio,least,most,most_by"
            .to_owned();
    for change in answers.first().map_or(&[][..], |answer| &answer.changes) {
        let _infallible = write!(text, ",{}_x{}", change.parameter, change.factor);
    }
    text.push('\n');
    for answer in answers {
        let row = answer.row;
        let _infallible = writeln!(
            text,
            "{},{},{},{},{},{:.4},{:.4},{:.4},{:.4},{}{}",
            row.table,
            row.workload,
            row.copies,
            row.program,
            row.policy,
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

    const LINE: &str =
        "P2,Table 3,p2-table3,1,workload,makespan,pdpa,606,132,yes gain,waiting, and more";

    fn answer_of(row: &Row, native: f64) -> Answer<'_> {
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
        assert!(good.is_makespan && good.named && good.least == Some(LEAST_GAIN));
        assert_eq!(good.cause, "waiting, and more");
        for (from, to) in [
            ("makespan", "total"),
            ("606", "x"),
            ("yes gain", "perhaps"),
            (",waiting, and more", ""),
        ] {
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

    #[test]
    fn a_lost_winner_and_a_small_gain_are_faults() {
        let row = row(LINE).expect("it is a row");
        assert_eq!(fault(&answer_of(&row, 3.5)), None);
        assert!(fault(&answer_of(&row, 2.0)).is_some_and(|text| text.contains("must be 3")));
        assert!(
            fault(&answer_of(&row, 0.5)).is_some_and(|text| text.contains("model says native"))
        );
        assert!(!answer_of(&row, 3.5).is_apart() && answer_of(&row, 2.0).is_apart());
    }
}
