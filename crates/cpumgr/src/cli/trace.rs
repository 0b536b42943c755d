//! What `trace` can be told.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::exit_codes::EXIT_CODES;
use super::value::{file_of_manager, size};

/// What `trace` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct TraceArgs {
    /// The manager's socket [default: as for run].
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// What is done with a trace.
#[derive(Clone, Debug, Subcommand)]
pub enum TraceCommand {
    /// The manager writes from now on which program has which processors, as JSON lines.
    #[command(after_help = EXIT_CODES)]
    Start {
        /// Into this file, which becomes FILE.1 when it is full; it must be new, or empty, or a
        /// trace of the manager's user.
        #[arg(
            value_name = "FILE",
            value_parser = PathBufValueParser::new().try_map(file_of_manager)
        )]
        file: PathBuf,
        /// The most that each of its two files takes, as 64M [default: 64M].
        #[arg(long, value_name = "SIZE", value_parser = size)]
        size: Option<u64>,
    },
    /// It writes none any more.
    #[command(after_help = EXIT_CODES)]
    Stop,
    /// Says into which file a trace is written.
    #[command(after_help = EXIT_CODES)]
    Show {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Writes a trace in the form of Paraver, or of Perfetto.
    #[command(after_help = EXIT_CODES)]
    Convert {
        /// The trace.
        #[arg(value_name = "TRACE")]
        file: PathBuf,
        /// For Paraver: FILE.prv, and FILE.pcf and FILE.row beside it.
        #[arg(long, value_name = "FILE.prv", required_unless_present = "perfetto")]
        prv: Option<PathBuf>,
        /// For Perfetto (ui.perfetto.dev) and chrome://tracing: trace events as JSON; - is standard
        /// output.
        #[arg(long, value_name = "FILE.json")]
        perfetto: Option<PathBuf>,
    },
}
