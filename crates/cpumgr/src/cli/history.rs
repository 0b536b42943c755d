//! What `history` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::exit_codes::EXIT_CODES;
use super::value::age;

/// What `history` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct HistoryArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Those that were there in this time: 24h, 90d [default: all that is kept].
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub since: Option<Duration>,
    /// Those of this user, by name or number [default: all that you may see].
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Those of this name, as the kernel has it.
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// A line for each run, the latest first, and not one for all runs of a program by a user.
    #[arg(long)]
    pub each: bool,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
}
