//! `cargo xtask reproduce asat`: the experiment of the ASAT paper on this machine.
//!
//! The paper's program (`kernels/c/papers/serial_parallel.c`) in 1 to 8 copies that start together,
//! with grains of 10K to 4M elements, in each [`Version`]. All versions of a case run one after the
//! other before any is repeated, so that a slow hour of the machine is every copy's. Each copy does
//! the same work in all versions: as much as fills the wished number of evaluation intervals of the
//! published algorithm where one copy has the machine.
//!
//! Beyond the paper: mixes, in which one copy runs beside what takes no part and knows nothing of
//! it ([`Beside`]), and four copies in a control group with too little memory.
//!
//! # What is written
//! `asat.csv` (one row for each copy, with machine, kernel, commit and compiler), and `asat.html`
//! with the figures, which are `asat-N.svg`, too: wall time to the better of FTS and SINGLE, and
//! the share of time at joins, for each grain. What the paper says stands beside what was measured
//! on that page, in the text that is printed, and in `asat.txt`.

mod beside;
mod ended;
mod memory;
mod published;
mod set;
mod table;
mod version;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use self::beside::{Beside, Company};
use self::ended::{Ended, Timed};
use self::memory::Limited;
use self::set::{Caches, Set, Sizes};
use self::table::Table;
use self::version::{Grain, Version};
use crate::measure::{Household, Load, Manager, median, processors, round_trip_ns, run_together};
use crate::report::{Section, page, picture};
use crate::setup::{Workspace, clean_environment, must_succeed};
use crate::suite::{About, build_kernels};
use crate::{shim, skips};

/// A copy is ended at this multiple of what it would take had each copy its share of the machine.
const CAP: f64 = 12.0;
/// No run is ended before this time: start of the copies, first touch of their memory.
const LEAST_CAP: Duration = Duration::from_secs(5);
/// The work of one repetition of any grain ends within this time, on any machine that works.
const LONGEST_PROBE: Duration = Duration::from_secs(120);
/// Copies of the mix that pages, the published number; what each wants; and the part of it that
/// they have together, in eighths.
const PAGING_COPIES: usize = 4;
const PAGING_BYTES: u64 = 4_000_000 * 24;
const PAGING_EIGHTHS: u64 = 7;
/// The program below `kernels/`.
const PROGRAM: &str = "c/papers/serial_parallel";

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Copies that run at the same time; 0: none, the mixes only.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 3, 4, 8],
          value_parser = clap::value_parser!(u16).range(0..=64))]
    copies: Vec<u16>,
    /// What one copy runs beside, too; `memory` is four copies of 4M elements that page.
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          default_values = ["free", "free-all", "bound", "bound-all", "fts", "libgomp", "sequential", "memory"])]
    mixes: Vec<Beside>,
    /// Elements of the parallel loop.
    #[arg(long, value_name = "GRAIN", value_delimiter = ',', default_values = ["10k", "100k"])]
    grains: Vec<Grain>,
    /// How the program runs.
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          default_values = ["single", "fts", "paper", "reset", "asat", "no-several",
                            "no-early", "no-jitter", "rules", "managed", "libgomp", "dynamic"])]
    versions: Vec<Version>,
    /// Working sets by this machine's caches, or as published.
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = Sizes::Scaled)]
    sets: Sizes,
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
    /// What ran beside the copies.
    beside: Beside,
    copies: usize,
    version: Version,
    repetition: u32,
    copy: usize,
    /// Of the parallel loop; that the caches ask for, more where memory does not allow as many; and
    /// the steps of each.
    elements: u64,
    wanted: u64,
    work: u64,
    /// Repetitions of the timed section in this copy.
    repeat: u32,
    /// `verified`, `killed` at the cap, or what was wrong.
    outcome: String,
    /// The timed sections of the copy, in seconds; of a killed one: its whole life.
    wall: f64,
    /// Share of its threads' time at joins.
    joins: Option<f64>,
    /// Threads of a region, their mean over the time.
    team: Option<f64>,
    /// Processor time, in seconds.
    processor_time: f64,
    /// How often its threads gave their processor up (they slept, and were woken), and lost it.
    voluntary: u64,
    involuntary: u64,
    /// Processors that others used meanwhile, with what ran beside the copies.
    others: f64,
    /// Nanoseconds of a cache line's round trip before and after.
    round_trip_before: Option<f64>,
    round_trip_after: Option<f64>,
    processors: usize,
    /// Seconds between evaluations of the published algorithm.
    interval: f64,
    machine: String,
    kernel: String,
    commit: String,
    compiler: String,
    /// Of the compiler.
    flags: String,
}

const VERIFIED: &str = "verified";
const KILLED: &str = "killed";

/// Where everything is.
struct Bench {
    program: PathBuf,
    library: PathBuf,
    manager: Manager,
    interval: f64,
    /// `None`: working sets are as published.
    caches: Option<Caches>,
    /// Bytes of memory at the start, and the copies of the program that run at a time: see [`Set`].
    available: u64,
    most_copies: usize,
    about: About,
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
        program: program.clone(),
        manager: Manager::start_private(&daemon, &library)?,
        library,
        interval: options.interval,
        caches: caches(options.sets)?,
        available: memory::available()?,
        most_copies: most_copies(&options.copies),
        about: About::of(workspace, None, None)?,
        load: Load::default(),
    };
    let mut rows = Vec::new();
    let mixes = |grain| {
        let paging = options.mixes.contains(&Beside::Memory) && grain == Grain::B;
        let is_mix = |beside: &Beside| ![Beside::Nothing, Beside::Memory].contains(beside);
        let here = options.mixes.iter().copied().filter(is_mix).filter(|_| {
            // A grain that is there for paging alone has no other case.
            options.grains.contains(&grain)
        });
        here.chain(paging.then_some(Beside::Memory)).collect::<Vec<_>>()
    };
    let mut grains = options.grains.clone();
    if options.mixes.contains(&Beside::Memory) && !grains.contains(&Grain::B) {
        grains.push(Grain::B);
    }
    for grain in grains {
        let copies = if options.grains.contains(&grain) { &options.copies[..] } else { &[] };
        let cases = Cases { grain, copies, mixes: mixes(grain) };
        let outcome = bench.grain(&cases, options, &mut rows);
        // What there is stays, also after Ctrl-C.
        write(&folder.join("asat.csv"), &rows)?;
        outcome?;
    }
    bench.manager.finish()?;
    drop(household);
    let table = Table::of(&rows);
    let (mut about, cut) = (told(&bench.about), cut(&rows));
    let head = [&about[..1], &cut[..]].concat().join("\n");
    about.extend(cut);
    let section = Section { about, ..table.section() };
    let published = published::section(&table);
    let beside = published::text(&table);
    let text = format!("{head}\n{}\n{}\n{}\n", table.text(), beside, bench.load);
    print!("{text}");
    let files = [("asat.txt", text), ("asat.html", page(&[section.clone(), published], None))];
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::write(&path, content)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
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

/// The caches that working sets are made for.
fn caches(sizes: Sizes) -> anyhow::Result<Option<Caches>> {
    if sizes == Sizes::Published {
        return Ok(None);
    }
    let first = *processors()?.first().context("no processor")?;
    let caches = Caches::of(first).context("`--sets published` needs no caches");
    caches.map(Some)
}

/// Copies of the program that run at a time, at most: the cases', and in a mix one beside another.
fn most_copies(copies: &[u16]) -> usize {
    copies.iter().map(|&copies| usize::from(copies)).max().unwrap_or(0).max(2)
}

/// What the page says of a run.
fn told(about: &About) -> Vec<String> {
    let About { processors, machine, kernel, commit, c, .. } = about;
    vec![
        format!(
            "{processors} x {machine}, Linux {kernel}, commit {commit}, {} ({})",
            c.compiler, c.flags
        ),
        "Copies of a loop with a serial and a parallel part, started together.".to_owned(),
        "Reproduces the figures of the ASAT paper; the next section compares.".to_owned(),
    ]
}

/// A line for each grain whose working sets memory made smaller.
fn cut(rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for &Row { grain, elements, work, wanted, .. } in rows {
        let line = Set { elements, work, wanted }.cut().map(|cut| format!("Grain {grain}: {cut}."));
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}

fn write(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let shown = || format!("cannot write {}", path.display());
    let mut writer = csv::Writer::from_path(path).with_context(shown)?;
    rows.iter().try_for_each(|row| writer.serialize(row)).with_context(shown)?;
    writer.flush().with_context(shown)
}

/// What is measured of one grain.
struct Cases<'a> {
    grain: Grain,
    /// Of the paper.
    copies: &'a [u16],
    mixes: Vec<Beside>,
}

impl Cases<'_> {
    /// What is beside how many copies, in the order of a repetition.
    fn all(&self) -> Vec<(Beside, usize)> {
        let copies = self.copies.iter().map(|&copies| (Beside::Nothing, usize::from(copies)));
        let of = |beside| if beside == Beside::Memory { PAGING_COPIES } else { 1 };
        let mixes = self.mixes.iter().map(|&beside| (beside, of(beside)));
        copies.filter(|(_, copies)| *copies > 0).chain(mixes).collect()
    }
}

/// One run.
#[derive(Clone, Copy)]
struct Cell {
    version: Version,
    grain: Grain,
    beside: Beside,
    copies: usize,
    /// Repetitions of the timed section in each copy.
    repeat: u32,
    repetition: u32,
    cap: Duration,
}

impl Bench {
    /// All cases of one grain.
    fn grain(
        &mut self,
        cases: &Cases,
        options: &Options,
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        let grain = cases.grain;
        let mut all = cases.all();
        let limited = self.limited(&mut all)?;
        if all.is_empty() {
            return Ok(());
        }
        let (single, best) = self.probe(grain)?;
        let wished = options.interval * f64::from(options.intervals);
        let repeat = (wished / best).ceil().max(1.0) as u32;
        let set = self.set(grain);
        let Set { elements, work, .. } = set;
        if let Some(cut) = set.cut() {
            println!("grain {grain}: {cut}");
        }
        println!(
            "grain {grain}: {elements} elements of {work} steps, {repeat} repetitions, {:.1} s \
             with one thread, {:.1} s alone at best",
            single * f64::from(repeat),
            best * f64::from(repeat)
        );
        // With one thread each, where processors are shared in equal parts.
        let processors = self.about.processors;
        let expected = |&(beside, copies): &(Beside, usize)| {
            let threads = copies + beside.threads(processors);
            single * f64::from(repeat) * threads.div_ceil(processors) as f64
        };
        let runs = options.versions.len() * options.repetitions as usize;
        let seconds = all.iter().map(expected).sum::<f64>() * runs as f64;
        println!("  {} runs, some {:.0} minutes", all.len() * runs, (seconds / 60.0).ceil());
        for repetition in 0..options.repetitions {
            for case in &all {
                let &(beside, copies) = case;
                for &version in &options.versions {
                    let cap = Duration::from_secs_f64(expected(case) * CAP).max(LEAST_CAP);
                    let cell = Cell { version, grain, beside, copies, repeat, repetition, cap };
                    let group = limited.as_ref().filter(|_| beside == Beside::Memory);
                    let ended = self.case(cell, group)?;
                    let walls: Vec<f64> = ended.iter().map(|row| row.wall).collect();
                    println!(
                        "  {copies} x {:<16} {beside:<10} {:>7.2} s{}",
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

    /// The group for the case that pages; without one that case is left out.
    fn limited(&self, cases: &mut Vec<(Beside, usize)>) -> anyhow::Result<Option<Limited>> {
        if cases.iter().all(|(beside, _)| *beside != Beside::Memory) {
            return Ok(None);
        }
        let wanted = PAGING_BYTES * PAGING_COPIES as u64;
        match Limited::new(wanted / 8 * PAGING_EIGHTHS, wanted) {
            Ok(limited) => Ok(Some(limited)),
            Err(reason) => {
                skips::note(format_args!("reproduce asat: the mix memory: {reason:#}"));
                cases.retain(|(beside, _)| *beside != Beside::Memory);
                Ok(None)
            }
        }
    }

    /// Seconds of one repetition, alone, with warm memory: with one thread, and by the faster of
    /// the two plain versions.
    fn probe(&self, grain: Grain) -> anyhow::Result<(f64, f64)> {
        let of = |version: Version| {
            let commands = vec![self.command(version, grain, &["--repeat", "3"])];
            let probe = run_together(LONGEST_PROBE, commands)?;
            let probe: Vec<Ended> = probe.iter().map(Ended::of).collect();
            let first = probe.into_iter().next().context("a run without a copy")?;
            let Timed { wall, .. } = first
                .result
                .map_err(|what| anyhow::anyhow!("{} of grain {grain}: {what}", version.name()))?;
            anyhow::Ok(wall / 3.0)
        };
        let (single, all) = (of(Version::Single)?, of(Version::Fts)?);
        Ok((single, single.min(all)))
    }

    fn case(&mut self, cell: Cell, limited: Option<&Limited>) -> anyhow::Result<Vec<Row>> {
        let Cell { version, grain, beside, copies, repeat, repetition, cap } = cell;
        let of_company = match beside {
            Beside::Libgomp => Version::Libgomp,
            Beside::Sequential => Version::Single,
            _ => Version::Fts,
        };
        let round_trip_before = round_trip_ns()?;
        let company = Company::start(beside, || self.command(of_company, grain, &[]))?;
        let command = |_| {
            let command = self.command(version, grain, &["--repeat", &repeat.to_string()]);
            match limited {
                Some(group) => group.enclose(&command),
                None => command,
            }
        };
        let commands = (0..copies).map(command).collect();
        // What runs beside copies on purpose does not disturb them.
        let mut aside = Load::default();
        let load = if beside == Beside::Nothing { &mut self.load } else { &mut aside };
        let used = || self.manager.cpu();
        let run = load.run_beside(self.about.processors, cap, commands, used)?;
        company.finish().with_context(|| format!("the mix {beside}"))?;
        let round_trip_after = round_trip_ns()?;
        let (Set { elements, work, wanted }, about) = (self.set(grain), &self.about);
        let row = |copy: Ended| {
            let (outcome, timed) = match copy.result {
                Ok(timed) => (VERIFIED.to_owned(), timed),
                Err(what) => (what, Timed { wall: copy.lived, joins: None, team: None }),
            };
            Row {
                grain,
                beside,
                copies,
                version,
                repetition,
                copy: copy.index,
                elements,
                wanted,
                work,
                repeat,
                outcome,
                wall: timed.wall,
                joins: timed.joins,
                team: timed.team,
                processor_time: copy.processor_time,
                voluntary: copy.voluntary,
                involuntary: copy.involuntary,
                others: run.others,
                round_trip_before,
                round_trip_after,
                processors: self.about.processors,
                interval: self.interval,
                machine: about.machine.clone(),
                kernel: about.kernel.clone(),
                commit: about.commit.clone(),
                compiler: about.c.compiler.clone(),
                flags: about.c.flags.clone(),
            }
        };
        Ok(run.finished.iter().map(Ended::of).map(row).collect())
    }

    /// What a copy of this grain works on.
    fn set(&self, grain: Grain) -> Set {
        let set = Set::of(grain, self.caches, self.about.processors);
        // Published sets are as published.
        match self.caches {
            Some(_) if grain != Grain::B => set.within(grain, self.available, self.most_copies),
            _ => set,
        }
    }

    /// The command of one copy; `work` says how much it does.
    fn command(&self, version: Version, grain: Grain, work: &[&str]) -> Command {
        let (variables, is_ours) = version.settings(self.interval);
        let mut command = match version {
            Version::Managed => self.manager.run(&self.program),
            _ => Command::new(&self.program),
        };
        clean_environment(&mut command);
        command.args(["--class", grain.class(), "--json", "--quiet"]);
        command.args(self.set(grain).arguments()).args(work);
        command.envs(variables.iter().map(|(k, v)| (*k, v)));
        if is_ours {
            command.env("LD_LIBRARY_PATH", &self.library);
        }
        command
    }
}
