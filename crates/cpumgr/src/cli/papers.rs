//! What is written from the command line itself: `completions`, `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// What `completions` can be told.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// What `man` can be told.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Writes a page for each command into this directory; without it: the page of cpumgr itself
    /// to standard output.
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}
