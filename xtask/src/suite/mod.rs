//! `cargo xtask suite`: the papers' programs in copies and mixes on several runtimes.
//!
//! Every run is checked by the programs' own verification. Rows go to the record as soon as a run
//! has ended, so that Ctrl-C loses one run at most and `--resume` goes on after the last one.

mod kernel;
mod plan;
mod record;
mod runtime;
mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use procfs::{CpuInfo, Current, LoadAverage};

use self::kernel::{Kernel, Outcome};
pub(crate) use self::plan::Scenario;
use self::plan::{Cell, Matrix};
use self::record::{KILLED, Record, VERIFIED};
pub(crate) use self::record::{Row, read};
use self::runtime::Places;
pub(crate) use self::runtime::Runtime;
pub(crate) use self::summary::{Summary, Verdict};
use crate::measure::{
    self, Household, Load, Manager, is_interrupted, round_trip_ns, run_copies, run_together,
};
use crate::setup::{Workspace, must_succeed};
use crate::{peers, shim, skips};

/// What `--subset` takes: codes that scale and that do not, with short and long regions.
const SUBSET: [&str; 6] = ["c/cg", "c/ft", "c/lu", "c/papers/apsi", "fortran/bt", "rust/mg"];
/// Copies of each program.
const COPIES: [usize; 5] = [1, 2, 3, 4, 8];
const FEW_COPIES: [usize; 3] = [1, 2, 4];
/// Copies of each program on the runtimes of others.
const PEER_COPIES: [usize; 2] = [1, 4];
/// Programs that are mixed, each with the next one: of different kinds.
const MIXED: [&str; 4] = ["c/cg", "c/lu", "c/ft", "c/papers/apsi"];
/// A run is ended at this multiple of the time that its copies would take one after the other on
/// all processors.
const CAP: f64 = 5.0;
/// No run is ended before this time: set-up of the programs, start of the copies.
const LEAST_CAP: f64 = 5.0;
/// A run of one second that takes longer hangs.
const LONGEST_TUNING: Duration = Duration::from_secs(120);

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Programs by their place in `kernels/`, as c/cg, fortran/bt or rust/mg; default: all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    programs: Vec<String>,
    /// Copies of each program at the same time [default: 1,2,3,4,8].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    copies: Vec<u16>,
    /// Different programs at the same time, as c/cg+c/mg; default: some pairs. `none`: none.
    #[arg(long, value_name = "MIX", value_delimiter = ',')]
    mixes: Vec<String>,
    /// On what; those of others run 1 and 4 copies and the mixes.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["one", "managed", "alone", "libgomp", "passive", "libomp", "rayon"])]
    runtimes: Vec<Runtime>,
    /// How often each is run.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// The size of the problems.
    #[arg(long, value_name = "CLASS", default_value = "W", value_parser = ["S", "W", "A", "B"])]
    class: String,
    /// Seconds that a copy alone takes at least, by repeating its work.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    /// Six programs, 1, 2 and 4 copies, two mixes, two repetitions: half an hour.
    #[arg(long, conflicts_with_all = ["programs", "copies", "mixes", "repetitions"])]
    subset: bool,
    /// The record, which must not be there yet [default: target/suite/suite.csv].
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Goes on with a record where an earlier suite ended.
    #[arg(long)]
    resume: bool,
    /// Prints what would run, and runs nothing.
    #[arg(long)]
    list: bool,
}

/// Runs the suite.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    ensure!(
        options.seconds.is_finite() && (0.05..=600.0).contains(&options.seconds),
        "--seconds {}: 0.05 to 600",
        options.seconds
    );
    let path = options.record.clone().unwrap_or_else(|| workspace.target.join("suite/suite.csv"));
    let mut record = Record::open(&path, options.resume)?;
    let files = kernel::build(workspace)?;
    let there: Vec<String> = files.keys().cloned().collect();
    let programs = chosen(options, &there)?;
    let runtimes = runtimes(options);
    let matrix = matrix(options, &programs, runtimes, &there)?;
    let done = record.cells();
    let cells: Vec<Cell> = matrix.cells().into_iter().filter(|cell| !done.contains(cell)).collect();
    if options.list {
        for cell in &cells {
            println!("{} {} {}", cell.repetition, cell.scenario.name(), cell.runtime.name());
        }
        return Ok(());
    }
    must_succeed(&mut workspace.cargo(["build", "--release", "--package", "cpumgr"]))?;
    let library = shim::run(workspace, shim::Form::Shipped)?;
    let wants_libomp = matrix.runtimes.contains(&Runtime::Libomp);
    let places = Places {
        target: workspace.target.clone(),
        libomp: if wants_libomp { peers::libomp_folder(workspace)? } else { PathBuf::new() },
        drop_in: library.clone(),
    };
    let household = Household::take_over()?;
    let private = tempfile::tempdir().context("cannot make a temporary folder")?;
    let program = workspace.target.join("release/cpumgr");
    let manager = Manager::start(&program, &library, private.path(), &[])?;
    let mut suite = Suite {
        files,
        places,
        manager,
        kernels: BTreeMap::new(),
        about: About::of(workspace)?,
        processors: measure::usable()?,
        load: Load::default(),
        failures: 0,
    };
    let outcome = suite.measure(options, &cells, &mut record);
    let manager = suite.manager.finish();
    drop(household);
    print!("\n{}", report(&record)?);
    println!("{}; {}", suite.load, record.path().display());
    if is_interrupted() {
        bail!("interrupted: `--resume` with the same options goes on after the last whole run");
    }
    outcome?;
    let (_, manager_time) = manager?;
    println!("the manager took {:.2} s of processor time", manager_time.as_secs_f64());
    ensure!(suite.failures == 0, "{} copies gave no verified result, see above", suite.failures);
    Ok(())
}

/// The tables of a record.
fn report(record: &Record) -> anyhow::Result<String> {
    let summary = Summary::new(&record.rows)?;
    let mut text = summary.table();
    text.push_str(
        "(median of the runs' ratios to the ideal, least and most; longest by mean copy)\n",
    );
    for line in summary.missed() {
        text.push_str("missed: ");
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

fn known(name: &str, there: &[String]) -> anyhow::Result<()> {
    ensure!(
        there.iter().any(|it| it == name),
        "there is no program `{name}` in kernels/: {}",
        there.join(", ")
    );
    Ok(())
}

/// The programs that were asked for.
fn chosen(options: &Options, there: &[String]) -> anyhow::Result<Vec<String>> {
    let programs: Vec<String> = match (options.subset, options.programs.is_empty()) {
        (true, _) => SUBSET.map(str::to_owned).to_vec(),
        (_, true) => there.to_vec(),
        (_, false) => options.programs.clone(),
    };
    programs.iter().try_for_each(|name| known(name, there))?;
    Ok(programs)
}

/// The runtimes that were asked for and are there.
fn runtimes(options: &Options) -> Vec<Runtime> {
    let mut runtimes = options.runtimes.clone();
    if let Some(Err(fault)) = runtimes.contains(&Runtime::Libomp).then(peers::libomp) {
        skips::note(format_args!("suite: the column libomp: {fault:#}"));
        runtimes.retain(|runtime| *runtime != Runtime::Libomp);
    }
    runtimes
}

fn matrix(
    options: &Options,
    programs: &[String],
    runtimes: Vec<Runtime>,
    there: &[String],
) -> anyhow::Result<Matrix> {
    let copies: Vec<usize> = match (options.subset, options.copies.is_empty()) {
        (true, _) => FEW_COPIES.to_vec(),
        (_, true) => COPIES.to_vec(),
        (_, false) => options.copies.iter().map(|&copies| copies.into()).collect(),
    };
    let mut mixes = Vec::new();
    match (&options.mixes[..], options.programs.is_empty()) {
        ([none], _) if none == "none" => {}
        ([], true) => {
            let pairs = MIXED.iter().zip(MIXED.iter().cycle().skip(1));
            let mixed = pairs.map(|(one, other)| Scenario(vec![(*one).into(), (*other).into()]));
            mixes.extend(mixed.take(if options.subset { 2 } else { MIXED.len() }));
        }
        (named, _) => {
            for mix in named {
                mixes.push(Scenario::parse(mix)?);
            }
        }
    }
    for name in mixes.iter().flat_map(|mix| &mix.0) {
        known(name, there)?;
    }
    let of_program = |program: &String| {
        copies.iter().map(|&copies| Scenario::copies(program, copies)).collect::<Vec<_>>()
    };
    let mut scenarios: Vec<Scenario> = programs.iter().flat_map(of_program).collect();
    scenarios.extend(mixes);
    Ok(Matrix {
        scenarios,
        runtimes,
        repetitions: if options.subset { 2 } else { options.repetitions },
        peer_copies: PEER_COPIES.to_vec(),
    })
}

/// What all rows of a suite share.
struct About {
    machine: String,
    kernel: String,
    commit: String,
    compiler: String,
    flags: String,
}

impl About {
    fn of(workspace: &Workspace) -> anyhow::Result<About> {
        let model = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
        let git = |arguments: &[&str]| {
            said(Command::new("git").current_dir(&workspace.root).args(arguments))
        };
        // A copy without its history has no commit.
        let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|_| "unknown".into());
        let changed = git(&["status", "--porcelain"]).is_ok_and(|changes| !changes.is_empty());
        let mut flags = Command::new("make");
        flags.args(["--no-print-directory", "-C"]).arg(workspace.root.join("kernels"));
        flags.arg("flags");
        Ok(About {
            machine: model.unwrap_or_else(|| "unknown processors".into()),
            kernel: said(Command::new("uname").arg("-r"))?,
            commit: if changed { commit + "+" } else { commit },
            compiler: said(Command::new("gcc").arg("-dumpfullversion"))?,
            flags: said(&mut flags)?,
        })
    }
}

/// What a command prints, in one line.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let shown = crate::setup::shown(command);
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    ensure!(output.status.success(), "{shown}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().replace('\n', " "))
}

/// A suite that runs.
struct Suite {
    /// The programs by their names.
    files: BTreeMap<String, PathBuf>,
    places: Places,
    manager: Manager,
    /// With the amount of work.
    kernels: BTreeMap<String, Tuned>,
    about: About,
    processors: usize,
    load: Load,
    failures: usize,
}

/// A program whose work is known.
struct Tuned {
    kernel: Kernel,
    /// Seconds of one copy with one thread, roughly.
    one_thread: f64,
}

impl Suite {
    /// Runs all cells; a run that is interrupted leaves no rows.
    fn measure(
        &mut self,
        options: &Options,
        cells: &[Cell],
        record: &mut Record,
    ) -> anyhow::Result<()> {
        let mut programs: Vec<&String> = cells.iter().flat_map(|cell| &cell.scenario.0).collect();
        programs.sort_unstable();
        programs.dedup();
        for program in programs {
            let tuned = self.tune(program, options, record)?;
            println!(
                "{program}: class {} x {}, {:.1} s with one thread",
                tuned.kernel.class, tuned.kernel.repeat, tuned.one_thread
            );
            self.kernels.insert(program.clone(), tuned);
        }
        let expected: Vec<f64> = cells.iter().map(|cell| self.expected(cell)).collect();
        let bar = ProgressBar::new(expected.iter().map(|time| (time * 1000.0) as u64).sum());
        bar.set_style(
            ProgressStyle::with_template("{wide_bar} {percent:>3} %, {msg}, {eta} left")
                .context("the progress bar")?,
        );
        for (cell, expected) in cells.iter().zip(&expected) {
            bar.set_message(format!("{} {}", cell.scenario.name(), cell.runtime.name()));
            let rows = self.run(cell)?;
            let line = self.line(cell, &rows);
            // Where standard error is no terminal there is no bar; the lines are there all the
            // same.
            bar.suspend(|| println!("{line}"));
            record.add(rows)?;
            bar.inc((expected * 1000.0) as u64);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Seconds that a run takes when all processors are well used.
    fn expected(&self, cell: &Cell) -> f64 {
        let of = |program: &String| self.kernels.get(program).map_or(0.0, |it| it.one_thread);
        let work: f64 = cell.scenario.0.iter().map(of).sum();
        let longest = cell.scenario.0.iter().map(of).fold(0.0, f64::max);
        match cell.runtime {
            Runtime::One => longest.max(work / self.processors as f64),
            _ => work / self.processors as f64,
        }
    }

    /// The command of a program, without its work.
    fn command(&self, program: &str, runtime: Runtime) -> Command {
        // Every name was looked up before.
        let file = self.files.get(program).map_or(Path::new(program), PathBuf::as_path);
        self.places.command(runtime, file, &self.manager)
    }

    /// How much work makes a copy alone last as long as is asked for; of the record, where it says.
    fn tune(&self, program: &str, options: &Options, record: &Record) -> anyhow::Result<Tuned> {
        let recorded = record.repeat_of(program)?;
        let class = recorded.as_ref().map_or(&options.class, |(class, _)| class).clone();
        let time = |runtime: Runtime| {
            let mut finished = run_copies(1, LONGEST_TUNING, || {
                let mut command = self.command(program, runtime);
                command.args(["--class", &class, "--repeat", "1", "--json", "--quiet"]);
                command
            })?;
            let kernel = Kernel { name: program.to_owned(), class: class.clone(), repeat: 1 };
            let finish = finished.pop().context("a run without a copy")?;
            match kernel.outcome(&finish) {
                Outcome::Verified(line) => Ok((line.seconds[0], finish.turnaround.as_secs_f64())),
                Outcome::Killed => bail!("{program} --class {class}: more than {LONGEST_TUNING:?}"),
                Outcome::Wrong(what) => bail!("{program} --class {class}: {what}"),
            }
        };
        let usual = if Runtime::Libgomp.runs(program) { Runtime::Libgomp } else { Runtime::Alone };
        // The second run is warm.
        let _cold = time(usual)?;
        let (all, _) = time(usual)?;
        let (one, turnaround) = time(Runtime::One)?;
        // A fast program's single repetition says little: the first are slow, and no clock is so
        // exact; a tenth more makes up for it.
        let wanted = (options.seconds * 1.1 / all.min(one).max(1e-6)).ceil();
        let repeat = recorded.map_or(wanted.clamp(1.0, 1e6) as u32, |(_, repeat)| repeat);
        let kernel = Kernel { name: program.to_owned(), class, repeat };
        let setup = (turnaround - one).max(0.0);
        Ok(Tuned { kernel, one_thread: setup + one * f64::from(repeat) })
    }

    /// Runs one cell.
    fn run(&mut self, cell: &Cell) -> anyhow::Result<Vec<Row>> {
        let work: f64 = cell.scenario.0.iter().map(|it| self.kernels[it].one_thread).sum();
        let longest =
            cell.scenario.0.iter().map(|it| self.kernels[it].one_thread).fold(0.0, f64::max);
        let cap = LEAST_CAP.max(CAP * longest.max(work / self.processors as f64));
        let commands = cell.scenario.0.iter().map(|program| {
            let mut command = self.command(program, cell.runtime);
            command.args(self.kernels[program].kernel.arguments());
            command
        });
        let commands: Vec<Command> = commands.collect();
        let load = LoadAverage::current().map_or(f64::NAN, |load| f64::from(load.one));
        let round_trip_before = round_trip_ns()?;
        let (busy, begin) = (measure::busy()?, Instant::now());
        let finished = run_together(Duration::from_secs_f64(cap), commands)?;
        let makespan = begin.elapsed().as_secs_f64();
        let busy = measure::busy()? - busy;
        let own: f64 = finished.iter().map(|finish| finish.cpu.as_secs_f64()).sum();
        let (others, _) = self.load.note(self.processors, busy, own, makespan);
        let round_trip_after = round_trip_ns()?;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        let mut rows = Vec::new();
        for finish in &finished {
            let program = &cell.scenario.0[finish.index];
            let kernel = &self.kernels[program].kernel;
            let (outcome, line) = match kernel.outcome(finish) {
                Outcome::Verified(line) => (VERIFIED.to_owned(), Some(line)),
                Outcome::Killed => (KILLED.to_owned(), None),
                Outcome::Wrong(what) => (what, None),
            };
            self.failures += usize::from(line.is_none() && outcome != KILLED);
            rows.push(Row {
                scenario: cell.scenario.name(),
                runtime: cell.runtime,
                repetition: cell.repetition,
                copy: finish.index,
                program: program.clone(),
                class: kernel.class.clone(),
                repeat: kernel.repeat,
                outcome,
                turnaround: finish.turnaround.as_secs_f64(),
                timed: line.as_ref().map(|line| line.seconds.iter().sum()),
                mops: line.as_ref().map(|line| line.mops),
                processor_time: finish.cpu.as_secs_f64(),
                threads: line.as_ref().map(|line| line.threads),
                makespan,
                cap,
                others,
                round_trip_before,
                round_trip_after,
                load,
                time,
                processors: self.processors,
                machine: self.about.machine.clone(),
                kernel: self.about.kernel.clone(),
                commit: self.about.commit.clone(),
                compiler: self.about.compiler.clone(),
                flags: self.about.flags.clone(),
            });
        }
        rows.sort_by_key(|row| row.copy);
        Ok(rows)
    }

    /// What is told of a run at once.
    fn line(&self, cell: &Cell, rows: &[Row]) -> String {
        let mean = rows.iter().map(|row| row.turnaround).sum::<f64>() / rows.len() as f64;
        let wrong: Vec<&str> =
            rows.iter().filter(|row| !row.is_verified()).map(|row| row.outcome.as_str()).collect();
        let trip = rows.first().and_then(|row| row.round_trip_before);
        let trip = trip.map_or(String::new(), |trip| format!(", round trip {trip:.0} ns"));
        let expected = self.expected(cell);
        let wrong = wrong
            .first()
            .map_or(String::new(), |it| format!("  {} not verified: {it}", wrong.len()));
        format!(
            "{} {:<30} {:<8} {mean:6.2} s a copy, {:.2} x {expected:.2} s{trip}{wrong}",
            cell.repetition,
            cell.scenario.name(),
            cell.runtime.name(),
            mean / expected,
        )
    }
}
