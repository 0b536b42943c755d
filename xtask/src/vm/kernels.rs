//! The papers' programs in the guest: eight processors, any interleaving, each result verified.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};

use super::guest::{self, PROFILE, TARGET, Task, Turns, static_flags};
use super::needs::Needs;
use crate::artifact;
use crate::setup::Workspace;
use crate::shim::{self, Form};
use crate::suite::kernel;

/// The size: the guest computes at a fiftieth of the machine's speed.
const CLASS: &str = "S";
/// Seconds of one program.
const LONGEST_PROGRAM: u32 = 300;
/// Seconds of all of them.
const LONGEST: u32 = 3000;
/// The package of those in Rust.
const PACKAGE: &str = "nanothreads-kernels";

/// What to run.
///
/// Exit code 0: all verified, or skipped for a reason that is printed; 1: something failed, or was
/// missing with `--require`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only programs whose name contains this: `c/cg`, `fortran/`, `rust/mg`.
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Another kernel than Debian's cloud kernel.
    #[arg(long, value_name = "FILE")]
    pub(super) kernel: Option<PathBuf>,
    /// What the machine lacks is a failure, not a reason to skip.
    #[arg(long)]
    pub(super) require: bool,
}

/// Runs each program once on all processors of the guest; counts those that were verified.
pub(super) fn run(
    workspace: &Workspace,
    options: &Options,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let mut tasks = openmp(workspace, folder)?;
    tasks.extend(rust(workspace)?);
    let is_wanted =
        |task: &Task| options.test.as_deref().is_none_or(|part| task.name.contains(part));
    tasks.retain(is_wanted);
    if tasks.is_empty() {
        bail!("--test: no program of kernels/ has such a name");
    }
    println!("built in {:.0} s", begin.elapsed().as_secs_f64());
    let image = folder.join("kernels.cpio");
    let archive = guest::archive(needs, folder, &tasks, &[], &[], None)?;
    std::fs::write(&image, archive).with_context(|| format!("cannot write {}", image.display()))?;
    let log = folder.join("kernels.log");
    let boot = Instant::now();
    let (outcomes, _) = guest::boot(needs, &image, Turns::None, &[], &log, LONGEST)?;
    let mut failed = Vec::new();
    for outcome in &outcomes {
        let verdict = match outcome.code {
            0 => kernel::verified(outcome.text.trim_end(), CLASS).and_then(|line| {
                // A program that had one thread tested nothing.
                anyhow::ensure!(
                    line.threads as usize == guest::PROCESSORS,
                    "{} threads",
                    line.threads
                );
                Ok(line)
            }),
            code => Err(anyhow::anyhow!("it ended with {code}")),
        };
        match verdict {
            Ok(line) => {
                let seconds: f64 = line.seconds.iter().sum();
                println!("{}: verified, {} threads, {seconds:.1} s", outcome.name, line.threads);
            }
            Err(fault) => {
                println!("{}: FAILED: {fault:#}\n{}", outcome.name, outcome.text);
                failed.push(outcome.name.as_str());
            }
        }
    }
    println!(
        "{} programs in {:.0} s; the whole log: {}",
        outcomes.len(),
        boot.elapsed().as_secs_f64(),
        log.display()
    );
    if !failed.is_empty() {
        bail!("failed in the guest: {}", failed.join(", "));
    }
    if outcomes.len() != tasks.len() {
        bail!("the guest told of {} of {} programs", outcomes.len(), tasks.len());
    }
    Ok(outcomes.len() as u64)
}

fn task(name: String, program: PathBuf) -> Task {
    let arguments = format!("--class {CLASS} --json --quiet");
    Task { name, program, arguments, limit: LONGEST_PROGRAM }
}

/// Those in C and Fortran, with our library inside: the compiler looks for its own by `-lgomp`, and
/// finds ours under this name first.
fn openmp(workspace: &Workspace, folder: &Path) -> anyhow::Result<Vec<Task>> {
    let library = shim::run(workspace, Form::Tested)?.join("libnanos_omp.a");
    let named = folder.join("kernels.library");
    std::fs::create_dir_all(&named).with_context(|| format!("cannot make {}", named.display()))?;
    std::fs::copy(&library, named.join("libgomp.a"))
        .with_context(|| format!("cannot copy {}", library.display()))?;
    let settings = [format!("LDFLAGS=-static -s -L{}", named.display())];
    let programs = kernel::build_openmp(workspace, &folder.join("kernels"), &settings)?;
    Ok(programs.into_iter().map(|(name, program)| task(name, program)).collect())
}

fn rust(workspace: &Workspace) -> anyhow::Result<Vec<Task>> {
    let mut command = workspace.cargo(["build", "--package", PACKAGE, "--bins"]);
    command
        .args(["--profile", PROFILE, "--target", TARGET, "--target-dir"])
        .arg(workspace.target.join("guest"));
    let programs = artifact::build(command.env("RUSTFLAGS", static_flags()))?;
    let of_rust = |it: artifact::Artifact| task(format!("rust/{}", it.name), it.path);
    Ok(programs.into_iter().map(of_rust).collect())
}
