//! The `cpumgr` program: parses the command line, does what it says, says what went wrong.

use std::process::ExitCode;

use clap::Parser;
use cpumgr::cli::Cli;
use cpumgr::escape;

fn main() -> ExitCode {
    match cpumgr::command::execute(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Parts of the text may come from whatever answered at a socket.
            eprintln!("cpumgr: {}", escape::printable(&error.to_string()));
            ExitCode::from(error.code())
        }
    }
}
