//! `cargo xtask bench`: all timed benches one after the other, and one closing table.
//!
//! Everything is built before the first sample. Each bench gets its share of the time and writes
//! its raw record and its tables (`benches/README.md` says how samples are taken); the tables are
//! put together in one Markdown file, headed by what the machine is. A wrong result fails the task,
//! after the last bench; a missed bar is listed, not a failure.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use procfs::{CpuInfo, Current, LoadAverage};

use crate::setup::{Workspace, must_succeed, shown};

/// The benches, and the share of the time that each gets: in proportion to their rows, and the
/// length of a sample.
const BENCHES: [(&str, f64); 5] =
    [("fork_join", 0.34), ("tasks", 0.17), ("loops", 0.14), ("hog", 0.12), ("openmp", 0.23)];
/// Seconds of a whole run, without the builds.
const SECONDS: f64 = 840.0;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these benches: fork_join, tasks, loops, hog, openmp.
    #[arg(value_name = "BENCH")]
    benches: Vec<String>,
    /// About this many seconds in all; each row gets one sample at least.
    #[arg(long, default_value_t = SECONDS)]
    seconds: f64,
    /// One sample of each row, to see that everything runs.
    #[arg(long)]
    quick: bool,
    /// Keeps raw records and tables in benches/records instead of target.
    #[arg(long)]
    record: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    for name in &options.benches {
        ensure!(
            BENCHES.iter().any(|(known, _)| known == name),
            "there is no bench `{name}`: fork_join, tasks, loops, hog, openmp"
        );
    }
    ensure!(
        options.seconds.is_finite() && options.seconds >= 1.0,
        "--seconds {}: at least 1",
        options.seconds
    );
    let is_wanted = |name: &str| {
        options.benches.is_empty() || options.benches.iter().any(|wanted| wanted == name)
    };
    let wanted: Vec<(&str, f64)> =
        BENCHES.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    if is_wanted("openmp") {
        crate::shim::run(workspace, crate::shim::Form::Shipped)?;
    }
    let mut build = workspace.cargo(["bench", "--no-run"]);
    build.args(wanted.iter().flat_map(|(name, _)| ["--bench", name]));
    must_succeed(&mut build)?;

    let folder = workspace.target.join("bench");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let load_before = load();
    let shares: f64 = wanted.iter().map(|(_, share)| share).sum();
    let mut tables = String::new();
    let mut wrong = Vec::new();
    for (name, share) in &wanted {
        let table = folder.join(format!("{name}.md"));
        // What an earlier run left.
        let _ = fs::remove_file(&table);
        let mut bench = workspace.cargo(["bench", "--bench", name, "--"]);
        bench.arg("--markdown").arg(&table);
        bench.args(["--seconds", &format!("{:.0}", (options.seconds * share / shares).max(1.0))]);
        if options.quick {
            bench.arg("--quick");
        }
        if options.record {
            bench.arg("--record");
        }
        let status = bench.status().with_context(|| format!("cannot start {}", shown(&bench)))?;
        if !status.success() {
            wrong.push(*name);
        }
        let text = fs::read_to_string(&table)
            .with_context(|| format!("{name} wrote no table: {status}"))?;
        tables.push('\n');
        tables.push_str(&text);
    }
    let closing = closing_path(workspace, options)?;
    let mut text = head(&load_before)?;
    text.push_str(&missed(&tables));
    text.push_str(&tables);
    fs::write(&closing, text).with_context(|| closing.display().to_string())?;
    println!("{}", closing.display());
    if !wrong.is_empty() {
        bail!("wrong results: {} (see above, and {})", wrong.join(", "), closing.display());
    }
    Ok(())
}

/// Where the tables go.
fn closing_path(workspace: &Workspace, options: &Options) -> anyhow::Result<PathBuf> {
    Ok(if options.record {
        workspace.root.join(format!(
            "benches/records/{}-closing.md",
            said_by(&mut Command::new("date"), &["+%F"])?
        ))
    } else {
        workspace.target.join("bench/closing.md")
    })
}

/// What was measured on what.
fn head(load_before: &str) -> anyhow::Result<String> {
    let model = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
    let model = model.as_deref().unwrap_or("unknown processors");
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    Ok(format!(
        "# Closing table\n\n`cargo xtask bench` on {processors} x {model}, Linux {}, {}. Load \
         before: {load_before}; after: {}.\n",
        said_by(&mut Command::new("uname"), &["-r"])?,
        said_by(&mut Command::new("rustc"), &["--version"])?,
        load(),
    ))
}

/// The load averages, which tell how quiet the machine was.
fn load() -> String {
    let load = LoadAverage::current();
    load.map_or("unknown".to_owned(), |load| format!("{} {} {}", load.one, load.five, load.fifteen))
}

fn said_by(command: &mut Command, arguments: &[&str]) -> anyhow::Result<String> {
    let output = command
        .args(arguments)
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The rows of the tables that missed their bar, with their case.
fn missed(tables: &str) -> String {
    let mut text = String::from("\n## Bars that were missed\n\n");
    let (mut case, mut none) = ("", true);
    for line in tables.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            case = name;
        } else if let Some(row) = line.strip_prefix("| ").filter(|row| row.contains(": MISSED")) {
            let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
            let [engine, bound, rtt, _, _, time, _, trips, ..] = cells[..] else { continue };
            let bar = cells.last().copied().unwrap_or_default().trim_end_matches(": MISSED");
            let _ = writeln!(
                text,
                "- {case}: {engine}, {bound}, {rtt}: {time}, {trips} round trips; bar {bar}"
            );
            none = false;
        }
    }
    if none {
        text.push_str("None.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_bars_are_listed_with_case_and_row() {
        let tables = "## fork_join\n\n### barrier\n\n| engine | row | rtt | n | rtt ns | time | \
                      spread | /rtt | /ours | bar |\n\
                      | nanothreads | bound | far | 3 | 340.0 | 600.0 ns | 590.0 ns - 612.0 ns | \
                      1.76 | 1.00 | 1.6 rtt: MISSED |\n\
                      | nanothreads | unbound | near | 3 | 64.0 | 90.0 ns | 88.0 ns - 91.0 ns | \
                      1.41 | 1.00 | 1.6 rtt: met |\n";
        assert_eq!(
            missed(tables).lines().last(),
            Some("- barrier: nanothreads, bound, far: 600.0 ns, 1.76 round trips; bar 1.6 rtt")
        );
        assert!(missed("### barrier\n").ends_with("None.\n"));
    }

    #[test]
    fn all_of_the_time_is_given_out() {
        let sum: f64 = BENCHES.iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
}
