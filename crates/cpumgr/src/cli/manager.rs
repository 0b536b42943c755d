//! Questions and orders to a manager as a whole: `status`, `queue`, `cancel`, `stop`.

use std::path::PathBuf;

use clap::Args;

use super::exit_codes::EXIT_CODES;
use super::value::submission;

/// What `stop` and `restart` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct SocketArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
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

/// What `cancel` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct CancelArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Its number, as `queue` shows it.
    #[arg(value_parser = submission, allow_negative_numbers = true)]
    pub id: u64,
}
