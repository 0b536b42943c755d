//! The processor manager as a library: the daemon, its command line and its messages.
//!
//! A manager with policies of one's own is a program of two lines around [`run()`], see
//! `examples/custom_policy.rs`.
//!
//! # Modules, from the bottom up
//! 1. `advice`, `allowance`, `bucket`, `duration`, `elf`, `escape`, `foreign`: parts.
//! 2. `inherited`, `surprises`: more of them.
//! 3. `keeper`, `limits`, `mistake`, `own_file`, `patience`, `reactor`, `trust`: files, waits,
//!    trust.
//! 4. `kernel`, `service`, `threads`: other processes' threads, the service manager.
//! 5. `dropin`, `guarded`, `instance`, `libraries`, `log`, `machine`, `preload`: surroundings.
//! 6. `api`: the door for clients.
//! 7. `error`, `history`, `json`, `ledger`, `settings`, `shares`, `submissions`, `trace`: faults,
//!    decisions, and what is kept.
//! 8. `fence`, `masks`, `reclaim`, `unused`: what is done to programs.
//! 9. `output`, `simulate`: what a command shows; the simulator.
//! 10. `cli`, `config`, `reload`: command line and configuration. `numa`: pages of a process.
//! 11. `daemon`, `server`: the manager's process, and the scheduler in it.
//! 12. `papers`, `socket`, `style`: how it is shown, and which manager a command asks.
//! 13. `administration`, `numa`, `status`: questions and orders to a manager; where pages are.
//! 14. `accounts`, `doctor`, `metrics`, `newcomer`, `replay`, `run`, `top`, `views`, `web`:
//!     the past, the machine, measures, traces, programs that are started, the screen, parts of a
//!     report, browsers.
//! 15. `jobserver`, `submit`: job tokens that follow a grant; programs that wait for their turn.
//! 16. `command`: each command.

use std::process::ExitCode;

use clap::Parser;
use policies::Registry;

pub mod accounts;
pub mod administration;
mod advice;
pub mod allowance;
mod api;
pub mod bucket;
pub mod cli;
pub mod command;
pub mod config;
pub mod daemon;
pub mod doctor;
mod dropin;
pub mod duration;
mod elf;
pub mod error;
pub mod escape;
pub mod fence;
pub mod foreign;
pub mod guarded;
pub mod history;
mod inherited;
pub mod instance;
pub mod jobserver;
mod json;
mod keeper;
pub mod kernel;
pub mod ledger;
mod libraries;
pub mod limits;
mod log;
pub mod machine;
mod masks;
pub mod metrics;
mod mistake;
mod newcomer;
pub mod numa;
mod output;
mod own_file;
mod papers;
mod patience;
pub mod preload;
pub mod reactor;
pub mod reclaim;
mod reload;
pub mod replay;
pub mod run;
pub mod server;
pub mod service;
mod settings;
mod shares;
pub mod simulate;
pub mod socket;
pub mod status;
mod style;
mod submissions;
mod submit;
mod surprises;
pub mod threads;
pub mod top;
pub mod trace;
mod trust;
pub mod unused;
pub mod views;
pub mod web;

/// The `cpumgr` program with these policies: parses the command line, does what it says, says what
/// went wrong. Call it from the only thread, once; begin with [`limits::builtin`] and add to it.
pub fn run(policies: Registry) -> ExitCode {
    // Before all else, for a service manager does not wait until a manager listens.
    if command::becomes_manager(std::env::args_os())
        && let Err(error) = reactor::hold_early()
    {
        output::complain(&error.to_string());
        return ExitCode::from(error::FAILED);
    }
    limits::set_policies(policies);
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return command::refuse(&error),
    };
    match command::execute(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Parts of the text may come from whatever answered at a socket.
            output::complain(&error.to_string());
            ExitCode::from(error.code())
        }
    }
}
