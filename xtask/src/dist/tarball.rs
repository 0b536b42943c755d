//! The tarball: `cpumgr-VERSION-TARGET.tar.gz`, to be unpacked anywhere.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::tree::{Tree, set_mode, strip};
use super::{Built, epoch, folder, papers};
use crate::setup::{Workspace, must_succeed};

/// Makes it; returns its path.
pub(super) fn make(workspace: &Workspace, built: &Built, version: &str) -> anyhow::Result<PathBuf> {
    let place = tempfile::tempdir().context("cannot make a temporary folder")?;
    let name = format!("cpumgr-{version}-{}-linux-gnu", std::env::consts::ARCH);
    let stage = place.path().join(&name);
    std::fs::create_dir(&stage).context("cannot make a temporary folder")?;
    set_mode(&stage, 0o755)?;
    let said = place.path().join("papers");
    papers(built, &said)?;
    Tree::new(workspace, built, &said, "", "share/cpumgr").copy(&stage)?;
    strip(&stage, &["bin/cpumgr".to_owned()])?;
    let file = folder(workspace)?.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", epoch(workspace)))
        .args(["--use-compress-program", "gzip -9n", "-cf"])
        .arg(&file)
        .arg("-C")
        .arg(place.path())
        .arg(&name);
    must_succeed(&mut tar)?;
    Ok(file)
}
