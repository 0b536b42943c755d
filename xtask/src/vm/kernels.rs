//! The papers' programs in the guest: eight processors, any interleaving, each result verified.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};

use super::guest::{self, Boot, Task};
use super::needs::Needs;
use crate::artifact;
use crate::setup::Workspace;
use crate::shim::{self, Form};
use crate::suite::kernel;

/// The size: the guest computes at a fiftieth of the machine's speed.
const CLASS: &str = "S";
/// Programs of short regions, one after the other: eight threads on the machine's few processors
/// take up to a second for each one, and a tenth of them shows as much.
const SHORTENED: [(&str, &str); 2] =
    [("c/papers/apsi", "--steps 40"), ("c/papers/overhead", "--regions 100")];
/// Seconds of one program.
const LONGEST_PROGRAM: u32 = 900;
/// Seconds of all of them.
const LONGEST: u32 = 7200;
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
    let programs = openmp(workspace, folder)?;
    let mut tasks: Vec<Task> =
        programs.into_iter().map(|(name, program)| task(name, program)).collect();
    tasks.extend(rust(workspace)?);
    let is_wanted =
        |task: &Task| options.test.as_deref().is_none_or(|part| task.name.contains(part));
    tasks.retain(is_wanted);
    if tasks.is_empty() {
        bail!("--test: no program of kernels/ has such a name");
    }
    println!("built in {:.0} s", begin.elapsed().as_secs_f64());
    let (name, longest) = ("kernels", LONGEST);
    let boot = Boot { needs, folder, name, variables: &[], extra: &[], others: &[], longest };
    let booted = Instant::now();
    let outcomes = boot.run(&tasks)?;
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
        booted.elapsed().as_secs_f64(),
        boot.log().display()
    );
    if !failed.is_empty() {
        bail!("failed in the guest: {}", failed.join(", "));
    }
    Ok(outcomes.len() as u64)
}

fn task(name: String, program: PathBuf) -> Task {
    let shortened = SHORTENED.iter().find(|(of, _)| *of == name).map_or("", |(_, fewer)| fewer);
    let arguments = format!("--class {CLASS} --json --quiet {shortened}").trim_end().to_owned();
    Task { name, program, arguments, limit: LONGEST_PROGRAM, ..Task::default() }
}

/// What gfortran's static library calls at the end of a program, and refers to weakly: what nothing
/// else takes out of the C library is a call of address 0 there, with gcc's own libgomp, too.
const WEAK: [&str; 8] = [
    "pthread_cond_broadcast",
    "pthread_cond_destroy",
    "pthread_cond_init",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
];

/// Those in C and Fortran, with our library inside: the compiler looks for its own by `-lgomp`, and
/// finds ours under this name first.
pub(super) fn openmp(
    workspace: &Workspace,
    folder: &Path,
) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let library = as_libgomp(workspace, Form::Tested, &folder.join("kernels.library"))?;
    let folder = folder.join("kernels");
    // The makefile does not know of the library, which may be another one than the last time.
    for below in ["c", "c/papers", "fortran"] {
        unlink_programs(&folder.join(below))?;
    }
    let wanted: String = WEAK.iter().map(|name| format!(" -Wl,-u,{name}")).collect();
    let settings = [format!("LDFLAGS=-static -s -L{}{wanted}", library.display())];
    kernel::build_openmp(workspace, &folder, &settings)
}

/// A folder with our static library under the name that the compiler looks for by `-lgomp`.
pub(super) fn as_libgomp(
    workspace: &Workspace,
    form: Form,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let library = shim::run(workspace, form)?.join("libnanos_omp.a");
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::copy(&library, folder.join("libgomp.a"))
        .with_context(|| format!("cannot copy {}", library.display()))?;
    Ok(folder.to_owned())
}

/// Removes the programs of a folder, which have no ending, so that they are linked anew.
fn unlink_programs(folder: &Path) -> anyhow::Result<()> {
    let shown = || format!("cannot clear {}", folder.display());
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        if path.is_file() && path.extension().is_none() {
            std::fs::remove_file(&path).with_context(shown)?;
        }
    }
    Ok(())
}

fn rust(workspace: &Workspace) -> anyhow::Result<Vec<Task>> {
    let programs = guest::build(workspace, ["build", "--package", PACKAGE, "--bins"])?;
    let of_rust = |it: artifact::Artifact| task(format!("rust/{}", it.name), it.path);
    Ok(programs.into_iter().map(of_rust).collect())
}
