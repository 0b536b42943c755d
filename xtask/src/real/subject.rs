//! The real programs: how each is installed, its command, and what it needs in its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::install::{OPENMP, POOLS, packages, succeed, wheels};
use super::pools;
use crate::setup::{Workspace, find_program};

/// The programs' names.
pub(super) const NAMES: [&str; 26] = [
    "kmeans",
    "hist",
    "xgboost",
    "eigh",
    "fftw",
    "gm",
    "svd",
    "dot",
    "eigh-wheel",
    "solve",
    "fft",
    "pca",
    "lightgbm",
    "faiss",
    "tbb",
    "par",
    "polars",
    "duckdb",
    "svd-openmp",
    "gemm",
    "gemm-pauses",
    "spin",
    "rayon",
    "go",
    "java",
    "node",
];
/// Wheels with OpenMP alone.
const OF_OPENMP: [&str; 3] = ["kmeans", "hist", "xgboost"];
/// Wheels with other pools, whose threads nothing limits.
const OF_POOLS: [&str; 12] = [
    "svd",
    "dot",
    "eigh-wheel",
    "solve",
    "fft",
    "pca",
    "lightgbm",
    "faiss",
    "polars",
    "duckdb",
    "gemm",
    "gemm-pauses",
];
/// Those that look for `libtcm.so.1`.
const BY_PATH: [&str; 2] = ["tbb", "par"];
/// Those that never ask for processors: the manager knows them when it attached them.
const STRANGERS: [&str; 3] = ["fft", "polars", "duckdb"];
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
    /// Its managed runs are started by `cpumgr run`: it never asks for processors and is attached,
    /// or finds more by the path than OpenMP.
    pub(super) is_run: bool,
    /// It never asks.
    pub(super) is_stranger: bool,
    /// On threads that the library does not know: it has rows of its own kind, as it is, and under
    /// `cpumgr run` without and with `--tell-share`.
    pub(super) is_unknown: bool,
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
        let is_unknown = pools::NAMES.contains(&name);
        let is_stranger = is_unknown || STRANGERS.contains(&name);
        let of = |command, environment| Subject {
            name,
            command,
            environment,
            is_timed_outside: false,
            is_run: is_stranger || BY_PATH.contains(&name),
            is_stranger,
            is_unknown,
        };
        if is_unknown {
            return Ok(of(pools::build(workspace, folder, name)?, vec![]));
        }
        if OF_OPENMP.contains(&name) {
            return Ok(of(script(wheels(folder, &OPENMP)?), vec![]));
        }
        // Not one thread for the BLAS.
        let open = ("OPENBLAS_NUM_THREADS", OsString::new());
        if OF_POOLS.contains(&name) {
            return Ok(of(script(wheels(folder, &POOLS)?), vec![open]));
        }
        let root = packages(folder)?;
        let library = root.join("usr/lib/x86_64-linux-gnu");
        let paths = |folders: &[PathBuf]| std::env::join_paths(folders).context("a folder's name");
        let usual = paths(&[library.clone(), root.join("usr/lib")])?;
        let mut subject = of(Vec::new(), vec![("LD_LIBRARY_PATH", usual)]);
        match name {
            "eigh" | "svd-openmp" => {
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
            "tbb" | "par" => {
                let program = folder.join(name);
                let mut build = Command::new("g++");
                build.args(["-O2", "-std=c++17"]).arg(source.join("arenas.cc"));
                build.args((name == "par").then_some("-DPAR"));
                build.arg("-I").arg(root.join("usr/include")).arg("-L").arg(&library);
                succeed(build.arg("-o").arg(&program).arg("-ltbb"))?;
                subject.command = vec![program.into()];
                if name == "tbb" {
                    // The wheel's asks for permits; Debian's, which `par` takes, does not.
                    let wheel = wheels(folder, &POOLS)?;
                    let lib = wheel.parent().and_then(Path::parent).context("no folder")?;
                    subject.environment = vec![("LD_LIBRARY_PATH", lib.join("lib").into())];
                }
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
