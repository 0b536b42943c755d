//! All checks of the project, lane by lane; the first lane that fails ends the run.

mod again;
mod count;
mod lines;
mod models;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use self::count::{Count, result_line};
use crate::demo::{Program, Subject};
use crate::measure::{Household, run_copies};
use crate::peers::{LIBGOMP, must_load};
use crate::san::{self, Sanitizer};
use crate::setup::{Compiler, Workspace, clean_environment, must_succeed, shown};
use crate::shim::{self, Form};
use crate::skips::{self, Skips};
use crate::suite::kernel;
use crate::vm::{self, Guest};
use crate::{artifact, conformance, failures, flip, graph, package, report, wheel, words};

/// Enough for every kind of region and wait, and short even when four threads share one processor.
const SMALL_WORK: [&str; 2] = ["--work", "4"];
/// A run that takes longer hangs.
const LONGEST_RUN: Duration = Duration::from_secs(120);
/// What a lane of `--slow` may still take when its time is over: the longest program of it.
const LAST_PROGRAM: Duration = Duration::from_secs(90);

/// What every lane is given.
struct Stage<'a> {
    workspace: &'a Workspace,
    compiler: anyhow::Result<Compiler>,
    /// When the slow lanes have to end; known once the first of them begins.
    deadline: Option<Instant>,
}

impl Stage<'_> {
    /// The C compiler; without one `lane` is skipped.
    fn compiler(&self, lane: &str) -> Option<&Compiler> {
        match &self.compiler {
            Ok(compiler) => Some(compiler),
            Err(fault) => {
                skips::note(format_args!("{lane}: {fault:#}"));
                None
            }
        }
    }
}

/// One kind of check.
struct Lane {
    name: &'static str,
    kind: Kind,
    /// It counts tests, of which those that were skipped count as passed.
    tests: bool,
    run: fn(&Stage) -> anyhow::Result<Count>,
}

/// When a lane runs that is not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Always.
    Usual,
    /// With `--slow`, and not within its minutes.
    Long,
    /// With `--slow`, where this many seconds are left, most of them for its build.
    Slow(u64),
}

const fn usual(name: &'static str, run: fn(&Stage) -> anyhow::Result<Count>) -> Lane {
    Lane { name, kind: Kind::Usual, tests: false, run }
}

const fn long(name: &'static str, run: fn(&Stage) -> anyhow::Result<Count>) -> Lane {
    Lane { name, kind: Kind::Long, tests: false, run }
}

const fn slow(name: &'static str, seconds: u64, run: fn(&Stage) -> anyhow::Result<Count>) -> Lane {
    Lane { name, kind: Kind::Slow(seconds), tests: false, run }
}

impl Lane {
    const fn of_tests(self) -> Lane {
        Lane { tests: true, ..self }
    }
}

/// Cheap checks first; the drop-in library before the tests that load it.
const LANES: &[Lane] = &[
    usual("format", |stage| one(&mut stage.workspace.cargo(["fmt", "--all", "--check"]))),
    usual("words", |stage| words::check(stage.workspace).map(|()| Count::ONE)),
    usual("graph", |stage| graph::check(stage.workspace).map(|()| Count::ONE)),
    usual("lints", |stage| {
        one(&mut stage.workspace.cargo([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    }),
    usual("shim", |stage| match stage.compiler("shim") {
        Some(_) => shim::run(stage.workspace, Form::Tested).map(|_| Count::ONE),
        None => Ok(Count::default()),
    }),
    usual("tests", |stage| {
        let mut tests = stage.workspace.cargo(["test", "--workspace", "--no-fail-fast"]);
        twice(tests.env(shim::FOLDER, stage.workspace.target.join(Form::Tested.folder())))
    })
    .of_tests(),
    usual("docs", |stage| {
        one(stage
            .workspace
            .cargo(["doc", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"))
    }),
    usual("examples", |stage| {
        let mut count = Count::default();
        // Both check their own results; the second pretends that there are two nodes.
        for example in [&["rayon_port"][..], &["near_pages", "--", "2"]] {
            let mut run = stage.workspace.cargo(["run", "--quiet", "--example"]);
            count += one(run.args(example))?;
        }
        Ok(count)
    }),
    usual("package", |stage| package::run(stage.workspace).map(Count::passed)),
    usual("models", |stage| models::run(stage.workspace)).of_tests(),
    usual("programs", |stage| match stage.compiler("programs") {
        Some(compiler) => programs(stage.workspace, compiler),
        None => Ok(Count::default()),
    }),
    usual("conformance", |stage| {
        if stage.compiler("conformance").is_none() {
            return Ok(Count::default());
        }
        let ran = conformance::run(stage.workspace, &conformance::Options::of_tests())?;
        Ok(if ran { Count::ONE } else { Count::default() })
    }),
    usual("flip", |stage| match stage.compiler("flip") {
        Some(_) => flip::run(stage.workspace, &flip::Options::SHORT).map(Count::passed),
        None => Ok(Count::default()),
    }),
    long("shipped", |stage| match stage.compiler("shipped") {
        Some(_) => shipped(stage.workspace),
        None => Ok(Count::default()),
    })
    .of_tests(),
    slow("report", 30, |stage| report::look(stage.workspace).map(Count::passed)),
    slow("wheel", 90, |stage| match stage.compiler("wheel") {
        Some(_) => wheel::test(stage.workspace).map(Count::passed),
        None => Ok(Count::default()),
    }),
    slow("kernels", 60, |stage| match stage.compiler("kernels") {
        Some(_) => kernels(stage.workspace),
        None => Ok(Count::default()),
    }),
    slow("san-thread", 200, |stage| {
        san::run(stage.workspace, &san::Options::until(Sanitizer::Thread, stage.deadline))
            .map(Count::passed)
    })
    .of_tests(),
    slow("san-address", 150, |stage| {
        san::run(stage.workspace, &san::Options::until(Sanitizer::Address, stage.deadline))
            .map(Count::passed)
    })
    .of_tests(),
    slow("count", 120, |stage| {
        vm::run(stage.workspace, &Guest::until(true, stage.deadline)).map(Count::passed)
    }),
    slow("smp", 240, |stage| {
        vm::run(stage.workspace, &Guest::until(false, stage.deadline)).map(Count::passed)
    }),
    slow("systemd", 240, |stage| match stage.compiler("systemd") {
        Some(_) => vm::run(stage.workspace, &Guest::systemd(stage.deadline)).map(Count::passed),
        None => Ok(Count::default()),
    }),
];

/// Which lanes to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these lanes, in their usual order.
    #[arg(value_name = "LANE", value_parser = clap::builder::PossibleValuesParser::new(LANES.iter().map(|lane| lane.name)))]
    lanes: Vec<String>,
    /// Also the slower lanes: the shipped form of the drop-in library, the papers' programs, the
    /// wheel, the pages in a browser, the sanitizers, the virtual machines.
    #[arg(long)]
    slow: bool,
    /// With --slow: of the sanitizers and the virtual machine's lanes, those and programs of them
    /// that have not begun this many minutes after the first one are skipped.
    #[arg(long, value_name = "MINUTES", default_value_t = 20.0, value_parser = minutes)]
    minutes: f64,
    /// Whatever was skipped is a failure.
    #[arg(long)]
    strict: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|minutes| (0.1..=600.0).contains(minutes));
    number.ok_or_else(|| "it wants a number from 0.1 to 600".to_owned())
}

/// Runs the lanes that were asked for, or all.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut skips = Skips::begin(&workspace.target)?;
    let mut stage = Stage { workspace, compiler: Compiler::find_or_install(), deadline: None };
    // What a lane that was begun before still does afterwards: its last program, and taking its
    // place down.
    let time = Duration::from_secs_f64(options.minutes * 60.0).saturating_sub(LAST_PROGRAM);
    let mut done: Vec<(&str, Count, Duration)> = Vec::new();
    let mut fault = None;
    let named = |lane: &Lane| options.lanes.iter().any(|name| name == lane.name);
    let asked = |lane: &&Lane| {
        named(lane) || options.lanes.is_empty() && (options.slow || lane.kind == Kind::Usual)
    };
    for lane in LANES.iter().filter(asked) {
        let (name, start) = (lane.name, Instant::now());
        println!("\n=== {name}");
        if options.slow && matches!(lane.kind, Kind::Slow(_)) {
            // The lanes before take what they take.
            stage.deadline.get_or_insert(start + time);
        }
        let left = stage
            .deadline
            .map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(start));
        let outcome = match lane.kind {
            Kind::Slow(seconds) if left < Duration::from_secs(seconds) => {
                let left = left.as_secs();
                skips::note(format_args!(
                    "{name}: {left} s are left of {} min: too few for it",
                    options.minutes
                ));
                Ok(Count::default())
            }
            _ => (lane.run)(&stage),
        };
        let (count, error) = match outcome {
            Ok(count) if count.failed == 0 => (count, None),
            Ok(count) => (count, Some(anyhow::anyhow!("{count}"))),
            Err(error) => (Count { failed: 1, ..Count::default() }, Some(error)),
        };
        done.push((name, count.with_skips(skips.take(name)?, lane.tests), start.elapsed()));
        if let Some(error) = error {
            fault = Some(
                error.context(format!("lane `{name}` failed; alone: `cargo xtask test {name}`")),
            );
            break;
        }
    }
    let mut total = Count::default();
    println!("\n=== summary");
    for (name, count, time) in &done {
        total += *count;
        println!("{name:<12}{:>7.1} s  {count}", time.as_secs_f64());
    }
    print!("{}", skips.list());
    println!("all in {:.0} s", begin.elapsed().as_secs_f64());
    // Alone on its line: other programs read it.
    println!("{total}");
    match (fault, skips.totals()) {
        (Some(fault), _) => Err(fault),
        (None, (busy, lacking)) if options.strict && busy + lacking > 0 => {
            bail!(
                "--strict: {lacking} skipped for what this machine lacks, {busy} for others that \
                 had the processors"
            )
        }
        (None, _) => Ok(()),
    }
}

fn one(command: &mut Command) -> anyhow::Result<Count> {
    must_succeed(command).map(|()| Count::ONE)
}

/// As [`counted`]; a test that failed runs once more, alone ([`again`]).
fn twice(command: &mut Command) -> anyhow::Result<Count> {
    let (count, passed) = again::counted(command)?;
    for name in passed {
        skips::note_busy(format_args!("test {name}: it failed beside others, and passed alone"));
    }
    Ok(count)
}

/// Runs `cargo test`, shows what it prints and adds up what its test programs report.
fn counted(command: &mut Command) -> anyhow::Result<Count> {
    tested(command).map(|(count, _)| count)
}

/// The same, and the tests that failed.
fn tested(command: &mut Command) -> anyhow::Result<(Count, Vec<String>)> {
    let name = shown(command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {name}"))?;
    let mut count = Count::default();
    let mut failed = Vec::new();
    let (status, left) = lines::each(&mut child, lines::GRACE, |line| {
        println!("{line}");
        failed.extend(failures::name(line));
        if let Some(found) = result_line(line) {
            count += found;
        }
    })
    .with_context(|| name.clone())?;
    if !left.is_empty() {
        let left =
            format!("{name} ended before processes of it, which were killed: {}", left.join(", "));
        // A test that failed leaves what it would have ended: the failure is the fault.
        if failed.is_empty() {
            bail!("{count}; {left}");
        }
        println!("{left}");
    }
    match (status.success(), count) {
        (true, Count { passed: 0, .. }) => bail!("{name} ran no test at all"),
        // Something that did not compile or died reports no count of its own.
        (false, Count { failed: 0, .. }) => bail!("{name} failed: {status}"),
        _ => Ok((count, failed)),
    }
}

/// The form that programs are given: its exported names, its hot calls and all its test programs.
fn shipped(workspace: &Workspace) -> anyhow::Result<Count> {
    let library = shim::run(workspace, Form::Shipped)?;
    let tests = artifact::targets(&workspace.metadata, "omp-shim", "test")?;
    // Of the whole workspace, as in the lane before: nothing is built anew.
    let mut command = workspace.cargo(["test", "--workspace", "--no-fail-fast"]);
    command.args(artifact::named(
        "--test",
        tests.iter().map(String::as_str).filter(|name| !name.starts_with("loom_")),
    ));
    twice(command.env(shim::FOLDER, library))
}

/// Every program of `kernels/` in class S, what is wrong there, and the C programs under
/// ThreadSanitizer.
fn kernels(workspace: &Workspace) -> anyhow::Result<Count> {
    if let Err(fault) = kernel::has_tools() {
        skips::note(format_args!("kernels: {fault:#}"));
        return Ok(Count::default());
    }
    let mut count = Count::default();
    for target in ["check", "race"] {
        let mut make = Command::new("make");
        make.arg("--silent").arg("-C").arg(workspace.root.join("kernels"));
        make.arg(format!("OUT={}", workspace.target.join("kernels").display()));
        count += one(make.arg(target))?;
    }
    Ok(count)
}

/// Runs the two OpenMP programs on the drop-in library, without a manager, with teams of 1, 2 and
/// 4.
fn programs(workspace: &Workspace, compiler: &Compiler) -> anyhow::Result<Count> {
    let library = shim::run(workspace, Form::Tested)?;
    let _household = Household::take_over()?;
    let mut count = Count::default();
    for mut subject in Subject::build_all(workspace, compiler, &Program::USUAL)? {
        let run = |threads: u32, library: Option<&Path>| {
            let command = || {
                let mut command = Command::new(&subject.path);
                clean_environment(&mut command);
                if let Some(library) = library {
                    command.env("LD_LIBRARY_PATH", library).env("NANOS_CPUMGR", "off");
                }
                command.env("OMP_NUM_THREADS", threads.to_string()).args(SMALL_WORK);
                command
            };
            if let Some(library) = library {
                must_load(command(), LIBGOMP, library)?;
            }
            run_copies(1, LONGEST_RUN, command)?.pop().context("no copy ran")
        };
        let name = subject.program.name();
        // One thread on the system's runtime says what is right.
        let reference = run(1, None)?;
        let runs = [1, 2, 4].map(|threads| (threads, run(threads, Some(&library))));
        subject
            .check(true, &reference)
            .with_context(|| format!("{name} on the system's runtime"))?;
        for (threads, finish) in runs {
            let finish = finish
                .with_context(|| format!("{name} on the drop-in library, {threads} threads"))?;
            let fault = subject.check(false, &finish);
            fault.with_context(|| format!("{name} on the drop-in library, {threads} threads"))?;
            println!(
                "{name} on the drop-in library, {threads} threads: right, {:.2} s",
                finish.turnaround.as_secs_f64()
            );
            count += Count::ONE;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_run_without_tests_or_without_counts_is_an_error() {
        assert!(counted(&mut shell("echo nothing")).is_err());
        assert!(
            counted(&mut shell("echo 'test result: ok. 1 passed; 0 failed; 0 ignored'; exit 101"))
                .is_err()
        );
        let failed = counted(&mut shell(
            "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101",
        ));
        assert_eq!(failed.unwrap(), Count { passed: 1, failed: 1, skipped: 0 });
        let passed = counted(&mut shell("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'"));
        assert_eq!(passed.unwrap(), Count { passed: 2, failed: 0, skipped: 0 });
    }

    #[test]
    fn what_a_failed_test_leaves_is_no_fault_besides() {
        let script = "sleep 1000 & echo 'test a ... FAILED'; \
                      echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
        let (count, failed) = tested(&mut shell(script)).unwrap();
        assert_eq!((count.failed, failed), (1, vec!["a".to_owned()]));
    }
}
