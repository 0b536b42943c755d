//! Libraries with threads of their own under changing grants: one of a test's, a client of permits,
//! oneTBB, and wheels.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::{LONGEST_RUN, Stage, is_ok};
use crate::measure::{Dialogue, Manager, check_interrupt, processors};
use crate::setup::{clean_environment, must_succeed};
use crate::skips;

/// In which a manager gives away what a program left that was killed, on a busy machine too.
const SOON: Duration = Duration::from_secs(20);

/// What is read of a report.
#[derive(Deserialize)]
struct Status {
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    pid: i32,
    granted: u32,
}

/// What the library of a test is: pools are known by the names of their files. Then how the program
/// uses it, and how it is compiled.
const POOL_KINDS: &[(&str, &str, &[&str])] = &[
    ("openblas", "flip", &[]),
    ("openblas", "own", &["-DOWN_THREADS"]),
    ("openblas", "late", &["-DSINGLE"]),
    ("blis", "own", &["-DOWN_THREADS", "-DBLIS"]),
    ("mkl_rt", "own", &["-DOWN_THREADS", "-DMKL"]),
];
/// What `tests/real/checks.py` can do.
const WHEEL_CHECKS: [&str; 8] =
    ["alone", "threads", "fork", "spawn", "loky", "nested", "limits", "closed"];

impl Stage<'_> {
    /// A library with threads of its own, which the program loads late: as an OpenBLAS with its
    /// callback and as one without, and by the names of BLIS and MKL.
    pub(super) fn pools(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "pools";
        if !self.wanted(NAME) {
            return Ok(());
        }
        let sources = self.workspace.root.join("crates/omp-shim/tests/c");
        let program = self.compile(&sources.join("pools.c"), NAME)?;
        for (kind, mode, options) in POOL_KINDS {
            let library = self.folder.path().join(format!("lib{kind}-of-a-test-{mode}.so"));
            let mut build = Command::new("gcc");
            build.args(["-O1", "-shared", "-fPIC"]).args(*options);
            build.arg(sources.join("pool_library.c"));
            must_succeed(build.arg("-o").arg(&library).arg("-lpthread"))?;
            let manager = self.manager("20ms")?;
            for _ in 0..self.options.rounds {
                let mut command = manager.run(&program);
                command.arg(&library).arg(mode);
                let finish = self.run_one(command, &[])?;
                self.note(&format!("{NAME}-{kind}-{mode}"), is_ok(&finish));
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
        let script = self.workspace.root.join("tests/real/checks.py");
        for check in checks {
            let Some(python) = self.python(&format!("wheels-{check}")) else { continue };
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

    /// The Python that has wheels, or a note that this check is skipped.
    fn python(&self, check: &str) -> Option<PathBuf> {
        let named = std::env::var_os("NANOS_TEST_PYTHON").map(PathBuf::from);
        let own = self.workspace.target.join("real/venv-pools/bin/python");
        let python = named.unwrap_or_else(|| if own.exists() { own } else { "python3".into() });
        let mut imports = Command::new(&python);
        let needs = "import numpy, scipy, joblib, threadpoolctl";
        let found = imports.args(["-c", needs]).stderr(Stdio::null()).status();
        if found.is_ok_and(|status| status.success()) {
            return Some(python);
        }
        skips::note(format_args!(
            "flip: {check}: {} has no numpy, scipy, joblib and threadpoolctl",
            python.display()
        ));
        None
    }

    /// A program is killed in a call of OpenBLAS, whose jobs run on two processors' threads: the
    /// one beside it has all processors soon.
    pub(super) fn killed(&mut self) -> anyhow::Result<()> {
        const NAME: &str = "wheels-killed";
        if !self.wanted(NAME) {
            return Ok(());
        }
        let Some(python) = self.python(NAME) else { return Ok(()) };
        let cpus: Vec<String> = processors()?.iter().take(2).map(u32::to_string).collect();
        let cpus = cpus.join(",");
        let options = ["--policy", "equip", "--strangers", "ignore", "--cpus", &cpus];
        let manager = Manager::start(&self.manager, &self.library, self.folder.path(), &options)?;
        for _ in 0..self.options.rounds {
            let outcome = self.kill_in_a_call(&manager, &python);
            self.note(NAME, outcome);
        }
        manager.finish().map(drop)
    }

    fn kill_in_a_call(&self, manager: &Manager, python: &Path) -> anyhow::Result<String> {
        let start = || {
            let mut command = manager.run(python);
            clean_environment(&mut command);
            command.arg(self.workspace.root.join("tests/real/checks.py")).arg("endless");
            Dialogue::start(&mut command)
        };
        let in_a_call = |program: &mut Dialogue| {
            let word = program.hear(b'\n', Instant::now() + LONGEST_RUN)?;
            ensure!(word.as_deref() == Some("in a call"), "it said {word:?}");
            Ok(())
        };
        let mut victim = start()?;
        in_a_call(&mut victim)?;
        self.await_grants(manager, "it has both processors", &[(victim.pid(), 2)])?;
        // Its next call has two jobs.
        in_a_call(&mut victim)?;
        let mut other = start()?;
        in_a_call(&mut other)?;
        let both = [(victim.pid(), 1), (other.pid(), 1)];
        self.await_grants(manager, "each has one processor", &both)?;
        // Killed, and reaped.
        drop(victim);
        let killed = Instant::now();
        self.await_grants(manager, "the other one has both processors", &[(other.pid(), 2)])?;
        let took = killed.elapsed();
        in_a_call(&mut other)?;
        drop(other);
        self.await_grants(manager, "no program is left", &[])?;
        Ok(format!(", the processors came back in {took:.1?}"))
    }

    /// Waits until the manager has these programs, with so many processors each, and no other.
    fn await_grants(
        &self,
        manager: &Manager,
        what: &str,
        wanted: &[(i32, u32)],
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let mut status = Command::new(&self.manager);
            status.args(["status", "--json", "--socket"]).arg(manager.socket());
            let said = status.output().context("cannot ask the manager")?.stdout;
            let status: Status = serde_json::from_slice(&said)
                .with_context(|| format!("it said {}", String::from_utf8_lossy(&said)))?;
            let granted: Vec<_> = status.programs.iter().map(|it| (it.pid, it.granted)).collect();
            if granted == wanted {
                return Ok(());
            }
            if begin.elapsed() > SOON {
                bail!("not so within {SOON:?}: {what}; granted are {granted:?}");
            }
            check_interrupt()?;
            std::thread::sleep(Duration::from_millis(5));
        }
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
