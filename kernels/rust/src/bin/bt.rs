//! BT of the NAS parallel benchmarks.

use std::process::ExitCode;

use nanothreads_kernels::{bt::Kernel, program};

fn main() -> ExitCode {
    program::main::<Kernel>()
}
