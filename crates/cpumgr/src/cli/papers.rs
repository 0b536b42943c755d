//! What is written from the command line itself: `completions`, `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::exit_codes::EXIT_CODES;

/// What `completions` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// What `man` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct ManArgs {
    /// Writes a page for each command, and one of the configuration, into this directory; without
    /// it: the page of cpumgr itself to standard output.
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}
