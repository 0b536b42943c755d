//! `cargo xtask wheel`: manager, drop-in library and a small Python module as one wheel
//! (`packaging/python`), in `target/wheel`. Its tag says the lowest glibc that has what its files
//! ask for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::setup::{Workspace, find_program, must_succeed, shown};
use crate::{shim, skips};

/// What of the library's folder is in it; headers and static libraries are for compilers.
const LIBRARIES: [&str; 4] =
    ["libgomp.so.1", "libtcm.so.1", "libnanos_asat.so", "libnanos_count.so"];

/// What to do with the wheel.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Installs it into a clean virtual environment below target/wheel, and uses it there.
    #[arg(long)]
    pub(crate) check: bool,
}

/// Builds in release and packs; returns how many checks passed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<u64> {
    if find_program("python3").is_none() {
        skips::note("wheel: there is no python3 here");
        return Ok(0);
    }
    must_succeed(&mut workspace.cargo(["build", "--release", "--package", "cpumgr"]))?;
    let place = workspace.target.join("wheel");
    let wheel = pack(workspace, &workspace.target.join("release/cpumgr"), &place)?;
    if options.check {
        check(workspace, &place, &wheel)?;
    }
    Ok(u64::from(options.check))
}

/// The same check of a wheel with the manager that the other tests have, which is there already: no
/// other test needs a release of it.
pub(crate) fn test(workspace: &Workspace) -> anyhow::Result<u64> {
    if let Some(fault) = lacking() {
        skips::note(format_args!("wheel: {fault}"));
        return Ok(0);
    }
    workspace.build_managers()?;
    let place = workspace.target.join("wheel-test");
    let wheel = pack(workspace, &workspace.target.join("debug/cpumgr"), &place)?;
    check(workspace, &place, &wheel)?;
    Ok(1)
}

/// What this machine lacks to make a wheel and install it.
fn lacking() -> Option<&'static str> {
    let imports = || said(Command::new("python3").args(["-c", "import venv, ensurepip"]));
    if find_program("python3").is_none() {
        Some("there is no python3 here")
    } else if find_program("objdump").is_none() {
        Some("there is no objdump here")
    } else if imports().is_err() {
        Some("this python3 has no venv or no pip")
    } else {
        None
    }
}

/// Packs this manager and the shipped library into a wheel in `place`.
fn pack(workspace: &Workspace, manager: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let folder = shim::run(workspace, shim::Form::Shipped)?;
    let mut files = vec![(manager.to_owned(), "nanos/bin/cpumgr".to_owned())];
    files.extend(LIBRARIES.map(|name| (folder.join(name), format!("nanos/lib/nanos/{name}"))));
    let mut lowest = (0, 0);
    for (file, _) in &files {
        lowest = lowest.max(glibc(file)?.unwrap_or_default());
    }
    ensure!(lowest > (0, 0), "no file asks for a version of glibc");
    // Of other versions, and what a check left.
    let _ = std::fs::remove_dir_all(place);
    let mut pack = Command::new("python3");
    pack.arg(workspace.root.join("packaging/python/pack.py")).arg(env!("CARGO_PKG_VERSION"));
    pack.arg(format!("manylinux_{}_{}_{}", lowest.0, lowest.1, std::env::consts::ARCH));
    pack.arg(place);
    pack.args(files.iter().map(|(file, place)| format!("{}={place}", file.display())));
    let wheel = PathBuf::from(said(&mut pack)?.trim());
    println!("{}", wheel.display());
    Ok(wheel)
}

/// Installs and uses it as a user would, without network.
fn check(workspace: &Workspace, place: &Path, wheel: &Path) -> anyhow::Result<()> {
    let venv = place.join("venv");
    said(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let python = venv.join("bin/python");
    said(Command::new(&python).args(["-m", "pip", "install", "-q", "--no-index"]).arg(wheel))?;
    let mut using = Command::new(&python);
    // Not the sources beside the script.
    using.arg("-I").arg(workspace.root.join("packaging/python/check.py"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(venv.join("bin")).chain(std::env::split_paths(&path));
    using.env("PATH", std::env::join_paths(folders).context("a folder's name")?);
    let said = said(&mut using)?;
    ensure!(said.trim() == "ok", "the wheel's check said {said:?}");
    println!("installed and used: ok");
    Ok(())
}

/// Runs a command to its end; what it said on standard output.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {}", shown(command)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{} failed ({}): {}{}",
        shown(command),
        output.status,
        text(&output.stdout),
        text(&output.stderr).trim()
    );
    Ok(text(&output.stdout))
}

/// The lowest version of glibc that has all that a file asks for; `None`: it asks for nothing.
fn glibc(file: &Path) -> anyhow::Result<Option<(u32, u32)>> {
    said(Command::new("objdump").arg("-T").arg(file)).map(|listing| highest(&listing))
}

/// The highest `GLIBC_a.b` among the symbols of other libraries.
fn highest(listing: &str) -> Option<(u32, u32)> {
    let versions = listing.lines().filter(|line| line.contains("*UND*")).filter_map(|line| {
        let (_, version) = line.split_once("GLIBC_")?;
        let version = version.split(|it: char| !it.is_ascii_digit() && it != '.').next()?;
        let mut numbers = version.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_counts_by_its_numbers_and_only_what_is_asked_for() {
        let listing = "0000 DF *UND*\t0000 (GLIBC_2.9) close\n0000  w  DF *UND*  0000 (GLIBC_2.34) \
                       stat\n0000 DF *UND* 0000  GLIBC_2.2.5 open\n0010 g DF .text 0001 GLIBC_2.99 \
                       ours\n0000 DF *UND* 0000 (GLIBC_PRIVATE) x\n";
        assert_eq!(highest(listing), Some((2, 34)));
        assert_eq!(highest("nothing"), None);
    }
}
