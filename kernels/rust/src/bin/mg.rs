//! MG of the NAS parallel benchmarks.

use std::process::ExitCode;

use nanothreads_kernels::{mg::Kernel, program};

fn main() -> ExitCode {
    program::main::<Kernel>()
}
