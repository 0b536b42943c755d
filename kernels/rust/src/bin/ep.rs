//! EP of the NAS parallel benchmarks.

use std::process::ExitCode;

use nanothreads_kernels::{ep::Kernel, program};

fn main() -> ExitCode {
    program::main::<Kernel>()
}
