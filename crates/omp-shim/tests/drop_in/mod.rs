//! The drop-in library under test, and programs that run on it.

#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A program that runs longer than this hangs.
const LIMIT: Duration = Duration::from_secs(50);
/// The same for one whose threads take turns on one processor: whatever else runs there has a turn
/// of its own at each of theirs.
pub(crate) const LIMIT_OF_TURNS: Duration = Duration::from_secs(200);

pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// The folder of the drop-in library, or a printed reason why there is none. `NANOS_TEST_SHIM` may
/// name another one.
pub(crate) fn shim() -> Option<PathBuf> {
    let shipped = || Some(Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("shim"));
    let folder = std::env::var_os("NANOS_TEST_SHIM").map(PathBuf::from).or_else(shipped)?;
    if !folder.join("libgomp.so.1").exists() {
        platform::skip!("no {}/libgomp.so.1 (run `cargo xtask shim`)", folder.display());
        return None;
    }
    if !exists("gcc") {
        platform::skip!("no gcc here");
        return None;
    }
    Some(folder)
}

pub(crate) fn exists(tool: &str) -> bool {
    Command::new(tool)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A file or a folder of a test, which goes with this.
pub(crate) struct Fresh(PathBuf);

/// A name in the tests' folder that no other test uses.
pub(crate) fn fresh(name: &str) -> Fresh {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let name = format!("{}-{number}-{name}", std::process::id());
    Fresh(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_file(&self.0).or_else(|_| std::fs::remove_dir_all(&self.0));
    }
}

impl Deref for Fresh {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<OsStr> for Fresh {
    fn as_ref(&self) -> &OsStr {
        self.0.as_os_str()
    }
}

impl AsRef<Path> for Fresh {
    fn as_ref(&self) -> &Path {
        self
    }
}

pub(crate) fn must_succeed(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Compiles `name`.c against the compiler's own OpenMP.
pub(crate) fn compile(name: &str, options: &[&str]) -> Fresh {
    compile_by("gcc", &sources().join(format!("{name}.c")), options)
}

/// Compiles `source` by this compiler against its own OpenMP.
pub(crate) fn compile_by(compiler: &str, source: &Path, options: &[&str]) -> Fresh {
    let program = fresh(&source.file_stem().unwrap().to_string_lossy());
    must_succeed(
        Command::new(compiler)
            .args(["-O1", "-Wall", "-Wextra", "-fopenmp"])
            .arg(source)
            .arg("-o")
            .arg(&program)
            .args(options),
    );
    program
}

/// A program that starts without OpenMP variables and without a manager.
pub(crate) fn clean(program: impl AsRef<OsStr>, library: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            ["OMP_", "GOMP_", "NANOS_", "ASAT_", "UPM"].iter().any(|start| name.starts_with(start))
        }) {
            command.env_remove(name);
        }
    }
    match library {
        Some(folder) => command.env("LD_LIBRARY_PATH", folder),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    command.env("NANOS_CPUMGR", "off");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program to its end, or kills it after [`LIMIT`]. Its output must be short: no thread
/// reads it meanwhile.
pub(crate) fn finish(command: Command) -> Output {
    finish_within(LIMIT, command)
}

/// The same, or kills it after `limit`.
pub(crate) fn finish_within(limit: Duration, mut command: Command) -> Output {
    let mut child = command.spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > limit {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("{command:?} hangs; it said: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// What a program said on stdout and stderr.
pub(crate) fn said(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs a program that must end well and say "ok" and nothing else.
pub(crate) fn must_be_ok(command: Command) {
    must_be_ok_within(LIMIT, command);
}

/// The same, within `limit`.
pub(crate) fn must_be_ok_within(limit: Duration, command: Command) {
    let shown = format!("{command:?}");
    must_say(&finish_within(limit, command), "ok\n", &shown);
}

/// The program must have ended well and said this and nothing else.
pub(crate) fn must_say(output: &Output, expected: &str, shown: &str) {
    let (out, err) = said(output);
    let is_well = output.status.success() && out == expected && err.is_empty();
    assert!(is_well, "{shown}: {}\n{out}{err}", output.status);
}
