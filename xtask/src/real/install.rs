//! Wheels and packages below `target/real`: nothing is installed on the system, and no rights of
//! root are needed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::setup::{find_program, shown};

/// Those whose one pool is OpenMP's.
pub(super) const OPENMP: Wheels =
    Wheels { folder: "venv", list: &["scikit-learn==1.7.2", "xgboost==3.0.5"] };
/// Those that have others.
pub(super) const POOLS: Wheels = Wheels {
    folder: "venv-pools",
    list: &[
        "numpy==2.4.6",
        "scipy==1.17.1",
        "scikit-learn==1.9.1",
        "lightgbm==4.7.0",
        "faiss-cpu==1.15.1",
        "polars==2.1.0",
        "duckdb==2.0.1",
        "tbb==2023.2.0",
    ],
};
const PACKAGES: [&str; 6] = [
    "python3-numpy",
    "libopenblas0-openmp",
    "libfftw3-dev",
    "libfftw3-double3",
    "graphicsmagick",
    "libtbb-dev",
];

/// What a virtual environment has.
pub(super) struct Wheels {
    folder: &'static str,
    list: &'static [&'static str],
}

/// Runs a command to its end; an error has its last lines.
pub(super) fn succeed(command: &mut Command) -> anyhow::Result<String> {
    let name = shown(command);
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot start {name}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !done.status.success() {
        let said = text(&done.stdout) + &text(&done.stderr);
        let lines: Vec<&str> = said.trim().lines().rev().take(3).collect();
        let last = lines.into_iter().rev().collect::<Vec<_>>().join("; ");
        bail!("{name} failed ({}): {last}", done.status);
    }
    Ok(text(&done.stdout))
}

/// What is noted when everything of a list is installed.
fn note(list: &[&str]) -> String {
    list.iter().map(|name| format!("{name}\n")).collect()
}

fn is_noted(marker: &Path, list: &[&str]) -> bool {
    std::fs::read_to_string(marker).is_ok_and(|text| text == note(list))
}

fn write_note(marker: &Path, list: &[&str]) -> anyhow::Result<()> {
    std::fs::write(marker, note(list)).with_context(|| format!("cannot write {}", marker.display()))
}

/// A virtual environment with these wheels; returns its python.
pub(super) fn wheels(folder: &Path, wheels: &Wheels) -> anyhow::Result<PathBuf> {
    let venv = folder.join(wheels.folder);
    let (python, marker) = (venv.join("bin/python"), venv.join("installed"));
    if !is_noted(&marker, wheels.list) {
        ensure!(find_program("python3").is_some(), "there is no python3 here");
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        succeed(Command::new(&python).args(["-m", "pip", "install", "-q"]).args(wheels.list))?;
        write_note(&marker, wheels.list)?;
    }
    Ok(python)
}

/// Unpacks the packages, and those that they need and the system has not; returns their root.
pub(super) fn packages(folder: &Path) -> anyhow::Result<PathBuf> {
    let (root, archives) = (folder.join("root"), folder.join("archives"));
    let marker = root.join("installed");
    if is_noted(&marker, &PACKAGES) {
        return Ok(root);
    }
    for tool in ["apt-get", "dpkg"] {
        ensure!(find_program(tool).is_some(), "there is no {tool} here");
    }
    let mut plan = Command::new("apt-get");
    plan.args(["install", "-s", "--no-install-recommends"]).args(PACKAGES);
    let plan = succeed(&mut plan).context("apt-get cannot plan the installation")?;
    // What is installed already is found on the system.
    let wanted: Vec<&str> = planned(&plan);
    for fresh in [&root, &archives] {
        // What an installation left that was not ended.
        let _ = std::fs::remove_dir_all(fresh);
        std::fs::create_dir_all(fresh)
            .with_context(|| format!("cannot create {}", fresh.display()))?;
    }
    if !wanted.is_empty() {
        let mut download = Command::new("apt-get");
        succeed(download.args(["-qq", "download"]).args(&wanted).current_dir(&archives))?;
    }
    let entries = std::fs::read_dir(&archives).with_context(|| archives.display().to_string())?;
    let mut files = entries
        .map(|entry| Ok(entry.with_context(|| archives.display().to_string())?.path()))
        .collect::<anyhow::Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "deb"));
    files.sort();
    for archive in files {
        succeed(Command::new("dpkg").arg("-x").arg(archive).arg(&root))?;
    }
    write_note(&marker, &PACKAGES)?;
    Ok(root)
}

/// The packages that apt would install.
fn planned(plan: &str) -> Vec<&str> {
    plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_of_apt_names_what_is_missing() {
        let plan =
            "NOTE: a simulation\nInst liba1 (1.0 Debian:12)\nConf liba1 (1.0)\nInst b [0.9] (1)\n";
        assert_eq!(planned(plan), ["liba1", "b"]);
    }

    #[test]
    fn what_fails_is_named_with_its_last_words() {
        let script = "echo 1; echo 2; echo 3; echo oops >&2; exit 7";
        let fault = succeed(Command::new("/bin/sh").args(["-c", script])).unwrap_err().to_string();
        assert!(fault.contains("exit status: 7") && fault.ends_with("2; 3; oops"), "{fault}");
        assert!(succeed(&mut Command::new("/nowhere/program")).is_err());
    }
}
