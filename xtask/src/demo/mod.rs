//! The demo: unmodified OpenMP programs, one to four copies at once, on the system's runtimes and
//! under the manager.
//!
//! Builds what it needs, measures both sides interleaved, checks every result, compares with the
//! ideal, and draws which copy had which processor. Leaves no process running, however it ends.

mod plan;
mod record;
mod report;
mod subject;
mod timeline;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

pub(crate) use self::plan::Program;
use self::plan::{Runtime, Selection, Step, USUAL_COPIES};
use self::record::{Record, Sample};
pub(crate) use self::subject::Subject;
use self::subject::line_of;
pub(crate) use self::timeline::Trace;
use self::timeline::Window;
use crate::measure::{self, Finish, Household, Load, Manager, run_copies};
use crate::setup::{Compiler, Workspace, clean_environment, must_succeed};
use crate::{peers, skips};

/// A run of a fraction of a second that takes longer hangs.
const LONGEST_TUNING: Duration = Duration::from_secs(30);

/// Besides one alone, where a look is enough.
const FEW_COPIES: [usize; 1] = [2];

/// What the command line can ask for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A measurement instead of a look: copies that run longer, and more of them, in 12 minutes.
    #[arg(long)]
    long: bool,
    /// Time for all runs together, in minutes; with more of it the system's runs are capped later
    /// (at most at 15 times the ideal) and more runs are repeated. Default: 1.4, or 12 with --long.
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<f64>,
    /// What to measure: the programs of `examples/omp`.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["cg", "lu"])]
    programs: Vec<Program>,
    /// How many copies at once; one alone is always measured.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    copies: Vec<u16>,
    /// On what: the system's libgomp by default, and with sleeping waits (`passive`), LLVM's
    /// libomp, ours under the manager (`nanos`).
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["libgomp", "passive", "libomp", "nanos"])]
    runtimes: Vec<Runtime>,
    /// Where the results go, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the timeline goes, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs the demo.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    if options.minutes.is_some_and(|minutes| !(0.1..=600.0).contains(&minutes)) {
        bail!("--minutes wants a number from 0.1 to 600");
    }
    let compiler = Compiler::find_or_install()?;
    println!("building the manager and the drop-in library in release");
    must_succeed(&mut workspace.cargo(["build", "--release", "--package", "cpumgr"]))?;
    let library = crate::shim::run(workspace, crate::shim::Form::Shipped)?;
    let copies: Vec<usize> = options.copies.iter().map(|&copies| copies.into()).collect();
    let copies = match (copies.is_empty(), options.long) {
        (true, true) => &USUAL_COPIES[..],
        (true, false) => &FEW_COPIES[..],
        (false, _) => &copies,
    };
    let mut runtimes = options.runtimes.clone();
    let libomp = match runtimes.contains(&Runtime::Libomp).then(|| peers::libomp_folder(workspace))
    {
        Some(Ok(folder)) => folder,
        Some(Err(fault)) => {
            skips::note(format_args!("demo: libomp: {fault:#}"));
            runtimes.retain(|runtime| *runtime != Runtime::Libomp);
            PathBuf::new()
        }
        None => PathBuf::new(),
    };
    let selection = Selection::new(&options.programs, copies, &runtimes);
    let subjects = Subject::build_all(workspace, &compiler, selection.programs())?;

    let default_minutes = if options.long { 12.0 } else { 1.4 };
    let budget = Duration::from_secs_f64(options.minutes.unwrap_or(default_minutes) * 60.0);
    // A little more than 3 s: the copies must not be shorter when a run is luckier than those that
    // it was tuned on.
    let target = if options.long { 3.1 } else { 0.7 };
    let begin = Instant::now();
    let household = Household::take_over()?;
    let mut demo = Demo {
        libomp,
        manager: Manager::start_private(&workspace.target.join("release/cpumgr"), &library)?,
        subjects,
        record: Record::new(selection, measure::usable()?, target),
        windows: Vec::new(),
        faults: Vec::new(),
        load: Load::default(),
        begin,
    };
    let outcome = demo.measure(budget, target);
    let Demo { manager, record, windows, mut faults, load, .. } = demo;
    let managed = manager.finish();
    drop(household);
    outcome?;
    let managed = managed?;
    let trace = Trace::read(&managed.trace)?;
    faults.extend(windows.iter().filter_map(|window| unmanaged(&trace, window, &library)));

    let folder = workspace.target.join("demo");
    let json = options.json.clone().unwrap_or_else(|| folder.join("demo.json"));
    let svg = options.svg.clone().unwrap_or_else(|| folder.join("timeline.svg"));
    // One panel for each kind of run: the repeats look the same.
    let mut titles = BTreeSet::new();
    let drawn: Vec<Window> =
        windows.into_iter().filter(|window| titles.insert(window.title.clone())).collect();
    write(&svg, &timeline::draw(&trace, &drawn, &measure::processors()?))?;
    write(&json, &report::json(&record)?)?;
    print!("{}", report::table(&record));
    println!(
        "\n{load}; the manager itself took {:.2} s of processor time",
        managed.cpu.as_secs_f64()
    );
    println!(
        "all runs took {:.0} s; results: {}; timeline: {}",
        begin.elapsed().as_secs_f64(),
        json.display(),
        svg.display()
    );
    if !faults.is_empty() {
        bail!("the demo failed:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// The fault of a run whose copies did not all register: then it did not measure what it says.
fn unmanaged(trace: &Trace, window: &Window, library: &Path) -> Option<String> {
    let strangers = trace.strangers(window).len();
    (strangers > 0).then(|| {
        format!(
            "{}: {strangers} of {} copies never registered with the manager (did they load {}?)",
            window.title,
            window.pids.len(),
            library.display()
        )
    })
}

/// A demo while it measures.
struct Demo {
    /// The folder in which libgomp.so.1 is LLVM's library.
    libomp: PathBuf,
    manager: Manager,
    subjects: Vec<Subject>,
    record: Record,
    windows: Vec<Window>,
    faults: Vec<String>,
    load: Load,
    begin: Instant,
}

impl Demo {
    /// Tunes the programs, runs each step once, and repeats those that fit in what is left of the
    /// time.
    fn measure(&mut self, budget: Duration, target: f64) -> anyhow::Result<()> {
        for index in 0..self.subjects.len() {
            if self.record.selection.has(Runtime::Libomp) {
                let step = Step::Copies(self.subjects[index].program, Runtime::Libomp, 1);
                peers::must_load(self.command(index, step), peers::LIBGOMP, &self.libomp)?;
            }
            self.tune(index, target)?;
        }
        let round = self.record.selection.round();
        for at in 0..round.len() {
            let left = self.left(budget);
            if !self.record.can_do_without(round[at], left) {
                self.step(round[at], self.record.cap(&round[at..], left))?;
            }
        }
        loop {
            let mut repeated = false;
            for &step in &round {
                let left = self.left(budget);
                if self.record.worth_repeating(step, left) {
                    self.step(step, Duration::from_secs_f64(left))?;
                    repeated = true;
                }
            }
            if !repeated {
                return Ok(());
            }
        }
    }

    fn left(&self, budget: Duration) -> f64 {
        budget.as_secs_f64() - self.begin.elapsed().as_secs_f64()
    }

    /// Finds the work that makes one copy alone take at least `target` seconds.
    ///
    /// Measured with one thread, by the part of its time in which it had a processor: so others do
    /// not make it look slow, and the copies too short. P processors are at most P times as fast.
    fn tune(&mut self, index: usize, target: f64) -> anyhow::Result<()> {
        let program = self.subjects[index].program;
        let one_thread = target * self.record.processors as f64;
        // Twice: the first guess may be so short that starting costs more than working.
        for goal in [one_thread * 0.05, one_thread] {
            let work = self.subjects[index].work;
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let finished = run_copies(1, LONGEST_TUNING, || {
                    self.command(index, Step::OneThread(program))
                })?;
                for finish in &finished {
                    let line = line_of(finish, program)
                        .with_context(|| format!("tuning {}", program.name()))?;
                    let running = finish.cpu.as_secs_f64() / finish.turnaround.as_secs_f64();
                    best = best.min(line.seconds * running.min(1.0));
                }
            }
            self.subjects[index].work = record::scaled_work(work, best, goal);
        }
        Ok(())
    }

    fn command(&self, index: usize, step: Step) -> Command {
        let subject = &self.subjects[index];
        let mut command = match step {
            Step::Copies(_, Runtime::Nanos, _) => self.manager.run(&subject.path),
            Step::OneThread(_) | Step::Copies(..) => Command::new(&subject.path),
        };
        clean_environment(&mut command);
        match step {
            Step::OneThread(_) => _ = command.env("OMP_NUM_THREADS", "1"),
            Step::Copies(_, Runtime::Passive, _) => _ = command.envs([peers::PASSIVE]),
            Step::Copies(_, Runtime::Libomp, _) => {
                command.env("LD_LIBRARY_PATH", &self.libomp).envs(peers::LIBOMP_SETTINGS);
            }
            Step::Copies(_, Runtime::Libgomp | Runtime::Nanos, _) => {}
        }
        command.arg("--work").arg(subject.work.to_string());
        command
    }

    /// Runs one step and notes what it gave.
    fn step(&mut self, step: Step, cap: Duration) -> anyhow::Result<()> {
        let index = self.subjects.iter().position(|subject| subject.program == step.program());
        let index = index.context("a step without its program")?;
        let copies = match step {
            Step::OneThread(_) => self.record.processors,
            Step::Copies(_, _, copies) => copies,
        };
        let commands = (0..copies).map(|_| self.command(index, step)).collect();
        let used = || self.manager.cpu();
        let run = self.load.run_beside(self.record.processors, cap, commands, used)?;
        let sample = self.judge(index, step, cap, &run.finished);
        self.record.add(step, sample);
        let line = report::line(&self.record, step, &sample, run.others, run.idle);
        println!("[{:5.0} s] {line}", self.begin.elapsed().as_secs_f64());
        if let Step::Copies(program, Runtime::Nanos, copies) = step {
            let mut pids: Vec<i32> = run.finished.iter().map(|finish| finish.pid).collect();
            pids.sort_unstable();
            let title = format!(
                "{}, {copies} {}",
                program.name(),
                if copies == 1 { "copy" } else { "copies" }
            );
            let (begin_ns, end_ns) = (run.begin_ns, run.end_ns);
            self.windows.push(Window { title, begin_ns, end_ns, pids });
        }
        Ok(())
    }

    /// Turns the ends of a run's copies into a sample; what is wrong with them becomes a fault of
    /// the demo.
    fn judge(&mut self, index: usize, step: Step, cap: Duration, finished: &[Finish]) -> Sample {
        let seconds: Vec<f64> =
            finished.iter().map(|finish| finish.turnaround.as_secs_f64()).collect();
        let capped = finished.iter().any(|finish| finish.status.is_none());
        let mut wrong = false;
        for finish in finished.iter().filter(|finish| finish.status.is_some()) {
            if let Err(fault) =
                self.subjects[index].check(matches!(step, Step::OneThread(_)), finish)
            {
                wrong = true;
                self.faults.push(format!("{}: {fault:#}", report::name(step)));
            }
        }
        if capped && matches!(step, Step::Copies(_, Runtime::Nanos, _)) {
            self.faults.push(format!(
                "{}: not finished after {:.1} s",
                report::name(step),
                cap.as_secs_f64()
            ));
        }
        Sample {
            mean: seconds.iter().sum::<f64>() / seconds.len() as f64,
            worst: seconds.iter().copied().fold(0.0, f64::max),
            cpu: finished.iter().map(|finish| finish.cpu.as_secs_f64()).sum(),
            capped,
            correct: if wrong { Some(false) } else { (!capped).then_some(true) },
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
