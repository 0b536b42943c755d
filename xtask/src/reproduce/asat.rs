//! `cargo xtask reproduce asat`: the experiment of the ASAT paper on this machine.
//!
//! The paper's program (`kernels/c/papers/serial_parallel.c`) in 1 to 8 copies that start together,
//! with grains of 10K to 4M elements, in each [`Version`]. All versions of a case run one after the
//! other before any is repeated, so that a slow hour of the machine is everybody's. Each copy does
//! the same work in all versions: as much as fills the wished number of evaluation intervals of the
//! published algorithm where one copy has the machine.
//!
//! # What is written
//! `asat.csv` (one row for each copy), and `asat.html` with the figures, which are `asat-N.svg`,
//! too: wall time to the better of FTS and SINGLE, and the share of time at joins, for each grain.
//! What the paper says stands beside what was measured in the text that is printed and in
//! `asat.txt`.

mod table;
mod version;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use self::table::Table;
use self::version::{Grain, Version};
use crate::measure::{self, Household, Load, Manager, median, round_trip_ns, run_together};
use crate::report::{page, picture};
use crate::setup::{Workspace, clean_environment, must_succeed};
use crate::shim;
use crate::suite::build_kernels;

/// A copy is ended at this multiple of what it would take had each copy its share of the machine.
const CAP: f64 = 12.0;
/// No run is ended before this time: start of the copies, first touch of their memory.
const LEAST_CAP: Duration = Duration::from_secs(5);
/// The work of one repetition of any grain ends within this time, on any machine that works.
const LONGEST_PROBE: Duration = Duration::from_secs(120);
/// The program below `kernels/`.
const PROGRAM: &str = "c/papers/serial_parallel";

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Copies that run at the same time.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 3, 4, 8],
          value_parser = clap::value_parser!(u16).range(1..=64))]
    copies: Vec<u16>,
    /// Elements of the parallel loop.
    #[arg(long, value_name = "GRAIN", value_delimiter = ',', default_values = ["10k", "100k"])]
    grains: Vec<Grain>,
    /// How the program runs.
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          default_values = ["single", "fts", "paper", "reset", "asat", "auto", "managed", "libgomp", "dynamic"])]
    versions: Vec<Version>,
    /// How often each is run.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Seconds between two evaluations of the published algorithm; the default version has an
    /// interval of its own.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.1)]
    interval: f64,
    /// Evaluation intervals that a copy alone takes at least.
    #[arg(long, value_name = "N", default_value_t = 60)]
    intervals: u32,
    /// Where the results go [default: target/reproduce].
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// One copy of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    grain: Grain,
    copies: usize,
    version: Version,
    repetition: u32,
    copy: usize,
    /// Repetitions of the timed section in this copy.
    repeat: u32,
    /// `verified`, `killed` at the cap, or what was wrong.
    outcome: String,
    /// The timed sections of the copy, in seconds; of a killed one: its whole life.
    wall: f64,
    /// Share of its threads' time at joins.
    joins: Option<f64>,
    /// Processor time, in seconds.
    processor_time: f64,
    /// Processors that others used meanwhile.
    others: f64,
    /// Nanoseconds of a cache line's round trip before and after.
    round_trip_before: Option<f64>,
    round_trip_after: Option<f64>,
    processors: usize,
    /// Seconds between evaluations of the published algorithm.
    interval: f64,
}

const VERIFIED: &str = "verified";
const KILLED: &str = "killed";

/// What the program prints.
#[derive(Deserialize)]
struct Line {
    seconds: Vec<f64>,
    joins: Option<f64>,
    verified: bool,
}

/// Where everything is.
struct Bench<'a> {
    workspace: &'a Workspace,
    program: PathBuf,
    library: PathBuf,
    manager: Manager,
    interval: f64,
    processors: usize,
    load: Load,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    ensure!(
        options.interval.is_finite() && (0.01..=10.0).contains(&options.interval),
        "--interval {}: 0.01 to 10 seconds",
        options.interval
    );
    let folder = options.output.clone().unwrap_or_else(|| workspace.target.join("reproduce"));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let files = build_kernels(workspace)?;
    let program = files.get(PROGRAM).with_context(|| format!("kernels/ has no {PROGRAM}"))?;
    must_succeed(&mut workspace.cargo(["build", "--release", "--package", "cpumgr"]))?;
    let library = shim::run(workspace, shim::Form::Shipped)?;
    let household = Household::take_over()?;
    let daemon = workspace.target.join("release/cpumgr");
    let mut bench = Bench {
        workspace,
        program: program.clone(),
        manager: Manager::start_private(&daemon, &library)?,
        library,
        interval: options.interval,
        processors: measure::usable()?,
        load: Load::default(),
    };
    let mut rows = Vec::new();
    for &grain in &options.grains {
        let outcome = bench.grain(grain, options, &mut rows);
        // What there is stays, also after Ctrl-C.
        write(&folder.join("asat.csv"), &rows)?;
        outcome?;
    }
    bench.manager.finish()?;
    drop(household);
    let table = Table::of(&rows);
    let text = format!("{}\n{}{}\n", table.text(), table.beside_the_paper(), bench.load);
    print!("{text}");
    let files = [("asat.txt", text), ("asat.html", page(&[table.section()], None))];
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::write(&path, content)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let section = table.section();
    for (at, chart) in section.charts.iter().enumerate() {
        let path = folder.join(format!("asat-{}.svg", at + 1));
        std::fs::write(&path, picture(chart))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!(
        "asat.csv, asat.txt, asat.html and {} figures (asat-1.svg ...) are in {}",
        section.charts.len(),
        folder.display()
    );
    let wrong = rows.iter().filter(|row| ![VERIFIED, KILLED].contains(&row.outcome.as_str()));
    let wrong: Vec<&str> = wrong.map(|row| row.outcome.as_str()).collect();
    ensure!(wrong.is_empty(), "{} copies gave no verified result: {}", wrong.len(), wrong[0]);
    Ok(())
}

fn write(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let shown = || format!("cannot write {}", path.display());
    let mut writer = csv::Writer::from_path(path).with_context(shown)?;
    rows.iter().try_for_each(|row| writer.serialize(row)).with_context(shown)?;
    writer.flush().with_context(shown)
}

impl Bench<'_> {
    /// All cases of one grain.
    fn grain(
        &mut self,
        grain: Grain,
        options: &Options,
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        // The work: by the fastest of the two plain versions, alone, with warm memory.
        let mut single = f64::NAN;
        let mut best = f64::INFINITY;
        for version in [Version::Single, Version::Fts] {
            let probe = run_together(LONGEST_PROBE, self.commands(version, grain, 1, 3))?;
            let probe: Vec<Ended> = probe.iter().map(Ended::of).collect();
            let (wall, _) = probe[0]
                .result
                .as_ref()
                .map_err(|what| anyhow::anyhow!("{} of grain {grain}: {what}", version.name()))?;
            if version == Version::Single {
                single = wall / 3.0;
            }
            best = best.min(wall / 3.0);
        }
        let wished = options.interval * f64::from(options.intervals);
        let repeat = (wished / best).ceil().max(1.0) as u32;
        println!(
            "grain {grain}: {repeat} repetitions, {:.1} s with one thread, {:.1} s alone at best",
            single * f64::from(repeat),
            best * f64::from(repeat)
        );
        for repetition in 0..options.repetitions {
            for &copies in &options.copies {
                let copies = usize::from(copies);
                for &version in &options.versions {
                    let share = copies.div_ceil(self.processors) as f64;
                    let cap = single * f64::from(repeat) * share * CAP;
                    let cap = Duration::from_secs_f64(cap).max(LEAST_CAP);
                    let ended = self.case(version, grain, copies, (repeat, repetition), cap)?;
                    let walls: Vec<f64> = ended.iter().map(|row| row.wall).collect();
                    println!(
                        "  {copies} x {:<16} {:>7.2} s{}",
                        version.name(),
                        median(&walls),
                        if ended.iter().all(|row| row.outcome == VERIFIED) { "" } else { " !" }
                    );
                    rows.extend(ended);
                }
            }
        }
        Ok(())
    }

    fn case(
        &mut self,
        version: Version,
        grain: Grain,
        copies: usize,
        (repeat, repetition): (u32, u32),
        cap: Duration,
    ) -> anyhow::Result<Vec<Row>> {
        let round_trip_before = round_trip_ns()?;
        let commands = self.commands(version, grain, copies, repeat);
        let run = self.load.run(self.processors, cap, commands)?;
        let round_trip_after = round_trip_ns()?;
        let row = |copy: Ended| {
            let (outcome, wall, joins) = match copy.result {
                Ok((wall, joins)) => (VERIFIED.to_owned(), wall, joins),
                Err(what) => (what, copy.lived, None),
            };
            Row {
                grain,
                copies,
                version,
                repetition,
                copy: copy.index,
                repeat,
                outcome,
                wall,
                joins,
                processor_time: copy.processor_time,
                others: run.others,
                round_trip_before,
                round_trip_after,
                processors: self.processors,
                interval: self.interval,
            }
        };
        Ok(run.finished.iter().map(Ended::of).map(row).collect())
    }

    fn commands(&self, version: Version, grain: Grain, copies: usize, repeat: u32) -> Vec<Command> {
        let (variables, is_ours) = version.settings(self.interval);
        let one = |_| {
            let mut command = match version {
                Version::Managed => self.manager.run(&self.program),
                _ => Command::new(&self.program),
            };
            clean_environment(&mut command, &self.workspace.target);
            command.args(["--class", grain.class(), "--json", "--quiet", "--repeat"]);
            command.arg(repeat.to_string()).envs(variables.iter().map(|(k, v)| (*k, v)));
            if is_ours {
                command.env("LD_LIBRARY_PATH", &self.library);
            }
            command
        };
        (0..copies).map(one).collect()
    }
}

/// A copy that ended.
struct Ended {
    index: usize,
    lived: f64,
    processor_time: f64,
    /// Wall time and share at joins, or what was wrong.
    result: Result<(f64, Option<f64>), String>,
}

impl Ended {
    fn of(finish: &measure::Finish) -> Ended {
        let said = || format!("{}{}", finish.output, finish.errors).trim().replace('\n', " ");
        let line = finish.output.lines().last().map(serde_json::from_str::<Line>);
        let result = match (finish.status, line) {
            (None, _) => Err(KILLED.to_owned()),
            (Some(status), Some(Ok(line))) if status.success() && line.verified => {
                Ok((line.seconds.iter().sum(), line.joins))
            }
            (Some(status), _) => Err(format!("{status}; it said: {}", said())),
        };
        Ended {
            index: finish.index,
            lived: finish.turnaround.as_secs_f64(),
            processor_time: finish.cpu.as_secs_f64(),
            result,
        }
    }
}
