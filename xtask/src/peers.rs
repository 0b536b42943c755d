//! Other OpenMP libraries that unmodified programs are compared on: LLVM's libomp, under libgomp's
//! name; and clang, whose programs are compared with those in Rust.
//!
//! libomp has libgomp's entry points, so that a program which gcc compiled runs on it as it is.
//! What clang compiled asks for libomp's own and runs on nothing else.

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

/// LLVM's C compiler with the OpenMP library of the same version.
pub(crate) struct Clang {
    pub(crate) program: PathBuf,
    /// The folder of its libomp.so.5.
    pub(crate) libraries: PathBuf,
}

impl Clang {
    /// Finds the newest one, or installs it where that is allowed; an error says how.
    pub(crate) fn find() -> anyhow::Result<Clang> {
        let found = || {
            let folders =
                (14..30).rev().map(|version| PathBuf::from(format!("/usr/lib/llvm-{version}")));
            let all = folders.map(|it| (it.join("bin/clang"), it.join("lib")));
            let is_whole = |(program, libraries): &(PathBuf, PathBuf)| {
                program.is_file() && libraries.join("libomp.so.5").is_file()
            };
            let (program, libraries) = all.into_iter().find(is_whole)?;
            Some(Clang { program, libraries })
        };
        if let Some(clang) = found() {
            return Ok(clang);
        }
        let packages = ["clang-19", "libomp-19-dev"];
        let by_hand =
            format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "));
        if find_program("apt-get").is_none() || !is_root() {
            bail!("clang with OpenMP is not here: {by_hand}");
        }
        install(&packages)
            .with_context(|| format!("clang cannot be installed; by hand: {by_hand}"))?;
        found().with_context(|| format!("clang was installed and is not found: {by_hand}"))
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

/// What programs that gcc compiled ask for.
pub(crate) const LIBGOMP: &str = "libgomp.so.1";
/// What programs that clang compiled ask for.
pub(crate) const LIBOMP: &str = "libomp.so.5";

/// Fails unless the loader takes the program's OpenMP, a library of this name, from `folder`: else
/// something else is tested than it says.
pub(crate) fn must_load(mut command: Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    let output =
        command.env("LD_TRACE_LOADED_OBJECTS", "1").output().context("cannot ask the loader")?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let found = found_in(&listing, name);
    if found != Some(folder.join(name).as_path()) {
        bail!("the loader does not take {name} from {} but: {found:?}", folder.display());
    }
    Ok(())
}

/// Fails unless the loader gives the program the libgomp.so.1 of gcc: others have that name, too.
pub(crate) fn must_load_gcc(mut command: Command) -> anyhow::Result<()> {
    let output =
        command.env("LD_TRACE_LOADED_OBJECTS", "1").output().context("cannot ask the loader")?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let file = found_in(&listing, LIBGOMP)
        .with_context(|| format!("the loader takes no {LIBGOMP}: {}", listing.trim()))?;
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match other_than_gcc(&bytes) {
        Some(other) => bail!("{} is not of gcc: it is {other}", file.display()),
        None => Ok(()),
    }
}

/// Whose library of OpenMP with libgomp's name this is, if not gcc's.
fn other_than_gcc(library: &[u8]) -> Option<&'static str> {
    let has = |text: &str| library.windows(text.len()).any(|part| part == text.as_bytes());
    // Each has entry points, or reads variables, that no other has.
    match () {
        () if has("__kmpc_fork_call") => Some("LLVM's libomp"),
        () if has("NANOS_CPUMGR") => Some("the drop-in library"),
        () if !has("GOMP_parallel") => Some("no library of OpenMP"),
        () => None,
    }
}

/// Reads which file the loader takes for a library, from its list ("NAME => FILE (ADDRESS)" per
/// line).
fn found_in<'a>(listing: &'a str, name: &str) -> Option<&'a Path> {
    let of = |line: &'a str| line.trim().strip_prefix(name)?.strip_prefix(" => ");
    let file = listing.lines().find_map(of)?;
    Some(Path::new(file.rsplit_once(" (").map_or(file, |(file, _)| file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_libgomp_s_name_is_known_by_what_it_has() {
        assert_eq!(other_than_gcc(b"\0GOMP_parallel\0"), None);
        assert_eq!(other_than_gcc(b"GOMP_parallel\0__kmpc_fork_call"), Some("LLVM's libomp"));
        let ours = other_than_gcc(b"GOMP_parallel\0NANOS_CPUMGR");
        assert_eq!(ours, Some("the drop-in library"));
        assert_eq!(other_than_gcc(b""), Some("no library of OpenMP"));
    }

    #[test]
    fn the_loader_s_list_says_where_openmp_comes_from() {
        let listing =
            "\tlinux-vdso.so.1 (0x7f)\n\tlibgomp.so.1 => /x y/shim/libgomp.so.1 (0x7f00)\n";
        assert_eq!(found_in(listing, LIBGOMP), Some(Path::new("/x y/shim/libgomp.so.1")));
        assert_eq!(found_in(listing, LIBOMP), None);
        let missing = "\tlibgomp.so.1 => not found\n";
        assert_eq!(found_in(missing, LIBGOMP), Some(Path::new("not found")));
        assert_eq!(found_in("\tstatically linked\n", LIBGOMP), None);
    }
}
