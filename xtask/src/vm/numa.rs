//! Page migration in the guest: the tests that need several nodes, each by name.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::bail;

use super::guest::{self, Boot, LONGEST, Task};
use super::needs::Needs;
use crate::artifact;
use crate::setup::Workspace;
use crate::skips;

/// Whose tests they are.
const PACKAGE: &str = "nanothreads-upm";
/// The tests of nodes, and those of faults, which a kernel of another age runs, too.
const TESTS: [&str; 2] = ["numa", "faults"];
/// With this variable a machine without four nodes is a failure.
const REQUIRED: &str = "NANOS_NUMA_REQUIRED";
/// Seconds of one program.
const LONGEST_PROGRAM: u32 = 400;

/// What to run.
///
/// Exit code 0: all well, or skipped for a reason that is printed; 1: something failed, or was
/// missing with `--require`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only tests of this name.
    #[arg(long, value_name = "NAME")]
    pub(super) test: Option<String>,
    /// Another kernel than Debian's cloud kernel.
    #[arg(long, value_name = "FILE")]
    pub(super) kernel: Option<PathBuf>,
    /// What the machine lacks is a failure, not a reason to skip.
    #[arg(long)]
    pub(super) require: bool,
}

/// Runs the tests and prints each one; counts those that passed and skipped nothing.
pub(super) fn run(
    workspace: &Workspace,
    options: &Options,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let mut arguments = vec!["test", "--no-run", "--package", PACKAGE];
    arguments.extend(artifact::named("--test", TESTS));
    let programs = guest::build(workspace, arguments)?;
    println!("built in {:.0} s", begin.elapsed().as_secs_f64());
    let filter = options.test.as_deref().unwrap_or("");
    let tasks: Vec<Task> = programs
        .into_iter()
        .map(|program| Task {
            name: program.name,
            program: program.path,
            // They bind threads and switch the kernel's balancing: one after the other.
            arguments: format!("--test-threads=1 --nocapture {filter}"),
            limit: LONGEST_PROGRAM,
            ..Task::default()
        })
        .collect();
    let variables = [(REQUIRED, "1".to_owned()), (skips::VARIABLE, "/tmp/skips".to_owned())];
    let (name, longest) = ("numa", LONGEST);
    let boot = Boot { needs, folder, name, variables: &variables, extra: &[], longest };
    let booted = Instant::now();
    let outcomes = boot.run(&tasks)?;
    let mut passed = 0;
    let mut failed = Vec::new();
    for outcome in &outcomes {
        let verdicts = verdicts(&outcome.text);
        for (name, verdict) in &verdicts {
            println!("{}: {name}: {}", outcome.name, verdict.word());
        }
        let is_well = |(_, verdict): &&(String, Verdict)| *verdict == Verdict::Well;
        passed += verdicts.iter().filter(is_well).count() as u64;
        if outcome.code != 0 {
            println!("\n=== {} in the guest\n{}", outcome.name, outcome.text);
            failed.push(outcome.name.as_str());
        }
    }
    println!(
        "{passed} tests in {:.0} s; the whole log: {}",
        booted.elapsed().as_secs_f64(),
        boot.log().display()
    );
    if !failed.is_empty() {
        bail!("failed in the guest: {}", failed.join(", "));
    }
    if passed == 0 {
        bail!("the guest ran no test of {} programs", tasks.len());
    }
    Ok(passed)
}

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Well,
    /// It lacked something there, and said so: it shows nothing, or only a part.
    Skipped,
    Failed,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Skipped => "skipped",
            Self::Failed => "FAILED",
        }
    }
}

/// The tests of a program that told of itself, in order, and what became of each. What a test
/// prints may stand between its name and its verdict.
fn verdicts(text: &str) -> Vec<(String, Verdict)> {
    let mut verdicts = Vec::new();
    let mut open: Option<(String, Verdict)> = None;
    for line in text.lines() {
        let begun = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        if let Some((name, _)) = begun {
            verdicts.extend(open.take().map(|(name, _)| (name, Verdict::Failed)));
            open = Some((name.to_owned(), Verdict::Well));
        }
        let said = begun.map_or(line, |(_, said)| said);
        if let Some((_, verdict)) = open.as_mut().filter(|_| said.starts_with("skipped")) {
            *verdict = Verdict::Skipped;
        }
        if line == "ok" || line.ends_with(" ... ok") || line.ends_with("ok") && begun.is_some() {
            verdicts.extend(open.take());
        }
    }
    verdicts.extend(open.map(|(name, _)| (name, Verdict::Failed)));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Failed, Skipped, Well};
    use super::verdicts;

    #[test]
    fn each_test_has_its_verdict_whatever_it_prints() {
        let text = "running 6 tests\ntest a ... ok\ntest b ... 3 windows\nok\n\
                    test c ... \nthread 'c' panicked\nFAILED\ntest e ... skipped: no x [y:1]\nok\n\
                    test f ... \nskipped (busy): z [y:2]\nFAILED\ntest d ... words\n";
        let right =
            [("a", Well), ("b", Well), ("c", Failed), ("e", Skipped), ("f", Failed), ("d", Failed)];
        let right = right.map(|(name, verdict)| (name.to_owned(), verdict));
        assert_eq!(verdicts(text), right);
        assert_eq!(verdicts("test result: ok. 4 passed"), []);
    }
}
