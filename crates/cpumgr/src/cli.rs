//! The command line.

use clap::{Parser, Subcommand};

use crate::simulate;

mod daemon;
mod exit_codes;
mod history;
mod jobserver;
mod manager;
mod papers;
mod process;
mod run;
mod settings;
mod submit;
#[cfg(test)]
mod tests;
mod top;
mod trace;
mod value;
mod views;

pub use daemon::{CheckConfigArgs, DaemonArgs, Strangers, TRACE_SIZE, Threads};
pub(crate) use daemon::{HISTORY_AGE, HISTORY_SIZE};
pub(crate) use exit_codes::EXIT_CODES;
pub use history::HistoryArgs;
pub use jobserver::{JobserverArgs, Style};
pub use manager::{CancelArgs, SocketArgs, StatusArgs};
pub use papers::{CompletionsArgs, ManArgs};
pub use process::{NumaArgs, PidArgs};
pub(crate) use run::named;
pub use run::{Placement, Preload, RunArgs, Team};
pub use settings::{DrainArgs, MplArgs, PolicyArgs, SetArgs, Setting, UndrainArgs};
pub use submit::{Array, SubmitArgs};
pub use top::TopArgs;
pub use trace::{TraceArgs, TraceCommand};
pub use value::{FairShare, IdleExit, Level, Listen};
pub(crate) use value::{
    age, cpus, fair_share, grace, history_size, idle_exit, keep, level, listen, policy, quantum,
    size, weight,
};
pub use views::{CpusArgs, DoctorArgs, ShowArgs};

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
    /// Lists the programs, a line each.
    List(StatusArgs),
    /// Shows all that is known of one program.
    Show(ShowArgs),
    /// Shows programs and processors on the terminal, again and again.
    Top(TopArgs),
    /// Shows which program, and which of its threads, each processor has.
    Cpus(CpusArgs),
    /// Shows the policies, or makes another one decide from now on, or changes its parameters.
    Policy(PolicyArgs),
    /// Changes what is in force: times of the manager; weight, team, class, bounds of a program.
    Set(SetArgs),
    /// Manages a process that does not speak the protocol, by binding all its threads.
    Attach(PidArgs),
    /// Lets an attached process go; its threads get their masks back.
    Detach(PidArgs),
    /// Says how many programs may run at once: a number or `any`.
    Mpl(MplArgs),
    /// Runs make, ninja or cargo with as many job tokens as it is granted processors.
    Jobserver(JobserverArgs),
    /// Waits until one more program may run, then runs it as `run` does.
    Submit(SubmitArgs),
    /// Shows the programs that wait to be started.
    Queue(StatusArgs),
    /// Takes one out of the queue.
    Cancel(CancelArgs),
    /// Lets programs leave processors, and gives them no more of these; the successor of a manager
    /// that was killed knows of it.
    Drain(DrainArgs),
    /// Gives drained processors back to programs.
    Undrain(UndrainArgs),
    /// Ends the manager; programs go on without one.
    Stop(SocketArgs),
    /// Lets the manager begin anew with what is in force now; programs go on, and are taken in
    /// again.
    Restart(SocketArgs),
    /// Lets the manager read its configuration anew; what is wrong with it changes nothing.
    Reload(SocketArgs),
    /// Puts the masks of what a killed manager left attached back, where no manager runs.
    #[command(hide = true)]
    Release(SocketArgs),
    /// Says whether the configuration can be used, and which files it consists of.
    CheckConfig(CheckConfigArgs),
    /// Shows what programs were granted, used and waited for, also of those that have ended.
    History(HistoryArgs),
    /// Begins and ends a trace of which program has which processors, and converts one.
    Trace(TraceArgs),
    /// Shows what the manager counted and timed, in the text format of Prometheus.
    Metrics(StatusArgs),
    /// Says what this machine lets a manager do, and what to do about the rest; of a process or a
    /// program, which of its pools of threads follow its processors.
    Doctor(DoctorArgs),
    /// Shows on which memory nodes the pages of a process are, and its remote traffic.
    Numa(NumaArgs),
    /// Writes what a shell needs to complete commands: source it, or put it where the shell looks.
    Completions(CompletionsArgs),
    /// Writes manual pages.
    Man(ManArgs),
    /// Runs a workload file in the simulator of the policies.
    Simulate(simulate::SimulateArgs),
}
