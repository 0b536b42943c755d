//! Virtual machines that have what the machine at hand lacks: processors and nodes.
//!
//! `smp` runs the engine's tests, and the manager with programs under every policy, in a guest of 8
//! processors on 4 nodes; `kernels` the papers' programs there; `asat` self-allocating threads,
//! also on 4 processors; `numa` the tests of page migration, which need the nodes; `oracle` counts
//! what page migration gains; `systemd` tries the package and the service. Everything in it is
//! emulated (QEMU's TCG): slow, but each processor is a thread that the kernel runs when it likes,
//! so that all interleavings happen, and time says nothing.
//!
//! Where `smp` is one lane of many, a program that fails runs once more, and fails the lane if it
//! fails again; what failed once is listed at the end. By hand each failure is one.

mod asat;
mod count;
mod cpio;
mod guest;
mod kernels;
mod needs;
mod numa;
mod oracle;
mod systemd;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Subcommand;

use self::guest::{TARGET, Task, Turns};
use self::needs::Needs;
use crate::artifact::{self, Artifact};
use crate::setup::{Compiler, Workspace};
use crate::skips;

/// Seconds that one program in a guest may take.
const LONGEST_PROGRAM: u32 = 300;
/// All of them.
const LONGEST_SMP: u32 = 1500;
/// Programs that take far longer than the others, and how many seconds: where the lane is one of
/// many, they begin when so much time is left.
const LONG: [(&str, u64); 3] = [("policies", 200), ("hand_over", 200), ("turns", 200)];
/// Seconds that the manager with its tests and the examples take to build, and some to run them.
const BUILD_OF_MANAGER: u64 = 180;
/// Seconds for the stress test where the lane is one of many.
const SHORT_STRESS: u64 = 10;
/// The crates whose tests run in the guest.
const PACKAGES: [&str; 5] = [
    "nanothreads",
    "nanothreads-engine",
    "nanothreads-arena",
    "nanothreads-platform",
    "nanothreads-asat",
];
/// The manager, and its tests that run in the guest: real programs under every policy, control
/// groups, several users, a domain's books, gangs that are out, releases (with how long they take,
/// compared with a bare chain).
const MANAGER: &str = "cpumgr";
const MANAGER_TESTS: [&str; 6] = ["policies", "fence", "users", "domain", "gangs", "release"];
/// Tests of programs on the engine under the manager, and whose they are.
const TOGETHER: &str = "nanos";
const TOGETHER_TESTS: [&str; 2] = ["hand_over", "turns"];
/// Tests that print what they measure, and how such lines begin: they are shown of programs that
/// ended well.
const MEASURING: [&str; 4] = [TOGETHER_TESTS[0], TOGETHER_TESTS[1], "gangs", "release"];
const SHOWN: &str = "measured: ";
/// Where the guest has the manager's program, and the variable that tells the tests.
const MANAGER_PLACE: (&str, &str) = ("CPUMGR_TEST_MANAGER", "bin/cpumgr");
/// Test programs that have nothing to say in a guest, and why.
const NOT_RUN: [(&str, &str); 6] = [
    ("planted_faults", "it is for sanitizers"),
    ("golden_layout", "it compiles to the same numbers"),
    ("hog", PREEMPTED),
    ("reaction", PREEMPTED),
    ("populations", "it has no threads"),
    ("transitions", "it has no threads"),
];
const PREEMPTED: &str = "an emulated processor is preempted all the time";
/// What runs first where there may be no time for all: what most other programs stand on.
const FIRST: [&str; 6] =
    ["nanothreads_engine", "regions", "stress", "waits", "forks", "nanothreads_arena"];
/// Modules and tests of programs that have nothing to say there, and why.
const PARTS_NOT_RUN: [(&str, &str, &str); 3] = [
    ("tasks", "idle::", OWN_TIME),
    ("waits", "beside::", OWN_TIME),
    (
        "managed",
        "seats::a_master_that_is_moved_while_it_lets_its_team_have_a_turn_goes_back",
        "it acts within milliseconds, which are nothing to an emulated processor",
    ),
];
const OWN_TIME: &str = "an emulated processor has its own notion of processor time";

/// Which guest.
#[derive(Subcommand)]
pub(crate) enum Guest {
    /// 8 processors on 4 nodes: the engine's tests and examples, and every policy and fences in the
    /// real manager.
    Smp(Options),
    /// The same machine: page migration, every check by name.
    Numa(numa::Options),
    /// The same machine: the papers' programs on all processors, each verified.
    Kernels(kernels::Options),
    /// Machines of 4 and 8 processors: self-allocating threads, their tests and their paper's
    /// program.
    Asat(asat::Options),
    /// The same machine under a counter of all accesses: what page migration gains, and the paper's
    /// figures.
    Oracle(oracle::Options),
    /// A Debian with systemd: the package and the service, every check by name.
    Systemd(systemd::Options),
}

/// What to run in it.
///
/// Exit code 0: all well, or skipped for a reason that is printed; 1: something failed, or was
/// missing with `--require`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only test programs and examples of this name.
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Seconds for the stress test, of the guest's time.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u64,
    /// Another kernel than Debian's cloud kernel.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Count cache-line transfers and instructions per region instead, ours and peers'.
    #[arg(long, conflicts_with_all = ["test", "seconds"])]
    count: bool,
    /// What the machine lacks is a failure, not a reason to skip.
    #[arg(long)]
    require: bool,
    /// Programs that have not begun by then are left out.
    #[arg(skip)]
    deadline: Option<Instant>,
}

impl Guest {
    /// The tests, or the count, within a time that others have a part of: the stress test is short.
    pub(crate) fn until(count: bool, deadline: Option<Instant>) -> Guest {
        Guest::Smp(Options {
            test: None,
            seconds: SHORT_STRESS,
            kernel: None,
            count,
            require: false,
            deadline,
        })
    }

    /// The package and the service, within a time that others have a part of.
    pub(crate) fn systemd(deadline: Option<Instant>) -> Guest {
        Guest::Systemd(systemd::Options::until(deadline))
    }
}

/// Runs what was asked for; counts the programs, or the phases, that went well.
pub(crate) fn run(workspace: &Workspace, guest: &Guest) -> anyhow::Result<u64> {
    let (kernel, require) = match guest {
        Guest::Smp(options) => (&options.kernel, options.require),
        Guest::Numa(options) => (&options.kernel, options.require),
        Guest::Kernels(options) => (&options.kernel, options.require),
        Guest::Asat(options) => (&options.kernel, options.require),
        Guest::Oracle(options) => (&options.kernel, options.require),
        Guest::Systemd(options) => (&options.kernel, options.require),
    };
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        return skip(require, &anyhow::anyhow!("it is set up for {TARGET} only"));
    }
    if let Some(file) = kernel.as_ref().filter(|file| !file.is_file()) {
        bail!("--kernel: there is no file {}", file.display());
    }
    let folder = workspace.target.join("vm");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let needs = match Needs::find_or_install(&folder, kernel.as_deref()) {
        Ok(needs) => needs,
        Err(reason) => return skip(require, &reason),
    };
    let compiler = Compiler::find_or_install()?;
    compiler.build_static(&workspace.root.join("xtask/vm/qexit.c"), &folder.join("qexit"))?;
    match guest {
        Guest::Smp(options) if options.count => count::run(workspace, &compiler, &needs, &folder),
        Guest::Smp(options) => smp(workspace, options, &needs, &folder),
        Guest::Numa(options) => numa::run(workspace, options, &compiler, &needs, &folder),
        Guest::Kernels(options) => kernels::run(workspace, options, &needs, &folder),
        Guest::Asat(options) => asat::run(workspace, options, &needs, &folder),
        Guest::Oracle(options) => oracle::run(workspace, options, &compiler, &needs, &folder),
        Guest::Systemd(options) => systemd::run(workspace, options, &compiler, &needs, &folder),
    }
}

fn skip(require: bool, reason: &anyhow::Error) -> anyhow::Result<u64> {
    if require {
        bail!("the virtual machine cannot be had: {reason:#}");
    }
    skips::note(format_args!("vm: {reason:#}"));
    Ok(0)
}

/// Programs that need nothing from the machine that they run on: tests of the packages, examples,
/// and the manager with its tests; of tests and examples the one that is `wanted`.
fn build_static(workspace: &Workspace, options: &Options) -> anyhow::Result<Vec<Artifact>> {
    let build = |arguments: &[&str]| guest::build(workspace, arguments);
    let wanted = options.test.as_deref();
    let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted == name);
    let mut programs = Vec::new();
    let mut names = Vec::new();
    for package in PACKAGES {
        names.extend(artifact::targets(&workspace.metadata, package, "test")?);
    }
    // Models do nothing outside loom.
    let not_run =
        |name: &str| name.starts_with("loom_") || NOT_RUN.iter().any(|(other, _)| *other == name);
    let tests = names.iter().map(String::as_str).filter(|name| is_wanted(name) && !not_run(name));
    let mut arguments = vec!["test", "--no-run", "--lib"];
    arguments.extend(artifact::named("--package", PACKAGES));
    arguments.extend(artifact::named("--test", tests));
    programs.extend(build(&arguments)?);

    // The manager is a second build as long as the first one.
    if options.deadline.is_some_and(|deadline| left(deadline) < BUILD_OF_MANAGER) {
        let names = MANAGER_TESTS.into_iter().chain(TOGETHER_TESTS).chain(["examples"]);
        names.for_each(|name| skips::note(format_args!("vm smp: {name}: no time is left for it")));
        return Ok(programs);
    }
    // One command builds what these share once, and the manager with its tests.
    let own: Vec<&str> = MANAGER_TESTS.into_iter().filter(|name| is_wanted(name)).collect();
    let together: Vec<&str> = TOGETHER_TESTS.into_iter().filter(|name| is_wanted(name)).collect();
    let examples = artifact::targets(&workspace.metadata, TOGETHER, "example")?;
    let examples: Vec<&str> =
        examples.iter().map(String::as_str).filter(|name| is_wanted(name)).collect();
    let packages = artifact::named("--package", [MANAGER, TOGETHER]);
    if !(own.is_empty() && together.is_empty() && examples.is_empty()) {
        let tests = artifact::named("--test", own.iter().chain(&together).copied());
        let command =
            [&["test", "--no-run"][..], &packages, &tests, &artifact::named("--example", examples)];
        programs.extend(build(&command.concat())?);
    }
    if own.is_empty() {
        programs.extend(build(&[&["build", "--bin", MANAGER][..], &packages].concat())?);
    }
    Ok(programs)
}

/// Seconds until then.
fn left(deadline: Instant) -> u64 {
    deadline.saturating_duration_since(Instant::now()).as_secs()
}

fn smp(
    workspace: &Workspace,
    options: &Options,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let programs = build_static(workspace, options)?;
    println!("built in {:.0} s", begin.elapsed().as_secs_f64());
    let mut tasks = Vec::new();
    let mut manager = None;
    for Artifact { name, path } in programs {
        if name == MANAGER {
            manager = Some(path);
            continue;
        }
        if name.starts_with("loom_") || options.test.as_ref().is_some_and(|wanted| *wanted != name)
        {
            continue;
        }
        if let Some((_, reason)) = NOT_RUN.iter().find(|(other, _)| *other == name) {
            println!("{name:<24} not run: {reason}");
            continue;
        }
        let mut arguments = match name.as_str() {
            "stress" => "--nocapture",
            // Each of them has programs that use all processors.
            name if MEASURING.contains(&name) => "--test-threads=1 --nocapture",
            name if MANAGER_TESTS.contains(&name) => "--test-threads=1",
            _ => "",
        }
        .to_owned();
        for (_, part, reason) in PARTS_NOT_RUN.iter().filter(|(other, ..)| *other == name) {
            println!("{name:<24} {} not run: {reason}", part.trim_end_matches(':'));
            arguments += &format!(" --skip {part}");
        }
        let limit = LONGEST_PROGRAM;
        tasks.push(Task { name, program: path, arguments, limit, ..Task::default() });
    }
    if tasks.is_empty() {
        bail!("no program has that name");
    }
    let place = |task: &Task| FIRST.iter().position(|name| *name == task.name);
    tasks.sort_by_key(|task| place(task).unwrap_or(FIRST.len()));
    let image = folder.join("smp.cpio");
    let (variable, place) = MANAGER_PLACE;
    let variables = [
        ("NANOS_STRESS_SECONDS", options.seconds.to_string()),
        (variable, format!("/{place}")),
        (skips::VARIABLE, "/tmp/skips".to_owned()),
    ];
    let manager: Vec<(&str, &Path)> =
        manager.iter().map(|manager| (place, manager.as_path())).collect();
    let mut longest = LONGEST_SMP;
    if let Some(left) = options.deadline.map(left) {
        longest = longest.min(left as u32 + LONGEST_PROGRAM);
        for task in &mut tasks {
            let long = LONG.iter().find(|(name, _)| *name == task.name);
            task.begins_by = Some(left.saturating_sub(long.map_or(0, |(_, takes)| *takes)));
            // A change is judged by what fails because of it. By hand each failure is one.
            task.may_fail_once = true;
        }
    }
    let archive = guest::archive(needs, folder, &tasks, &variables, &manager)?;
    std::fs::write(&image, archive).with_context(|| format!("cannot write {}", image.display()))?;
    let boot = Instant::now();
    let (outcomes, left_out) =
        guest::boot(needs, &image, Turns::None, &[], &folder.join("smp.log"), longest)?;
    let mut failed = Vec::new();
    for outcome in &outcomes {
        if outcome.code != 0 {
            println!("\n=== {} in the guest\n{}", outcome.name, outcome.text);
            failed.push(outcome.name.as_str());
        } else if outcome.name == "stress" {
            outcome
                .text
                .lines()
                .filter(|line| line.contains("programs of"))
                .for_each(|line| println!("stress: {line}"));
        } else {
            outcome
                .text
                .lines()
                .filter(|line| line.contains(SHOWN))
                .for_each(|line| println!("{line}"));
        }
    }
    println!("{} programs in {:.0} s", outcomes.len(), boot.elapsed().as_secs_f64());
    let told = outcomes.len() + left_out;
    match (failed.is_empty(), told == tasks.len()) {
        (false, _) => bail!("failed in the guest: {}", failed.join(", ")),
        (true, false) => bail!("the guest told of {told} of {} programs", tasks.len()),
        (true, true) => Ok(outcomes.len() as u64),
    }
}
