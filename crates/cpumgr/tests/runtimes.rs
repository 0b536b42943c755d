//! Programs on threads that no library of ours knows, under `cpumgr run` and `--tell-share`: their
//! results are right beside another program. `cargo xtask real` has their times.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Manager, cpumgr};

/// The work takes long enough for the program to be attached meanwhile.
const PHASES: &str = "400";
/// What it finds.
const SUM: &str = "\"result\":[4169272351]";

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real/pools").join(name)
}

/// Whether a tool made the program; prints what keeps it from that where the tool is missing.
fn made(command: &mut Command) -> bool {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{name}: {output:?}");
            true
        }
        Err(error) => {
            platform::skip!("no {name} here: {error}");
            false
        }
    }
}

/// The library that answers, where it can be made.
fn library(dir: &Path) -> Option<PathBuf> {
    support::two_processors()?;
    let folder = dir.join("library");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("libgomp.so.1"), "").unwrap();
    let mut compile = Command::new("gcc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libnanos_count.so"));
    let count = Path::new(env!("CARGO_MANIFEST_DIR")).join("../omp-shim/abi/count.c");
    made(compile.arg(count).arg("-ldl")).then_some(folder)
}

/// Runs a program beside another one, without the option and with it.
fn must_be_right(library: &Path, program: &[OsString]) {
    let manager = Manager::start(&["--cpus", "0,1"]);
    let _other = manager.program(2, 2);
    for options in [&[][..], &["--tell-share"][..]] {
        let mut command = cpumgr();
        command.args(["run", "--preload", "never", "--socket"]).arg(manager.socket());
        command.arg("--lib").arg(library).args(options).arg("--").args(program).arg(PHASES);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"go\ngo\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).replace(' ', "");
        assert!(output.status.success(), "{program:?}, {options:?}: {output:?}");
        assert_eq!(said.matches(SUM).count(), 2, "{program:?}, {options:?}: {output:?}");
    }
}

#[test]
fn threads_that_spin_at_a_barrier() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let program = dir.path().join("spin");
    let mut build = Command::new("rustc");
    build.args(["--edition", "2024", "-O"]).arg(source("spin.rs")).arg("-o").arg(&program);
    if made(&mut build) {
        must_be_right(&library, &[program.into()]);
    }
}

#[test]
fn rayon() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    // Not in the folder of this run: it is compiled once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sum-rayon");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--locked", "--offline", "--manifest-path"]);
    build.arg(source("rayon/Cargo.toml")).arg("--target-dir").arg(&target);
    let output = build.output().unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return platform::skip!("rayon cannot be had without a network: {}", said.trim());
    }
    must_be_right(&library, &[target.join("release/sum-rayon").into()]);
}

#[test]
fn go() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let program = dir.path().join("sum");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(source("sum.go"));
    build.env("GOCACHE", dir.path().join("cache")).env("GOTOOLCHAIN", "local");
    if made(&mut build) {
        must_be_right(&library, &[program.into()]);
    }
}

#[test]
fn java() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let mut build = Command::new("javac");
    if made(build.arg("-d").arg(dir.path()).arg(source("Sum.java"))) {
        must_be_right(&library, &["java".into(), "-cp".into(), dir.path().into(), "Sum".into()]);
    }
}

#[test]
fn node() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else { return };
    let counts = "process.exit(require('os').availableParallelism ? 0 : 1)";
    match Command::new("node").args(["-e", counts]).status() {
        Ok(status) if status.success() => {
            must_be_right(&library, &["node".into(), source("sum.js").into()]);
        }
        Ok(_) => platform::skip!("this node has no os.availableParallelism"),
        Err(error) => platform::skip!("no node here: {error}"),
    }
}
