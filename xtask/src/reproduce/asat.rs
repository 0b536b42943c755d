//! `cargo xtask reproduce asat`: the experiment of the ASAT paper on this machine.
//!
//! The paper's program (`kernels/c/papers/serial_parallel.c`) in 1 to 8 copies that start together,
//! with grains of 10K to 4M elements, in each [`Version`]. All versions of a case run one after the
//! other before any is repeated, so that a slow hour of the machine is everybody's. Each copy does
//! the same work in all versions: as much as fills the wished number of evaluation intervals of the
//! published algorithm where one copy has the machine.
//!
//! # What is written
//! `asat.csv` (one row for each copy), and `asat.html` with the figures: wall time to the better of
//! FTS and SINGLE, and the share of time at joins, for each grain. What the paper says stands
//! beside what was measured in the text that is printed and in `asat.txt`.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::measure::{self, Household, Load, Manager, Spread, median, round_trip_ns, run_together};
use crate::report::{Chart, Label, Section, Unit, Value, page};
use crate::setup::{Workspace, clean_environment, must_succeed};
use crate::shim;
use crate::suite::build_kernels;

/// A copy is ended at this multiple of what it would take had each copy its share of the machine.
const CAP: f64 = 12.0;
/// No run is ended before this time: start of the copies, first touch of their memory.
const LEAST_CAP: Duration = Duration::from_secs(5);
/// The work of one repetition of any grain ends within this time, on any machine that works.
const LONGEST_PROBE: Duration = Duration::from_secs(120);
/// What ASAT may take of the better of FTS and SINGLE.
const BAR: f64 = 1.05;
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

/// The size of the parallel loop, as the paper names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
enum Grain {
    #[value(name = "10k")]
    #[serde(rename = "10k")]
    S,
    #[value(name = "100k")]
    #[serde(rename = "100k")]
    W,
    #[value(name = "1m")]
    #[serde(rename = "1m")]
    A,
    #[value(name = "4m")]
    #[serde(rename = "4m")]
    B,
}

impl Grain {
    /// Of the program's command line.
    fn class(self) -> &'static str {
        match self {
            Grain::S => "S",
            Grain::W => "W",
            Grain::A => "A",
            Grain::B => "B",
        }
    }
}

impl fmt::Display for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grain::S => "10K",
            Grain::W => "100K",
            Grain::A => "1M",
            Grain::B => "4M",
        })
    }
}

/// How the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Version {
    /// One thread (the paper's SINGLE).
    Single,
    /// A thread for each processor, always (the paper's FTS), on the drop-in library.
    Fts,
    /// The published algorithm, whose counts stay after a change.
    Paper,
    /// The same with counts that begin anew.
    Reset,
    /// What `asat` does by default: passive evidence, many short intervals.
    Asat,
    /// What the drop-in library does when nothing is set.
    Auto,
    /// The drop-in library under a manager.
    Managed,
    /// gcc's libgomp: FTS whose threads spin.
    Libgomp,
    /// gcc's libgomp with `OMP_DYNAMIC=true`: teams by the load average.
    Dynamic,
}

impl Version {
    /// As in records.
    fn name(self) -> &'static str {
        match self {
            Version::Single => "SINGLE",
            Version::Fts => "FTS",
            Version::Paper => "ASAT paper",
            Version::Reset => "ASAT reset",
            Version::Asat => "ASAT",
            Version::Auto => "auto",
            Version::Managed => "managed",
            Version::Libgomp => "libgomp",
            Version::Dynamic => "libgomp dynamic",
        }
    }

    /// The variables that make it, and whether the drop-in library is loaded.
    fn settings(self, interval: f64) -> (Vec<(&'static str, String)>, bool) {
        let asat = |variant: &str| {
            vec![
                ("NANOS_SIZER", "asat".to_owned()),
                ("ASAT_VARIANT", variant.to_owned()),
                ("NANOS_CPUMGR", "off".to_owned()),
            ]
        };
        let published = |variant: &str| {
            let mut all = asat(variant);
            all.push(("ASAT_EVAL_TIME", format!("{interval}")));
            all
        };
        let alone =
            |name, value: &str| vec![(name, value.to_owned()), ("NANOS_CPUMGR", "off".to_owned())];
        match self {
            Version::Single => (alone("OMP_NUM_THREADS", "1"), true),
            Version::Fts => (alone("NANOS_SIZER", "fixed"), true),
            Version::Paper => (published("paper"), true),
            Version::Reset => (published("reset"), true),
            Version::Asat => (asat("default"), true),
            Version::Auto => (alone("NANOS_SIZER", "auto"), true),
            Version::Managed | Version::Libgomp => (Vec::new(), false),
            Version::Dynamic => (vec![("OMP_DYNAMIC", "true".to_owned())], false),
        }
    }
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
    println!("asat.csv, asat.txt and asat.html are in {}", folder.display());
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

/// What the rows come to.
struct Table {
    /// Mean wall time of a run's copies, over the repetitions, and their share at joins.
    cases: BTreeMap<(Grain, usize, Version), Case>,
}

#[derive(Default)]
struct Case {
    /// Of each run: the mean over its copies.
    walls: Vec<f64>,
    /// Of each run: the longest copy over the shortest.
    spreads: Vec<f64>,
    joins: Vec<f64>,
    is_killed: bool,
}

impl Table {
    fn of(rows: &[Row]) -> Table {
        let mut runs: BTreeMap<(Grain, usize, Version, u32), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            let key = (row.grain, row.copies, row.version, row.repetition);
            runs.entry(key).or_default().push(row);
        }
        let mut cases: BTreeMap<_, Case> = BTreeMap::new();
        for ((grain, copies, version, _), run) in runs {
            let case = cases.entry((grain, copies, version)).or_default();
            let walls: Vec<f64> = run.iter().map(|row| row.wall).collect();
            let spread = Spread::of(&walls).map_or(1.0, |spread| spread.most / spread.least);
            case.walls.push(walls.iter().sum::<f64>() / walls.len() as f64);
            case.spreads.push(spread);
            case.joins.extend(run.iter().filter_map(|row| row.joins));
            case.is_killed |= run.iter().any(|row| row.outcome == KILLED);
        }
        Table { cases }
    }

    fn wall(&self, grain: Grain, copies: usize, version: Version) -> Option<f64> {
        self.cases.get(&(grain, copies, version)).map(|case| median(&case.walls))
    }

    fn joins(&self, grain: Grain, copies: usize, version: Version) -> Option<f64> {
        let joins = &self.cases.get(&(grain, copies, version))?.joins;
        (!joins.is_empty()).then(|| median(joins))
    }

    /// What everything is compared with.
    fn better(&self, grain: Grain, copies: usize) -> Option<f64> {
        let of = |version| self.wall(grain, copies, version);
        match (of(Version::Single), of(Version::Fts)) {
            (Some(single), Some(fts)) => Some(single.min(fts)),
            (one, other) => one.or(other),
        }
    }

    /// Each grain's wall times, to the better of FTS and SINGLE, and shares at joins.
    fn text(&self) -> String {
        let mut text = format!(
            "{:>5} {:>6} {:<16} {:>9} {:>9} {:>8} {:>8}\n",
            "grain", "copies", "version", "wall s", "to best", "joins %", "spread"
        );
        for (&(grain, copies, version), case) in &self.cases {
            let wall = median(&case.walls);
            let ratio = self.better(grain, copies).map_or(f64::NAN, |better| wall / better);
            let joins = self.joins(grain, copies, version).map_or(f64::NAN, |joins| joins * 100.0);
            let mark = match version {
                _ if case.is_killed => " ended at the cap",
                Version::Asat | Version::Paper | Version::Reset if ratio > BAR => " above the bar",
                _ => "",
            };
            let (grain, spread) = (grain.to_string(), median(&case.spreads));
            let _infallible = writeln!(
                text,
                "{grain:>5} {copies:>6} {:<16} {wall:>9.2} {ratio:>9.2} {joins:>8.1} {spread:>8.2}{mark}",
                version.name()
            );
        }
        text
    }

    /// The paper's sentences, each with the figure here. The paper had four processors and four
    /// copies at most: its "four copies" are as many here as there are processors times one.
    fn beside_the_paper(&self) -> String {
        let mut text = String::from("published (4 processors) beside measured here\n");
        let ratio = |over: Option<f64>, under: Option<f64>| Some(over? / under?);
        let s = Grain::S;
        let per_cent = |share: Option<f64>| share.map(|share| share * 100.0);
        let lines = [
            (
                "10K: FTS in 4 copies to FTS alone",
                "21",
                ratio(self.wall(s, 4, Version::Fts), self.wall(s, 1, Version::Fts)),
            ),
            (
                "10K: libgomp (FTS that spins) in 4 copies to alone",
                "21",
                ratio(self.wall(s, 4, Version::Libgomp), self.wall(s, 1, Version::Libgomp)),
            ),
            (
                "10K: FTS to ASAT in 4 copies",
                "3.5",
                ratio(self.wall(s, 4, Version::Fts), self.wall(s, 4, Version::Asat)),
            ),
            (
                "10K: libgomp to ASAT in 4 copies",
                "3.5",
                ratio(self.wall(s, 4, Version::Libgomp), self.wall(s, 4, Version::Asat)),
            ),
            ("10K: joins, ASAT alone, %", "10", per_cent(self.joins(s, 1, Version::Asat))),
            ("10K: joins, FTS in 4 copies, %", "50", per_cent(self.joins(s, 4, Version::Fts))),
            ("10K: joins, ASAT in 4 copies, %", "6", per_cent(self.joins(s, 4, Version::Asat))),
            (
                "1M: FTS to ASAT in 4 copies",
                "1",
                ratio(self.wall(Grain::A, 4, Version::Fts), self.wall(Grain::A, 4, Version::Asat)),
            ),
        ];
        for (what, published, measured) in lines {
            if let Some(measured) = measured {
                let _infallible = writeln!(text, "  {what:<52} {published:>5}  {measured:>7.2}");
            }
        }
        text
    }

    /// The figures.
    fn section(&self) -> Section {
        let mut grains: Vec<Grain> = self.cases.keys().map(|&(grain, ..)| grain).collect();
        grains.dedup();
        let mut charts = Vec::new();
        for &grain in &grains {
            let walls = self.chart(grain, |copies, case| {
                let better = self.better(grain, copies)?;
                let ratios: Vec<f64> = case.walls.iter().map(|wall| wall / better).collect();
                Spread::of(&ratios)
            });
            charts.push(Chart {
                title: format!("grain {grain}: wall time to the better of FTS and SINGLE"),
                unit: Unit::Ratio,
                values: walls,
            });
            let joins = self.chart(grain, |_, case| {
                let shares: Vec<f64> = case.joins.iter().map(|share| share * 100.0).collect();
                Spread::of(&shares)
            });
            charts.push(Chart {
                title: format!("grain {grain}: per cent of the threads' time at joins"),
                unit: Unit::Ratio,
                values: joins,
            });
        }
        Section {
            title: "ASAT".to_owned(),
            about: vec![
                "Copies of a loop with a serial and a parallel part, started together.".to_owned(),
                "Reproduces the figures of the ASAT paper; `asat.txt` compares.".to_owned(),
            ],
            charts,
            missed: Vec::new(),
        }
    }

    fn chart(
        &self,
        grain: Grain,
        value: impl Fn(usize, &Case) -> Option<Spread>,
    ) -> Vec<(Label, Value)> {
        let of_grain = self.cases.iter().filter(|((of, ..), _)| *of == grain);
        let values = of_grain.filter_map(|(&(_, copies, version), case)| {
            let label = Label {
                group: format!("{copies} {}", if copies == 1 { "copy" } else { "copies" }),
                engine: version.name().to_owned(),
                distance: None,
            };
            let spread = value(copies, case)?;
            let value = match case.is_killed {
                true => Value::Above(spread.median),
                false => Value::Measured(spread),
            };
            Some((label, value))
        });
        values.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: Version, repetition: u32, copy: usize, wall: f64, joins: f64) -> Row {
        Row {
            grain: Grain::S,
            copies: 2,
            version,
            repetition,
            copy,
            repeat: 1,
            outcome: VERIFIED.to_owned(),
            wall,
            joins: Some(joins),
            processor_time: wall,
            others: 0.0,
            round_trip_before: None,
            round_trip_after: None,
            processors: 2,
            interval: 0.1,
        }
    }

    #[test]
    fn a_version_is_compared_with_the_better_of_one_thread_and_all() {
        let rows = [
            row(Version::Single, 0, 0, 2.0, 0.0),
            row(Version::Single, 0, 1, 2.0, 0.0),
            row(Version::Fts, 0, 0, 8.0, 0.5),
            row(Version::Fts, 0, 1, 8.0, 0.5),
            row(Version::Asat, 0, 0, 2.0, 0.1),
            row(Version::Asat, 0, 1, 3.0, 0.1),
        ];
        let table = Table::of(&rows);
        assert_eq!(table.better(Grain::S, 2), Some(2.0));
        assert_eq!(table.wall(Grain::S, 2, Version::Asat), Some(2.5));
        let text = table.text();
        let asat = text.lines().find(|line| line.contains(" ASAT ")).expect("a line");
        assert!(asat.contains("1.25") && asat.ends_with("above the bar"), "{asat}");
        assert!(!text.contains("SINGLE               2.00      1.00      0.0     1.00 above"));
        assert_eq!(table.section().charts.len(), 2);
    }

    #[test]
    fn a_run_that_was_ended_is_no_measured_value() {
        let mut killed = row(Version::Libgomp, 0, 0, 50.0, 0.0);
        (killed.outcome, killed.joins) = (KILLED.to_owned(), None);
        let table = Table::of(&[row(Version::Single, 0, 0, 2.0, 0.0), killed]);
        assert!(table.text().contains("ended at the cap"));
        let charts = table.section().charts;
        assert_eq!(charts[0].values[1].1, Value::Above(25.0));
        assert_eq!(charts[1].values.len(), 1, "it has no share at joins");
    }

    #[test]
    fn versions_differ_by_what_they_set() {
        let of = |version: Version| version.settings(0.1).0;
        assert!(of(Version::Paper).contains(&("ASAT_EVAL_TIME", "0.1".to_owned())));
        assert!(!of(Version::Asat).iter().any(|(name, _)| *name == "ASAT_EVAL_TIME"));
        let all = [Version::Single, Version::Fts, Version::Paper, Version::Reset, Version::Asat];
        for (index, one) in all.iter().enumerate() {
            for other in &all[index + 1..] {
                assert_ne!(of(*one), of(*other));
            }
        }
    }
}
