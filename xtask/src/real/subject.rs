//! The real programs: how each is installed, its command, and what it needs in its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::install::{packages, succeed, wheels};
use crate::setup::{Workspace, find_program};

/// The programs' names.
pub(super) const NAMES: [&str; 6] = ["kmeans", "hist", "xgboost", "eigh", "fftw", "gm"];
/// Pixels of the picture that GraphicsMagick works on.
const PICTURE: &str = "640x460";

/// A program that is there.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) command: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, OsString)>,
    /// It cannot wait for a word: it is timed from outside, and writes a file that a last argument
    /// names.
    pub(super) is_timed_outside: bool,
}

impl Subject {
    /// Installs it below `folder`; an error says what the machine lacks.
    pub(super) fn install(
        workspace: &Workspace,
        folder: &Path,
        name: &'static str,
    ) -> anyhow::Result<Subject> {
        let source = workspace.root.join("tests/real");
        let script =
            |python: PathBuf| vec![python.into(), source.join("subjects.py").into(), name.into()];
        if ["kmeans", "hist", "xgboost"].contains(&name) {
            let command = script(wheels(folder)?);
            return Ok(Subject { name, command, environment: vec![], is_timed_outside: false });
        }
        let root = packages(folder)?;
        let library = root.join("usr/lib/x86_64-linux-gnu");
        let paths = |folders: &[PathBuf]| std::env::join_paths(folders).context("a folder's name");
        let usual = paths(&[library.clone(), root.join("usr/lib")])?;
        let mut subject = Subject {
            name,
            command: Vec::new(),
            environment: vec![("LD_LIBRARY_PATH", usual)],
            is_timed_outside: false,
        };
        match name {
            "eigh" => {
                let python = PathBuf::from("/usr/bin/python3");
                ensure!(python.exists(), "Debian's numpy needs {}", python.display());
                subject.command = script(python);
                // OpenBLAS serves both names that numpy asks for; its threads are OpenMP's.
                subject.environment = vec![
                    ("LD_LIBRARY_PATH", paths(&[library.join("openblas-openmp"), library])?),
                    ("PYTHONPATH", root.join("usr/lib/python3/dist-packages").into()),
                    ("OPENBLAS_NUM_THREADS", OsString::new()),
                ];
            }
            "fftw" => {
                let program = folder.join("fft");
                let mut build = Command::new("gcc");
                build.args(["-O2", "-fopenmp"]).arg(source.join("fft.c"));
                build.arg("-I").arg(root.join("usr/include")).arg("-L").arg(&library);
                build.arg("-o").arg(&program).args(["-lfftw3_omp", "-lfftw3", "-lm"]);
                succeed(&mut build)?;
                subject.command = vec![program.into()];
            }
            _ => {
                let own = root.join("usr/bin/gm");
                let gm = if own.exists() { Some(own) } else { find_program("gm") };
                let gm = gm.context("Debian's graphicsmagick has no gm")?;
                let picture = folder.join(format!("picture-{PICTURE}.miff"));
                if !picture.exists() {
                    let mut draw = Command::new(&gm);
                    draw.args(["convert", "-size", PICTURE, "plasma:red-blue"]).arg(&picture);
                    succeed(draw.envs(subject.environment.iter().cloned()))?;
                }
                let steps = ["-blur", "0x6", "-rotate", "3", "-sharpen", "0x1"].map(OsString::from);
                subject.command = vec![gm.into(), "convert".into(), picture.into()];
                subject.command.extend(steps);
                subject.is_timed_outside = true;
            }
        }
        Ok(subject)
    }
}
