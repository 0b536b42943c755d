//! What `top` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::exit_codes::EXIT_CODES;
use crate::duration::{self, DurationError};

/// What `top` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct TopArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// How often the manager is asked, 100ms to 1h [default: 1s].
    #[arg(long, short = 'd', value_name = "TIME", value_parser = interval, default_value = "1s", hide_default_value = true)]
    pub interval: Duration,
}

fn interval(text: &str) -> Result<Duration, DurationError> {
    duration::parse_within(text, Duration::from_millis(100), Duration::from_secs(3600))
}
