//! The `cpumgr` program, with the policies that come with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    cpumgr::run(cpumgr::limits::builtin())
}
