//! What changes a manager that runs: `policy`, `set`, `mpl`, `drain`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use platform::affinity::CpuSet;

use super::Team;
use super::exit_codes::EXIT_CODES;
use super::value::{Level, cpus, grace, level, most, pid, processors, quantum, weight};
use crate::limits::Weight;

/// What `mpl` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct MplArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Their number; 0 starts nothing more. Without it: shows the one in force.
    #[arg(value_name = "N | any", value_parser = level, allow_negative_numbers = true)]
    pub level: Option<Level>,
    /// Shows it as one JSON object.
    #[arg(long, conflicts_with = "level")]
    pub json: bool,
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
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = false)]
pub struct SetArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// What to change; without it: shows what is in force.
    #[command(subcommand)]
    pub what: Option<Setting>,
    /// Shows all as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What can be set.
#[derive(Clone, Debug, Subcommand)]
pub enum Setting {
    /// How often programs that share processors take turns, 1ms to 10s.
    #[command(after_help = EXIT_CODES)]
    Quantum {
        /// Its length; without it: shows the one in force.
        #[arg(value_parser = quantum, allow_negative_numbers = true)]
        time: Option<Duration>,
    },
    /// How long a program has to leave a processor that was taken, 0s to 10s.
    #[command(after_help = EXIT_CODES)]
    Grace {
        /// Its length; without it: shows the one in force.
        #[arg(value_parser = grace, allow_negative_numbers = true)]
        time: Option<Duration>,
    },
    /// The share of one program relative to others, 0.001 to 1000; 1 unless changed. dss and those
    /// that build on it heed it, also when masters share processors.
    #[command(after_help = EXIT_CODES)]
    Weight {
        /// Its process.
        #[arg(value_parser = pid, allow_negative_numbers = true)]
        pid: i32,
        /// The weight; without it: shows the one in force.
        #[arg(value_parser = weight, allow_negative_numbers = true)]
        weight: Option<Weight>,
    },
    /// Whether the teams of one program follow what it is granted, or keep their size.
    #[command(after_help = EXIT_CODES)]
    Team {
        /// Its process.
        #[arg(value_parser = pid, allow_negative_numbers = true)]
        pid: i32,
        /// What they do; without it: shows the one in force.
        #[arg(value_enum)]
        team: Option<Team>,
    },
    /// The processors that one program is to have before other programs of its class and user have
    /// more than theirs.
    #[command(after_help = EXIT_CODES)]
    Min {
        /// Its process.
        #[arg(value_parser = pid, allow_negative_numbers = true)]
        pid: i32,
        /// Their number; without it: shows the one in force.
        #[arg(value_parser = processors, allow_negative_numbers = true)]
        processors: Option<u32>,
    },
    /// The most processors that one program is given.
    #[command(after_help = EXIT_CODES)]
    Max {
        /// Its process.
        #[arg(value_parser = pid, allow_negative_numbers = true)]
        pid: i32,
        /// Their number, or `any`: as many as it can use; without it: shows the one in force.
        #[arg(value_name = "PROCESSORS | any", value_parser = most, allow_negative_numbers = true)]
        processors: Option<Level>,
    },
    /// The site's class of one program.
    #[command(after_help = EXIT_CODES)]
    Class {
        /// Its process.
        #[arg(value_parser = pid, allow_negative_numbers = true)]
        pid: i32,
        /// The class, or `auto`: as the site's rules say; without it: shows the one that it is in.
        class: Option<String>,
    },
}

/// What `drain` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct DrainArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The processors, as taskset writes them: 0-3,8 or 0-31:2. Without it: shows those that are
    /// drained.
    #[arg(value_name = "LIST", value_parser = cpus, allow_negative_numbers = true)]
    pub list: Option<CpuSet>,
}

/// What `undrain` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct UndrainArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The processors, as taskset writes them: 0-3,8 or 0-31:2.
    #[arg(value_name = "LIST", value_parser = cpus, allow_negative_numbers = true)]
    pub list: CpuSet,
}
