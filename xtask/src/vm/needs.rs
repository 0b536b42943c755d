//! What a guest needs from the machine: QEMU, a static shell, a kernel; found, or installed where
//! that is allowed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::setup::{find_program, install, is_root, must_succeed};

/// Debian's packages; the second one is the guest's shell and tools.
const PACKAGES: [&str; 2] = ["qemu-system-x86", "busybox-static"];
/// Depends on the newest kernel that has all drivers of a virtual machine built in.
const KERNEL: &str = "linux-image-cloud-amd64";

/// The file of a module that kernel has not built in.
const FUSE: &str = "fuse.ko";

/// See the module head.
pub(super) struct Needs {
    pub(super) emulator: PathBuf,
    pub(super) shell: PathBuf,
    pub(super) kernel: PathBuf,
}

impl Needs {
    /// Finds all; what is downloaded is kept in `folder`. An error says what is missing and how to
    /// get it.
    pub(super) fn find_or_install(folder: &Path, kernel: Option<&Path>) -> anyhow::Result<Needs> {
        let programs = || Some((find_program("qemu-system-x86_64")?, find_program("busybox")?));
        if programs().is_none() {
            let by_hand =
                format!("sudo apt-get install -y --no-install-recommends {}", PACKAGES.join(" "));
            if find_program("apt-get").is_none() {
                bail!(
                    "qemu-system-x86_64 and a static busybox are needed: install them with your \
                     package manager"
                );
            }
            if !is_root() {
                bail!("qemu-system-x86_64 and a static busybox are needed: {by_hand}");
            }
            install(&PACKAGES)
                .with_context(|| format!("cannot install the emulator; by hand: {by_hand}"))?;
        }
        let (emulator, shell) =
            programs().context("the packages are installed, but their programs are not in PATH")?;
        let kernel = match kernel {
            Some(file) => file.to_owned(),
            None => find_kernel(folder)?.map_or_else(|| download_kernel(folder), Ok)?,
        };
        Ok(Needs { emulator, shell, kernel })
    }
}

fn find_kernel(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let files =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    Ok(files.filter(|file| file.extension().is_some_and(|extension| extension == "vmlinuz")).max())
}

/// A module of the kernel that was downloaded into `folder`: a guest may do without.
pub(super) fn fuse(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(FUSE)).filter(|path| path.is_file())
}

/// Takes the kernel, and a module, out of Debian's package.
fn download_kernel(folder: &Path) -> anyhow::Result<PathBuf> {
    let output = Command::new("apt-cache")
        .args(["depends", KERNEL])
        .output()
        .context("cannot start apt-cache")?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let package = listing.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image"));
    let package = package
        .with_context(|| format!("the package lists have no {KERNEL} (Debian's cloud kernel)"))?;
    let package = format!("linux-image{package}");
    println!("downloading {package}");
    let place = tempfile::tempdir_in(folder).context("cannot make a folder for the download")?;
    must_succeed(
        Command::new("apt-get").args(["-qq", "download", &package]).current_dir(place.path()),
    )?;
    let mut files =
        std::fs::read_dir(place.path()).context("cannot read the folder of the download")?;
    let file = files
        .next()
        .context("apt-get downloaded nothing")?
        .context("cannot read the folder of the download")?;
    let unpacked = place.path().join("unpacked");
    // Where it has another name, or is packed in another way, checks do without.
    let module = extract(&file.path(), "./lib/modules/*/kernel/fs/fuse/fuse.ko", &unpacked);
    if module.is_ok() {
        std::fs::rename(&unpacked, folder.join(FUSE)).context("cannot keep a module")?;
    }
    extract(&file.path(), "./boot/vmlinuz-*", &unpacked)?;
    let kept = folder.join(package).with_extension("vmlinuz");
    std::fs::rename(&unpacked, &kept).context("cannot keep the kernel")?;
    Ok(kept)
}

/// Writes the one file of a package that fits a pattern.
fn extract(package: &Path, pattern: &str, to: &Path) -> anyhow::Result<()> {
    let mut unpack =
        Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn();
    let unpack =
        unpack.as_mut().map_err(|error| anyhow::anyhow!("cannot start dpkg-deb: {error}"))?;
    let tar = unpack.stdout.take().context("no pipe from dpkg-deb")?;
    let file = std::fs::File::create(to).context("cannot write what was unpacked")?;
    let found = must_succeed(
        Command::new("tar")
            .args(["-xO", "--wildcards", pattern])
            .stdin(Stdio::from(tar))
            .stdout(file),
    );
    let status = unpack.wait().context("cannot wait for dpkg-deb")?;
    found?;
    if !status.success() {
        bail!("dpkg-deb cannot read {}: {status}", package.display());
    }
    Ok(())
}
