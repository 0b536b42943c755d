//! IS of the NAS parallel benchmarks.

use std::process::ExitCode;

use nanothreads_kernels::{is::Kernel, program};

fn main() -> ExitCode {
    program::main::<Kernel>()
}
