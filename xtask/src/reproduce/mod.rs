//! `cargo xtask reproduce`: the papers' tables and figures, redrawn.

mod asat;
mod daemon;
mod policies;
mod turnaround;

use crate::setup::Workspace;

/// Which part of the papers.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// The policies' tables beside what the simulator says.
    Policies(policies::Options),
    /// What turns gain against sharing, in simulated populations.
    Turnaround(turnaround::Options),
    /// The simulator beside this daemon and this machine: copies of programs, managed and not.
    Daemon(daemon::Options),
    /// The self-allocating threads' experiment on this machine.
    Asat(asat::Options),
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    match &options.what {
        What::Policies(options) => policies::run(workspace, options),
        What::Turnaround(options) => turnaround::run(workspace, options),
        What::Daemon(options) => daemon::run(workspace, options),
        What::Asat(options) => asat::run(workspace, options),
    }
}
