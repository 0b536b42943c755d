//! `cargo xtask reproduce daemon`: the simulator beside this daemon on this machine.
//!
//! # Protocol
//! 1. The suite's runner measures copies of some programs, managed and native, and with one thread
//!    (one copy, as many as there are processors, and twice as many): a record like that of `cargo
//!    xtask suite`. The inputs of the next step are measured twice as often as the cells, and among
//!    them, since every cell depends on them and machines change their speed within minutes.
//! 2. Each program alone is the simulator's input: its times on one processor and on all, what
//!    memory costs it when all processors use it, and what a slice's cold cache costs (`model`).
//! 3. `cpumgr simulate` says how long several copies take, under the daemon's default policy and
//!    under the kernel (`none`). Each is a cell beside what was measured (`table`).
//!
//! # Decisions
//! - Native is gcc's libgomp with `OMP_WAIT_POLICY=passive`: its waiting threads sleep. What spins
//!   (libgomp's default) depends on how long regions are, which no record has, and collapses;
//!   `docs/simulator.md` has what that part of the model was fitted to.
//! - A copy alone is an input. Its cells are shown, and do not count.
//!
//! # Verdict
//! Half of the cells may be off by [`MEDIAN`] at most, and none by more than [`WORST`]; else the
//! task fails.

mod model;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use self::model::{Alone, Side};
use self::table::Cells;
use crate::setup::{Workspace, shown};
use crate::suite;

/// What the middle one of the errors may be.
const MEDIAN: f64 = 0.1;
/// What each error may be.
const WORST: f64 = 0.2;
/// Programs that wait in the library: with short and long regions, some of them held back by
/// memory.
const PROGRAMS: [&str; 4] = ["c/cg", "c/ft", "c/mg", "c/bt"];

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Programs by their place in `kernels/`.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = PROGRAMS)]
    programs: Vec<String>,
    /// Copies of each program at the same time.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "2", "3", "4"], value_parser = clap::value_parser!(u16).range(1..=64))]
    copies: Vec<u16>,
    /// How often each is run; the middle one counts. What the simulator is told is measured twice
    /// as often.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Seconds that a copy alone takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,
    /// What is measured, or was, in the form of `cargo xtask suite` [default:
    /// target/daemon/suite.csv].
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Goes on with a record where an earlier run ended.
    #[arg(long, conflicts_with = "only_compare")]
    resume: bool,
    /// Measures nothing: compares what the record has.
    #[arg(long)]
    only_compare: bool,
    /// Writes the cells as comma-separated values, too.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(super) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let usual = || workspace.target.join("daemon/suite.csv");
    let path = options.record.clone().unwrap_or_else(usual);
    let simulator = workspace.target.join("release/cpumgr");
    if options.only_compare {
        let build = &mut workspace.cargo(["build", "--release", "--package", "cpumgr"]);
        crate::setup::must_succeed(build)?;
        print!("{}", compare(&simulator, &suite::read(&path)?, options)?);
        return Ok(());
    }
    let (seconds, repetitions) = (options.seconds, options.repetitions);
    ensure!((0.05..=600.0).contains(&seconds), "--seconds: {seconds}; it is from 0.05 to 600");
    let processors = crate::measure::usable()?;
    let mut copies = options.copies.clone();
    // What the model is made of.
    let all = u16::try_from(processors).context("too many processors")?;
    copies.extend([1, all, all.checked_mul(2).context("too many processors")?]);
    copies.sort_unstable();
    copies.dedup();
    let runtimes = [suite::Runtime::One, Side::Managed.runtime(), Side::Native.runtime()];
    let programs = options.programs.clone();
    let asked = suite::Options::of_copies(programs, &copies, &runtimes, 2 * repetitions, seconds);
    let wants = |cell: &suite::Cell| {
        let copies = cell.scenario.0.len();
        match cell.runtime {
            suite::Runtime::One => [1, processors, 2 * processors].contains(&copies),
            _ if copies == 1 => true,
            _ => {
                let wanted = options.copies.iter().any(|it| usize::from(*it) == copies);
                wanted && cell.repetition.is_multiple_of(2)
            }
        }
    };
    suite::measure(workspace, &asked.resumed(options.resume), &path, wants, |record| {
        compare(&simulator, &record.rows, options)
    })
}

/// The table; an error where a bar is missed.
fn compare(simulator: &Path, rows: &[suite::Row], options: &Options) -> anyhow::Result<String> {
    let mut cells = Cells::of(rows)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    for program in cells.programs() {
        let alone = Alone::of(rows, &program)?;
        for (side, copies) in cells.of_program(&program) {
            let file = folder.path().join("workload.toml");
            std::fs::write(&file, alone.workload(side, copies))
                .with_context(|| file.display().to_string())?;
            cells.predict(&program, side, copies, simulate(simulator, &file, side)?);
        }
    }
    if let Some(path) = &options.csv {
        std::fs::write(path, cells.csv(rows)?).with_context(|| path.display().to_string())?;
    }
    let (text, missed) = (cells.table(), cells.missed(MEDIAN, WORST));
    if !missed.is_empty() {
        bail!("{text}{}", missed.join("\n"));
    }
    Ok(text)
}

#[derive(Deserialize)]
struct Report {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    measures: Measures,
}

#[derive(Deserialize)]
struct Measures {
    response_s: f64,
}

/// The mean time from the start of a copy to its end.
fn simulate(program: &Path, file: &Path, side: Side) -> anyhow::Result<f64> {
    let mut command = Command::new(program);
    command.arg("simulate").arg(file).args(["--json", "--policy", side.policy()]);
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(&command), String::from_utf8_lossy(&output.stderr).trim());
    }
    let report: Report = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("cannot read what {} printed", shown(&command)))?;
    Ok(report.runs.first().context("no run was simulated")?.measures.response_s)
}
