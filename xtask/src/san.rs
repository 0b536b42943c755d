//! The tests of the engine under ThreadSanitizer and AddressSanitizer, each seen to report a
//! planted fault first.
//!
//! Both come with the ordinary toolchain; rustc wants `RUSTC_BOOTSTRAP=1` for their switch, which
//! is why this is a lane and no build of anything that is used. ThreadSanitizer needs the standard
//! library instrumented, too, for which rustup has the component `rust-src`; without it every
//! synchronisation inside `std` looks like a race.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::artifact::{self, Artifact};
use crate::setup::{Workspace, clean_environment, must_succeed, shown};
use crate::{failures, skips};

/// The only target that the project's sanitizers are used on; a name in the command keeps build
/// scripts and procedural macros free of them.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// A test program that takes more seconds hangs.
const LONGEST: &str = "600";
/// And where the lane is one of many.
const LONGEST_OF_MANY: &str = "240";
/// Seconds for the stress test, unless the command line says otherwise.
const STRESS: u64 = 30;
/// And where the lane is one of many.
const SHORT_STRESS: u64 = 8;
/// The crates whose code many threads run.
const PACKAGES: [&str; 6] = [
    "nanothreads",
    "nanothreads-engine",
    "nanothreads-arena",
    "nanothreads-platform",
    "nanothreads-rayon",
    "nanothreads-asat",
];
/// The test program whose tests are the planted faults.
const PLANTED: &str = "planted_faults";

/// Test programs, and modules of test programs, that cannot say anything under a sanitizer, or
/// under one of them, and why.
const NOT_RUN: [(&str, Option<&str>, Option<Sanitizer>, &str); 7] = [
    (
        "first_thread",
        Some("instructions"),
        None,
        "it reads the instructions of a program that is not instrumented, and knows its allocator \
         only",
    ),
    (
        "tasks",
        Some("overflow"),
        None,
        "it tests the report of a fault, and the sanitizer reports it first",
    ),
    ("tasks", Some("idle"), None, "it measures processor time, which the sanitizer multiplies"),
    ("waits", Some("beside"), None, "it measures processor time, which the sanitizer multiplies"),
    ("populations", None, None, "it has no threads"),
    ("transitions", None, None, "it has no threads"),
    (
        "forks",
        None,
        Some(Sanitizer::Thread),
        "the sanitizer does not follow a fork of several threads, and ends the child",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sanitizer {
    /// Data races.
    Thread,
    /// Uses of memory that is not there, or not any more.
    Address,
}

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Default: both.
    #[arg(value_name = "SANITIZER", value_enum)]
    sanitizers: Vec<Sanitizer>,
    /// Only test programs of this name (besides the planted faults).
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Seconds for the stress test.
    #[arg(long, value_name = "SECONDS", default_value_t = STRESS)]
    seconds: u64,
    /// Test programs that have not begun by then are left out.
    #[arg(skip)]
    deadline: Option<Instant>,
}

impl Options {
    /// One sanitizer, within a time that others have a part of: the stress test is short.
    pub(crate) fn until(sanitizer: Sanitizer, deadline: Option<Instant>) -> Options {
        Options { sanitizers: vec![sanitizer], test: None, seconds: SHORT_STRESS, deadline }
    }
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Thread => "thread",
            Sanitizer::Address => "address",
        }
    }

    /// The cfg that the sources see.
    fn cfg(self) -> &'static str {
        match self {
            Sanitizer::Thread => "tsan",
            Sanitizer::Address => "asan",
        }
    }

    /// How a report begins.
    fn headline(self) -> &'static str {
        match self {
            Sanitizer::Thread => "WARNING: ThreadSanitizer: data race",
            Sanitizer::Address => "ERROR: AddressSanitizer",
        }
    }

    fn variables(self) -> [(&'static str, &'static str); 1] {
        match self {
            // A program goes on after a report: one run shows all.
            Sanitizer::Thread => [("TSAN_OPTIONS", "halt_on_error=0:exitcode=66:history_size=4")],
            // What stays allocated at the end is no fault: virtual processors are never freed.
            Sanitizer::Address => {
                [("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0")]
            }
        }
    }
}

/// Runs the lane for each sanitizer that was asked for; counts the tests that were clean.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<u64> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        skips::note(format_args!("san: it is set up for {TARGET} only"));
        return Ok(0);
    }
    let mut count = 0;
    let asked = |sanitizer: &Sanitizer| {
        options.sanitizers.is_empty() || options.sanitizers.contains(sanitizer)
    };
    for sanitizer in [Sanitizer::Thread, Sanitizer::Address].into_iter().filter(asked) {
        println!("\n=== {} sanitizer", sanitizer.name());
        if sanitizer == Sanitizer::Thread
            && let Err(fault) = have_sources()
        {
            skips::note(format_args!(
                "san thread: the standard library cannot be instrumented: {fault:#}"
            ));
            continue;
        }
        let clean = check(workspace, options, sanitizer);
        count += clean.with_context(|| format!("alone: `cargo xtask san {}`", sanitizer.name()))?;
    }
    Ok(count)
}

/// Makes sure that the sources of the standard library are there.
fn have_sources() -> anyhow::Result<()> {
    let output =
        Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot ask rustc")?;
    let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let manifest = root.join("lib/rustlib/src/rust/library/std/Cargo.toml");
    if !manifest.is_file() {
        println!("adding the component rust-src to {}", root.display());
        must_succeed(Command::new("rustup").args(["component", "add", "rust-src"]))?;
    }
    if !manifest.is_file() {
        bail!("rustup added rust-src, but there is no {}", manifest.display());
    }
    Ok(())
}

fn build(workspace: &Workspace, sanitizer: Sanitizer) -> anyhow::Result<Vec<Artifact>> {
    let mut command = workspace.cargo(["test", "--no-run", "--lib", "--target", TARGET]);
    for package in PACKAGES {
        let tests = artifact::targets(&workspace.metadata, package, "test")?;
        // Models do nothing outside loom.
        let tests = tests.iter().map(String::as_str).filter(|name| !name.starts_with("loom_"));
        command.args(["--package", package]).args(artifact::named("--test", tests));
    }
    match sanitizer {
        Sanitizer::Thread => command.arg("-Zbuild-std"),
        // Tells the sanitizer when a thread goes to the stack of a nano-thread.
        Sanitizer::Address => command.args(["--features", "nanothreads/sanitizer"]),
    };
    command.arg("--target-dir").arg(workspace.target.join(sanitizer.cfg()));
    let given = std::env::var("RUSTFLAGS").unwrap_or_default();
    let flags = format!("{given} -Zsanitizer={} --cfg {}", sanitizer.name(), sanitizer.cfg());
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags.trim());
    artifact::build(&mut command)
}

fn check(workspace: &Workspace, options: &Options, sanitizer: Sanitizer) -> anyhow::Result<u64> {
    let programs = build(workspace, sanitizer)?;
    let planted = programs
        .iter()
        .find(|program| program.name == PLANTED)
        .context("the planted faults were not built")?;
    let run = |program: &Artifact, arguments: &[&str]| {
        run_program(workspace, sanitizer, options, program, arguments)
    };
    let listing = run(planted, &["--list", "--ignored", "--format", "terse"])?;
    let faults: Vec<&str> =
        listing.text.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    if faults.is_empty() {
        bail!("{PLANTED} has no test: nothing shows that the sanitizer works");
    }
    for fault in faults {
        let ran = run(planted, &["--ignored", "--exact", fault])?;
        if ran.success || ran.reports == 0 {
            bail!("the sanitizer does not report the planted fault `{fault}`:\n{}", ran.text);
        }
        println!("planted: {fault}: reported, as it should be");
    }
    let wanted = |program: &&Artifact| {
        program.name != PLANTED && options.test.as_ref().is_none_or(|name| *name == program.name)
    };
    let mut bad = Vec::new();
    let (mut ran, mut late) = (0, false);
    for program in programs.iter().filter(wanted) {
        let mut arguments = Vec::new();
        let mut is_run = true;
        for (name, module, only, reason) in NOT_RUN {
            if program.name != name || only.is_some_and(|only| only != sanitizer) {
                continue;
            }
            match module {
                Some(module) => {
                    println!("{name:<24} {module} not run: {reason}");
                    arguments.extend(["--skip".to_owned(), format!("{module}::")]);
                }
                None => {
                    println!("{name:<24} not run: {reason}");
                    is_run = false;
                }
            }
        }
        if !is_run {
            continue;
        }
        let start = Instant::now();
        if options.deadline.is_some_and(|deadline| start > deadline) {
            skips::note(format_args!(
                "san {}: {}: no time is left for it",
                sanitizer.name(),
                program.name
            ));
            late = true;
            continue;
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let outcome = run(program, &arguments)?;
        let outcome = again_alone(sanitizer, program, outcome, run)?;
        let verdict = if outcome.success && outcome.reports == 0 { "clean" } else { "FAILED" };
        println!(
            "{:<24}{:>6.1} s  {verdict}, {} tests",
            program.name,
            start.elapsed().as_secs_f64(),
            outcome.passed
        );
        ran += outcome.passed;
        if verdict != "clean" {
            println!("{}", outcome.text);
            bad.push(format!("{} ({} reports)", program.name, outcome.reports));
        }
    }
    match (bad.is_empty(), ran) {
        (false, _) => {
            bail!("the {} sanitizer found something in: {}", sanitizer.name(), bad.join(", "))
        }
        (true, 0) if !late => bail!(
            "no test ran{}",
            options.test.as_ref().map_or(String::new(), |name| format!(": is there a `{name}`?"))
        ),
        _ => Ok(ran),
    }
}

/// What came of a run without a report in which few tests failed, once those ran again, alone: as
/// in the lane of all tests.
fn again_alone(
    sanitizer: Sanitizer,
    program: &Artifact,
    ran: Ran,
    run: impl Fn(&Artifact, &[&str]) -> anyhow::Result<Ran>,
) -> anyhow::Result<Ran> {
    let failed: Vec<String> = ran.text.lines().filter_map(failures::name).collect();
    if ran.reports > 0 || !(1..=failures::MOST).contains(&failed.len()) {
        return Ok(ran);
    }
    let names = failed.join(", ");
    println!("{}\n=== again, alone: {names}", ran.text);
    let arguments: Vec<&str> =
        std::iter::once("--exact").chain(failed.iter().map(String::as_str)).collect();
    let alone = run(program, &arguments)?;
    if !alone.success || alone.reports > 0 || alone.passed != failed.len() as u64 {
        return Ok(alone);
    }
    skips::note_busy(format_args!(
        "san {}: {}: {names}: failed beside others without a report, and passed alone",
        sanitizer.name(),
        program.name
    ));
    Ok(Ran { passed: ran.passed + alone.passed, ..alone })
}

/// What a test program did.
struct Ran {
    success: bool,
    reports: usize,
    passed: u64,
    text: String,
}

fn run_program(
    workspace: &Workspace,
    sanitizer: Sanitizer,
    options: &Options,
    program: &Artifact,
    arguments: &[&str],
) -> anyhow::Result<Ran> {
    let mut command = Command::new("timeout");
    let longest = if options.deadline.is_some() { LONGEST_OF_MANY } else { LONGEST };
    command.args(["-k", "1", longest]).arg(&program.path).args(arguments);
    command.current_dir(folder_of(workspace, &program.name));
    clean_environment(&mut command);
    command.env("NANOS_CPUMGR", "off").env("NANOS_STRESS_SECONDS", options.seconds.to_string());
    // Panics that are meant: to look their lines up takes an instrumented program a minute.
    command.env("RUST_BACKTRACE", "0");
    command.envs(sanitizer.variables());
    if let Some(file) = skips::file() {
        command.env(skips::VARIABLE, file);
    }
    if program.name == "joins" {
        // Random ones nest as deep as their seeds say, in the sanitizer's larger frames.
        command.env("NANOS_STACK", "1048576");
    }
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(124) {
        text += &format!("\nended after {longest} s: it hangs");
    }
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: "));
    let passed = results.filter_map(|result| result.split(' ').nth(1)?.parse::<u64>().ok()).sum();
    let reports = text.matches(sanitizer.headline()).count();
    Ok(Ran { success: output.status.success(), reports, passed, text })
}

/// Where cargo would run the program: tests look for their files from there.
fn folder_of(workspace: &Workspace, name: &str) -> PathBuf {
    let crates = PACKAGES.map(|name| match name {
        "nanothreads-rayon" => name,
        _ => name.trim_start_matches("nanothreads-"),
    });
    let has_test = |folder: &Path| {
        folder.join("tests").join(name).is_dir()
            || folder.join("tests").join(format!("{name}.rs")).is_file()
    };
    let folders = crates.iter().map(|name| workspace.root.join("crates").join(name));
    folders.into_iter().find(|folder| has_test(folder)).unwrap_or_else(|| workspace.root.clone())
}
