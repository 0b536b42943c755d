//! Orders and questions about one process: `attach`, `detach`, `numa`.

use std::path::PathBuf;

use clap::Args;

use super::exit_codes::EXIT_CODES;
use super::value::pid;

/// What `attach` and `detach` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct PidArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The process.
    #[arg(value_parser = pid, allow_negative_numbers = true)]
    pub pid: i32,
}

/// What `numa` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct NumaArgs {
    /// The process.
    #[arg(value_parser = pid, allow_negative_numbers = true)]
    pub pid: i32,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Every area, small ones too.
    #[arg(long)]
    pub all: bool,
    /// How long remote traffic is counted, from 0 to 3600.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0.5,
        value_parser = seconds,
        allow_negative_numbers = true
    )]
    pub seconds: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0 to 3600 is needed".to_owned()),
    }
}
