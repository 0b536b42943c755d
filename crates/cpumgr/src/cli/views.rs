//! What shows a part of a manager: `show`, `cpus`; and `doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use platform::affinity::CpuSet;

use super::exit_codes::EXIT_CODES;
use super::value::cpus;
use super::value::pid;

/// What `show` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct ShowArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Its process, or its name.
    #[arg(value_name = "PID | NAME")]
    pub program: String,
}

/// What `cpus` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct CpusArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
    /// These alone, as taskset writes them: 0-3,8 or 0-31:2.
    #[arg(value_name = "LIST", value_parser = cpus, allow_negative_numbers = true)]
    pub list: Option<CpuSet>,
}

/// What `doctor` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct DoctorArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Which pools of threads this process has, and which follow its processors; its mask, its
    /// quota, and whether a manager manages it.
    #[arg(value_parser = pid, allow_negative_numbers = true, conflicts_with = "program")]
    pub pid: Option<i32>,
    /// The same of a program that does not run, as far as its file says.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
