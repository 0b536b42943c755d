//! The mission's own test: OpenMP programs under a manager that changes its mind all the time, with
//! right results.
//!
//! Every grant goes from one processor to two and back every 20 ms
//! (`crates/cpumgr/examples/flip_policy.rs`), while the example programs, the papers' programs
//! (`kernels/`, class S) and the test programs of the drop-in library run, unmodified. Then the
//! programs that show what may not happen to a thread that loses its processor (D1, with 10 ms),
//! what others inherit (D2), and a gang whose manager is killed while it is out (D5).

mod gang;
mod pools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::demo::{Program, Subject, Trace};
use crate::measure::{Finish, Household, Manager, check_interrupt, run_copies, usable};
use crate::setup::{Compiler, Language, Workspace, clean_environment, must_succeed};
use crate::shim::Form;
use crate::skips;
use crate::suite::kernel;

/// The time for which an example runs under changing grants, again and again if need be.
const LEAST_SECONDS: f64 = 0.5;
/// How often programs run anew that saw too few changes.
const TRIES: u32 = 3;
/// Fewer changes test nothing.
const LEAST_CHANGES: usize = 4;
/// A run of a fraction of a second that takes longer hangs.
const LONGEST_RUN: Duration = Duration::from_secs(120);
/// The size of the papers' programs: regions as short as they come.
const KERNEL_CLASS: &str = "S";
/// Small work for the example programs.
const SMALL_WORK: [&str; 2] = ["--work", "16"];
/// The test programs of the drop-in library that say "ok", with the variables that they are run
/// with. Not here: those that need something prepared (another library, a plugin, a control group),
/// and `turns`, which counts what a manager changes.
const TESTS: [(&str, &[(&str, &str)]); 18] = [
    ("regions", &[]),
    ("errno", &[]),
    ("one_processor", &[]),
    ("loops", &[]),
    ("synchronisation", &[]),
    ("tails", &[("OMP_CANCELLATION", "true")]),
    ("tasks", &[]),
    ("helpers", &[]),
    ("priorities", &[("OMP_MAX_TASK_PRIORITY", "5")]),
    ("asleep", &[]),
    ("cancellation", &[("OMP_CANCELLATION", "true")]),
    ("cancelled", &[]),
    ("foreign", &[]),
    ("forked", &[]),
    ("spawned", &[]),
    ("many", &[]),
    ("old", &[]),
    ("memory", &[]),
];
/// What the command line can ask for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each program of D1 runs; 60 for the stress run.
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u32,
    /// How often each of the other programs runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u32,
    /// Only programs whose name contains this.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[arg(skip = Form::Shipped)]
    form: Form,
}

/// What every run needs.
struct Stage<'a> {
    workspace: &'a Workspace,
    compiler: Compiler,
    /// The program of the manager that flips.
    manager: PathBuf,
    library: PathBuf,
    folder: tempfile::TempDir,
    options: &'a Options,
    faults: Vec<String>,
    passed: u64,
}

impl Options {
    /// All programs, once.
    pub(crate) const SHORT: Options =
        Options { seconds: 4, rounds: 1, name: None, form: Form::Tested };
}

/// Runs them all and counts those that were right; fails with the list of those that went wrong.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<u64> {
    if usable()? < 2 {
        skips::note("flip: needs two processors");
        return Ok(0);
    }
    let compiler = Compiler::find_or_install()?;
    let library = crate::shim::run(workspace, options.form)?;
    workspace.build_managers()?;
    let manager = workspace.target.join("debug/examples/flip_policy");
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let _household = Household::take_over()?;
    let mut stage = Stage {
        workspace,
        compiler,
        manager,
        library,
        folder,
        options,
        faults: Vec::new(),
        passed: 0,
    };
    stage.examples()?;
    stage.kernels()?;
    stage.tests()?;
    stage.pools()?;
    stage.arenas()?;
    stage.tbb()?;
    stage.wheels()?;
    stage.killed()?;
    stage.rare()?;
    stage.unsafe_places()?;
    stage.heirs()?;
    stage.gang()?;
    println!("{} right, {} wrong", stage.passed, stage.faults.len());
    if !stage.faults.is_empty() {
        bail!("under changing grants these went wrong:\n{}", stage.faults.join("\n"));
    }
    if stage.passed == 0 {
        bail!("no program has such a name");
    }
    Ok(stage.passed)
}

/// Ends a manager; what is wrong where the programs' processors changed too seldom.
fn has_flipped(manager: Manager) -> anyhow::Result<Result<(), String>> {
    let trace = Trace::read(&manager.finish()?.trace)?;
    let changes = trace.allocations();
    Ok(if changes < LEAST_CHANGES {
        Err(format!("only {changes} grants: that tested nothing"))
    } else {
        Ok(())
    })
}

impl Stage<'_> {
    fn wanted(&self, name: &str) -> bool {
        self.options.name.as_deref().is_none_or(|part| name.contains(part))
    }

    /// A manager that flips with this period.
    fn manager(&self, period: &str) -> anyhow::Result<Manager> {
        // Whatever else runs here: a processor that is left to strangers is no change.
        let options = ["--policy", "flip", "--quantum", "20ms", "--strangers", "ignore", "--cpus"];
        let cpus = crate::measure::processors()?
            .iter()
            .take(2)
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let options = options.iter().copied().chain([cpus.as_str()]).collect::<Vec<_>>();
        let manager = Manager::start(&self.manager, &self.library, self.folder.path(), &options)?;
        let mut configure = Command::new(&self.manager);
        configure.args(["policy", "--socket"]).arg(self.folder.path().join("app.sock"));
        must_succeed(configure.arg("flip").arg(format!("period={period}")))?;
        Ok(manager)
    }

    /// Has `runs` run programs under a manager that flips with this period, until their processors
    /// changed often enough. Where others compute, a program may be heard so late that it is done
    /// before its grants change: then once more.
    fn until_flipped(
        &mut self,
        what: &str,
        period: &str,
        mut runs: impl FnMut(&mut Self, &Manager) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for attempt in 1..=TRIES {
            let manager = self.manager(period)?;
            runs(self, &manager)?;
            match has_flipped(manager)? {
                Ok(()) => break,
                Err(fault) if attempt == TRIES => self.faults.push(format!("{what}: {fault}")),
                Err(fault) => println!("{what}: {fault}; once more"),
            }
        }
        Ok(())
    }

    fn note(&mut self, name: &str, outcome: anyhow::Result<String>) {
        match outcome {
            Ok(said) => {
                self.passed += 1;
                println!("{name}: right{said}");
            }
            Err(fault) => {
                println!("{name}: WRONG: {fault:#}");
                self.faults.push(format!("{name}: {fault:#}"));
            }
        }
    }

    fn run_one(&self, command: Command, variables: &[(&str, &str)]) -> anyhow::Result<Finish> {
        check_interrupt()?;
        let mut command = Some(command);
        let copies = run_copies(1, LONGEST_RUN, || {
            let mut command = command.take().expect("one copy is made");
            clean_environment(&mut command);
            command.envs(variables.iter().copied());
            command
        });
        copies?.pop().context("no copy ran")
    }

    fn examples(&mut self) -> anyhow::Result<()> {
        let programs = [Program::Cg, Program::Lu, Program::Sort, Program::Heat].into_iter();
        let programs: Vec<Program> =
            programs.filter(|program| self.wanted(program.name())).collect();
        for program in programs {
            let mut subject = match Subject::build_all(self.workspace, &self.compiler, &[program]) {
                Ok(mut subjects) => subjects.pop().context("nothing was built")?,
                Err(fault) => {
                    skips::note(format_args!("flip: {}: {fault:#}", program.name()));
                    continue;
                }
            };
            // One thread on the system's runtime says what is right.
            let reference = run_copies(1, LONGEST_RUN, || {
                let mut command = Command::new(&subject.path);
                clean_environment(&mut command);
                command.args(SMALL_WORK).env("OMP_NUM_THREADS", "1");
                command
            });
            let reference = reference?.pop().context("no copy ran")?;
            subject
                .check(true, &reference)
                .with_context(|| format!("{} on one thread", program.name()))?;
            self.until_flipped(program.name(), "20ms", |stage, manager| {
                // A program that ends at once sees no change: it runs until it has seen some.
                let (mut round, mut ran) = (0, 0.0);
                while round < stage.options.rounds || (ran < LEAST_SECONDS && round < 50) {
                    let mut command = manager.run(&subject.path);
                    command.args(SMALL_WORK);
                    let finish = stage.run_one(command, &[])?;
                    let took = finish.turnaround.as_secs_f64();
                    (round, ran) = (round + 1, ran + took);
                    let outcome = subject.check(false, &finish).map(|()| format!(", {took:.2} s"));
                    stage.note(program.name(), outcome);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The papers' programs, which verify what they computed. Those in Rust need a build with all
    /// optimisation, which the form that is only tested does without.
    fn kernels(&mut self) -> anyhow::Result<()> {
        if let Err(fault) = kernel::has_tools() {
            skips::note(format_args!("flip: kernels: {fault:#}"));
            return Ok(());
        }
        let programs = match self.options.form {
            Form::Shipped => kernel::build(self.workspace),
            Form::Tested => {
                let folder = self.workspace.target.join("kernels");
                kernel::build_openmp(self.workspace, &folder, &[])
            }
        }?;
        let wanted: Vec<_> = programs.into_iter().filter(|(name, _)| self.wanted(name)).collect();
        for (name, program) in wanted {
            self.until_flipped(&name, "20ms", |stage, manager| {
                for _ in 0..stage.options.rounds {
                    let mut command = manager.run(&program);
                    command.args(["--class", KERNEL_CLASS, "--json", "--quiet", "--seconds"]);
                    command.arg(LEAST_SECONDS.to_string());
                    let finish = stage.run_one(command, &[])?;
                    stage.note(&name, is_verified(&finish));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn tests(&mut self) -> anyhow::Result<()> {
        for (name, variables) in
            TESTS.into_iter().filter(|(name, _)| self.wanted(name)).collect::<Vec<_>>()
        {
            let source =
                self.workspace.root.join("crates/omp-shim/tests/c").join(name).with_extension("c");
            let program = self.compile(&source, name)?;
            let manager = self.manager("20ms")?;
            for _ in 0..self.options.rounds {
                let finish = self.run_one(manager.run(&program), variables)?;
                self.note(name, is_ok(&finish));
            }
            drop(manager);
        }
        Ok(())
    }

    /// Programs that say the same in every run: what they say on the compiler's own library is
    /// right.
    fn rare(&mut self) -> anyhow::Result<()> {
        let folder = self.workspace.root.join("crates/omp-shim/tests/rare");
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut sources =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
        sources.sort();
        let manager = self.manager("20ms")?;
        for source in sources {
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let language = match source.extension().and_then(|extension| extension.to_str()) {
                Some("c") => Language::C,
                Some("cc") => Language::Cpp,
                Some("f90") => Language::Fortran,
                other => bail!("{}: no language ends in {other:?}", source.display()),
            };
            if !self.wanted(&name) {
                continue;
            }
            if let Err(fault) = self.compiler.has(language) {
                skips::note(format_args!("flip: {name}: {fault:#}"));
                continue;
            }
            let program = self.folder.path().join(format!("rare-{name}"));
            self.compiler.build(language, &source, &program)?;
            const VARIABLES: [(&str, &str); 1] = [("OMP_CANCELLATION", "true")];
            let reference = self.run_one(Command::new(&program), &VARIABLES)?;
            for _ in 0..self.options.rounds {
                let finish = self.run_one(manager.run(&program), &VARIABLES)?;
                // Whether teams follow what there is (dyn-var): they do here (D4).
                let output = finish.output.replace(" dynamic 1 nested", " dynamic 0 nested");
                let same = finish.status == reference.status && output == reference.output;
                let outcome = if same && finish.status.is_some() {
                    Ok(format!(", {:.2} s", finish.turnaround.as_secs_f64()))
                } else {
                    let said = |finish: &Finish| {
                        format!("{:?}, {}{}", finish.status, finish.output, finish.errors)
                    };
                    Err(anyhow::anyhow!(
                        "it said {}\nand on the compiler's library {}",
                        said(&finish),
                        said(&reference)
                    ))
                };
                self.note(&name, outcome);
            }
        }
        Ok(())
    }

    fn compile(&self, source: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let program = self.folder.path().join(name);
        self.compiler.build(Language::C, source, &program)?;
        Ok(program)
    }

    fn own(&self, name: &str) -> anyhow::Result<PathBuf> {
        let source =
            self.workspace.root.join("crates/cpumgr/tests/c").join(name).with_extension("c");
        self.compile(&source, name)
    }

    /// D1: a team that spins on the program's own flags, and one that takes the C library's locks.
    fn unsafe_places(&mut self) -> anyhow::Result<()> {
        for name in
            ["flags", "locks"].into_iter().filter(|name| self.wanted(name)).collect::<Vec<_>>()
        {
            let program = self.own(name)?;
            self.until_flipped(name, "10ms", |stage, manager| {
                let mut command = manager.run(&program);
                command.arg(stage.options.seconds.to_string());
                let finish = stage.run_one(command, &[])?;
                stage.note(name, is_ok(&finish).map(|_| format!(", {}", finish.errors.trim())));
                Ok(())
            })?;
        }
        Ok(())
    }

    /// D2: what others inherit, and four copies without a manager.
    fn heirs(&mut self) -> anyhow::Result<()> {
        if self.wanted("heirs") {
            let program = self.own("heirs")?;
            self.until_flipped("heirs", "20ms", |stage, manager| {
                let mut command = manager.run(&program);
                command.arg(usable()?.to_string());
                let finish = stage.run_one(command, &[])?;
                stage.note("heirs", is_ok(&finish));
                Ok(())
            })?;
        }
        if self.wanted("copies") {
            let program = self.own("copies")?;
            let finishes = run_copies(4, LONGEST_RUN, || {
                let mut command = Command::new(&program);
                clean_environment(&mut command);
                command.env("LD_LIBRARY_PATH", &self.library).env("NANOS_CPUMGR", "off").arg("3");
                command
            })?;
            let outcome = progress(&finishes);
            self.note("copies, four, unmanaged", outcome);
        }
        Ok(())
    }
}

/// The run ended well and said "ok".
fn is_ok(finish: &Finish) -> anyhow::Result<String> {
    let status = finish.status.context("killed before it was done")?;
    if !status.success() || finish.output.trim() != "ok" {
        bail!("{status}; it said: {}", format!("{}{}", finish.output, finish.errors).trim());
    }
    Ok(format!(", {:.2} s", finish.turnaround.as_secs_f64()))
}

/// The kernel ended well and verified what it computed.
fn is_verified(finish: &Finish) -> anyhow::Result<String> {
    let status = finish.status.context("killed before it was done")?;
    let said = || format!("{status}; it said: {}", finish.errors.trim());
    if !status.success() {
        bail!("{}", said());
    }
    let line = kernel::verified(&finish.output, KERNEL_CLASS).with_context(said)?;
    let took = finish.turnaround.as_secs_f64();
    Ok(format!(", {took:.2} s, {} times", line.seconds.len()))
}

/// Copies that ran side by side: each did something, and none much less than the others.
fn progress(finishes: &[Finish]) -> anyhow::Result<String> {
    let rounds = finishes.iter().map(|finish| {
        let status = finish.status.context("killed before it was done")?;
        let mut lines = finish.output.lines();
        match (lines.next().and_then(|line| line.parse::<u64>().ok()), lines.next()) {
            (Some(rounds), Some("ok")) if status.success() => Ok(rounds),
            _ => bail!("{status}; it said: {}{}", finish.output, finish.errors),
        }
    });
    let rounds: Vec<u64> = rounds.collect::<anyhow::Result<_>>()?;
    let (least, most) =
        (rounds.iter().min().copied().unwrap_or(0), rounds.iter().max().copied().unwrap_or(0));
    // Bound to one processor together they would get a quarter; time slices alone make no such
    // difference.
    if least * 4 < most {
        bail!(
            "one did {least} rounds while another did {most}: they stand on each other's processors"
        );
    }
    Ok(format!(", {least} to {most} rounds"))
}
