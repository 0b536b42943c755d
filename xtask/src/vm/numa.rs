//! Page migration in the guest: the tests that need several nodes, each by name; and placement and
//! the view of nodes by the manager's program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use super::guest::{self, Boot, LONGEST, Task};
use super::needs::Needs;
use super::{MANAGER, MANAGER_PLACE};
use crate::artifact::{self, Artifact};
use crate::setup::{Compiler, Language, Workspace, shown};
use crate::shim::{self, Form};
use crate::skips;

/// Whose tests they are.
const PACKAGE: &str = "nanothreads-upm";
/// The tests of nodes, and those of faults, which a kernel of another age runs, too.
const TESTS: [&str; 2] = ["numa", "faults"];
/// The manager's test of nodes, and what its output is told by: the other one has the same name.
const MANAGER_TEST: &str = "numa";
const MANAGER_NAME: &str = "cpumgr-numa";
/// The program whose pages are placed, its place in the guest, and the variable that names it.
const PLACES: (&str, &str, &str) =
    ("crates/cpumgr/tests/c/places.c", "bin/places", "CPUMGR_TEST_PLACES");
/// Where the drop-in library is in the guest, and where the loader looks for others.
const SHIM: &str = "lib/nanos";
const LIBRARIES: &str = "lib";
/// With this variable a machine without four nodes is a failure.
const REQUIRED: &str = "NANOS_NUMA_REQUIRED";
/// With this one each check has a fault.
const PLANTED: &str = "NANOS_NUMA_PLANTED";
/// Programs whose checks have no planted faults, and why.
const NOT_PLANTED: [(&str, &str); 1] =
    [("faults", "its sources and handlers are tried on any machine")];
/// Checks that have none, and why.
const CHECKS_NOT_PLANTED: [(&str, &str); 5] = [
    ("pages_of_a_process_are_shown_by_node_and_the_sum_is_that_of_the_areas", ANYWHERE),
    ("a_process_that_is_not_there_is_a_clear_error", ANYWHERE),
    ("a_process_that_is_dead_but_not_gone_is_a_clear_error", ANYWHERE),
    ("a_placement_that_cannot_be_is_refused_before_the_program_runs", ANYWHERE),
    ("a_placement_on_one_node_is_said_and_the_program_runs_and_is_told_of_it", ANYWHERE),
];
const ANYWHERE: &str = "any machine runs it";
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
    /// Each check is seen failing, too, in a second boot, with a fault that is planted for it.
    #[arg(long)]
    planted: bool,
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
    compiler: &Compiler,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let mut arguments = vec!["test", "--no-run", "--package", PACKAGE];
    arguments.extend(artifact::named("--test", TESTS));
    let mut programs = guest::build(workspace, arguments)?;
    let manager = ["test", "--no-run", "--package", MANAGER, "--test", MANAGER_TEST];
    let mut others: Vec<(String, PathBuf)> = Vec::new();
    for Artifact { name, path } in guest::build(workspace, manager)? {
        match name.as_str() {
            MANAGER => others.push((MANAGER_PLACE.1.to_owned(), path)),
            _ => programs.push(Artifact { name: MANAGER_NAME.to_owned(), path }),
        }
    }
    others.extend(placed(workspace, compiler, folder)?);
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
    let others: Vec<(&str, &Path)> =
        others.iter().map(|(place, path)| (place.as_str(), path.as_path())).collect();
    let booted = Instant::now();
    let boot = |name: &str, tasks: &[Task], planted: bool| {
        let in_guest = |place: &str| format!("/{place}");
        let mut variables = vec![
            (REQUIRED, "1".to_owned()),
            (skips::VARIABLE, "/tmp/skips".to_owned()),
            (MANAGER_PLACE.0, in_guest(MANAGER_PLACE.1)),
            (PLACES.2, in_guest(PLACES.1)),
            (shim::FOLDER, in_guest(SHIM)),
        ];
        variables.extend(planted.then(|| (PLANTED, "1".to_owned())));
        let (variables, others, longest) = (&variables[..], &others[..], LONGEST);
        let boot = Boot { needs, folder, name, variables, extra: &[], others, longest };
        Ok::<_, anyhow::Error>((boot.run(tasks)?, boot.log()))
    };
    let (outcomes, log) = boot("numa", &tasks, false)?;
    let mut passed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut failed = Vec::new();
    for outcome in &outcomes {
        for (name, verdict) in verdicts(&outcome.text) {
            println!("{}: {name}: {}", outcome.name, verdict.word());
            if verdict == Verdict::Well {
                passed.entry(&outcome.name).or_default().push(name);
            }
        }
        if outcome.code != 0 {
            println!("\n=== {} in the guest\n{}", outcome.name, outcome.text);
            failed.push(outcome.name.as_str());
        }
    }
    let count: usize = passed.values().map(Vec::len).sum();
    println!(
        "{count} tests in {:.0} s; the whole log: {}",
        booted.elapsed().as_secs_f64(),
        log.display()
    );
    if !failed.is_empty() {
        bail!("failed in the guest: {}", failed.join(", "));
    }
    if count == 0 {
        bail!("the guest ran no test of {} programs", tasks.len());
    }
    if options.planted {
        let is_planted = |task: &Task| NOT_PLANTED.iter().all(|(name, _)| *name != task.name);
        let tasks: Vec<Task> = tasks.into_iter().filter(is_planted).collect();
        let (outcomes, log) = boot("numa-planted", &tasks, true)?;
        let planted: BTreeMap<&str, Vec<(String, Verdict)>> =
            outcomes.iter().map(|it| (it.name.as_str(), verdicts(&it.text))).collect();
        seen_failing(&passed, &planted, &log)?;
    }
    Ok(count as u64)
}

/// Prints of each check that passed whether it failed with its fault.
fn seen_failing(
    passed: &BTreeMap<&str, Vec<String>>,
    planted: &BTreeMap<&str, Vec<(String, Verdict)>>,
    log: &Path,
) -> anyhow::Result<()> {
    let mut blind = Vec::new();
    for (program, names) in passed {
        if let Some((_, why)) = NOT_PLANTED.iter().find(|(name, _)| name == program) {
            println!("planted: {program}: no faults: {why}");
            continue;
        }
        for name in names {
            if let Some((_, why)) = CHECKS_NOT_PLANTED.iter().find(|(other, _)| other == name) {
                println!("planted: {program}: {name}: no fault: {why}");
                continue;
            }
            let told = planted.get(program).into_iter().flatten();
            let verdict = told.filter(|(other, _)| other == name).map(|(_, verdict)| *verdict);
            if verdict.eq([Verdict::Failed]) {
                println!("planted: {program}: {name}: seen failing");
            } else {
                println!("planted: {program}: {name}: NOT SEEN FAILING");
                blind.push(name.as_str());
            }
        }
    }
    if !blind.is_empty() {
        bail!("not seen failing (see {}): {}", log.display(), blind.join(", "));
    }
    Ok(())
}

/// The program whose pages are placed, and all that it loads, with their places in the guest.
fn placed(
    workspace: &Workspace,
    compiler: &Compiler,
    folder: &Path,
) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let library = shim::run(workspace, Form::Tested)?;
    let (source, place, _) = PLACES;
    let program = folder.join("places");
    compiler.build(Language::C, &workspace.root.join(source), &program)?;
    let mut ldd = Command::new("ldd");
    ldd.arg(&program).env("LD_LIBRARY_PATH", &library);
    let output = ldd.output().with_context(|| format!("cannot start {}", shown(&ldd)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(&ldd), output.status);
    }
    let mut all = vec![(place.to_owned(), program)];
    for path in loaded(&String::from_utf8_lossy(&output.stdout)) {
        let name = path.file_name().context("a library without a name")?.to_string_lossy();
        let place = match path.strip_prefix("/") {
            _ if path.starts_with(&library) => format!("{SHIM}/{name}"),
            // The program names the loader by its whole path.
            Ok(place) if name.starts_with("ld-") => place.to_string_lossy().into_owned(),
            _ => format!("{LIBRARIES}/{name}"),
        };
        all.push((place, path));
    }
    Ok(all)
}

/// The files that `ldd` names: `NAME => PATH (ADDRESS)`, or the loader's path alone.
fn loaded(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        path.trim().split(' ').next().filter(|path| path.starts_with('/')).map(PathBuf::from)
    };
    text.lines().filter_map(path).collect()
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
    use super::{BTreeMap, Path, PathBuf, loaded, seen_failing, verdicts};

    #[test]
    fn what_a_program_loads_is_read_with_its_loader_and_without_the_kernel_s_part() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgomp.so.1 => /t/libgomp.so.1 (0x7f)\n\
                    \tlibx.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let right = ["/t/libgomp.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(loaded(text), right);
    }

    #[test]
    fn a_check_that_passes_with_its_fault_or_does_not_tell_is_named() {
        let passed = BTreeMap::from([("numa", vec!["a".to_owned(), "b".to_owned()])]);
        let judge = |told: &[(&str, super::Verdict)]| {
            let told = told.iter().map(|(name, verdict)| ((*name).to_owned(), *verdict)).collect();
            let planted = BTreeMap::from([("numa", told)]);
            seen_failing(&passed, &planted, Path::new("log")).map_err(|error| error.to_string())
        };
        assert_eq!(judge(&[("a", Failed), ("b", Failed)]), Ok(()));
        for bad in [&[("a", Failed), ("b", Well)][..], &[("a", Failed)], &[("b", Skipped)]] {
            assert!(judge(bad).unwrap_err().ends_with('b'), "{bad:?}");
        }
    }

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
