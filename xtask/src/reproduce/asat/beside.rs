//! What runs beside a copy in a mix, takes no part, and knows nothing of it.

use std::fmt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::measure::{Finish, Servant, free_hog, hog, processors, run_copies};

/// Seconds of one visit of the sequential work, and of its absence.
const VISIT: f64 = 0.5;
/// A visit that takes longer hangs.
const LONGEST_VISIT: Duration = Duration::from_secs(60);

/// What is beside the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Beside {
    /// Nothing: the paper's cases. Among mixes: none of them.
    #[value(name = "none")]
    #[serde(rename = "none")]
    Nothing,
    /// A hog that the kernel may move.
    Free,
    /// As many of these as there are processors.
    FreeAll,
    /// A hog that is bound to the last processor.
    Bound,
    /// A hog bound to each processor.
    BoundAll,
    /// The same program with a thread for each processor, always, on the drop-in library.
    Fts,
    /// The same on gcc's libgomp, whose threads spin.
    Libgomp,
    /// The program with one thread, which comes for half a second and goes for half a second.
    Sequential,
    /// Nothing, but too little memory: four copies of 4M elements, which page.
    Memory,
}

impl Beside {
    /// As on the command line and in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "none",
            Beside::Free => "free",
            Beside::FreeAll => "free-all",
            Beside::Bound => "bound",
            Beside::BoundAll => "bound-all",
            Beside::Fts => "fts",
            Beside::Libgomp => "libgomp",
            Beside::Sequential => "sequential",
            Beside::Memory => "memory",
        }
    }

    /// How many threads of others want a processor beside the copies, on so many processors: by
    /// that a run is expected to be longer.
    pub(super) fn threads(self, processors: usize) -> usize {
        match self {
            Beside::Nothing | Beside::Memory => 0,
            Beside::Free | Beside::Bound | Beside::Sequential => 1,
            Beside::FreeAll | Beside::BoundAll | Beside::Fts | Beside::Libgomp => processors,
        }
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Those that run beside; dropped = gone.
#[derive(Default)]
pub(super) struct Company {
    lasting: Vec<Servant>,
    visitor: Option<Visitor>,
}

impl Company {
    /// Starts them. `program` makes the command of the same program as one of these, without its
    /// work.
    pub(super) fn start(
        beside: Beside,
        mut program: impl FnMut() -> Command,
    ) -> anyhow::Result<Company> {
        let mut company = Company::default();
        let here = processors()?;
        let last = *here.last().context("no processor")?;
        let mut lasting = |mut command: Command| -> anyhow::Result<()> {
            command.stdout(Stdio::null()).stderr(Stdio::null());
            company.lasting.push(Servant::start(&mut command)?);
            Ok(())
        };
        match beside {
            Beside::Nothing | Beside::Memory => {}
            Beside::Free => lasting(free_hog())?,
            Beside::FreeAll => here.iter().try_for_each(|_| lasting(free_hog()))?,
            Beside::Bound => lasting(hog(last)?)?,
            Beside::BoundAll => here.iter().try_for_each(|&on| lasting(hog(on)?))?,
            Beside::Fts | Beside::Libgomp => {
                let mut command = program();
                // It is ended with the mix.
                command.args(["--seconds", "3600"]);
                lasting(command)?;
            }
            Beside::Sequential => company.visitor = Some(Visitor::start(program)?),
        }
        Ok(company)
    }

    /// Ends them; fails where one was gone before, since then the copies were beside nothing.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        for mut servant in self.lasting {
            if let Some(status) = servant.ended()? {
                bail!("what should run beside the copies had ended: {status}");
            }
            servant.stop()?;
        }
        self.visitor.map_or(Ok(()), Visitor::finish)
    }
}

/// Work that comes and goes.
struct Visitor {
    /// Dropped: no visit begins any more.
    goes_on: Sender<()>,
    thread: JoinHandle<anyhow::Result<u32>>,
}

impl Visitor {
    fn start(mut program: impl FnMut() -> Command) -> anyhow::Result<Visitor> {
        let mut command = program();
        command.args(["--seconds", &VISIT.to_string()]);
        let (name, arguments) = (command.get_program().to_owned(), command.get_args());
        let arguments: Vec<_> = arguments.map(ToOwned::to_owned).collect();
        let variables = command.get_envs();
        let variables: Vec<_> = variables
            .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
            .collect();
        let again = move || {
            let mut command = Command::new(&name);
            command.args(&arguments);
            for (name, value) in &variables {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command
        };
        let (goes_on, end) = mpsc::channel::<()>();
        let visits = move || {
            let mut visits = 0;
            loop {
                let ended = run_copies(1, LONGEST_VISIT, &again)?;
                ensure!(ended.iter().all(is_well), "a visit of sequential work went wrong");
                visits += 1;
                match end.recv_timeout(Duration::from_secs_f64(VISIT)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return Ok(visits),
                }
            }
        };
        let thread = std::thread::Builder::new().name("visitor".to_owned()).spawn(visits);
        Ok(Visitor { goes_on, thread: thread.context("cannot start the visitor's thread")? })
    }

    fn finish(self) -> anyhow::Result<()> {
        drop(self.goes_on);
        match self.thread.join() {
            Ok(visits) => visits.map(drop),
            Err(_) => bail!("the visitor's thread panicked"),
        }
    }
}

fn is_well(finish: &Finish) -> bool {
    finish.status.is_some_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh"]);
        command
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for beside in Beside::value_variants() {
            let value = beside.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), beside.name());
            assert_eq!(serde_json::to_value(beside).unwrap(), beside.name());
        }
    }

    #[test]
    fn hogs_run_until_the_mix_ends() {
        for (beside, count) in [(Beside::Free, 1), (Beside::Bound, 1), (Beside::Nothing, 0)] {
            let company = Company::start(beside, || shell("exit 9")).unwrap();
            assert_eq!(company.lasting.len(), count);
            company.finish().unwrap();
        }
    }

    #[test]
    fn a_program_beside_that_ends_is_noticed() {
        let fault = loop {
            // Whether it has ended by then is chance: again until it has.
            let company = Company::start(Beside::Fts, || shell("exit 9")).unwrap();
            if let Err(fault) = company.finish() {
                break fault.to_string();
            }
        };
        assert!(fault.contains("exit status: 9"), "{fault}");
    }

    #[test]
    fn sequential_work_comes_again_and_its_failure_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        let script = format!("echo came >> '{}'", seen.display());
        let company = Company::start(Beside::Sequential, || shell(&script)).unwrap();
        let visits = || std::fs::read_to_string(&seen).unwrap_or_default().lines().count();
        while visits() < 2 {
            std::thread::yield_now();
        }
        company.finish().unwrap();
        let company = Company::start(Beside::Sequential, || shell("exit 3")).unwrap();
        assert!(company.finish().unwrap_err().to_string().contains("went wrong"));
    }
}
