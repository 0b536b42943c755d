//! The crates that others depend on, packed and built from what was packed; that they need no
//! library of the system; and that the library is light: few crates, each feature by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, process};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::setup::{Workspace, must_succeed};
use crate::skips;

/// Packed together: none of them is in the registry before the others are.
const PACKED: [&str; 5] = [
    "nanothreads-platform",
    "nanothreads-arena",
    "nanothreads-engine",
    "nanothreads-asat",
    "nanothreads",
];

/// The first cargo that packs crates which depend on each other.
const LEAST_MINOR: u32 = 90;

/// The library, which programs depend on.
const LIBRARY: &str = "nanothreads";

/// The most crates that a program gets with the library as it is by default, itself and what only
/// builds included.
const MOST_CRATES: usize = 12;

/// Features of the library that a program may want alone, together, or not at all.
const FEATURE_SETS: [&str; 6] =
    ["", "manager", "tasks", "adaptive", "manager,adaptive", "manager,tasks,adaptive"];

/// Build helpers that look for, or compile, what is not Rust.
const FOREIGN_BUILDERS: [&str; 5] = ["bindgen", "cc", "cmake", "pkg-config", "system-deps"];

/// Packs, builds and checks; counts the checks, of which one may be skipped.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<u64> {
    let metadata = workspace
        .cargo(["metadata", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    if !metadata.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&metadata.stderr).trim());
    }
    let packages = needs_no_system_package(&String::from_utf8(metadata.stdout)?)?;
    println!(
        "{packages} packages are needed by {}; none needs a library of the system",
        PACKED.join(", ")
    );
    let tree = workspace
        .cargo(["tree", "--offline", "-p", LIBRARY, "-e", "normal,build", "--prefix", "none"])
        .output()
        .context("cannot run cargo tree")?;
    if !tree.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&tree.stderr).trim());
    }
    let crates = few_enough(&String::from_utf8(tree.stdout)?, MOST_CRATES)?;
    println!("{LIBRARY} builds {crates} crates by default, itself among them");
    for features in FEATURE_SETS {
        let mut check = workspace.cargo(["clippy", "--offline", "-q", "-p", LIBRARY, "--lib"]);
        check.args(["--no-default-features", "--features", features, "--", "-D", "warnings"]);
        must_succeed(&mut check)
            .with_context(|| format!("{LIBRARY} with the features \"{features}\" alone"))?;
    }
    println!("{LIBRARY} builds with each of {} sets of features", FEATURE_SETS.len());
    let checked = 2 + FEATURE_SETS.len() as u64;
    let version = workspace.cargo(["--version"]).output().context("cannot run cargo")?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if minor(&version).is_some_and(|minor| minor < LEAST_MINOR) {
        skips::note(format_args!(
            "package: packing together needs cargo 1.{LEAST_MINOR}, this is {}",
            version.trim()
        ));
        return Ok(checked);
    }
    // A folder that was never there before: cargo keeps what it once unpacked from a place, and
    // would build that again.
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    let folder = workspace.target.join(format!("packed-{}-{}", process::id(), now.as_nanos()));
    let mut command = workspace.cargo(["package", "--offline", "--allow-dirty", "--target-dir"]);
    let packed =
        must_succeed(command.arg(&folder).args(PACKED.iter().flat_map(|package| ["-p", package])));
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    packed.map(|()| checked + 1)
}

/// How many crates an output of `cargo tree --prefix none` names.
///
/// # Errors
/// More than `most`, with their names.
fn few_enough(tree: &str, most: usize) -> anyhow::Result<usize> {
    // A crate that is named again may have a mark after its version.
    let name = |line: &'_ str| line.split(' ').next().unwrap_or_default().to_owned();
    let is_crate = |line: &&str| line.contains(" v");
    let crates: BTreeSet<String> = tree.lines().filter(is_crate).map(name).collect();
    if crates.len() > most {
        let names = crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        bail!(
            "{LIBRARY} builds {} crates by default, at most {most} are wanted: {names}; leave the \
             new one out, or put it into a feature that is not a default one",
            crates.len()
        );
    }
    Ok(crates.len())
}

/// Reads "cargo 1.95.0 (...)".
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("cargo 1.")?.split('.').next()?.parse().ok()
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    /// The native library that it stands for.
    links: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `null` for a normal dependency, else "dev" or "build".
    kind: Option<String>,
    /// Where it holds; dependencies of models (`cfg(loom)`) and of other systems do not count.
    target: Option<String>,
}

impl Kind {
    fn counts(&self) -> bool {
        let elsewhere = |target: &String| {
            ["loom", "windows", "wasm", "macos"].iter().any(|word| target.contains(word))
        };
        self.kind.as_deref() != Some("dev") && !self.target.as_ref().is_some_and(elsewhere)
    }
}

/// Walks from the packed crates along what their default features need, and names every package
/// that wants something of the system. Returns how many there are.
fn needs_no_system_package(document: &str) -> anyhow::Result<usize> {
    let metadata: Metadata =
        serde_json::from_str(document).context("cannot read the output of `cargo metadata`")?;
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (&*package.id, package)).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
    let mut open: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|package| PACKED.contains(&&*package.name))
        .map(|package| &*package.id)
        .collect();
    if open.len() != PACKED.len() {
        bail!("the workspace has {} of {}", open.len(), PACKED.join(", "));
    }
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let node =
                nodes.get(id).with_context(|| format!("cargo metadata does not resolve {id}"))?;
            let needed =
                node.deps.iter().filter(|dependency| dependency.dep_kinds.iter().any(Kind::counts));
            open.extend(needed.map(|dependency| &*dependency.pkg));
        }
    }
    // One of ours that links is there once in a program, whatever the versions: it names itself.
    let is_foreign = |package: &&Package| {
        let is_own =
            PACKED.contains(&&*package.name) && package.links.as_deref() == Some(&*package.name);
        (package.links.is_some() && !is_own) || FOREIGN_BUILDERS.contains(&&*package.name)
    };
    let foreign: Vec<&str> = seen
        .iter()
        .filter_map(|id| packages.get(id).copied())
        .filter(is_foreign)
        .map(|package| &*package.name)
        .collect();
    if !foreign.is_empty() {
        bail!(
            "the default features of {} need more than Rust, by: {}",
            PACKED.join(", "),
            foreign.join(", ")
        );
    }
    Ok(seen.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(links: Option<&str>, kind: Option<&str>, target: Option<&str>) -> String {
        let package = |name: &str, links: Option<&str>| serde_json::json!({"id": name, "name": name, "links": links});
        let mut packages: Vec<_> = PACKED.iter().map(|name| package(name, None)).collect();
        packages.push(package("foreign", links));
        let kinds = serde_json::json!([{"kind": kind, "target": target}]);
        let mut nodes: Vec<_> =
            PACKED.iter().map(|name| serde_json::json!({"id": name, "deps": []})).collect();
        nodes[2] =
            serde_json::json!({"id": PACKED[2], "deps": [{"pkg": "foreign", "dep_kinds": kinds}]});
        nodes.push(serde_json::json!({"id": "foreign", "deps": []}));
        serde_json::json!({"packages": packages, "resolve": {"nodes": nodes}}).to_string()
    }

    #[test]
    fn a_package_that_links_a_native_library_is_named() {
        let message =
            needs_no_system_package(&document(Some("hwloc"), None, None)).unwrap_err().to_string();
        assert!(message.contains("foreign"), "{message}");
        assert!(needs_no_system_package(&document(Some("hwloc"), Some("build"), None)).is_err());
    }

    #[test]
    fn what_only_tests_models_or_other_systems_need_does_not_count() {
        assert_eq!(needs_no_system_package(&document(None, None, None)).unwrap(), PACKED.len() + 1);
        assert_eq!(
            needs_no_system_package(&document(Some("hwloc"), Some("dev"), None)).unwrap(),
            PACKED.len()
        );
        assert_eq!(
            needs_no_system_package(&document(Some("hwloc"), None, Some("cfg(loom)"))).unwrap(),
            PACKED.len()
        );
        assert_eq!(
            needs_no_system_package(&document(Some("hwloc"), None, Some("cfg(windows)"))).unwrap(),
            PACKED.len()
        );
    }

    #[test]
    fn a_workspace_without_the_crates_is_refused() {
        assert!(needs_no_system_package(r#"{"packages": [], "resolve": {"nodes": []}}"#).is_err());
    }

    #[test]
    fn versions_of_cargo_are_read() {
        assert_eq!(minor("cargo 1.95.0 (abc 2026-01-01)"), Some(95));
        assert_eq!(minor("cargo 2"), None);
    }

    #[test]
    fn crates_are_counted_once_and_too_many_are_named() {
        let tree = "a v1.0.0 (/here)\nb v2.0.0\nc v0.1.0 (proc-macro)\n[build-dependencies]\nb \
                    v2.0.0 (*)\n";
        assert_eq!(few_enough(tree, 3).unwrap(), 3);
        let error = few_enough(tree, 2).unwrap_err().to_string();
        assert!(error.contains("3 crates") && error.contains("a, b, c"), "{error}");
    }
}
