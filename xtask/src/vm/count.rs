//! Cache lines and instructions per region, counted by a plugin of the emulator: for each variant
//! and 2, 4, 8 threads.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::guest::{self, LONGEST, PROCESSORS, TARGET, Task, Turns, static_flags};
use super::kernels;
use super::needs::Needs;
use crate::artifact;
use crate::setup::{Compiler, Workspace};
use crate::shim::Form;

/// The program that is counted.
const PACKAGE: &str = "nanos-transfers";
/// Regions of each phase.
const REGIONS: u32 = 200;
const THREADS: [usize; 3] = [2, 4, 8];
/// How the names of variants begin that must stay within [`bar`].
const OURS: &str = "nanothreads";
/// A region of our OpenMP library whose body never had a task: members leave it as they do a region
/// of the engine. Where it had one they wait for all others first ([`HAD_TASK`]), which two lines
/// more for each worker pay for.
const OPENMP: &str = "openmp";
const HAD_TASK: &str = "openmp-had-task";
/// A tree of tasks, whose bar is [`TREE_BAR`] with two threads.
const TREE: &str = "tasks-tree";
/// Lines that its 552 tasks may move between two threads: one for two tasks. They move some 115; a
/// line that both write for each of their tasks makes that one a task.
const TREE_BAR: u64 = 276;
/// Seconds for one phase.
const LONGEST_PHASE: u32 = 60;

/// Lines that an empty region may move: one out to each slave, one back, and one to spare.
fn bar(threads: usize) -> u64 {
    2 * (threads as u64 - 1) + 1
}

/// Lines that this variant may move at most, if there is a limit. More than two threads have none
/// for the tree: most of what they move are looks for tasks that are not there.
fn most(variant: &str, threads: usize) -> Option<u64> {
    match (variant, threads) {
        (TREE, 2) => Some(TREE_BAR),
        // A third line out: what the team is, which the master writes for each region.
        (OPENMP, _) => Some(bar(threads) + threads as u64 - 1),
        (name, _) => name.starts_with(OURS).then(|| bar(threads)),
    }
}

/// One phase.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    variant: String,
    threads: usize,
    /// What the plugin found, in the order of its header.
    numbers: Vec<u64>,
}

/// All phases, and what their columns are called.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    header: Vec<String>,
    rows: Vec<Row>,
}

/// Counts, prints the table, and writes it to `count.csv` in the folder.
pub(super) fn run(
    workspace: &Workspace,
    compiler: &Compiler,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let plugin = folder.join("count.so");
    compiler.build_shared(&workspace.root.join("xtask/vm/count.c"), &plugin)?;
    let regions = workspace.root.join("xtask/vm/regions.c");
    let (libgomp, openmp) = (folder.join("libgomp"), folder.join("openmp"));
    compiler.build_static(&regions, &libgomp)?;
    let library = kernels::as_libgomp(workspace, Form::Shipped, &folder.join("count.library"))?;
    compiler.build_static_with(&regions, &openmp, &library)?;
    let program = build(workspace)?;
    let listing = Command::new(&program)
        .arg("--list")
        .output()
        .context("cannot start the program that is counted")?;
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    let mut tasks = Vec::new();
    for threads in THREADS.into_iter().filter(|threads| *threads <= PROCESSORS) {
        let task = |name: &str, program: &Path, arguments: String| Task {
            name: format!("{name}/{threads}"),
            program: program.to_owned(),
            arguments,
            limit: LONGEST_PHASE,
            ..Task::default()
        };
        tasks.extend(listing.lines().map(|name| {
            task(
                name,
                &program,
                format!("--variant {name} --threads {threads} --regions {REGIONS}"),
            )
        }));
        tasks.push(task("libgomp", &libgomp, format!("{threads} {REGIONS}")));
        tasks.push(task(OPENMP, &openmp, format!("{threads} {REGIONS}")));
        tasks.push(task(HAD_TASK, &openmp, format!("{threads} {REGIONS} task")));
    }
    let image = folder.join("count.cpio");
    let variables =
        [("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true"), ("GOMP_SPINCOUNT", "infinite")];
    let variables = variables.map(|(name, value)| (name, value.to_owned()));
    let archive = guest::archive(needs, folder, &tasks, &variables, &[])?;
    std::fs::write(&image, archive).with_context(|| format!("cannot write {}", image.display()))?;
    let counts = folder.join("counts.csv");
    let extra = ["-plugin".to_owned(), format!("{},out={}", plugin.display(), counts.display())];
    let (outcomes, _) =
        guest::boot(needs, &image, Turns::Taken, &extra, &folder.join("count.log"), LONGEST)?;
    if let Some(outcome) = outcomes.iter().find(|outcome| outcome.code != 0) {
        bail!("{} failed in the guest with {}:\n{}", outcome.name, outcome.code, outcome.text);
    }
    let text = std::fs::read_to_string(&counts)
        .with_context(|| format!("cannot read {}", counts.display()))?;
    let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.name.as_str()).collect();
    let counts = Counts::read(&text, &names)?;
    let file = folder.join("count.csv");
    std::fs::write(&file, counts.csv())
        .with_context(|| format!("cannot write {}", file.display()))?;
    println!("{}", counts.table()?);
    println!("all numbers: {}", file.display());
    counts.judge()?;
    Ok(outcomes.len() as u64)
}

/// The program that runs the phases, static.
fn build(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let mut command = workspace.cargo(["build", "--package", PACKAGE]);
    command
        .args(["--profile", "bench", "--target", TARGET, "--target-dir"])
        .arg(workspace.target.join("guest"));
    let built = artifact::build(command.env("RUSTFLAGS", static_flags()))?;
    Ok(built.into_iter().next().context("cargo built no `transfers`")?.path)
}

impl Counts {
    /// Joins the plugin's lines, one for each phase, with the names of the phases.
    fn read(text: &str, names: &[&str]) -> anyhow::Result<Counts> {
        let mut lines = text.lines();
        let header = lines
            .next()
            .context("the plugin wrote nothing")?
            .split(',')
            .map(str::to_owned)
            .collect::<Vec<_>>();
        let lines: Vec<&str> = lines.collect();
        if lines.len() != names.len() {
            bail!("{} phases were run and {} counted", names.len(), lines.len());
        }
        let row = |(name, line): (&&str, &str)| {
            let (variant, threads) =
                name.split_once('/').context("a phase has no number of threads")?;
            let numbers = line.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>();
            let numbers = numbers.with_context(|| format!("the plugin wrote `{line}`"))?;
            if numbers.len() != header.len() || numbers[0] != u64::from(REGIONS) {
                bail!("{name}: {REGIONS} regions were run, the plugin wrote `{line}`");
            }
            Ok(Row { variant: variant.to_owned(), threads: threads.parse()?, numbers })
        };
        let rows = names.iter().zip(lines).map(row).collect::<anyhow::Result<_>>()?;
        Ok(Counts { header, rows })
    }

    fn number(&self, row: &Row, column: &str) -> anyhow::Result<u64> {
        let at = self.header.iter().position(|name| name == column);
        Ok(row.numbers[at.with_context(|| format!("the plugin has no column {column}"))?])
    }

    fn csv(&self) -> String {
        let mut text = format!("variant,threads,{}\n", self.header.join(","));
        for Row { variant, threads, numbers } in &self.rows {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            text += &format!("{variant},{threads},{}\n", numbers.join(","));
        }
        text
    }

    fn table(&self) -> anyhow::Result<String> {
        let mut text =
            "Medians of a region (of a barrier in -barrier, of 64 tasks in tasks-, of 552 in \
             tasks-tree), all processors.\n"
                .to_owned();
        text += &format!(
            "{:<26}{:>8}{:>11}{:>8}{:>15}{:>14}{:>11}",
            "variant", "threads", "transfers", "bar", "invalidations", "instructions", "on master"
        );
        for row in &self.rows {
            text += &format!("\n{:<26}{:>8}", row.variant, row.threads);
            text += &format!(
                "{:>11}{:>8}",
                self.number(row, "transfers_median")?,
                most(&row.variant, row.threads).unwrap_or_else(|| bar(row.threads))
            );
            text += &format!("{:>15}", self.number(row, "invalidations_median")?);
            text += &format!("{:>14}", self.number(row, "instructions_median")?);
            text += &format!("{:>11}", self.number(row, "on_master_median")?);
        }
        Ok(text)
    }

    /// Fails when ours moves more lines than its bar, or when the counter is wrong: the marks alone
    /// move none, a token one from each thread to the next.
    fn judge(&self) -> anyhow::Result<()> {
        for row in &self.rows {
            let transfers = self.number(row, "transfers_median")?;
            let exactly = match row.variant.as_str() {
                "nothing" => Some(0),
                "ring" => Some(row.threads as u64),
                _ => None,
            };
            if let Some(right) = exactly.filter(|right| *right != transfers) {
                bail!(
                    "{} of {}: the counter says {transfers}, {right} is right",
                    row.variant,
                    row.threads
                );
            }
            let Some(most) = most(&row.variant, row.threads) else { continue };
            if transfers > most {
                bail!(
                    "{} with {} threads moves {transfers} lines, the bar is {most}",
                    row.variant,
                    row.threads
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(transfers: u64) -> anyhow::Result<Counts> {
        let text = format!("samples,transfers_median\n{REGIONS},0\n{REGIONS},{transfers}\n");
        Counts::read(&text, &["nothing/4", "nanothreads/4"])
    }

    #[test]
    fn a_region_that_moves_more_lines_than_the_bar_is_a_failure() {
        assert!(counts(7).unwrap().judge().is_ok());
        assert!(counts(8).unwrap().judge().is_err());
    }

    fn judge(name: &str, transfers: u64) -> anyhow::Result<()> {
        let text = format!("samples,transfers_median\n{REGIONS},{transfers}\n");
        Counts::read(&text, &[name])?.judge()
    }

    #[test]
    fn a_tree_whose_tasks_move_a_line_each_is_a_failure_with_two_threads() {
        assert!(judge("tasks-tree/2", 120).is_ok() && judge("tasks-tree/2", 600).is_err());
        assert!(judge("tasks-tree/8", 800).is_ok());
    }

    #[test]
    fn a_region_of_openmp_has_a_bar_unless_its_body_had_a_task() {
        assert!(judge("openmp/8", 22).is_ok() && judge("openmp/8", 23).is_err());
        assert!(judge("openmp-had-task/8", 60).is_ok());
    }

    #[test]
    fn a_counter_that_miscounts_is_a_failure() {
        assert!(judge("nothing/4", 0).is_ok() && judge("nothing/4", 1).is_err());
        assert!(judge("ring/4", 4).is_ok() && judge("ring/4", 3).is_err());
    }

    #[test]
    fn a_phase_that_was_not_counted_whole_is_a_failure() {
        assert!(Counts::read("samples\n200\n", &["a/2", "b/2"]).is_err());
        assert!(Counts::read("samples\n199\n", &["a/2"]).is_err());
        assert!(Counts::read("samples\n200\n", &["a/2"]).is_ok());
    }
}
