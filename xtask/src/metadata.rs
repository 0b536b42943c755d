//! What `cargo metadata` says of the workspace's packages, their targets and their dependencies, as
//! far as tasks ask.

use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;

#[derive(Deserialize)]
struct Document {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) targets: Vec<Target>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `null` for a normal dependency, else "dev" or "build".
    pub(crate) kind: Option<String>,
}

/// As the messages of a build have it, too.
#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    kind: Vec<String>,
    /// Its first file.
    pub(crate) src_path: PathBuf,
}

impl Target {
    /// True when it is of one of these kinds ("lib", "bin", "test", "example").
    pub(crate) fn is(&self, kinds: &[&str]) -> bool {
        self.kind.iter().any(|kind| kinds.contains(&kind.as_str()))
    }
}

/// The packages of a document of `cargo metadata`.
pub(crate) fn packages(document: &str) -> anyhow::Result<Vec<Package>> {
    let document: Document =
        serde_json::from_str(document).context("cannot read the output of `cargo metadata`")?;
    Ok(document.packages)
}
