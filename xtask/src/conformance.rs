//! The OpenMP test suites of gcc on the drop-in library: the harness stands beside the repository, in `../shared`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::setup::{Workspace, must_succeed};
use crate::shim;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Suites of the harness.
    #[arg(value_name = "SUITE", default_values = ["gcc-c", "gcc-c++", "gcc-fortran"])]
    suites: Vec<String>,
    /// Link the static library instead (C and Fortran only).
    #[arg(long = "static")]
    linked: bool,
    /// The harness; default: `shared/conformance/conformance.py` beside the repository.
    #[arg(long, value_name = "FILE")]
    harness: Option<PathBuf>,
}

/// Builds the library and runs the harness on it. Without a harness there is nothing to run, which is said and is no
/// failure, unless one was named.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let beside = workspace.root.join("../shared/conformance/conformance.py");
    let harness = options.harness.clone().unwrap_or(beside);
    if !harness.is_file() {
        if options.harness.is_some() {
            bail!("no conformance harness at {}", harness.display());
        }
        println!("conformance: skipped, there is no harness at {}", harness.display());
        return Ok(());
    }
    let library = shim::run(workspace)?;
    let mut command = Command::new("python3");
    command.arg(&harness);
    for suite in &options.suites {
        command.args(["--suite", suite]);
    }
    if options.linked {
        command.arg("--static").arg(library.join("libnanos_omp.a")).arg("system");
    } else {
        command.arg(&library);
    }
    must_succeed(&mut command)
}
