//! Other OpenMP libraries that unmodified programs are compared on: LLVM's libomp, under libgomp's
//! name.
//!
//! libomp has libgomp's entry points, so that a program which gcc compiled runs on it as it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::setup::{Workspace, find_program, install, is_root};

/// Debian's packages; which of them there is depends on the release.
const PACKAGES: [&str; 2] = ["libomp-19-dev", "libomp-16-dev"];

/// What makes a comparison with libomp fair: threads of nested teams are kept, as they are here.
pub(crate) const LIBOMP_SETTINGS: [(&str, &str); 2] =
    [("KMP_HOT_TEAMS_MAX_LEVEL", "2"), ("KMP_HOT_TEAMS_MODE", "1")];

/// What makes one with libgomp fair on processors that are shared: waiting threads sleep.
pub(crate) const PASSIVE: (&str, &str) = ("OMP_WAIT_POLICY", "passive");

/// Finds LLVM's library, or installs it where that is allowed; an error says how.
pub(crate) fn libomp() -> anyhow::Result<PathBuf> {
    let found = || {
        let files = (14..30)
            .rev()
            .map(|version| PathBuf::from(format!("/usr/lib/llvm-{version}/lib/libomp.so.5")));
        files.into_iter().find(|file| file.is_file())
    };
    if let Some(file) = found() {
        return Ok(file);
    }
    let by_hand = format!("sudo apt-get install -y --no-install-recommends {}", PACKAGES[0]);
    if find_program("apt-get").is_none() || !is_root() {
        bail!("LLVM's libomp is not here: {by_hand}");
    }
    let installed = PACKAGES.iter().any(|package| install(&[package]).is_ok());
    match found() {
        Some(file) if installed => Ok(file),
        _ => bail!("LLVM's libomp cannot be installed; by hand: {by_hand}"),
    }
}

/// A folder in which libgomp.so.1 is LLVM's library.
pub(crate) fn libomp_folder(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let library = libomp()?;
    let folder = workspace.target.join("peers/libomp");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let link = folder.join("libgomp.so.1");
    // None yet, or one to another version.
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&library, &link)
        .with_context(|| format!("cannot link {}", link.display()))?;
    Ok(folder)
}

/// Fails unless the loader takes the program's OpenMP from `folder`: else something else is tested
/// than it says.
pub(crate) fn must_load(mut command: Command, folder: &Path) -> anyhow::Result<()> {
    let output =
        command.env("LD_TRACE_LOADED_OBJECTS", "1").output().context("cannot ask the loader")?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let found = openmp_in(&listing);
    if found != Some(folder.join("libgomp.so.1").as_path()) {
        bail!("the loader does not take libgomp.so.1 from {} but: {found:?}", folder.display());
    }
    Ok(())
}

/// Reads which file the loader takes for libgomp.so.1, from its list ("NAME => FILE (ADDRESS)" per
/// line).
fn openmp_in(listing: &str) -> Option<&Path> {
    let file = listing.lines().find_map(|line| line.trim().strip_prefix("libgomp.so.1 => "))?;
    Some(Path::new(file.rsplit_once(" (").map_or(file, |(file, _)| file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_s_list_says_where_openmp_comes_from() {
        let listing =
            "\tlinux-vdso.so.1 (0x7f)\n\tlibgomp.so.1 => /x y/shim/libgomp.so.1 (0x7f00)\n";
        assert_eq!(openmp_in(listing), Some(Path::new("/x y/shim/libgomp.so.1")));
        assert_eq!(openmp_in("\tlibgomp.so.1 => not found\n"), Some(Path::new("not found")));
        assert_eq!(openmp_in("\tstatically linked\n"), None);
    }
}
