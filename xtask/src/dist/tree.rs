//! Which file of the repository stands where in what is given to others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Built;
use crate::setup::Workspace;

/// Files below a folder that is packed.
pub(super) struct Tree {
    /// Where from, where to, mode.
    files: Vec<(PathBuf, String, u32)>,
}

impl Tree {
    /// Program, libraries, configuration, documents; manual pages and completions in `papers`.
    /// `prefix` is `usr/` or nothing, `data` where the shipped configuration stands.
    pub(super) fn new(
        workspace: &Workspace,
        built: &Built,
        papers: &Path,
        prefix: &str,
        data: &str,
    ) -> Self {
        let root = |path: &str| workspace.root.join(path);
        let mut tree = Self { files: Vec::new() };
        tree.add(built.program.clone(), format!("{prefix}bin/cpumgr"), 0o755);
        for name in ["libgomp.so.1", "libtcm.so.1", "libnanos_asat.so", "libnanos_count.so"] {
            tree.add(built.shim.join(name), format!("{prefix}lib/nanos/{name}"), 0o644);
        }
        for name in ["asat.h", "upm.h"] {
            tree.add(built.shim.join(name), format!("{prefix}include/nanos/{name}"), 0o644);
        }
        tree.add(root("crates/cpumgr/cpumgr.toml"), format!("{data}/cpumgr.toml"), 0o644);
        for (from, name) in [
            ("crates/cpumgr/README.md", "README.md"),
            ("CHANGELOG.md", "CHANGELOG.md"),
            ("LICENSE-MIT", "LICENSE-MIT"),
            ("LICENSE-APACHE", "LICENSE-APACHE"),
            ("packaging/examples/fence.conf", "examples/fence.conf"),
            ("packaging/examples/listen.conf", "examples/listen.conf"),
        ] {
            tree.add(root(from), format!("{prefix}share/doc/cpumgr/{name}"), 0o644);
        }
        // What the manual and the README name.
        let docs = format!("{prefix}share/doc/cpumgr/");
        for name in ["batch", "json", "kubernetes", "parallel", "pools", "simulator", "slurm"] {
            let file = format!("docs/{name}.md");
            tree.add(root(&file), format!("{docs}{file}"), 0o644);
        }
        let man = |name: &str| {
            let section = Path::new(name).extension()?.to_str()?;
            ["1", "5"].contains(&section).then(|| format!("share/man/man{section}/{name}"))
        };
        tree.add_folder(&papers.join("man"), prefix, man);
        let completion = |name: &str| match Path::new(name).extension()?.to_str()? {
            "bash" => Some("share/bash-completion/completions/cpumgr".to_owned()),
            "zsh" => Some("share/zsh/vendor-completions/_cpumgr".to_owned()),
            "fish" => Some("share/fish/vendor_completions.d/cpumgr.fish".to_owned()),
            _ => None,
        };
        tree.add_folder(&papers.join("completions"), prefix, completion);
        tree
    }

    /// What a machine with systemd needs besides: units, user, directory.
    pub(super) fn add_system(&mut self, workspace: &Workspace) {
        for (from, to) in [
            ("systemd/system/cpumgr.service", "usr/lib/systemd/system/cpumgr.service"),
            ("systemd/system/cpumgr.socket", "usr/lib/systemd/system/cpumgr.socket"),
            ("systemd/user/cpumgr.service", "usr/lib/systemd/user/cpumgr.service"),
            ("systemd/user/cpumgr.socket", "usr/lib/systemd/user/cpumgr.socket"),
            ("sysusers.d/cpumgr.conf", "usr/lib/sysusers.d/cpumgr.conf"),
            ("tmpfiles.d/cpumgr.conf", "usr/lib/tmpfiles.d/cpumgr.conf"),
            ("etc-cpumgr.toml", "etc/cpumgr/cpumgr.toml"),
        ] {
            self.add(workspace.root.join("packaging").join(from), to.to_owned(), 0o644);
        }
    }

    pub(super) fn add(&mut self, from: PathBuf, to: String, mode: u32) {
        self.files.push((from, to, mode));
    }

    /// The files of a folder, if it is there, where `place` says.
    fn add_folder(&mut self, folder: &Path, prefix: &str, place: impl Fn(&str) -> Option<String>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            if let Some(to) = entry.file_name().to_str().and_then(&place) {
                self.add(entry.path(), format!("{prefix}{to}"), 0o644);
            }
        }
    }

    /// Copies all below `stage`, which is empty.
    pub(super) fn copy(&self, stage: &Path) -> anyhow::Result<()> {
        for (from, to, mode) in &self.files {
            let to = stage.join(to);
            let above = to.parent().context("a file in no folder")?;
            make_folder(stage, above)?;
            fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            set_mode(&to, *mode)?;
        }
        Ok(())
    }
}

/// Folders are open to all users, whatever this user's umask is.
fn make_folder(stage: &Path, folder: &Path) -> anyhow::Result<()> {
    if folder == stage || folder.is_dir() {
        return Ok(());
    }
    make_folder(stage, folder.parent().context("a folder in no folder")?)?;
    fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    set_mode(folder, 0o755)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot change the mode of {}", path.display()))
}

/// Removes what only debuggers read from the copies of programs and libraries.
pub(super) fn strip(stage: &Path, files: &[String]) -> anyhow::Result<()> {
    for file in files {
        let mut strip = std::process::Command::new("strip");
        strip.arg("--strip-debug").arg(stage.join(file));
        crate::setup::must_succeed(&mut strip)?;
    }
    Ok(())
}
