//! Self-allocating threads in guests of four and of eight processors: asat's tests, and the paper's
//! program under each variant, whose results are verified.
//!
//! An emulated processor is preempted all the time, so that teams shrink and grow at each
//! evaluation. Whether they should is no question here: only whether results stay right. The
//! default version has busy loops beside it, so that its teams change, too.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};

use super::guest::{self, Boot, COMMAND_LINE, LONGEST, PROCESSORS, Task};
use super::kernels;
use super::needs::Needs;
use crate::artifact::{self, Artifact};
use crate::setup::Workspace;
use crate::skips;
use crate::suite::kernel;

/// Whose tests they are; of populations and transitions there is nothing to see in a guest, and
/// `hog` says how a team behaves where processors are not preempted.
const PACKAGE: &str = "nanothreads-asat";
const TESTS: [&str; 3] = ["alone", "forks", "meetings"];
/// The paper's program.
const PROGRAM: &str = "c/papers/serial_parallel";
/// Its size.
const CLASS: &str = "S";
/// Processors of the guests.
const SIZES: [usize; 2] = [4, PROCESSORS];
/// Each variant, with the time between its evaluations: short, so that there are many.
const DEFAULT: &str = "default";
const VARIANTS: [(&str, &str); 3] = [(DEFAULT, "20ms"), ("paper", "50ms"), ("reset", "50ms")];
/// Busy loops beside the default version: it asks the guest's kernel about others, and that knows
/// nothing of when an emulated processor does not run.
const HOGS: u32 = 2;
/// By so much teams are smaller than all processors at least: one that never changed is not.
const LEAST_CHANGE: f64 = 0.01;
/// Seconds of one program.
const LONGEST_PROGRAM: u32 = 300;

/// What to run.
///
/// Exit code 0: all well, or skipped for a reason that is printed; 1: something failed, or was
/// missing with `--require`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this guest.
    #[arg(long, value_name = "N", value_parser = ["4", "8"])]
    processors: Option<String>,
    /// Another kernel than Debian's cloud kernel.
    #[arg(long, value_name = "FILE")]
    pub(super) kernel: Option<PathBuf>,
    /// What the machine lacks is a failure, not a reason to skip.
    #[arg(long)]
    pub(super) require: bool,
}

/// Boots a guest for each size and variant; counts the programs that ended well.
pub(super) fn run(
    workspace: &Workspace,
    options: &Options,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let program = kernels::openmp(workspace, folder)?
        .remove(PROGRAM)
        .with_context(|| format!("kernels/ has no {PROGRAM}"))?;
    let tests = tests(workspace)?;
    println!("built in {:.0} s", begin.elapsed().as_secs_f64());
    let is_wanted = |size: &usize| {
        options.processors.as_deref().is_none_or(|wanted| wanted == size.to_string())
    };
    let mut passed = 0;
    let mut failed = Vec::new();
    for processors in SIZES.into_iter().filter(is_wanted) {
        for (variant, interval) in VARIANTS {
            let what = format!("{variant} on {processors} processors");
            println!("{what}:");
            let mut tasks = vec![Task {
                name: variant.to_owned(),
                program: program.clone(),
                arguments: format!("--class {CLASS} --json --quiet"),
                limit: LONGEST_PROGRAM,
                hogs: if variant == DEFAULT { HOGS } else { 0 },
                ..Task::default()
            }];
            // They make their own settings: once for each size.
            if variant == DEFAULT {
                tasks.extend(tests.iter().map(|Artifact { name, path }| Task {
                    name: name.clone(),
                    program: path.clone(),
                    arguments: String::new(),
                    limit: LONGEST_PROGRAM,
                    ..Task::default()
                }));
            }
            let variables = [
                ("NANOS_SIZER", "asat".to_owned()),
                ("ASAT_VARIANT", variant.to_owned()),
                ("ASAT_EVAL_TIME", interval.to_owned()),
                (skips::VARIABLE, "/tmp/skips".to_owned()),
            ];
            // The last command line is the guest's: it leaves the other processors off.
            let extra = ["-append".to_owned(), format!("{COMMAND_LINE} maxcpus={processors}")];
            let (name, longest) = (&*format!("asat-{processors}-{variant}"), LONGEST);
            let boot = Boot {
                needs,
                folder,
                name,
                variables: &variables,
                extra: &extra,
                others: &[],
                longest,
            };
            let outcomes = boot.run(&tasks)?;
            for outcome in &outcomes {
                let verdict = match outcome.code {
                    0 if outcome.name == variant => threads(&outcome.text, processors),
                    0 => Ok(()),
                    code => Err(anyhow::anyhow!("it ended with {code}")),
                };
                match verdict {
                    Ok(()) => passed += 1,
                    Err(fault) => {
                        println!("{}: FAILED: {fault:#}\n{}", outcome.name, outcome.text);
                        failed.push(format!("{}, {what}", outcome.name));
                    }
                }
            }
        }
    }
    println!("{passed} programs well in {:.0} s", begin.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("failed in the guest: {}", failed.join("; "));
    }
    Ok(passed)
}

/// Fails unless the program verified its result, had as many threads as the guest has processors at
/// first, and other teams then.
fn threads(text: &str, processors: usize) -> anyhow::Result<()> {
    let line = kernel::verified(text.trim_end(), CLASS)?;
    if line.threads as usize != processors {
        bail!("it began with {} threads on {processors} processors", line.threads);
    }
    let team = line.team.context("it does not tell of its teams")?;
    if team > processors as f64 - LEAST_CHANGE {
        bail!("its teams had {team:.3} threads on the average: that tested nothing");
    }
    let seconds: f64 = line.seconds.iter().sum();
    println!("  verified, {team:.2} of {processors} threads on the average, {seconds:.1} s");
    Ok(())
}

/// The tests that run in a guest.
fn tests(workspace: &Workspace) -> anyhow::Result<Vec<Artifact>> {
    let mut arguments = vec!["test", "--no-run", "--lib", "--package", PACKAGE];
    arguments.extend(artifact::named("--test", TESTS));
    guest::build(workspace, arguments)
}
