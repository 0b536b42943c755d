//! Libraries with threads of their own under changing grants: one of a test's, a client of permits,
//! oneTBB, and wheels.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Stage, is_ok};
use crate::setup::must_succeed;
use crate::skips;

/// What `tests/real/checks.py` can do.
const WHEEL_CHECKS: [&str; 8] =
    ["alone", "threads", "fork", "spawn", "loky", "nested", "limits", "closed"];

impl Stage<'_> {
    /// A library with threads of its own, which the program loads late.
    pub(super) fn pools(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "pools";
        if !self.wanted(NAME) {
            return Ok(());
        }
        let sources = self.workspace.root.join("crates/omp-shim/tests/c");
        let program = self.compile(&sources.join("pools.c"), NAME)?;
        for (mode, option) in [("flip", None), ("own", Some("-DOWN_THREADS"))] {
            // Pools are known by the names of their files.
            let library = self.folder.path().join(format!("libopenblas-of-a-test-{mode}.so"));
            let mut build = Command::new("gcc");
            build.args(["-O1", "-shared", "-fPIC"]).args(option);
            build.arg(sources.join("pool_library.c"));
            must_succeed(build.arg("-o").arg(&library).arg("-lpthread"))?;
            let manager = self.manager("20ms")?;
            for _ in 0..self.options.rounds {
                let mut command = manager.run(&program);
                command.arg(&library).arg(mode);
                let finish = self.run_one(command, &[])?;
                self.note(&format!("{NAME}-{mode}"), is_ok(&finish));
            }
            drop(manager);
        }
        Ok(())
    }

    /// Real oneTBB: the system's, or Debian's that `cargo xtask real` unpacked, and with that also
    /// the wheel's.
    pub(super) fn tbb(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "tbb";
        if !self.wanted(NAME) {
            return Ok(());
        }
        let real = self.workspace.target.join("real");
        let debian = real.join("root/usr/lib/x86_64-linux-gnu");
        let program = self.folder.path().join(NAME);
        let mut build = Command::new("g++");
        build.args(["-O1", "-std=c++17", "-I"]).arg(real.join("root/usr/include"));
        build.arg(self.workspace.root.join("tests/real/nested_arenas.cc"));
        build.arg("-L").arg(&debian).arg("-o").arg(&program).arg("-ltbb");
        if !build.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            skips::note("flip: tbb: there is no g++ or no oneTBB here");
            return Ok(());
        }
        let wheel = real.join("venv-pools/lib");
        let folders = [("debian", debian), ("wheel", wheel), ("system", PathBuf::new())];
        let is_there = |folder: &Path| folder.join("libtbb.so.12").exists();
        let has_unpacked = is_there(&folders[0].1);
        for (kind, folder) in folders {
            let is_system = kind == "system";
            if if is_system { has_unpacked } else { !is_there(&folder) } {
                continue;
            }
            let manager = self.manager("20ms")?;
            let mut command = manager.run(&program);
            command.arg("2");
            let variables = folder.to_string_lossy();
            let variables = [("LD_LIBRARY_PATH", &*variables)];
            let finish = self.run_one(command, if is_system { &[] } else { &variables })?;
            self.note(&format!("{NAME}-{kind}"), is_ok(&finish));
            drop(manager);
        }
        Ok(())
    }

    /// Wheels with pools of their own, where a Python has them: the one that `NANOS_TEST_PYTHON`
    /// names, else that of `cargo xtask real`, else the system's.
    pub(super) fn wheels(&mut self) -> anyhow::Result<()> {
        let wanted = |check: &&str| self.wanted("wheels") || self.wanted(check);
        let checks: Vec<&str> = WHEEL_CHECKS.iter().copied().filter(wanted).collect();
        if checks.is_empty() {
            return Ok(());
        }
        let named = std::env::var_os("NANOS_TEST_PYTHON").map(PathBuf::from);
        let own = self.workspace.target.join("real/venv-pools/bin/python");
        let python = named.unwrap_or_else(|| if own.exists() { own } else { "python3".into() });
        let script = self.workspace.root.join("tests/real/checks.py");
        for check in checks {
            let mut imports = Command::new(&python);
            let needs = "import numpy, scipy, joblib, threadpoolctl";
            let found = imports.args(["-c", needs]).stderr(Stdio::null()).status();
            if !found.is_ok_and(|status| status.success()) {
                skips::note(format_args!(
                    "flip: wheels-{check}: {} has no numpy, scipy, joblib and threadpoolctl",
                    python.display()
                ));
                continue;
            }
            let manager = self.manager("20ms")?;
            for _ in 0..self.options.rounds {
                let mut command = manager.run(&python);
                command.arg(&script).args([check, "1"]);
                let finish = self.run_one(command, &[])?;
                self.note(&format!("wheels-{check}"), is_ok(&finish));
            }
            drop(manager);
        }
        Ok(())
    }

    /// A client of permits, whose workers follow.
    pub(super) fn arenas(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "arenas";
        if !self.wanted(NAME) {
            return Ok(());
        }
        let source = self.workspace.root.join("crates/omp-shim/tests/c/arenas.c");
        let program = self.compile(&source, NAME)?;
        let manager = self.manager("20ms")?;
        for _ in 0..self.options.rounds {
            let mut command = manager.run(&program);
            command.arg(self.library.join("libtcm.so.1")).arg("flip");
            let finish = self.run_one(command, &[])?;
            self.note(NAME, is_ok(&finish));
        }
        drop(manager);
        Ok(())
    }
}
