//! `cargo xtask hwloc`: platform's feature `hwloc` against `/sys`, where hwloc's headers are or can
//! be installed.

use std::process::{Command, Stdio};

use crate::setup::{Workspace, find_program, install, is_root, must_succeed};
use crate::skips;

/// Debian's package of hwloc's library and headers.
const PACKAGE: &str = "libhwloc-dev";

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    if let Err(reason) = find_or_install() {
        skips::note(reason);
        return Ok(());
    }
    let arguments =
        ["test", "-p", "nanothreads-platform", "--features", "hwloc", "--test", "it", "topology"];
    must_succeed(&mut workspace.cargo(arguments))
}

/// `Err` says why it is not to be had.
fn find_or_install() -> Result<(), String> {
    if is_there() {
        return Ok(());
    }
    if find_program("pkg-config").is_none() || find_program("apt-get").is_none() || !is_root() {
        return Err(format!(
            "hwloc's headers are missing; install them with: sudo apt-get install -y pkg-config \
             {PACKAGE}"
        ));
    }
    install(&[PACKAGE]).map_err(|error| format!("{PACKAGE} cannot be installed: {error:#}"))?;
    if is_there() {
        Ok(())
    } else {
        Err(format!("{PACKAGE} is installed and pkg-config does not find hwloc"))
    }
}

fn is_there() -> bool {
    let mut command = Command::new("pkg-config");
    let status = command
        .args(["--exists", "hwloc >= 2.0.0"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
