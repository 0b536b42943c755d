//! What `main` of a kernel does: reads the command line, chooses the loops, runs, reports.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::loops::{Loops, Nanothreads, Rayon};
use crate::options::{Options, Runtime};
use crate::report::Report;

/// A kernel.
pub trait Kernel {
    /// Runs it as often as the options say.
    fn run<L: Loops>(loops: &L, options: &Options) -> Report;
}

/// Runs a kernel as the command line says. Exit codes: 0; 1 for a failed verification, a result
/// that cannot be written or threads that cannot be had; 2 for a wrong command line or thread
/// number.
pub fn main<K: Kernel>() -> ExitCode {
    execute::<K>(&Options::parse())
}

/// As [`main`], with options that were read already.
pub fn execute<K: Kernel>(options: &Options) -> ExitCode {
    let report = match options.runtime {
        Runtime::Nanothreads => threads()
            .map_err(|error| (2, error))
            .and_then(|threads| Nanothreads::new(threads).map_err(|error| (1, error)))
            .map(|loops| K::run(&loops, options)),
        Runtime::SelfAllocating => Nanothreads::self_allocating()
            .map_err(|error| (1, error))
            .map(|loops| K::run(&loops, options)),
        // The whole program in the pool: a loop from outside would have to be handed in.
        Runtime::Rayon => rayon::ThreadPoolBuilder::new()
            .build()
            .map_err(|error| (1, error.to_string()))
            .map(|pool| pool.install(|| K::run(&Rayon, options))),
    };
    match report {
        Ok(report) => match report.end(&mut io::stdout().lock(), &mut io::stderr()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                let kernel = report.kernel();
                _ = writeln!(io::stderr(), "{kernel}: the result could not be written: {error}");
                ExitCode::FAILURE
            }
        },
        Err((code, error)) => {
            // Nothing is left to be said where stderr is closed.
            _ = writeln!(io::stderr(), "{error}");
            ExitCode::from(code)
        }
    }
}

/// What `OMP_NUM_THREADS` says.
fn threads() -> Result<Option<usize>, String> {
    let Some(text) = env::var_os("OMP_NUM_THREADS") else { return Ok(None) };
    let number = text.to_str().and_then(|text| text.trim().parse().ok());
    match number {
        Some(threads) if threads > 0 => Ok(Some(threads)),
        _ => Err(format!("OMP_NUM_THREADS: {text:?} is not a whole number of at least 1")),
    }
}
