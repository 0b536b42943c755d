//! The programs of `kernels/`: which there are, how they are built, and the line that each prints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::measure::Finish;
use crate::setup::{
    Workspace, find_program, install, is_root, must_succeed, must_succeed_quietly, shown,
};

/// Letters of what a program said that a record keeps.
const MOST_SAID: usize = 500;

/// A program under measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Its place below `kernels/` without the ending: `c/cg`, `fortran/bt`, `rust/mg`.
    pub(crate) name: String,
    /// The size of its problem: S, W, A or B.
    pub(crate) class: String,
    /// How often a copy does its timed section: what makes it last long enough.
    pub(crate) repeat: u32,
}

/// What a kernel prints with `--json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    class: String,
    /// One time for each repetition.
    pub(crate) seconds: Vec<f64>,
    /// Of one repetition.
    iterations: u32,
    seconds_per_iteration: f64,
    /// Millions of operations a second.
    pub(crate) mops: f64,
    /// Threads of its regions, as it saw them.
    pub(crate) threads: u32,
    /// The mean of its teams, where it says so.
    pub(crate) team: Option<f64>,
    verified: bool,
}

/// What a copy came to.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Verified(Line),
    /// It was ended at the cap.
    Killed,
    /// What was wrong.
    Wrong(String),
}

impl Line {
    /// Whether its time per iteration is what its times say; those in C print nine digits.
    fn is_consistent(&self) -> bool {
        let count = self.seconds.len() as f64 * f64::from(self.iterations);
        let mean = self.seconds.iter().sum::<f64>() / count;
        mean.is_finite() && mean > 0.0 && (self.seconds_per_iteration - mean).abs() <= 1e-6 * mean
    }
}

impl Kernel {
    /// Its command line after the program.
    pub(crate) fn arguments(&self) -> [String; 6] {
        let repeat = self.repeat.to_string();
        ["--class", &self.class, "--repeat", &repeat, "--json", "--quiet"].map(str::to_owned)
    }

    /// What a finished copy says; everything that is not a verified result of all repetitions is
    /// wrong.
    pub(crate) fn outcome(&self, finish: &Finish) -> Outcome {
        let Some(status) = finish.status else { return Outcome::Killed };
        let said = end_of(format!("{}{}", finish.output, finish.errors).trim());
        if !status.success() {
            return Outcome::Wrong(format!("{status}; it said: {said}"));
        }
        match verified(&finish.output, &self.class) {
            Ok(line) if line.seconds.len() == self.repeat as usize => Outcome::Verified(line),
            Ok(line) => Outcome::Wrong(format!(
                "{} repetitions instead of {}: {said}",
                line.seconds.len(),
                self.repeat
            )),
            Err(fault) => Outcome::Wrong(format!("{fault}: {said}")),
        }
    }
}

/// The result in what a kernel printed, if it is a verified one of this class.
pub(crate) fn verified(output: &str, class: &str) -> anyhow::Result<Line> {
    match output.lines().last().map(serde_json::from_str::<Line>) {
        Some(Ok(line)) if line.verified && line.class == class => {
            ensure!(
                line.is_consistent(),
                "{} s an iteration do not fit {} iterations in {:?} s",
                line.seconds_per_iteration,
                line.iterations,
                line.seconds
            );
            Ok(line)
        }
        Some(Ok(line)) if line.class != class => bail!("a result of class {}", line.class),
        Some(Ok(_)) => bail!("a result that is not verified"),
        _ => bail!("no result line"),
    }
}

/// The last words of a program that may have said much.
fn end_of(said: &str) -> String {
    match said.char_indices().rev().nth(MOST_SAID) {
        Some((start, _)) => format!("...{}", &said[start..]),
        None => said.to_owned(),
    }
}

/// Builds all kernels and returns the file of each.
pub(crate) fn build(workspace: &Workspace) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let mut programs = build_openmp(workspace, &workspace.target.join("kernels"), &[])?;
    must_succeed(&mut workspace.cargo(["build", "--release", "--package", "nanothreads-kernels"]))?;
    for name in rust(workspace)? {
        programs.insert(format!("rust/{name}"), workspace.target.join("release").join(name));
    }
    Ok(programs)
}

/// Builds those in C by this compiler, for comparisons: they need its OpenMP library.
pub(crate) fn build_by(
    workspace: &Workspace,
    compiler: &Path,
) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let [compiler, folder] = by(workspace, compiler);
    build_openmp(workspace, Path::new(&folder), &[compiler, "c".to_owned()])
}

/// The setting of the makefile that says with what those of [`build_by`] are compiled, and where
/// they go.
fn by(workspace: &Workspace, compiler: &Path) -> [String; 2] {
    let folder = workspace.target.join("kernels-clang");
    [format!("CC={}", compiler.display()), folder.display().to_string()]
}

/// What the makefile says of the compilers that it builds with, and of their options: of the usual
/// ones, or of this compiler of C.
pub(super) fn about(workspace: &Workspace, compiler: Option<&Path>) -> anyhow::Result<String> {
    has_tools()?;
    let (settings, folder) = match compiler.map(|compiler| by(workspace, compiler)) {
        Some([compiler, folder]) => (vec![compiler], PathBuf::from(folder)),
        None => (Vec::new(), workspace.target.join("kernels")),
    };
    let mut make = make(workspace, &folder);
    make.arg("--no-print-directory").args(settings).arg("about");
    let output = make.output().with_context(|| format!("cannot start {}", shown(&make)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", shown(&make), said.trim());
    // Where it builds is no option that matters.
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(said.replace(&folder.display().to_string(), "out"))
}

/// The makefile with this folder for what it builds.
fn make(workspace: &Workspace, folder: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(workspace.root.join("kernels"));
    make.arg(format!("OUT={}", folder.display()));
    make
}

/// The names of the programs in Rust.
fn rust(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    sources(&workspace.root.join("kernels/rust/src/bin"), "rs")
}

/// Fails where what builds those in C and Fortran cannot be had.
pub(crate) fn has_tools() -> anyhow::Result<()> {
    need("make", &["make"])?;
    need("gfortran", &["gfortran"])
}

/// Builds those in C and Fortran by their own makefile, with further `settings` of it, into a
/// folder.
pub(crate) fn build_openmp(
    workspace: &Workspace,
    folder: &Path,
    settings: &[String],
) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    has_tools()?;
    let source = workspace.root.join("kernels");
    let mut make = make(workspace, folder);
    if settings.is_empty() {
        must_succeed(&mut make)?;
    } else {
        // Of static programs the linker says much that means nothing here.
        must_succeed_quietly(make.args(settings))?;
    }
    let mut programs = BTreeMap::new();
    for (below, ending) in [("c", "c"), ("c/papers", "c"), ("fortran", "f90")] {
        for name in sources(&source.join(below), ending)? {
            // What is no program has no file here: parts that programs share.
            let name = format!("{below}/{name}");
            let file = folder.join(&name);
            if file.is_file() {
                programs.insert(name, file);
            }
        }
    }
    ensure!(!programs.is_empty(), "{} built no program into {}", shown(&make), folder.display());
    Ok(programs)
}

/// Fails at once for a name that no source has, before anything is built.
pub(crate) fn must_have_source(workspace: &Workspace, name: &str) -> anyhow::Result<()> {
    let source = workspace.root.join("kernels");
    let files = match name.split_once('/') {
        Some(("rust", program)) => [format!("rust/src/bin/{program}.rs"), String::new()],
        _ => [format!("{name}.c"), format!("{name}.f90")],
    };
    let is_there = |file: &String| !file.is_empty() && source.join(file).is_file();
    ensure!(
        files.iter().any(is_there),
        "there is no program `{name}` in kernels/; `cargo xtask suite --list` names them"
    );
    Ok(())
}

/// Names without endings of the files with an ending in a folder.
fn sources(folder: &Path, ending: &str) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        if path.extension().is_some_and(|it| it == ending) {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(names)
}

/// Finds a tool, or installs its packages where that is allowed.
fn need(tool: &str, packages: &[&str]) -> anyhow::Result<()> {
    if find_program(tool).is_some() {
        return Ok(());
    }
    let by_hand = format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "));
    if find_program("apt-get").is_none() || !is_root() {
        bail!("{tool} is not here: {by_hand}");
    }
    install(packages).with_context(|| format!("{tool} cannot be installed; by hand: {by_hand}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn said(status: Option<i32>, output: &str) -> Outcome {
        let kernel = Kernel { name: "c/mg".into(), class: "S".into(), repeat: 2 };
        kernel.outcome(&Finish {
            index: 0,
            turnaround: Duration::from_secs(1),
            cpu: Duration::from_secs(1),
            voluntary: 0,
            involuntary: 0,
            status: status.map(|code| ExitStatus::from_raw(code << 8)),
            output: output.into(),
            errors: "oops".into(),
            pid: 1,
        })
    }

    fn line(class: &str, seconds: &str, verified: bool) -> String {
        line_of(class, seconds, "4", "0.375", verified)
    }

    fn line_of(class: &str, seconds: &str, count: &str, each: &str, verified: bool) -> String {
        format!(
            "text\n{{\"kernel\":\"mg\",\"class\":\"{class}\",\"threads\":2,\"seconds\":{seconds},\
             \"iterations\":{count},\"seconds_per_iteration\":{each},\
             \"mops\":7.5,\"verified\":{verified},\"checks\":[]}}\n"
        )
    }

    #[test]
    fn only_a_verified_result_of_every_repetition_counts() {
        assert!(matches!(said(Some(0), &line("S", "[1,2]", true)),
            Outcome::Verified(line) if line.seconds == [1.0, 2.0] && line.threads == 2));
        for wrong in [
            line("S", "[1,2]", false),
            line("S", "[1]", true),
            line("W", "[1,2]", true),
            "nothing".to_owned(),
            String::new(),
        ] {
            assert!(matches!(said(Some(0), &wrong), Outcome::Wrong(_)), "{wrong}");
        }
        let failed = said(Some(1), &line("S", "[1,2]", true));
        assert!(matches!(failed, Outcome::Wrong(what) if what.contains("oops")));
        assert!(matches!(said(None, ""), Outcome::Killed));
        let Outcome::Wrong(much) = said(Some(1), &"ä".repeat(10_000)) else { panic!("right?") };
        assert!(much.len() < 1100 && much.ends_with("oops"), "{much}");
    }

    #[test]
    fn seconds_per_iteration_are_what_the_times_say() {
        let of = |count, each| said(Some(0), &line_of("S", "[1,2]", count, each, true));
        assert!(matches!(of("4", "3.75000000e-1"), Outcome::Verified(_)));
        // Of all repetitions, of one, not at all; of no iterations.
        for (count, each) in
            [("4", "0.75"), ("4", "0.37501"), ("4", "0"), ("4", "null"), ("0", "1")]
        {
            let Outcome::Wrong(why) = of(count, each) else { panic!("{count} and {each} count") };
            assert!(why.contains("an iteration do not fit") || each == "null", "{why}");
        }
    }
}
