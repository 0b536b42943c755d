//! The loom models: those that are test targets by themselves, and those that stand beside the
//! protocols of a library.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::count::Count;
use super::counted;
use crate::artifact;
use crate::metadata::{self, Package};
use crate::setup::Workspace;

/// How the names of test targets begin that are models.
const OUTER: &str = "loom_";
/// What stands above a module of models in a library.
const INNER: &str = "#[cfg(all(test, loom))]";
/// What the names of such modules contain.
const FILTER: &str = "model";

/// The models of a workspace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Models {
    /// Test targets, by package.
    outer: Vec<(String, Vec<String>)>,
    /// Packages whose library has some.
    inner: Vec<String>,
}

impl Models {
    fn find(document: &str) -> anyhow::Result<Self> {
        let mut found = Self::default();
        for Package { name, targets, .. } in metadata::packages(document)? {
            let library = targets.iter().find(|target| target.is(&["lib"]));
            let folder = library.and_then(|library| library.src_path.parent());
            // A library elsewhere would have its tests and benches looked at, too.
            if let Some(folder) = folder.filter(|folder| folder.ends_with("src"))
                && has_models(folder)?
            {
                found.inner.push(name.clone());
            }
            let tests = targets.into_iter().filter(|target| target.is(&["test"]));
            let outer: Vec<String> =
                tests.map(|target| target.name).filter(|name| name.starts_with(OUTER)).collect();
            if !outer.is_empty() {
                found.outer.push((name, outer));
            }
        }
        Ok(found)
    }
}

/// True when a source below this folder has a module of models.
fn has_models(folder: &Path) -> anyhow::Result<bool> {
    let context = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let found = if path.is_dir() {
            has_models(&path)?
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            text.lines().any(|line| line == INNER)
        } else {
            false
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs them, in a target folder of their own: everything is compiled differently there.
pub(super) fn run(workspace: &Workspace) -> anyhow::Result<Count> {
    let flags = format!("{} --cfg loom", std::env::var("RUSTFLAGS").unwrap_or_default());
    let Models { outer, inner } = Models::find(&workspace.metadata)?;
    if outer.is_empty() || inner.is_empty() {
        bail!("no crate has a loom model: neither tests/{OUTER}*.rs nor a module after {INNER}");
    }
    let run = |mut command: Command, filter: &[&str]| {
        command
            .arg("--target-dir")
            .arg(workspace.target.join("loom"))
            .env("RUSTFLAGS", flags.trim());
        counted(command.arg("--").args(filter))
    };
    let begin = || workspace.cargo(["test", "--profile", "bench", "--no-fail-fast"]);
    // One command: what the crates share is built once.
    let mut outers = begin();
    outers.args(artifact::named("--package", outer.iter().map(|(package, _)| package.as_str())));
    outers.args(artifact::named(
        "--test",
        outer.iter().flat_map(|(_, models)| models).map(String::as_str),
    ));
    let mut count = run(outers, &[])?;
    let mut inners = begin();
    inners.arg("--lib").args(artifact::named("--package", inner.iter().map(String::as_str)));
    count += run(inners, &[FILTER])?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn models_are_found_by_the_names_of_targets_and_in_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let library = |name: &str, text: &str| {
            let source = folder.path().join(name).join("src");
            fs::create_dir_all(source.join("protocols")).unwrap();
            fs::write(source.join("lib.rs"), "mod protocols;\n").unwrap();
            fs::write(source.join("protocols/ring.rs"), text).unwrap();
            json!({"name": name, "kind": ["lib"], "src_path": source.join("lib.rs")})
        };
        let target = |name: &str| json!({"name": name, "kind": ["test"], "src_path": "x.rs"});
        let package = |name: &str, targets: &[Value]| {
            let dependencies: [Value; 0] = [];
            json!({"name": name, "targets": targets, "dependencies": dependencies})
        };
        let packages = [
            package("a", &[target("loom_x"), target("stress"), library("loom_y", "")]),
            package("b", &[library("b", "mod a;\n\n#[cfg(all(test, loom))]\nmod model;\n")]),
            package("c", &[library("c", "// #[cfg(all(test, loom))]\n")]),
        ];
        let document = json!({"packages": packages});
        let found = Models::find(&document.to_string()).unwrap();
        assert_eq!(found.outer, [("a".to_owned(), vec!["loom_x".to_owned()])]);
        assert_eq!(found.inner, ["b"]);
    }
}
