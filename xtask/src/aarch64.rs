//! `cargo xtask aarch64`: the crates built for aarch64-linux, and their tests under user-mode
//! emulation.
//!
//! What an emulator on x86 can tell is code generation, assembler, sizes of the system's types and
//! numbers of its calls. It shows no weak orderings: those are the models' (`cargo xtask test
//! models`). Cross compiler, emulator and standard library are installed where that is allowed.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::setup::{Workspace, find_program, install, is_root, must_succeed};
use crate::skips;

/// What is built for.
const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Debian's packages: the linker with the C library, and the emulator.
const PACKAGES: [&str; 3] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"];
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian puts that C library.
const SYSTEM: &str = "/usr/aarch64-linux-gnu";
/// Built without a test: they start other programs, which the emulator does not follow, or want
/// calls that it does not have (the manager's tests of locks and sockets fail there).
const BUILT: [&str; 2] = ["cpumgr", "nanothreads-rayon"];
/// Built and tested.
const TESTED: [&str; 7] = [
    "nanothreads-platform",
    "nanothreads-arena",
    "nanothreads-engine",
    "nanothreads-policies",
    "nanothreads-asat",
    "nanothreads",
    "omp-shim",
];

/// Tests that start themselves as another program: the kernel runs none of this target without the
/// emulator before it.
const OTHER_PROGRAMS: [&str; 1] =
    ["skip::tests::the_harness_does_not_capture_it_and_the_file_has_every_line"];

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only check that it compiles.
    #[arg(long)]
    check: bool,
    /// Passed on to the test programs: names of tests.
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    if let Err(reason) = standard_library() {
        skips::note(reason);
        return Ok(());
    }
    let cargo = |task: &str, packages: &[&str]| {
        let mut command = workspace.cargo([task, "--target", TARGET]);
        command.arg("--target-dir").arg(workspace.target.join("aarch64"));
        command.args(packages.iter().flat_map(|package| ["-p", package]));
        command
    };
    must_succeed(&mut cargo("check", &[&BUILT[..], &TESTED[..]].concat()))?;
    if options.check {
        return Ok(());
    }
    if let Err(reason) = cross_tools() {
        skips::note(reason);
        return Ok(());
    }
    let mut tests = cargo("test", &TESTED);
    tests
        .args(["--lib", "--no-fail-fast"])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {SYSTEM}"))
        .arg("--")
        .args(&options.tests);
    for test in OTHER_PROGRAMS {
        tests.args(["--skip", test]);
        skips::note(format_args!("{test}: starts a program, which {EMULATOR} does not follow"));
    }
    must_succeed(&mut tests)
}

/// Rust's, by rustup where it is not there. `Err` says why it is not to be had.
fn standard_library() -> Result<(), String> {
    let installed = || {
        let listed = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", TARGET])
            .stdin(Stdio::null())
            .output();
        listed.is_ok_and(|output| {
            let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success() && Path::new(&folder).is_dir()
        })
    };
    if installed() {
        return Ok(());
    }
    let added =
        Command::new("rustup").args(["target", "add", TARGET]).stdin(Stdio::null()).status();
    if added.is_ok_and(|status| status.success()) && installed() {
        return Ok(());
    }
    Err(format!(
        "Rust's standard library for {TARGET} is missing; install it with: rustup target add \
         {TARGET}"
    ))
}

/// Linker and emulator. `Err` says why they are not to be had.
fn cross_tools() -> Result<(), String> {
    // A compiler may be there without the C library that it links: it is no package that it needs.
    let has_library = || Path::new(SYSTEM).join("lib/crti.o").exists();
    let is_there =
        || find_program(LINKER).is_some() && find_program(EMULATOR).is_some() && has_library();
    if is_there() {
        return Ok(());
    }
    let packages = PACKAGES.join(" ");
    if find_program("apt-get").is_none() || !is_root() {
        return Err(format!(
            "{LINKER}, {EMULATOR} or the C library below {SYSTEM} is missing; install them with: \
             sudo apt-get install -y {packages}"
        ));
    }
    install(&PACKAGES).map_err(|error| format!("{packages} cannot be installed: {error:#}"))?;
    if is_there() {
        Ok(())
    } else {
        Err(format!(
            "{packages} are installed, and {LINKER}, {EMULATOR} or the C library below {SYSTEM} is \
             missing still"
        ))
    }
}
