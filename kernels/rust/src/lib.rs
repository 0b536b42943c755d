//! Kernels of the NAS parallel benchmarks in safe Rust: the numerical code stands once, its loops
//! run on nanothreads or on rayon.
//!
//! Written from the benchmarks' published specification. Command line, result and exit codes are
//! those of all programs of `kernels/`: `kernels/README.md`.
//!
//! # Modules, from the bottom up
//! 1. `clock`, `random`, `checks`, `options`, `report`: what all kernels share.
//! 2. `parts`, `loops`: data that several threads write, cut into parts; parallel loops over them.
//! 3. `program`: what `main` of a kernel does.
//! 4. `bt`, `cg`, `ep`, `ft`, `is`, `mg`: the kernels.

pub mod checks;
mod clock;
pub mod loops;
pub mod options;
pub mod parts;
pub mod program;
mod random;
pub mod report;

pub mod bt;
pub mod cg;
pub mod ep;
pub mod ft;
pub mod is;
pub mod mg;
