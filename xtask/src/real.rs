//! Real programs from PyPI and Debian on the original OpenMP runtime and on ours: `tests/real`.

use std::path::PathBuf;
use std::process::Command;

use crate::setup::{Workspace, must_succeed};
use crate::{peers, shim, skips};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Programs, separated by commas; default: all (`tests/real/README.md` lists them).
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// Runs of each kind; the table has the medians of their times (alone each run has several).
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Seconds after which a run is killed.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    cap: f64,
    /// One run of each kind, killed after 6 seconds: the whole table in some ten minutes.
    #[arg(long, conflicts_with_all = ["repeats", "cap"])]
    quick: bool,
    /// Where the numbers go, as JSON lines.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// Builds library and manager in release and runs the comparison. Without python3 there is nothing
/// to run it with, which is said and is no failure.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    if Command::new("python3").arg("--version").output().is_err() {
        skips::note("real: there is no python3 here");
        return Ok(());
    }
    let library = shim::run(workspace, shim::Form::Shipped)?;
    must_succeed(&mut workspace.cargo(["build", "--release", "--package", "cpumgr"]))?;
    let mut command = Command::new("python3");
    command.arg(workspace.root.join("tests/real/run.py"));
    command.arg("--shim").arg(library).arg("--cpumgr").arg(workspace.target.join("release/cpumgr"));
    command.arg("--folder").arg(workspace.target.join("real"));
    match peers::libomp() {
        Ok(library) => _ = command.arg("--libomp").arg(library),
        Err(fault) => skips::note(format_args!("real: the column libomp: {fault:#}")),
    }
    let (repeats, cap) = if options.quick { (1, 6.0) } else { (options.repeats, options.cap) };
    command.args(["--repeats", &repeats.to_string(), "--cap", &cap.to_string()]);
    if let Some(names) = &options.only {
        command.args(["--only", names]);
    }
    if let Some(record) = &options.record {
        command.arg("--record").arg(record);
    }
    must_succeed(&mut command)
}
