//! The command line.

use clap::{Parser, Subcommand};

use crate::simulate;

mod daemon;
mod exit_codes;
mod manager;
mod process;
mod run;
mod settings;
#[cfg(test)]
mod tests;
mod value;

pub use daemon::{CheckConfigArgs, DaemonArgs, Strangers, TRACE_SIZE, Threads};
use exit_codes::EXIT_CODES;
pub use manager::{CancelArgs, SocketArgs, StatusArgs};
pub use process::{NumaArgs, PidArgs};
pub use run::{Placement, Preload, RunArgs};
pub use settings::{MplArgs, PolicyArgs, SetArgs, Setting};
pub use value::{IdleExit, Level};
pub(crate) use value::{cpus, grace, idle_exit, level, policy, quantum, size};

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
