//! The project's own tasks: `cargo xtask TASK`.
//!
//! # Modules, from the bottom up
//! 1. `failures`, `measure`, `metadata`, `ratchet`, `skips`: tests that failed, copies of programs
//!    that are timed, what cargo knows of the packages, numbers that may only fall, and what was
//!    left out.
//! 2. `setup`: the workspace, compilers, commands.
//! 3. `artifact`, `peers`, `shim`: what cargo built, other OpenMP libraries, and ours.
//! 4. `aarch64`, `graph`, `hwloc`, `package`, `weight`, `words`: checks of the sources.
//! 5. `bench`, `demo`, `dist`, `real`, `san`, `suite`, `wheel`: measurements, packages and tools
//!    that stand alone.
//! 6. `conformance`, `flip`, `report`, `vm`: tasks that use some of those.
//! 7. `reproduce`, `test`: the papers' tables; all checks, lane by lane.

mod aarch64;
mod artifact;
mod bench;
mod conformance;
mod demo;
mod dist;
mod failures;
mod flip;
mod graph;
mod hwloc;
mod measure;
mod metadata;
mod package;
mod peers;
mod ratchet;
mod real;
mod report;
mod reproduce;
mod san;
mod setup;
mod shim;
mod skips;
mod suite;
mod test;
mod vm;
mod weight;
mod wheel;
mod words;

use clap::{Parser, Subcommand};

use crate::setup::Workspace;

/// Tasks of the NANOS workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compares unmodified OpenMP programs on the system's runtime and under the manager.
    Demo(demo::Options),
    /// Runs all timed benches (a quarter of an hour of a quiet machine), and writes one closing
    /// table.
    Bench(bench::Options),
    /// Runs every check: format, words, modules, lints, tests, documentation, models, programs.
    Test(test::Options),
    /// Checks which crate uses which, and which module of a crate uses which.
    Graph(graph::Options),
    /// Checks the words and the line lengths of comments and documents.
    Words(words::Options),
    /// Runs gcc's OpenMP test suites on the drop-in library, where the harness is at hand.
    Conformance(conformance::Options),
    /// Runs the engine's tests under ThreadSanitizer and AddressSanitizer, after each was seen to
    /// report planted faults.
    San(san::Options),
    /// Runs tests in virtual machines: the engine's on 8 processors and 4 nodes, the kernels, asat,
    /// page migration, the package and its service.
    #[command(subcommand)]
    Vm(vm::Guest),
    /// Builds the crates for aarch64-linux, and runs their tests under user-mode emulation.
    Aarch64(aarch64::Options),
    /// Compares hwloc's topology with that of /sys; installs hwloc's headers where that is allowed.
    Hwloc,
    /// Makes one HTML page of the records of benches and suite.
    Report(report::Options),
    /// Redraws tables of the papers.
    Reproduce(reproduce::Options),
    /// Runs the papers' programs (`kernels/`) in copies and mixes on several runtimes: a CSV record
    /// and ratios to the ideal.
    Suite(suite::Options),
    /// Runs the OpenMP programs under a manager that changes every grant 1 <-> 2 every 20 ms: right
    /// results.
    Flip(flip::Options),
    /// Builds the drop-in OpenMP library into target/shim.
    Shim,
    /// Builds a small program with the library from nothing: its seconds, and its bytes.
    Weight(weight::Options),
    /// Makes a Debian package of manager and drop-in library in target/dist.
    Deb(dist::Options),
    /// Makes a tarball of the same in target/dist.
    Tarball(dist::Options),
    /// Packs manager, drop-in library and a Python module into a wheel, in target/wheel.
    Wheel(wheel::Options),
    /// Runs programs from PyPI and Debian on the original OpenMP runtime and on ours; installs them
    /// below target/real.
    Real(real::Options),
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let workspace = Workspace::find()?;
    match arguments.task {
        Task::Demo(options) => demo::run(&workspace, &options),
        Task::Bench(options) => bench::run(&workspace, &options),
        Task::Test(options) => test::run(&workspace, &options),
        Task::Graph(options) => graph::run(&workspace, &options),
        Task::Words(options) => words::run(&workspace, &options),
        Task::Real(options) => real::run(&workspace, &options),
        Task::Conformance(options) => conformance::run(&workspace, &options).map(drop),
        Task::San(options) => san::run(&workspace, &options).map(drop),
        Task::Vm(guest) => vm::run(&workspace, &guest).map(drop),
        Task::Weight(options) => weight::run(&workspace, &options),
        Task::Wheel(options) => wheel::run(&workspace, &options).map(drop),
        Task::Report(options) => report::run(&workspace, &options),
        Task::Aarch64(options) => aarch64::run(&workspace, &options),
        Task::Hwloc => hwloc::run(&workspace),
        Task::Reproduce(options) => reproduce::run(&workspace, &options),
        Task::Suite(options) => suite::run(&workspace, &options),
        Task::Flip(options) => flip::run(&workspace, &options).map(drop),
        Task::Deb(options) => {
            println!("{}", dist::deb(&workspace, &options)?.display());
            Ok(())
        }
        Task::Tarball(options) => {
            println!("{}", dist::tarball(&workspace, &options)?.display());
            Ok(())
        }
        Task::Shim => {
            println!("{}", shim::run(&workspace, shim::Form::Shipped)?.display());
            Ok(())
        }
    }
}
