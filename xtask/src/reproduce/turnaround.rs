//! `cargo xtask reproduce turnaround`: where turns win, and where sharing wins.
//!
//! Has `cpumgr simulate` run the populations `workloads/turns-*.toml` under policies that share
//! (`equip`, `dss`), under `batch`, and under `turnaround` twice: programs held back until their
//! turn ("submitted"), and all started when they come ("started", their masters always run).
//!
//! # Verdicts
//! Four equal copies that scale and are held back must have at most 0.65 of the ideal's mean
//! turnaround with the same makespan within 3 %. The ideal: all share without a loss, and end after
//! K times the time of one alone. Copies that do not scale may not become slower than under `dss`
//! by more than 10 %. Else the task fails.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::setup::{Workspace, must_succeed, shown};

/// Of the ideal's mean turnaround, for equal copies.
const MOST_MEAN: f64 = 0.65;
/// The makespan, of the ideal's.
const MOST_MAKESPAN: f64 = 1.03;
/// What copies that do not scale may lose against `dss`.
const MOST_LOSS: f64 = 1.1;

/// How programs come under a policy.
const COLUMNS: [(&str, &str); 5] = [
    ("equip", "started"),
    ("dss", "started"),
    ("batch", "started"),
    ("turnaround", "started"),
    ("turnaround", "submitted"),
];

#[derive(Deserialize)]
struct Report {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    measures: Measures,
    executions: Vec<Execution>,
}

#[derive(Deserialize)]
struct Measures {
    makespan_s: f64,
    response_s: f64,
}

/// Times in ns.
#[derive(Deserialize)]
struct Execution {
    arrival: u64,
    ended: u64,
    dedicated: u64,
}

/// A population under a policy.
struct Row {
    workload: String,
    policy: &'static str,
    start: &'static str,
    mean: f64,
    makespan: f64,
    /// The worst turnaround by the time alone.
    worst: f64,
    /// All work, one program after the other on the whole machine, s.
    alone: f64,
}

/// Which populations.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Writes the table as comma-separated values, too.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Only populations whose name begins so.
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Writes a picture of each population under each policy into this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

pub(super) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let folder = workspace.root.join("workloads");
    must_succeed(&mut workspace.cargo(["build", "--quiet", "-p", "cpumgr"]))?;
    let program = workspace.target.join("debug/cpumgr");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".toml").filter(|name| name.starts_with("turns-"))
            && name.starts_with(&options.only)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    ensure!(!names.is_empty(), "no population begins with {:?}", options.only);
    let work = workspace.target.join("turnaround");
    std::fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
    let mut rows = Vec::new();
    for name in &names {
        let file = folder.join(name).with_extension("toml");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        ensure!(text.contains(HELD), "{}: no `{HELD}`", file.display());
        let started = work.join(name).with_extension("toml");
        std::fs::write(&started, text.replace(HELD, "hold-back = false"))
            .with_context(|| started.display().to_string())?;
        for (policy, start) in COLUMNS {
            let file = if start == "submitted" { &file } else { &started };
            rows.push(row(simulate(&program, file, policy)?, name, policy, start)?);
            if let Some(pictures) = &options.svg {
                picture(
                    &program,
                    file,
                    policy,
                    &pictures.join(format!("{name}-{policy}-{start}.svg")),
                )?;
            }
        }
    }
    print!("{}", table(&rows));
    if let Some(path) = &options.csv {
        std::fs::write(path, csv(&rows)).with_context(|| path.display().to_string())?;
    }
    let failed = faults(&rows);
    if !failed.is_empty() {
        bail!("{} rows are not as they must be:\n  {}", failed.len(), failed.join("\n  "));
    }
    Ok(())
}

/// As it stands in each population.
const HELD: &str = "hold-back = true";

fn simulate(program: &Path, file: &Path, policy: &str) -> anyhow::Result<Report> {
    let mut command = Command::new(program);
    command.arg("simulate").arg(file).args(["--json", "--policy", policy]);
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(&command), String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("cannot read what {} printed", shown(&command)))
}

fn picture(program: &Path, file: &Path, policy: &str, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    // `simulate` writes nothing twice.
    if to.exists() {
        std::fs::remove_file(to).with_context(|| to.display().to_string())?;
    }
    let mut command = Command::new(program);
    command.arg("simulate").arg(file).args(["--policy", policy, "--svg"]).arg(to);
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(&command), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn row(
    report: Report,
    workload: &str,
    policy: &'static str,
    start: &'static str,
) -> anyhow::Result<Row> {
    let run = report.runs.into_iter().next().context("no run")?;
    let slowdown = |it: &Execution| (it.ended - it.arrival) as f64 / (it.dedicated as f64).max(1.0);
    Ok(Row {
        workload: workload.to_owned(),
        policy,
        start,
        mean: run.measures.response_s,
        makespan: run.measures.makespan_s,
        worst: run.executions.iter().map(slowdown).fold(0.0, f64::max),
        alone: run.executions.iter().map(|it| it.dedicated as f64 / 1e9).sum(),
    })
}

/// The row of the same population under `dss`.
fn dss<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    rows.iter().find(|it| it.workload == row.workload && it.policy == "dss")
}

fn faults(rows: &[Row]) -> Vec<String> {
    let mut faults = Vec::new();
    for row in rows.iter().filter(|row| row.start == "submitted") {
        if row.workload.starts_with("turns-copies") {
            let (mean, makespan) = (row.mean / row.alone, row.makespan / row.alone);
            if mean > MOST_MEAN || makespan > MOST_MAKESPAN {
                faults.push(format!(
                    "{}: mean {mean:.3} of the ideal (at most {MOST_MEAN}), makespan {makespan:.3} \
                     (at most {MOST_MAKESPAN})",
                    row.workload
                ));
            }
        }
        if row.workload == "turns-flat"
            && let Some(dss) = dss(rows, row)
            && row.mean > MOST_LOSS * dss.mean
        {
            faults.push(format!("{}: {:.1} s, dss {:.1} s", row.workload, row.mean, dss.mean));
        }
    }
    faults
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16} {:<10} {:<9} {:>8} {:>7} {:>7} {:>10} {:>7} {:>6}\n",
        "population",
        "policy",
        "programs",
        "mean s",
        "/ideal",
        "/dss",
        "makespan s",
        "/dss",
        "worst"
    );
    let mut last = "";
    for row in rows {
        if last != row.workload && !last.is_empty() {
            text.push('\n');
        }
        last = &row.workload;
        let (mean, makespan) = dss(rows, row)
            .map_or((1.0, 1.0), |dss| (row.mean / dss.mean, row.makespan / dss.makespan));
        let _infallible = writeln!(
            text,
            "{:<16} {:<10} {:<9} {:>8.2} {:>7.3} {mean:>7.3} {:>10.2} {makespan:>7.3} {:>6.2}",
            row.workload,
            row.policy,
            row.start,
            row.mean,
            row.mean / row.alone,
            row.makespan,
            row.worst,
        );
    }
    text.push_str(
        "\nideal: all share without a loss and end after the sum of the times alone (equal copies that come at once)\n\
         worst: the largest turnaround by the time alone on the machine\n",
    );
    text
}

fn csv(rows: &[Row]) -> String {
    let mut text =
        "population,policy,programs,mean_s,mean_by_ideal,mean_by_dss,makespan_s,makespan_by_dss,worst_slowdown\n"
            .to_owned();
    for row in rows {
        let (mean, makespan) = dss(rows, row)
            .map_or((1.0, 1.0), |dss| (row.mean / dss.mean, row.makespan / dss.makespan));
        let _infallible = writeln!(
            text,
            "{},{},{},{:.4},{:.4},{mean:.4},{:.4},{makespan:.4},{:.4}",
            row.workload,
            row.policy,
            row.start,
            row.mean,
            row.mean / row.alone,
            row.makespan,
            row.worst,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(workload: &str, policy: &'static str, start: &'static str, mean: f64) -> Row {
        let (makespan, worst, alone) = (40.0, 4.0, 40.0);
        Row { workload: workload.to_owned(), policy, start, mean, makespan, worst, alone }
    }

    #[test]
    fn copies_that_gain_too_little_are_faults() {
        let good = row_of("turns-copies8", "turnaround", "submitted", 25.0);
        let bad = row_of("turns-copies8", "turnaround", "submitted", 27.0);
        let started = row_of("turns-copies8", "turnaround", "started", 27.0);
        assert!(faults(&[good, started]).is_empty());
        assert_eq!(faults(&[bad]).len(), 1);
        let late =
            Row { makespan: 42.0, ..row_of("turns-copies2", "turnaround", "submitted", 25.0) };
        assert!(faults(&[late])[0].contains("makespan 1.050"));
    }

    #[test]
    fn copies_that_do_not_scale_are_held_against_dss() {
        let dss = || row_of("turns-flat", "dss", "started", 20.0);
        let submitted = |mean| row_of("turns-flat", "turnaround", "submitted", mean);
        assert!(faults(&[dss(), submitted(21.9)]).is_empty());
        assert_eq!(faults(&[dss(), submitted(22.1)]).len(), 1);
        let text = csv(&[dss(), submitted(22.0)]);
        assert!(
            text.contains(
                "turns-flat,turnaround,submitted,22.0000,0.5500,1.1000,40.0000,1.0000,4.0000"
            ),
            "{text}"
        );
    }
}
