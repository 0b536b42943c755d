//! The OpenMP test suites of gcc on the drop-in library, alone or under a manager that changes its
//! mind all the time (`crates/cpumgr/examples/flip_policy.rs`): the harness stands beside the
//! repository, in `../shared`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::demo::Trace;
use crate::measure::{Manager, processors, usable};
use crate::setup::{Workspace, must_succeed};
use crate::shim::{self, Form};
use crate::skips;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Suites of the harness.
    #[arg(value_name = "SUITE", default_values = ["gcc-c", "gcc-c++", "gcc-fortran"])]
    suites: Vec<String>,
    /// Link the static library instead (C and Fortran only).
    #[arg(long = "static")]
    linked: bool,
    /// Under a manager that flips every grant between one processor and two each 20 ms.
    #[arg(long)]
    flip: bool,
    /// The results of all tests, one a line.
    #[arg(long, value_name = "FILE")]
    tsv: Option<PathBuf>,
    /// The harness; default: `shared/conformance/conformance.py` beside the repository.
    #[arg(long, value_name = "FILE")]
    harness: Option<PathBuf>,
    #[arg(skip = Form::Shipped)]
    form: Form,
}

impl Options {
    /// What `cargo xtask test` runs.
    pub(crate) fn of_tests() -> Self {
        Self {
            suites: vec!["gcc-c".into()],
            linked: false,
            flip: false,
            tsv: None,
            harness: None,
            form: Form::Tested,
        }
    }
}

/// Builds the library and runs the harness on it. Without a harness there is nothing to run, which
/// is said and is no failure, unless one was named: then false.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<bool> {
    let beside = workspace.root.join("../shared/conformance/conformance.py");
    let harness = options.harness.clone().unwrap_or(beside);
    if !harness.is_file() {
        if options.harness.is_some() {
            bail!("no conformance harness at {}", harness.display());
        }
        skips::note(format_args!("conformance: there is no harness at {}", harness.display()));
        return Ok(false);
    }
    let library = shim::run(workspace, options.form)?;
    let mut command = Command::new("python3");
    command.arg(&harness);
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let manager =
        if options.flip { Some(flipping(workspace, &library, folder.path())?) } else { None };
    if manager.is_some() {
        command
            .arg("--env")
            .arg(format!("NANOS_CPUMGR={}", folder.path().join("app.sock").display()));
    }
    if let Some(tsv) = &options.tsv {
        command.arg("--tsv").arg(tsv);
    }
    for suite in &options.suites {
        command.args(["--suite", suite]);
    }
    if options.linked {
        command.arg("--static").arg(library.join("libnanos_omp.a")).arg("system");
    } else {
        command.arg(&library);
    }
    let result = must_succeed(&mut command);
    if let Some(manager) = manager {
        let trace = Trace::read(&manager.finish()?.trace)?;
        println!("conformance: the manager changed grants {} times", trace.allocations());
    }
    result.map(|()| true)
}

/// A manager that changes its mind, on two processors, in `folder`.
fn flipping(workspace: &Workspace, library: &Path, folder: &Path) -> anyhow::Result<Manager> {
    if usable()? < 2 {
        bail!("--flip needs two processors");
    }
    workspace.build_managers()?;
    let program = workspace.target.join("debug/examples/flip_policy");
    let processors: Vec<String> = processors()?.iter().take(2).map(u32::to_string).collect();
    let cpus = processors.join(",");
    Manager::start(
        &program,
        library,
        folder,
        &["--policy", "flip", "--quantum", "20ms", "--cpus", &cpus],
    )
}
