//! `cargo xtask real`: real programs from PyPI and Debian on the original OpenMP runtime and on
//! ours (`tests/real/README.md`).

mod found;
mod install;
mod pair;
mod pools;
mod runtime;
mod subject;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use self::found::{Found, Run, Work, of_file, take};
use self::runtime::{Places, Runtime};
use self::subject::{NAMES, Subject};
use self::table::Row;
use crate::measure::{
    Household, Manager, Prompted, Servant, check_interrupt, hog, processors, run_together,
};
use crate::setup::{Workspace, must_succeed};
use crate::{peers, shim, skips};

/// How often a program that is alone does its work in one run of it, in turn with the other
/// runtimes' runs: this bar is the closest one, and single times of one kind differ by 40 % here.
const ROUNDS: u32 = 4;
/// Between those: an idle thread of the original spins for some milliseconds, one of libomp for
/// 200.
const PAUSE: Duration = Duration::from_millis(250);
/// Between the starts of copies on threads that the library does not know: the manager has attached
/// the one before then, and `--tell-share` counts it.
const ATTACHED: Duration = Duration::from_millis(1200);
/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Programs, separated by commas; default: all (`tests/real/README.md` lists them).
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    only: Vec<String>,
    /// Runs of each kind; the table has the medians of their times (alone each run has several).
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Seconds after which a run is killed.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    cap: f64,
    /// The pairs alone: those of which `--only` has both.
    #[arg(long)]
    pairs: bool,
    /// One run of each kind, killed after 6 seconds: the whole table in some ten minutes.
    #[arg(long, conflicts_with_all = ["repeats", "cap"])]
    quick: bool,
    /// Where the numbers go, as JSON lines.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    number.ok_or_else(|| "it wants a number from 0.1 to 3600".to_owned())
}

/// How a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Alone,
    Copies(usize),
    Hog,
    /// Beside another program, on the same runtime.
    Beside(&'static str),
}

impl Setting {
    const ALL: [Setting; 4] =
        [Setting::Alone, Setting::Copies(2), Setting::Copies(4), Setting::Hog];

    fn name(self) -> String {
        match self {
            Setting::Alone => "alone".to_owned(),
            Setting::Copies(count) => format!("{count} copies"),
            Setting::Hog => "beside a hog".to_owned(),
            Setting::Beside(other) => format!("beside {other}"),
        }
    }
}

/// Builds library and manager in release and runs the comparison. What is missing for a program is
/// said and is no failure.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let names: Vec<&'static str> = NAMES
        .into_iter()
        .filter(|name| options.only.is_empty() || options.only.iter().any(|it| it == name))
        .collect();
    let library = shim::run(workspace, shim::Form::Shipped)?;
    must_succeed(&mut workspace.cargo(["build", "--release", "--package", "cpumgr"]))?;
    let libomp = match peers::libomp() {
        Ok(library) => Some(library),
        Err(fault) => {
            skips::note(format_args!("real: the column libomp: {fault:#}"));
            None
        }
    };
    let folder = workspace.target.join("real");
    std::fs::create_dir_all(folder.join("gm"))
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let household = Household::take_over()?;
    let manager = Manager::start_private(&workspace.target.join("release/cpumgr"), &library)?;
    let mut runtimes = Runtime::TURNS.to_vec();
    runtimes.retain(|runtime| *runtime != Runtime::Libomp || libomp.is_some());
    let (repeats, cap) = if options.quick { (1, 6.0) } else { (options.repeats, options.cap) };
    let mut stage = Stage {
        places: Places {
            drop_in: library.join("libgomp.so.1"),
            libomp,
            socket: manager.socket().to_owned(),
        },
        manager,
        runtimes,
        repeats,
        cap: Duration::from_secs_f64(cap),
        folder,
    };
    let (unknown, known): (Vec<_>, Vec<_>) =
        names.iter().copied().partition(|name| pools::NAMES.contains(name));
    if !known.is_empty() {
        println!("{}", table::head());
    }
    let mut rows = Vec::new();
    let (singles, unknown) =
        if options.pairs { (&[][..], &[][..]) } else { (&known[..], &unknown[..]) };
    let outcome = singles
        .iter()
        .try_for_each(|&name| match stage.install(workspace, name)? {
            Some(subject) => stage.measure(&subject, &mut rows),
            None => Ok(()),
        })
        .and_then(|()| stage.pairs(workspace, &names, &mut rows))
        .and_then(|()| stage.unknown(workspace, unknown, &mut rows));
    let ended = stage.manager.finish();
    drop(household);
    // Also of a comparison that failed.
    if let Some(path) = &options.record {
        let text: String = rows.iter().map(|row| row.json() + "\n").collect();
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    outcome?;
    ended.map(drop)
}

/// A comparison that runs.
struct Stage {
    places: Places,
    manager: Manager,
    /// In the order of their turns.
    runtimes: Vec<Runtime>,
    repeats: u32,
    cap: Duration,
    folder: PathBuf,
}

impl Stage {
    /// A program; what the machine lacks for it is noted.
    fn install(
        &self,
        workspace: &Workspace,
        name: &'static str,
    ) -> anyhow::Result<Option<Subject>> {
        match Subject::install(workspace, &self.folder, name) {
            Ok(subject) => Ok(Some(subject)),
            Err(fault) => {
                check_interrupt()?;
                skips::note(format_args!("real: {name}: {fault:#}"));
                Ok(None)
            }
        }
    }

    /// Measures the programs on threads that the library does not know, in a table of their own.
    fn unknown(
        &mut self,
        workspace: &Workspace,
        names: &[&'static str],
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        if !names.is_empty() {
            println!("\n{}", table::head_of_unknown());
        }
        for &name in names {
            if let Some(subject) = self.install(workspace, name)? {
                self.measure(&subject, rows)?;
            }
        }
        Ok(())
    }

    /// Measures a program in all settings.
    fn measure(&mut self, subject: &Subject, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        let mut expected = subject.is_unknown.then(|| Found::Numbers(vec![pools::SUM]));
        for setting in Setting::ALL {
            let mut row = Row::new(subject.name, setting);
            for turn in 0..self.repeats {
                let found = if setting == Setting::Alone && !subject.is_unknown {
                    self.alone(subject, turn)
                } else {
                    self.beside_others(subject, setting, turn, &row)
                };
                let found =
                    found.with_context(|| format!("{}, {}", subject.name, setting.name()))?;
                take(found, &mut row, &mut expected)?;
            }
            println!("{}", row.line());
            rows.push(row);
        }
        Ok(())
    }

    /// The command of a copy.
    fn command(&self, subject: &Subject, runtime: Runtime, turn: u32, copy: usize) -> Command {
        let (program, arguments) = subject
            .command
            .split_first()
            .map_or((OsString::new(), &[][..]), |(program, rest)| (program.clone(), rest));
        let mut command = match runtime {
            Runtime::Managed if subject.is_run => self.manager.run(Path::new(&program)),
            Runtime::Told => self.manager.run_with(&["--tell-share"], Path::new(&program)),
            _ => Command::new(program),
        };
        command.args(arguments);
        if subject.is_timed_outside {
            command.arg(self.output(copy));
        }
        command.env_clear().envs(self.places.environment(runtime, subject, turn));
        command
    }

    /// Where a copy writes that is timed from outside.
    fn output(&self, copy: usize) -> PathBuf {
        self.folder.join(format!("gm/{copy}.ppm"))
    }

    /// Works on each runtime in turn, several times.
    fn alone(&mut self, subject: &Subject, turn: u32) -> anyhow::Result<Vec<Run>> {
        let mut copies = Vec::new();
        for &runtime in &self.runtimes {
            copies.push((runtime, self.start(subject, runtime, turn, 1)?));
        }
        let mut found = Vec::new();
        for (runtime, copies) in &mut copies {
            self.ready(subject, *runtime, copies)?;
        }
        for _ in 0..ROUNDS {
            for (runtime, copies) in &mut copies {
                sleep(PAUSE);
                let (seconds, result) = self
                    .work(subject, *runtime, turn, copies, 1)?
                    .pop()
                    .context("a run without a copy")?;
                // Nothing else runs that could be the reason.
                ensure!(
                    result.is_some(),
                    "{} did not end its work in {:?} (--cap)",
                    runtime.name(),
                    self.cap
                );
                found.push((*runtime, seconds, vec![result]));
            }
        }
        for (runtime, copies) in copies {
            self.end(subject, runtime, copies)?;
        }
        Ok(found)
    }

    /// Works as copies or beside a hog, on each runtime that was not killed yet.
    fn beside_others(
        &mut self,
        subject: &Subject,
        setting: Setting,
        turn: u32,
        row: &Row,
    ) -> anyhow::Result<Vec<Run>> {
        let count = if let Setting::Copies(count) = setting { count } else { 1 };
        let mut found = Vec::new();
        let runtimes =
            if subject.is_unknown { Runtime::UNKNOWN.to_vec() } else { self.runtimes.clone() };
        for runtime in runtimes {
            if row.killed.contains(&runtime) {
                continue;
            }
            let last = *processors()?.last().context("no processor")?;
            let hog = match setting {
                Setting::Hog => Some(Servant::start(&mut hog(last)?)?),
                _ => None,
            };
            let mut copies = self.start(subject, runtime, turn, count)?;
            self.ready(subject, runtime, &mut copies)?;
            let works = self.work(subject, runtime, turn, &mut copies, count)?;
            let was_killed: Vec<bool> = works.iter().map(|(_, found)| found.is_none()).collect();
            let mut index = 0;
            copies.retain(|_| {
                index += 1;
                !was_killed.get(index - 1).copied().unwrap_or_default()
            });
            self.end(subject, runtime, copies)?;
            drop(hog);
            let mean = works.iter().map(|(seconds, _)| seconds).sum::<f64>() / works.len() as f64;
            found.push((runtime, mean, works.into_iter().map(|(_, found)| found).collect()));
        }
        Ok(found)
    }

    /// Starts copies that wait for their word; of a program that is timed from outside none.
    fn start(
        &self,
        subject: &Subject,
        runtime: Runtime,
        turn: u32,
        count: usize,
    ) -> anyhow::Result<Vec<Prompted>> {
        if subject.is_timed_outside {
            if let Some(library) = self.places.library(runtime, subject) {
                must_preload(self.command(subject, runtime, turn, 0), library)
                    .with_context(|| runtime.name())?;
            }
            return Ok(Vec::new());
        }
        (0..count)
            .map(|copy| {
                let mut copy = Prompted::start(self.command(subject, runtime, turn, copy))?;
                if subject.is_unknown {
                    copy.await_ready()?;
                    sleep(ATTACHED);
                }
                Ok(copy)
            })
            .collect::<anyhow::Result<_>>()
            .with_context(|| runtime.name())
    }

    /// Waits for their preparation, and checks that they run on what they should.
    fn ready(
        &self,
        subject: &Subject,
        runtime: Runtime,
        copies: &mut [Prompted],
    ) -> anyhow::Result<()> {
        for copy in copies {
            // Others were, one after the other.
            if !subject.is_unknown {
                copy.await_ready().with_context(|| runtime.name())?;
            }
            if let Some(library) = self.places.library(runtime, subject) {
                copy.must_have_loaded(library).with_context(|| runtime.name())?;
            }
        }
        Ok(())
    }

    /// One work of each copy, all at once.
    fn work(
        &mut self,
        subject: &Subject,
        runtime: Runtime,
        turn: u32,
        copies: &mut [Prompted],
        count: usize,
    ) -> anyhow::Result<Vec<Work>> {
        if subject.is_timed_outside {
            return self.run(subject, runtime, turn, count).with_context(|| runtime.name());
        }
        self.prompt(copies).with_context(|| runtime.name())
    }

    /// The same of copies that wait for their word.
    fn prompt(&self, copies: &mut [Prompted]) -> anyhow::Result<Vec<Work>> {
        for copy in copies.iter_mut() {
            copy.go()?;
        }
        let until = Instant::now() + self.cap;
        let answer = |copy: &mut Prompted| {
            let answer = copy.answer(until)?;
            Ok((answer.seconds, answer.result.map(Found::Numbers)))
        };
        copies.iter_mut().map(answer).collect()
    }

    /// Copies that are timed from their start to their end.
    fn run(
        &mut self,
        subject: &Subject,
        runtime: Runtime,
        turn: u32,
        count: usize,
    ) -> anyhow::Result<Vec<Work>> {
        let commands = (0..count).map(|copy| {
            // What an earlier run wrote; there may be none.
            let _ = std::fs::remove_file(self.output(copy));
            self.command(subject, runtime, turn, copy)
        });
        let finished = run_together(self.cap, commands.collect())?;
        let pids: Vec<i32> = finished.iter().map(|finish| finish.pid).collect();
        let mut works = Vec::new();
        for finish in finished {
            let found = match finish.status {
                None => None,
                Some(status) if status.success() => Some(of_file(&self.output(finish.index))?),
                Some(status) => {
                    bail!("it ended with {status}: {}{}", finish.output, finish.errors.trim())
                }
            };
            works.push((finish.turnaround.as_secs_f64(), found));
        }
        self.must_be_managed(runtime, &pids)?;
        Ok(works)
    }

    /// Ends copies after their work.
    fn end(
        &mut self,
        subject: &Subject,
        runtime: Runtime,
        copies: Vec<Prompted>,
    ) -> anyhow::Result<()> {
        let pids: Vec<i32> = copies.iter().map(Prompted::pid).collect();
        for copy in copies {
            copy.end_well().with_context(|| runtime.name())?;
        }
        if subject.is_stranger { Ok(()) } else { self.must_be_managed(runtime, &pids) }
    }

    fn must_be_managed(&mut self, runtime: Runtime, pids: &[i32]) -> anyhow::Result<()> {
        if runtime == Runtime::Managed {
            let strangers = self.manager.strangers(pids)?.len();
            ensure!(
                strangers == 0,
                "{strangers} of {} copies never registered with the manager",
                pids.len()
            );
        }
        Ok(())
    }
}

/// Fails unless the loader takes this library first.
fn must_preload(mut command: Command, library: &Path) -> anyhow::Result<()> {
    let output = command.env("LD_TRACE_LOADED_OBJECTS", "1").output();
    let listing =
        String::from_utf8_lossy(&output.context("cannot ask the loader")?.stdout).into_owned();
    let name = library.display().to_string();
    ensure!(
        listing.lines().any(|line| line.trim().starts_with(&name)),
        "the loader does not take {name}: {listing}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_preloaded_is_noticed() {
        let fault = must_preload(Command::new("/bin/sh"), Path::new("/nowhere/libgomp.so.1"));
        assert!(fault.unwrap_err().to_string().contains("does not take /nowhere"));
    }
}
