//! What a task needs before it starts: where the workspace is, a C compiler with OpenMP, commands
//! that must succeed.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::skips;

/// The one command that a person without the rights of root is shown.
const INSTALL: &str = "sudo apt-get install -y gcc libc6-dev";

/// Variables with these beginnings change how many threads a program has, which libraries it is
/// given, or what the manager does; a run starts without them.
const STEERING: [&str; 8] =
    ["OMP_", "GOMP_", "KMP_", "NANOS_", "OPENBLAS_", "LD_", "GOMAXPROCS", "RAYON_"];

/// The workspace that this task belongs to, as cargo describes it.
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// The document of `cargo metadata --no-deps`.
    pub(crate) metadata: String,
}

#[derive(Deserialize)]
struct Places {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    /// Asks cargo, from the folder of this crate.
    pub(crate) fn find() -> anyhow::Result<Workspace> {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .output()
            .context("cannot start `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let metadata =
            String::from_utf8(output.stdout).context("`cargo metadata` did not print UTF-8")?;
        let places: Places = serde_json::from_str(&metadata)
            .context("cannot read the output of `cargo metadata`")?;
        Ok(Workspace { root: places.workspace_root, target: places.target_directory, metadata })
    }

    /// A cargo command in the workspace, with no terminal to ask questions on.
    pub(crate) fn cargo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        if let Some(file) = skips::file() {
            command.env(skips::VARIABLE, file);
        }
        command
    }

    /// The manager that tests have, and the one that changes its mind, both without optimisation.
    /// Of the whole workspace, as tests are: with the features that only some packages want,
    /// everything would be built anew.
    pub(crate) fn build_managers(&self) -> anyhow::Result<()> {
        let which = ["build", "--workspace", "--bin", "cpumgr", "--example", "flip_policy"];
        must_succeed(&mut self.cargo(which))
    }
}

/// Runs a command to its end; anything but success is an error that shows the command.
pub(crate) fn must_succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs it; what it says is shown only where it fails.
pub(crate) fn must_succeed_quietly(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        bail!("{} failed: {}\n{}", shown(command), output.status, said.trim_end());
    }
    Ok(())
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args()).map(OsStr::to_string_lossy);
    format!("`{}`", words.collect::<Vec<_>>().join(" "))
}

/// Whether a variable says how a program runs.
pub(crate) fn is_steering(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    STEERING.iter().any(|beginning| name.starts_with(beginning))
}

/// Takes away what would steer a program from outside, and the folders of libraries that cargo adds
/// for its own.
pub(crate) fn clean_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_steering(&name) {
            command.env_remove(&name);
        }
    }
}

/// A C compiler that was seen to compile an OpenMP program.
pub(crate) struct Compiler {
    program: PathBuf,
}

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cpp,
    Fortran,
}

impl Language {
    /// The end of its files' names.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Fortran => "f90",
        }
    }
}

impl Language {
    fn compiler(self) -> &'static str {
        match self {
            Language::C => "gcc",
            Language::Cpp => "g++",
            Language::Fortran => "gfortran",
        }
    }
}

impl Compiler {
    /// Finds gcc; when it is missing, installs its package where that is allowed, else says how to.
    pub(crate) fn find_or_install() -> anyhow::Result<Compiler> {
        let compiler = Compiler {
            program: std::env::var_os("CC").map_or_else(|| "gcc".into(), PathBuf::from),
        };
        let Err(fault) = compiler.probe() else {
            return Ok(compiler);
        };
        if std::env::var_os("CC").is_some() {
            return Err(fault.context(
                "the compiler that CC names cannot build an OpenMP program; unset CC to use gcc",
            ));
        }
        if find_program("apt-get").is_none() {
            bail!(
                "gcc with OpenMP is needed ({fault:#}): install gcc and the C library's headers \
                 with your package manager"
            );
        }
        if !is_root() {
            bail!(
                "gcc with OpenMP is needed ({fault:#}). Run this once, then the task again:\n  \
                 {INSTALL}"
            );
        }
        println!("gcc is missing ({fault:#}): installing its package");
        install(&["gcc", "libc6-dev"]).with_context(|| {
            format!("cannot install gcc; run this by hand and look at what it says:\n  {INSTALL}")
        })?;
        compiler.probe().context("gcc is installed but cannot build an OpenMP program")?;
        Ok(compiler)
    }

    /// Sees to it that programs of this language can be compiled.
    pub(crate) fn has(&self, language: Language) -> anyhow::Result<()> {
        let name = language.compiler();
        if language == Language::C {
            Ok(())
        } else {
            find_or_install(name).with_context(|| format!("{name} is needed"))
        }
    }

    /// Compiles and links one file with optimisation and OpenMP.
    pub(crate) fn build(
        &self,
        language: Language,
        source: &Path,
        program: &Path,
    ) -> anyhow::Result<()> {
        let mut command = match language {
            Language::C => self.command(),
            Language::Cpp | Language::Fortran => {
                self.has(language)
                    .with_context(|| format!("cannot compile {}", source.display()))?;
                let mut command = Command::new(language.compiler());
                command
                    .args(["-O2", "-ffp-contract=off", "-fopenmp", "-Wall"])
                    .stdin(Stdio::null());
                if let (Language::Fortran, Some(folder)) = (language, program.parent()) {
                    // Where its modules go.
                    command.arg("-J").arg(folder);
                }
                command
            }
        };
        command.arg(source).arg("-o").arg(program).arg("-lm");
        must_succeed(&mut command)
    }

    /// Compiles and links one C file into a program that needs no library at run time.
    pub(crate) fn build_static(&self, source: &Path, program: &Path) -> anyhow::Result<()> {
        must_succeed(self.command().arg("-static").arg(source).arg("-o").arg(program))
    }

    /// The same with the OpenMP library of a folder, `libgomp.a`, in place of the system's.
    pub(crate) fn build_static_with(
        &self,
        source: &Path,
        program: &Path,
        library: &Path,
    ) -> anyhow::Result<()> {
        let mut command = self.command();
        must_succeed(
            command.arg("-static").arg(source).arg("-L").arg(library).arg("-o").arg(program),
        )
    }

    /// Compiles and links one C file into a library that a program loads.
    pub(crate) fn build_shared(&self, source: &Path, library: &Path) -> anyhow::Result<()> {
        must_succeed(self.command().args(["-shared", "-fPIC"]).arg(source).arg("-o").arg(library))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // The same results for any number of threads and on any processor: no fused multiply-add
        // without our knowledge.
        command.args(["-std=gnu11", "-O2", "-ffp-contract=off", "-fopenmp", "-Wall", "-Wextra"]);
        command.stdin(Stdio::null());
        command
    }

    /// Builds a program that needs the headers, the OpenMP runtime and the linker, so that each
    /// one's lack shows.
    fn probe(&self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let mut child = self
            .command()
            .args(["-x", "c", "-", "-o"])
            .arg(folder.path().join("probe"))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let source = b"#include <omp.h>\n#include <stdio.h>\nint main(void) \
                       { return printf(\"%d\", omp_get_max_threads()) < 0; }\n";
        let written = child.stdin.take().context("no pipe to the compiler")?.write_all(source);
        let output = child.wait_with_output().context("cannot wait for the compiler")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{} {}: {}",
                self.program.display(),
                output.status,
                text.lines().next().unwrap_or("no message")
            );
        }
        written.context("the compiler did not read its input")
    }
}

/// Finds the program that a package of Debian is named after; when it is missing, installs it where
/// that is allowed, else says how to.
fn find_or_install(name: &str) -> anyhow::Result<()> {
    if find_program(name).is_some() {
        return Ok(());
    }
    let remedy = format!("sudo apt-get install -y {name}");
    if find_program("apt-get").is_none() {
        bail!("{name} is not here: install it with your package manager");
    }
    if !is_root() {
        bail!("{name} is not here. Run this once, then the task again:\n  {remedy}");
    }
    println!("{name} is missing: installing its package");
    install(&[name]).with_context(|| {
        format!("cannot install {name}; run this by hand and look at what it says:\n  {remedy}")
    })
}

/// Installs packages of Debian. For root.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    let packages = [&["install", "-y", "--no-install-recommends"], packages].concat();
    let apt = |arguments: &[&str]| {
        must_succeed(
            Command::new("apt-get")
                .args(arguments)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdin(Stdio::null()),
        )
    };
    // A fresh image has no package lists: the first try may fail for that alone.
    if apt(&packages).is_ok() {
        return Ok(());
    }
    apt(&["update"])?;
    apt(&packages)
}

/// The file that a program's name stands for.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// True when packages may be installed.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing, changes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_starts_without_what_steers_it() {
        for name in ["OMP_NUM_THREADS", "RAYON_NUM_THREADS", "LD_LIBRARY_PATH", "LD_PRELOAD"] {
            assert!(is_steering(OsStr::new(name)), "{name}");
        }
        assert!(!is_steering(OsStr::new("PATH")));
        // Cargo runs tests with a path for libraries.
        let mut command = Command::new("/bin/true");
        clean_environment(&mut command);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_steering(name)) {
            assert!(command.get_envs().any(|it| it == (name.as_os_str(), None)), "{name:?}");
        }
    }
}
