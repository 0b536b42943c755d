//! What `jobserver` can be told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::exit_codes::EXIT_CODES;
use super::run::{Preload, RunArgs};
use super::value::policy;

/// What `jobserver` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct JobserverArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The policy of a manager that has to be started.
    #[arg(long, value_name = "NAME", value_parser = policy)]
    pub policy: Option<String>,
    /// The most jobs at a time [default: the processors that may be used here].
    #[arg(long, short, value_name = "N", value_parser = jobs)]
    pub jobs: Option<u32>,
    /// How tokens are passed [default: fifo, but pipe where make is older than 4.4].
    #[arg(long, value_enum)]
    pub style: Option<Style>,
    /// The program that starts jobs, and its arguments: make without -j, ninja, cargo.
    // An option that is not known, or written wrong, is a mistake and no program: what has such a
    // name comes after `--`.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]...")]
    pub command: Vec<OsString>,
}

/// Jobs at a time.
fn jobs(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=4096).contains(number));
    number.ok_or_else(|| format!("{text:?} is no number of jobs; it is 1 to 4096"))
}

impl JobserverArgs {
    /// What `run` would be told.
    pub(crate) fn as_run(&self) -> RunArgs {
        RunArgs {
            socket: self.socket.clone(),
            policy: self.policy.clone(),
            lib: None,
            preload: Preload::Never,
            no_attach: true,
            tell_share: false,
            weight: None,
            team: None,
            class: None,
            label: None,
            min: None,
            max: None,
            cpus: None,
            placement: None,
            command: self.command.clone(),
        }
    }
}

/// How tokens are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// By a file that clients open: make from 4.4 on, ninja from 1.13 on, cargo.
    Fifo,
    /// By descriptors that they inherit: every make, cargo.
    Pipe,
}
