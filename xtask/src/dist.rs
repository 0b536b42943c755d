//! What is given to others: a Debian package, a tarball. `target/dist` has both.
//!
//! # Protocol
//! 1. The manager is built as a release, the drop-in library in its shipped form.
//! 2. [`tree::Tree`] says which file stands where below a prefix.
//! 3. `deb` adds what dpkg needs; `tarball` is the same tree, to be unpacked anywhere.
//!
//! Both are the same bytes each time they are made of the same files: times are those of the last
//! commit (`SOURCE_DATE_EPOCH` where it is set).

mod deb;
mod tarball;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::setup::{Workspace, must_succeed};
use crate::shim::{self, Form};

/// Which manager and library.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// What `cargo build` and `cargo xtask shim` left, as it is, in place of a new build.
    #[arg(long)]
    pub(crate) as_built: bool,
    /// The package's version in place of the workspace's.
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// The manager as tests have it, in place of a release, which takes minutes.
    #[arg(skip)]
    pub(crate) of_tests: bool,
    /// For a guest that unpacks it slowly: not compressed.
    #[arg(skip)]
    pub(crate) is_plain: bool,
}

/// What was built.
pub(crate) struct Built {
    pub(crate) program: PathBuf,
    /// The folder of the drop-in library.
    pub(crate) shim: PathBuf,
}

impl Built {
    /// Builds both, or takes what is there.
    pub(crate) fn new(workspace: &Workspace, options: &Options) -> anyhow::Result<Self> {
        let (folder, profile) =
            if options.of_tests { ("debug", "dev") } else { ("release", "release") };
        let program = workspace.target.join(folder).join("cpumgr");
        let shim = workspace.target.join(Form::Shipped.folder());
        if options.as_built {
            for file in [&program, &shim.join("libgomp.so.1")] {
                if !file.is_file() {
                    bail!("--as-built: there is no {}; leave the option out", file.display());
                }
            }
            return Ok(Self { program, shim });
        }
        must_succeed(&mut workspace.cargo(["build", "--profile", profile, "--package", "cpumgr"]))?;
        Ok(Self { program, shim: shim::run(workspace, Form::Shipped)? })
    }
}

/// Writes what the program says of itself, manual pages and completions, below `folder`.
fn papers(built: &Built, folder: &Path) -> anyhow::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&man, &completions] {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    must_succeed(std::process::Command::new(&built.program).arg("man").arg(&man))?;
    for shell in ["bash", "zsh", "fish"] {
        let mut command = std::process::Command::new(&built.program);
        let output = command.args(["completions", shell]).output();
        let output = output.with_context(|| format!("cannot start {}", built.program.display()))?;
        if !output.status.success() {
            bail!("cpumgr completions {shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let file = completions.join(format!("cpumgr.{shell}"));
        std::fs::write(&file, output.stdout)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The version of the workspace.
pub(crate) fn version(options: &Options) -> String {
    options.version.clone().unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
}

/// `cargo xtask deb`.
pub(crate) fn deb(workspace: &Workspace, options: &Options) -> anyhow::Result<PathBuf> {
    let built = Built::new(workspace, options)?;
    deb::make(
        workspace,
        &built,
        &version(options),
        if options.is_plain { "-Znone" } else { "-Zxz" },
    )
}

/// `cargo xtask tarball`.
pub(crate) fn tarball(workspace: &Workspace, options: &Options) -> anyhow::Result<PathBuf> {
    let built = Built::new(workspace, options)?;
    tarball::make(workspace, &built, &version(options))
}

/// Where both are put.
fn folder(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = workspace.target.join("dist");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The time that all files have: of the last commit, in seconds.
fn epoch(workspace: &Workspace) -> String {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        return set;
    }
    let git = std::process::Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(&workspace.root)
        .output();
    let said = git.ok().filter(|output| output.status.success());
    let time = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    // Of a source tree without a history.
    time.filter(|time| !time.is_empty()).unwrap_or_else(|| "0".to_owned())
}
