//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use platform::affinity::CpuSet;
use policies::Smt;

use crate::limits::{self, Weight};
use crate::{duration, simulate};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something failed that has no code of its own
  2    the command line is wrong (also: unknown policy, processors not to be had, too long a text)
  3    no manager answers
  4    a manager runs on that socket already
  5    the socket or its directory cannot be used (owner, mode, permission), or was removed under a manager
  6    what answers at the socket is no manager of this version, does not answer, or refuses
  7    submit: somebody cancelled it
  126  run: the program cannot be executed
  127  run: the program was not found
  otherwise `run` ends as its program does: it becomes the program.

Environment:
  NANOS_CPUMGR    the manager's socket, or `off`
  NANOS_SHIM_DIR  the directory of the drop-in OpenMP library
  CPUMGR_LOG      what the daemon logs (error, warn, info, debug)
  CPUMGR_CONFIG   the daemon's configuration file, in place of the usual ones, or `none`
  CPUMGR_QUANTUM and so on: a key of the configuration, for the daemon";

/// Shares the processors of a machine among parallel programs.
#[derive(Debug, Parser)]
#[command(name = "cpumgr", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs a manager for this user; needs no privilege.
    Daemon(DaemonArgs),
    /// Runs a program under the manager, with the drop-in OpenMP library; starts a manager when
    /// none answers.
    Run(RunArgs),
    /// Shows what each program asks for and what it has.
    Status(StatusArgs),
    /// Shows the policies, or makes another one decide from now on, or changes its parameters.
    Policy(PolicyArgs),
    /// Changes a number of the running manager.
    Set(SetArgs),
    /// Manages a process that does not speak the protocol, by binding all its threads.
    Attach(PidArgs),
    /// Lets an attached process go; its threads get their masks back.
    Detach(PidArgs),
    /// Says how many programs may run at once: a number or `any`.
    Mpl(MplArgs),
    /// Waits until one more program may run, then runs it as `run` does.
    Submit(RunArgs),
    /// Shows the programs that wait to be started.
    Queue(StatusArgs),
    /// Takes one out of the queue.
    Cancel(CancelArgs),
    /// Ends the manager; programs go on without one.
    Stop(SocketArgs),
    /// Lets the manager begin anew with what is in force now; programs go on, and are taken in
    /// again.
    Restart(SocketArgs),
    /// Says whether the configuration can be used, and which files it consists of.
    CheckConfig(CheckConfigArgs),
    /// Shows on which memory nodes the pages of a process are, and its remote traffic.
    Numa(NumaArgs),
    /// Runs a workload file in the simulator of the policies.
    Simulate(simulate::SimulateArgs),
}

/// What `mpl` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct MplArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Their number; 0 starts nothing more. Without it: shows the one in force.
    #[arg(value_name = "N | any", value_parser = level)]
    pub level: Option<Level>,
}

/// What `stop` and `restart` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct SocketArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// What `attach` and `detach` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct PidArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The process.
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
}

/// What `numa` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct NumaArgs {
    /// The process.
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Every area, small ones too.
    #[arg(long)]
    pub all: bool,
    /// How long remote traffic is counted, from 0 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = seconds)]
    pub seconds: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0 to 3600 is needed".to_owned()),
    }
}

/// What `cancel` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct CancelArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Its number, as `queue` shows it.
    pub id: u64,
}

/// How many programs may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As many as come.
    Any,
    /// At most this many.
    AtMost(u32),
}

impl Level {
    /// The number, if there is one.
    pub fn number(self) -> Option<u32> {
        match self {
            Self::Any => None,
            Self::AtMost(number) => Some(number),
        }
    }
}

/// What `policy` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct PolicyArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The policy, and values for its parameters; without a name: of the one in force; without
    /// anything: shows all.
    #[arg(value_name = "NAME | KEY=VALUE")]
    pub words: Vec<String>,
    /// Shows all as one JSON object.
    #[arg(long, conflicts_with = "words")]
    pub json: bool,
}

/// What `set` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct SetArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// What to change; without it: shows what is in force.
    #[command(subcommand)]
    pub what: Option<Setting>,
}

/// What can be set.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Setting {
    /// How often programs that share processors take turns, 1ms to 10s.
    Quantum {
        /// Its length; without it: shows the one in force.
        #[arg(value_parser = quantum)]
        time: Option<Duration>,
    },
    /// How long a program has to leave a processor that was taken, 0s to 10s.
    Grace {
        /// Its length; without it: shows the one in force.
        #[arg(value_parser = grace)]
        time: Option<Duration>,
    },
    /// The share of one program relative to others, 0.001 to 1000; 1 unless changed. dss and those
    /// that build on it heed it.
    Weight {
        /// Its process.
        #[arg(value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,
        /// The weight; without it: shows the one in force.
        #[arg(value_parser = weight)]
        weight: Option<Weight>,
    },
}

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
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The most that each of the trace's two files takes: a number of bytes, or of K, M or G, at
    /// least 64K [default: 64M].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub trace_size: Option<u64>,
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
}

/// What `check-config` can be told.
#[derive(Clone, Debug, Args)]
pub struct CheckConfigArgs {
    /// This file alone, instead of all that a manager would read.
    pub file: Option<PathBuf>,
    /// Those of a manager of the whole machine, without the user's own.
    #[arg(long, conflicts_with = "file")]
    pub system: bool,
}

/// What `run` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct RunArgs {
    /// The manager's socket
    /// [default: NANOS_CPUMGR, else the system's manager, else the user's own].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The policy of a manager that has to be started.
    #[arg(long, value_name = "NAME", value_parser = policy)]
    pub policy: Option<String>,
    /// The directory of the drop-in OpenMP library
    /// [default: NANOS_SHIM_DIR, else beside this program].
    #[arg(long, value_name = "DIR")]
    pub lib: Option<PathBuf>,
    /// Puts the drop-in library in front by LD_PRELOAD, too: for programs and modules that carry a
    /// libgomp of their own.
    #[arg(long, value_enum, default_value_t = Preload::Auto)]
    pub preload: Preload,
    /// Leaves the program's threads alone when it has several and does not speak to the manager;
    /// otherwise their affinity is managed.
    #[arg(long)]
    pub no_attach: bool,
    /// Its share relative to others, 0.001 to 1000; 1 unless changed. dss and the policies that
    /// build on it heed it.
    #[arg(long, value_name = "WEIGHT", value_parser = weight)]
    pub weight: Option<Weight>,
    /// On which memory nodes its pages come to be, as far as it sets no policy itself.
    #[arg(long, value_enum, value_name = "SCHEME")]
    pub placement: Option<Placement>,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM [ARGS]..."
    )]
    pub command: Vec<OsString>,
}

/// What `status` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct StatusArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
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

/// Where the pages of a program come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Placement {
    /// On the node of the thread that touches them first.
    FirstTouch,
    /// On all nodes in turn.
    RoundRobin,
    /// On random nodes: only programs that use the library can.
    Random,
    /// On one node, while it has room.
    WorstCase,
}

/// Whether the drop-in library is preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Preload {
    /// When the program can load it: not for static programs, nor for those of another machine.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How long a manager without programs stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleExit {
    /// For ever.
    Never,
    /// After this time.
    After(Duration),
}

pub(crate) fn policy(text: &str) -> Result<String, String> {
    limits::policy(text).map(|_| text.to_owned()).map_err(|unknown| unknown.to_string())
}

pub(crate) fn quantum(text: &str) -> Result<Duration, duration::DurationError> {
    let possible = limits::quantum();
    duration::parse_within(
        text,
        Duration::from_nanos(*possible.start()),
        Duration::from_nanos(*possible.end()),
    )
}

pub(crate) fn level(text: &str) -> Result<Level, String> {
    if text == "any" {
        return Ok(Level::Any);
    }
    text.parse().map(Level::AtMost).map_err(|_| "it is a number of programs, or `any`".into())
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit: Option<u64> = match unit {
        "" => Some(1),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        _ => None,
    };
    let bytes = number
        .parse()
        .ok()
        .zip(unit)
        .and_then(|(number, unit): (u64, u64)| number.checked_mul(unit));
    bytes
        .filter(|bytes| *bytes >= 64 << 10)
        .ok_or_else(|| "a size is 64K or more: a number of bytes, or of K, M or G".into())
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    split.ok_or_else(|| "a parameter is KEY=VALUE".into())
}

pub(crate) fn weight(text: &str) -> Result<Weight, String> {
    limits::weight(text).ok_or_else(|| "a weight is a number from 0.001 to 1000".to_owned())
}

pub(crate) fn grace(text: &str) -> Result<Duration, duration::DurationError> {
    let possible = limits::grace();
    duration::parse_within(
        text,
        Duration::from_nanos(*possible.start()),
        Duration::from_nanos(*possible.end()),
    )
}

pub(crate) fn cpus(text: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(text).map_err(|error| error.to_string())
}

pub(crate) fn idle_exit(text: &str) -> Result<IdleExit, duration::DurationError> {
    match text {
        "never" => Ok(IdleExit::Never),
        _ => duration::parse(text).map(IdleExit::After),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_unknown_policy_is_answered_with_the_known_ones() {
        let error = Cli::try_parse_from(["cpumgr", "daemon", "--policy", "just"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(
            text.contains("\"just\"") && text.contains("dss-ts") && text.contains("equip"),
            "{text}"
        );
    }

    #[test]
    fn wrong_values_are_named() {
        for (option, value) in [
            ("--smt", "both"),
            ("--quantum", "fast"),
            ("--quantum", "1us"),
            ("--cpus", "1-x"),
            ("--idle-exit", "soon"),
            ("--trace-size", "1K"),
            ("--trace-size", "99999999999G"),
        ] {
            let error = Cli::try_parse_from(["cpumgr", "daemon", option, value]).unwrap_err();
            let text = error.to_string();
            assert!(
                error.exit_code() == 2 && text.contains(option) && text.contains(value),
                "{text}"
            );
        }
    }

    #[test]
    fn weights_are_read_in_thousandths() {
        let cli = Cli::try_parse_from(["cpumgr", "run", "--weight", "2.5", "prog"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert_eq!(
            run.weight.map(|weight| (weight.thousandths(), weight.number())),
            Some((2500, 2.5))
        );
        for bad in ["0", "0.0004", "-1", "1001", "nan", "inf", "much"] {
            let error = Cli::try_parse_from(["cpumgr", "set", "weight", "7", "--", bad])
                .unwrap_err()
                .to_string();
            assert!(error.contains("0.001 to 1000"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_programs_options_are_its_own() {
        let cli = Cli::try_parse_from([
            "cpumgr", "run", "--policy", "equip", "--", "prog", "--policy", "-x",
        ])
        .unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert_eq!(run.policy.as_deref(), Some("equip"));
        assert_eq!(run.command, ["prog", "--policy", "-x"]);
        let cli = Cli::try_parse_from(["cpumgr", "run", "prog", "--help"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert_eq!(run.command, ["prog", "--help"]);
        assert!(Cli::try_parse_from(["cpumgr", "run"]).is_err());
    }
}
