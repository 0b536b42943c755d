//! C programs, compiled by gcc against its own OpenMP, run on the drop-in library; and what that
//! library exports.
//!
//! The library is made by `cargo xtask shim`. Where it, gcc or nm is missing, the tests say so and
//! end.

#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

mod adjusts;
mod constructs;
#[path = "../drop_in/mod.rs"]
mod drop_in;
mod environment;
mod loading;
mod migration;
mod pools;
mod process;
mod sanitizers;
mod symbols;

use drop_in::{
    Fresh, LIMIT_OF_TURNS, clean, compile, finish, must_be_ok, must_be_ok_within, said, shim,
};
use std::path::PathBuf;
use std::process::Command;

/// A test program, and the folder of the library that it is to run on.
struct Subject {
    program: Fresh,
    library: PathBuf,
}

impl Subject {
    /// Test program `name`; `None` where it cannot be run, with a printed reason.
    fn new(name: &str, options: &[&str]) -> Option<Self> {
        let library = shim()?;
        Some(Self { program: compile(name, options), library })
    }

    fn command(&self) -> Command {
        clean(&self.program, Some(&self.library))
    }

    /// What it prints on stdout and stderr under these variables.
    fn says(&self, variables: &[(&str, &str)]) -> (String, String) {
        let mut command = self.command();
        command.envs(variables.iter().copied());
        let output = finish(command);
        assert!(output.status.success(), "{variables:?}: {}", output.status);
        said(&output)
    }
}

/// Runs test program `name` with these variables.
fn run(name: &str, variables: &[(&str, &str)]) {
    run_by(name, variables, must_be_ok);
}

/// The same for one whose threads take turns on one processor.
fn take_turns(name: &str, variables: &[(&str, &str)]) {
    run_by(name, variables, |command| must_be_ok_within(LIMIT_OF_TURNS, command));
}

fn run_by(name: &str, variables: &[(&str, &str)], must_be_ok: impl FnOnce(Command)) {
    // Bodies may end with jumps, as in programs that are compiled for speed.
    let options = ["-lpthread", "-foptimize-sibling-calls"];
    let Some(subject) = Subject::new(name, &options) else { return };
    let mut command = subject.command();
    command.envs(variables.iter().copied());
    must_be_ok(command);
}
