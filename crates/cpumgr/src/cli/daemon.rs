//! What a manager that begins can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use platform::affinity::CpuSet;
use policies::Smt;

use crate::history::Keep;

use super::exit_codes::EXIT_CODES;
use super::value::{
    FairShare, IdleExit, Level, Listen, cpus, fair_share, file_of_manager, grace, idle_exit, keep,
    level, listen, parameter, policy, quantum, size,
};

/// The bound of a history's file unless something else is said.
pub(crate) const HISTORY_SIZE: u64 = 16 << 20;
/// How long a run is kept unless something else is said.
pub(crate) const HISTORY_AGE: Duration = Duration::from_secs(90 * 86_400);

/// The bound of a trace's file unless something else is said.
pub const TRACE_SIZE: u64 = 64 << 20;

/// What a manager can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct DaemonArgs {
    /// The socket
    /// [default: NANOS_CPUMGR, or $XDG_RUNTIME_DIR/cpumgr/app.sock, or /tmp/cpumgr-UID/app.sock].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// How processors are shared out [default: dss-ts]. This and the next three: what a manager
    /// that was killed on this socket had, where nothing is said.
    #[arg(long, value_name = "NAME", value_parser = policy)]
    pub policy: Option<String>,
    /// How often programs that share processors take turns, 1ms to 10s [default: 100ms].
    #[arg(long, value_name = "TIME", value_parser = quantum)]
    pub quantum: Option<Duration>,
    /// How long a program has to leave a processor that was taken before its threads are bound
    /// elsewhere, 0s to 10s [default: 2ms].
    #[arg(long, value_name = "TIME", value_parser = grace)]
    pub grace: Option<Duration>,
    /// How many programs may run at once: `submit` holds the others back; a number or `any`
    /// [default: any].
    #[arg(long, value_name = "N", value_parser = level)]
    pub mpl: Option<Level>,
    /// In which order the programs of several users wait after `submit`: `off` is first come, first
    /// served; else those of the user come first that has consumed least, relative to users'
    /// weights, and what was consumed counts by half after this time; `on` is 7d.
    /// [default: off]
    #[arg(long, value_name = "off | on | TIME", value_parser = fair_share)]
    pub fair_share: Option<FairShare>,
    /// In which order the hardware threads of a core are filled: `spread` takes whole cores first,
    /// `pack` both threads of one.
    /// [default: spread]
    #[arg(long, value_enum)]
    pub smt: Option<Threads>,
    /// The processors to manage, as 0-3,8 [default: all that this process may use].
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// Serves the programs of all users, at /run/cpumgr/app.sock: for a manager of the whole
    /// machine, started as root (or with the capability CAP_SYS_NICE). Others may not change what
    /// concerns all users.
    #[arg(long)]
    pub system: bool,
    /// Lets programs pass processors that they do not use to each other without asking: faster, and
    /// only for programs of one user that trust each other.
    #[arg(long, conflicts_with = "system")]
    pub domain: bool,
    /// A control group that is the manager's to change (with systemd: of a unit with
    /// Delegate=cpuset). Programs that bind themselves back to processors that were taken are put
    /// into groups below it, whose cpuset they cannot leave.
    #[arg(long, value_name = "DIRECTORY")]
    pub fence: Option<PathBuf>,
    /// What happens to a processor on which others than the managed programs run, too: programs
    /// leave it to them as long as each has another one, or use it all the same.
    /// [default: leave]
    #[arg(long, value_enum)]
    pub strangers: Option<Strangers>,
    /// Ends when no program was there for this long, or `never` [default: never; 10s with
    /// --background].
    #[arg(long, value_name = "TIME", value_parser = idle_exit)]
    pub idle_exit: Option<IdleExit>,
    /// Writes which program has which processors, and when, to this file, as JSON lines. When it is
    /// full it becomes FILE.1, and a new one begins.
    #[arg(
        long,
        value_name = "FILE",
        value_parser = PathBufValueParser::new().try_map(file_of_manager)
    )]
    pub trace: Option<PathBuf>,
    /// The most that each of the trace's two files takes: a number of bytes, or of K, M or G, at
    /// least 64K [default: 64M].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub trace_size: Option<u64>,
    /// Where it keeps what programs were granted, used and waited for (`cpumgr history`): a file,
    /// or `off`, or `on` for the usual place, where only a manager at a usual socket keeps one.
    /// [default: on]
    #[arg(long, value_name = "FILE | on | off", value_parser = keep)]
    pub history: Option<Keep>,
    /// Answers browsers and Prometheus at this address: 127.0.0.1:9477, or a port alone for that
    /// address, or `off`. Readers see the names of all programs, and change nothing.
    /// [default: off]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen)]
    pub listen: Option<Listen>,
    /// This file in place of all usual ones, or `none`
    /// [default: CPUMGR_CONFIG, else the files that `cpumgr check-config` names].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Detaches from the terminal; returns when the manager answers. Its log is SOCKET.log.
    #[arg(long)]
    pub background: bool,
    /// The second half of --background.
    #[arg(long, hide = true, conflicts_with = "background")]
    pub detached: bool,
    /// First lets go of what it inherited of its starter: for a manager that `run` starts on the
    /// way.
    #[arg(long, hide = true)]
    pub widen: bool,
    /// The starter's process.
    #[arg(long, hide = true)]
    pub starter: Option<i32>,
    /// A value of a parameter of the policy.
    #[arg(long = "parameter", hide = true, value_name = "KEY=VALUE", value_parser = parameter)]
    pub parameters: Vec<(String, String)>,
    /// Goes on with the trace of the manager before it.
    #[arg(long, hide = true)]
    pub continues: bool,
    /// What the command line gave at first, as TOML: options above say what was in force.
    #[arg(long, hide = true, value_name = "TOML")]
    pub given: Option<String>,
}

/// What `check-config` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct CheckConfigArgs {
    /// This file alone, instead of all that a manager would read; of a drop-in, whose rules may
    /// name classes of the files before it, with those.
    pub file: Option<PathBuf>,
    /// Those of a manager of the whole machine, without the user's own.
    #[arg(long, conflicts_with = "file")]
    pub system: bool,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// In which order the hardware threads of a core are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Threads {
    /// Whole cores first, siblings of busy threads last.
    Spread,
    /// Siblings of busy threads before idle cores.
    Pack,
}

impl Threads {
    /// As the placement has it.
    pub fn smt(self) -> Smt {
        match self {
            Self::Spread => Smt::Spread,
            Self::Pack => Smt::Pack,
        }
    }
}

/// What happens to a processor on which others than the managed programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Strangers {
    /// Programs leave it to them while they are there.
    Leave,
    /// Programs use it all the same.
    Ignore,
}
