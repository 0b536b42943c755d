//! `cargo xtask suite`: the papers' programs in copies and mixes on several runtimes.
//!
//! Every run is checked by the programs' own verification. Rows go to the record as soon as a run
//! has ended, so that Ctrl-C loses one run at most and `--resume` goes on after the last one.

mod about;
mod bars;
mod choice;
pub(crate) mod kernel;
mod overall;
mod plan;
mod ratios;
mod record;
mod row;
mod runs;
mod runtime;
mod summary;
mod table;
mod tree;
mod tune;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use procfs::{Current, LoadAverage};

use self::about::Compiled;
pub(crate) use self::about::{About, commits, compilers, usual};
pub(crate) use self::choice::Options;
use self::choice::{chosen, matrix, runtimes};
pub(crate) use self::kernel::build as build_kernels;
use self::kernel::{Kernel, Outcome};
use self::plan::Times;
pub(crate) use self::plan::{Cell, Scenario};
pub(crate) use self::record::{Record, read};
#[cfg(test)]
pub(crate) use self::row::tests::row as row_of_test;
use self::row::{KILLED, VERIFIED, is_only_killed, must_be_right};
pub(crate) use self::row::{Row, cell_of};
pub(crate) use self::runtime::Runtime;
use self::runtime::{OpenMp, Places, twin};
pub(crate) use self::summary::{Summaries, Verdict, Yardstick};
use self::table::table;
use crate::measure::{Finish, Household, Load, Manager, is_interrupted, round_trip_ns};
use crate::peers::{self, Clang};
use crate::setup::{Workspace, must_succeed};
use crate::shim;

/// Runs the suite.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let path = options.record.clone().unwrap_or_else(|| workspace.target.join("suite/suite.csv"));
    options.programs.iter().try_for_each(|name| kernel::must_have_source(workspace, name))?;
    if options.list {
        let done = match options.resume {
            true => Record::look(&path, options.again)?,
            false => BTreeSet::new(),
        };
        for cell in to_run(options, &kernel::build(workspace)?, &done)? {
            println!("{} {} {}", cell.repetition, cell.scenario.name(), cell.runtime.name());
        }
        return Ok(());
    }
    measure(workspace, options, &path, |_| true, report)
}

/// Measures what the options name and `wants` accepts, and prints what `report` says of the record
/// at `path` then.
pub(crate) fn measure(
    workspace: &Workspace,
    options: &Options,
    path: &Path,
    wants: impl Fn(&Cell) -> bool,
    report: impl FnOnce(&Record) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut record = Record::open(path, options.resume)?;
    let wants_clang = options.runtimes.iter().any(|runtime| runtime.is_clang());
    // Where these cannot be had, their runs are left out below.
    let clang = wants_clang.then(|| Clang::find().ok()).flatten();
    let wants_libomp = options.runtimes.contains(&Runtime::Libomp);
    let libomp = wants_libomp.then(|| peers::libomp().ok()).flatten();
    let about = About::of(workspace, clang.as_ref(), libomp.as_deref())?;
    about
        .must_match(&record.rows, options.any_commit)
        .with_context(|| path.display().to_string())?;
    if options.again {
        println!("{} runs that did not count run again", record.drop_left_out()?);
    }
    let files = if options.may_run_rust() {
        kernel::build(workspace)?
    } else {
        kernel::build_openmp(workspace, &workspace.target.join("kernels"), &[])?
    };
    let mut cells = to_run(options, &files, &record.cells())?;
    cells.retain(wants);
    // What no run needs is not built.
    let has = |runtime| cells.iter().any(|cell| cell.runtime == runtime);
    let drop_in = match has(Runtime::Managed) || has(Runtime::Alone) {
        true => shim::run(workspace, shim::Form::Shipped)?,
        false => PathBuf::new(),
    };
    if has(Runtime::Managed) {
        must_succeed(&mut workspace.cargo(["build", "--release", "--package", "cpumgr"]))?;
    }
    let libomp = match has(Runtime::Libomp) {
        true => peers::libomp_folder(workspace)?,
        false => PathBuf::new(),
    };
    let of_clang = clang.as_ref().filter(|_| cells.iter().any(|cell| cell.runtime.is_clang()));
    let twins = match of_clang {
        Some(clang) => kernel::build_by(workspace, &clang.program)?,
        None => BTreeMap::new(),
    };
    let of_clang = of_clang.map_or(PathBuf::new(), |clang| clang.libraries.clone());
    let household = Household::take_over()?;
    let manager = match has(Runtime::Managed) {
        true => {
            let program = workspace.target.join("release/cpumgr");
            Some(Manager::start_private(&program, &drop_in)?)
        }
        false => None,
    };
    let places = Places { libomp, drop_in, manager, of_clang };
    let mut suite = Suite {
        files,
        twins,
        places,
        kernels: BTreeMap::new(),
        times: Times { one_thread: BTreeMap::new(), processors: about.processors },
        about,
        load: Load::default(),
    };
    let deadline = options.limit().map(|limit| begin + limit);
    let outcome = suite.measure(options, &cells, &mut record, deadline);
    let manager = suite.places.manager.take().map(Manager::finish).transpose();
    drop(household);
    let tables = if record.rows.is_empty() { Ok(String::new()) } else { report(&record) };
    match &tables {
        Ok(text) => print!("\n{text}"),
        // Told here, since the suite's own fault, if it has one, ends this.
        Err(fault) => println!("\n{fault:#}"),
    }
    println!("{}; {}", suite.load, record.path().display());
    if is_interrupted() {
        bail!("interrupted: `--resume` with the same options goes on after the last whole run");
    }
    outcome?;
    tables?;
    if let Some(manager) = manager? {
        println!("the manager took {:.2} s of processor time", manager.cpu.as_secs_f64());
    }
    must_be_right(&record.rows)
}

/// The runs that were asked for, without those that are done.
fn to_run(
    options: &Options,
    files: &BTreeMap<String, PathBuf>,
    done: &BTreeSet<Cell>,
) -> anyhow::Result<Vec<Cell>> {
    let there: Vec<String> = files.keys().cloned().collect();
    let programs = chosen(options, &there)?;
    let cells = matrix(options, &programs, runtimes(options), &there)?.cells();
    Ok(cells.into_iter().filter(|cell| !done.contains(cell)).collect())
}

/// The tables of a record.
fn report(record: &Record) -> anyhow::Result<String> {
    let summaries = Summaries::new(&record.rows)?;
    let ratios = ratios::write(record.path(), &summaries, &record.rows)?;
    let mut text = String::new();
    for by in [Yardstick::Together, Yardstick::Alone] {
        for summary in &summaries.all {
            text.push_str(&table(summary, by));
        }
    }
    if record.rows.iter().all(|row| row.runtime != Runtime::One) {
        text.push_str("without runs of `one` there is nothing to compare with, and no ratio\n");
    }
    text.push_str("(median of the runs' ratios, least and most; longest by mean copy)\n");
    let mut list = |what: &str, lines: &[String]| {
        lines.iter().for_each(|line| _ = writeln!(text, "{what}: {line}"));
    };
    list("all copies", &summaries.overall());
    list("beside peers", &summaries.beside_peers());
    list("beside C", &summaries.beside_clang());
    list("missed", &summaries.missed());
    list("left out", &summaries.left_out);
    list("compared with nothing, without one-thread copies", &summaries.unpaired);
    let (left, all) = (summaries.left_out.len(), record.cells().len());
    _ = writeln!(text, "{left} of {all} runs are left out; ratios: {}", ratios.display());
    Ok(text)
}

/// A suite that runs.
struct Suite {
    /// The programs by their names.
    files: BTreeMap<String, PathBuf>,
    /// Clang's builds of the C programs, by their names.
    twins: BTreeMap<String, PathBuf>,
    places: Places,
    /// With the amount of work.
    kernels: BTreeMap<String, Kernel>,
    times: Times,
    about: About,
    load: Load,
}

impl Suite {
    /// Runs all cells that fit; a run that is interrupted leaves no rows.
    fn measure(
        &mut self,
        options: &Options,
        cells: &[Cell],
        record: &mut Record,
        deadline: Option<Instant>,
    ) -> anyhow::Result<()> {
        self.must_load(cells)?;
        let mut programs: Vec<&String> = cells.iter().flat_map(|cell| &cell.scenario.0).collect();
        programs.sort_unstable();
        programs.dedup();
        for program in &programs {
            let (kernel, one_thread) = self.tune(program, options, record)?;
            self.kernels.insert((*program).clone(), kernel);
            self.times.one_thread.insert((*program).clone(), one_thread);
        }
        let left = || {
            let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
            deadline.map_or(f64::INFINITY, |deadline| left(deadline).as_secs_f64())
        };
        if options.subset && record.rows.is_empty() {
            self.shorten(self.times.part_that_fits(cells, left()));
        }
        for (name, Kernel { class, repeat, .. }) in &self.kernels {
            let one_thread = self.times.one_thread[name];
            println!("{name}: class {class} x {repeat}, {one_thread:.1} s with one thread");
        }
        println!("{}", self.outlook(cells, left()));
        let expected: Vec<f64> = cells.iter().map(|cell| self.times.expected(cell)).collect();
        let bar = ProgressBar::new(expected.iter().map(|time| (time * 1000.0) as u64).sum());
        bar.set_style(
            ProgressStyle::with_template("{wide_bar} {percent:>3} %, {msg}, {eta} left")
                .context("the progress bar")?,
        );
        let mut late = 0;
        for (cell, expected) in cells.iter().zip(&expected) {
            bar.set_message(format!("{} {}", cell.scenario.name(), cell.runtime.name()));
            // Where standard error is no terminal there is no bar; the lines are there then, too.
            let tell = |line: &str| bar.suspend(|| println!("{line}"));
            if record.has_collapsed(cell) {
                tell(&format!("{}: ended at the cap before, not run again", heading(cell)));
            } else if let Some(cap) = self.times.cap_within(cell, left()) {
                let rows = self.run(cell, cap)?;
                tell(&self.line(cell, &rows));
                if self.times.is_cut_short(cell, cap) && is_only_killed(&rows) {
                    tell(&format!("{}: the suite's time was over, no result", heading(cell)));
                    late += 1;
                } else {
                    record.add(rows)?;
                }
            } else {
                late += 1;
            }
            bar.inc((expected * 1000.0) as u64);
        }
        bar.finish_and_clear();
        if late > 0 {
            println!("{late} runs were left out for the time: `--resume` goes on with them");
        }
        Ok(())
    }

    /// Makes the programs do this part of their work.
    fn shorten(&mut self, part: f64) {
        for (name, kernel) in &mut self.kernels {
            let before = kernel.repeat;
            kernel.repeat = ((f64::from(before) * part) as u32).max(1);
            if let Some(time) = self.times.one_thread.get_mut(name) {
                *time *= f64::from(kernel.repeat) / f64::from(before);
            }
        }
    }

    /// What is to come.
    fn outlook(&self, cells: &[Cell], left: f64) -> String {
        let (expected, most) = self.times.sums(cells);
        let shown = |seconds: f64| match seconds {
            short if short < 120.0 => format!("{short:.0} s"),
            long => format!("{:.1} minutes", long / 60.0),
        };
        let mut text = format!(
            "{} runs: {}, and {} where all that may collapse does",
            cells.len(),
            shown(expected),
            shown(most)
        );
        if left.is_finite() {
            _ = write!(text, "; none begins that could not end in {}", shown(left));
        }
        text
    }

    /// Fails where a program would not take its OpenMP library from where the runtime has it.
    fn must_load(&self, cells: &[Cell]) -> anyhow::Result<()> {
        let mut seen = BTreeSet::new();
        for cell in cells {
            let Some(openmp) = self.places.openmp(cell.runtime) else { continue };
            let has_openmp =
                |program: &&String| cell.runtime.is_clang() || Runtime::Libgomp.runs(program);
            for program in cell.scenario.0.iter().filter(has_openmp) {
                if seen.insert((program, cell.runtime)) {
                    let command = self.command(program, cell.runtime)?;
                    let loaded = match openmp {
                        OpenMp::Of(name, folder) => peers::must_load(command, name, folder),
                        OpenMp::Gcc => peers::must_load_gcc(command),
                    };
                    loaded.with_context(|| format!("{program}, {}", cell.runtime.name()))?;
                }
            }
        }
        Ok(())
    }

    /// The command of a program, without its work.
    fn command(&self, program: &str, runtime: Runtime) -> anyhow::Result<Command> {
        if runtime.is_clang() {
            let twin = twin(program).unwrap_or_default();
            let file = self.twins.get(&twin);
            let file =
                file.with_context(|| format!("{program} has no twin in C that clang built"))?;
            return self.places.command(runtime, file);
        }
        // Every name was looked up before.
        let file = self.files.get(program).map_or(Path::new(program), PathBuf::as_path);
        self.places.command(runtime, file)
    }

    /// Runs one cell.
    fn run(&mut self, cell: &Cell, cap: f64) -> anyhow::Result<Vec<Row>> {
        let commands = cell.scenario.0.iter().map(|program| {
            let mut command = self.command(program, cell.runtime)?;
            command.args(self.kernels[program].arguments());
            anyhow::Ok(command)
        });
        let commands = commands.collect::<anyhow::Result<Vec<Command>>>()?;
        let load = LoadAverage::current().map_or(f64::NAN, |load| f64::from(load.one));
        let round_trip_before = round_trip_ns()?;
        let processors = self.about.processors;
        let manager = self.places.manager.as_ref();
        let used = || manager.map_or(Ok(Duration::ZERO), Manager::cpu);
        let cap_of_run = Duration::from_secs_f64(cap);
        let run = self.load.run_beside(processors, cap_of_run, commands, used)?;
        let round_trip_after = round_trip_ns()?;
        let outcome =
            |finish: &Finish| self.kernels[&cell.scenario.0[finish.index]].outcome(finish);
        let outcomes: Vec<Outcome> = run.finished.iter().map(outcome).collect();
        if let (Runtime::Managed, Some(manager)) = (cell.runtime, &mut self.places.manager) {
            // A copy that failed may never have come so far: its row says how it ended.
            let has_failed = |outcome: &Outcome| matches!(outcome, Outcome::Wrong(_));
            let others = run.finished.iter().zip(&outcomes).filter(|(_, it)| !has_failed(it));
            let pids: Vec<i32> = others.map(|(finish, _)| finish.pid).collect();
            let strangers = manager.strangers(&pids)?.len();
            ensure!(
                strangers == 0,
                "{} managed: {strangers} of {} copies never registered with the manager",
                cell.scenario.name(),
                pids.len()
            );
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        let mut rows = Vec::new();
        for (finish, outcome) in run.finished.iter().zip(outcomes) {
            let program = &cell.scenario.0[finish.index];
            let kernel = &self.kernels[program];
            let (outcome, line) = match outcome {
                Outcome::Verified(line) => (VERIFIED.to_owned(), Some(line)),
                Outcome::Killed => (KILLED.to_owned(), None),
                Outcome::Wrong(what) => (what, None),
            };
            let Compiled { compiler, flags } = self.about.compiled_by(program, cell.runtime);
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
                makespan: run.seconds,
                cap,
                others: run.others,
                round_trip_before,
                round_trip_after,
                load,
                time,
                processors,
                machine: self.about.machine.clone(),
                kernel: self.about.kernel.clone(),
                commit: self.about.commit.clone(),
                compiler,
                flags,
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
        let expected = self.times.expected(cell);
        let wrong = wrong
            .first()
            .map_or(String::new(), |it| format!("  {} not verified: {it}", wrong.len()));
        format!(
            "{} {mean:6.2} s a copy, {:.2} x {expected:.2} s{trip}{wrong}",
            heading(cell),
            mean / expected,
        )
    }
}

/// A run in what is told of it.
fn heading(cell: &Cell) -> String {
    let (scenario, runtime) = (cell.scenario.name(), cell.runtime.name());
    format!("{} {scenario:<30} {runtime:<8}", cell.repetition)
}
