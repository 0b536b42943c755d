//! The Debian package, made by dpkg-deb.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::tree::{Tree, set_mode, strip};
use super::{Built, epoch, folder, papers};
use crate::setup::{Workspace, find_program, must_succeed};

/// Maintainer scripts, and what else dpkg reads.
const SCRIPTS: [(&str, u32); 4] =
    [("conffiles", 0o644), ("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755)];

/// Makes it; returns its path.
pub(super) fn make(
    workspace: &Workspace,
    built: &Built,
    version: &str,
    compression: &str,
) -> anyhow::Result<PathBuf> {
    if find_program("dpkg-deb").is_none() {
        bail!(
            "dpkg-deb is needed: on Debian and Ubuntu it is there, elsewhere `cargo xtask tarball`"
        );
    }
    let stage = tempfile::tempdir().context("cannot make a temporary folder")?;
    let stage = stage.path();
    set_mode(stage, 0o755)?;
    let folder_of_papers = tempfile::tempdir().context("cannot make a temporary folder")?;
    papers(built, folder_of_papers.path())?;
    let at = folder_of_papers.path();
    let mut tree = Tree::new(workspace, built, at, "usr/", "usr/lib/cpumgr");
    tree.add_system(workspace);
    let copyright = stage.join("copyright.in");
    fs::write(&copyright, copyright_text()).context("cannot write the copyright")?;
    tree.add(copyright.clone(), "usr/share/doc/cpumgr/copyright".to_owned(), 0o644);
    tree.copy(stage)?;
    fs::remove_file(&copyright).context("cannot remove a temporary file")?;
    strip(stage, &["usr/bin/cpumgr".to_owned()])?;
    let control = stage.join("DEBIAN");
    fs::create_dir(&control).context("cannot make DEBIAN")?;
    set_mode(&control, 0o755)?;
    let source = workspace.root.join("packaging/debian");
    let architecture = architecture()?;
    let kilobytes = size(stage)? / 1024;
    let text = fs::read_to_string(source.join("control")).context("cannot read control")?;
    let text = text
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@SIZE@", &kilobytes.to_string())
        .replace("@LIBC@", &needed_libc(&[&built.program, &built.shim.join("libgomp.so.1")])?);
    fs::write(control.join("control"), text).context("cannot write control")?;
    for (name, mode) in SCRIPTS {
        let to = control.join(name);
        fs::copy(source.join(name), &to).with_context(|| format!("cannot copy {name}"))?;
        set_mode(&to, mode)?;
    }
    let file = folder(workspace)?.join(format!("cpumgr_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", compression, "--build"]).arg(stage).arg(&file);
    must_succeed(build.env("SOURCE_DATE_EPOCH", epoch(workspace)))?;
    Ok(file)
}

fn architecture() -> anyhow::Result<String> {
    let output = Command::new("dpkg").arg("--print-architecture").output();
    let output = output.context("cannot start dpkg")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> anyhow::Result<u64> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut sum = 0;
    for entry in entries {
        let entry = entry.context("cannot read a folder")?;
        let data = entry.metadata().context("cannot look at a file")?;
        sum += if data.is_dir() { size(&entry.path())? } else { data.len() };
    }
    Ok(sum)
}

/// The newest version of the C library that one of the files asks for.
fn needed_libc(files: &[&Path]) -> anyhow::Result<String> {
    let mut newest = (0, 0);
    for file in files {
        let mut list = Command::new("objdump");
        let output = list.arg("-T").arg(file).output().context("cannot start objdump")?;
        if !output.status.success() {
            bail!("objdump cannot read {}", file.display());
        }
        newest = newest.max(newest_version(&String::from_utf8_lossy(&output.stdout)));
    }
    if newest == (0, 0) {
        bail!("no file says which C library it needs");
    }
    Ok(format!("{}.{}", newest.0, newest.1))
}

fn newest_version(listing: &str) -> (u32, u32) {
    let versions = listing.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut numbers = rest[..end].split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max().unwrap_or((0, 0))
}

fn copyright_text() -> String {
    let licence = |name: &str, where_to: &str| {
        format!("License: {name}\n The whole text is in /usr/share/doc/cpumgr/{where_to}.\n")
    };
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: nanos\n\nFiles: *\nCopyright: The NANOS developers\n\
         License: MIT or Apache-2.0\n\n{}\n{}",
        licence("MIT", "LICENSE-MIT"),
        licence("Apache-2.0", "LICENSE-APACHE")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_by_number() {
        let listing = "x (GLIBC_2.9) f\ny (GLIBC_2.34) g\nz (GLIBC_2.4.1) h\n(GLIBC_PRIVATE) i";
        assert_eq!(newest_version(listing), (2, 34));
        assert_eq!(newest_version(""), (0, 0));
    }
}
