//! FT of the NAS parallel benchmarks.

use std::process::ExitCode;

use nanothreads_kernels::{ft::Kernel, program};

fn main() -> ExitCode {
    program::main::<Kernel>()
}
