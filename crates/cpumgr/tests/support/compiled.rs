//! Programs in C, compiled by gcc, on the drop-in library and on the system's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Manager;

/// A program.
pub(crate) struct Compiled {
    pub(crate) program: PathBuf,
    /// The drop-in library's folder.
    pub(crate) shim: PathBuf,
}

impl Compiled {
    /// Of `tests/c`. `None`, with a printed reason, where it cannot be made.
    pub(crate) fn new(manager: &Manager, name: &str) -> Option<Self> {
        Self::of(manager, &format!("tests/c/{name}.c"))
    }

    /// Of the library's own tests.
    pub(crate) fn of_the_library(manager: &Manager, name: &str) -> Option<Self> {
        Self::of(manager, &format!("../omp-shim/tests/c/{name}.c"))
    }

    fn of(manager: &Manager, source: &str) -> Option<Self> {
        let shipped = || Some(Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("shim"));
        let shim = std::env::var_os("NANOS_TEST_SHIM").map(PathBuf::from).or_else(shipped)?;
        if !shim.join("libgomp.so.1").exists() {
            platform::skip!("no {}/libgomp.so.1 (run `cargo xtask shim`)", shim.display());
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let program = manager.dir.path().join(source.file_stem()?);
        let gcc = Command::new("gcc")
            .args(["-O1", "-Wall", "-fopenmp"])
            .arg(source)
            .arg("-o")
            .arg(&program)
            .output();
        let Ok(output) = gcc else {
            platform::skip!("no gcc here");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { program, shim })
    }

    /// On the drop-in library under a manager, without the environment's opinions.
    pub(crate) fn command(&self, manager: &Manager) -> Command {
        let mut command = self.bare();
        command.env("LD_LIBRARY_PATH", &self.shim).env("NANOS_CPUMGR", manager.socket());
        command
    }

    /// On the system's library.
    pub(crate) fn bare(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| {
                ["OMP_", "GOMP_", "NANOS_"].iter().any(|start| name.starts_with(start))
            }) {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}
