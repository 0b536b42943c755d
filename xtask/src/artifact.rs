//! Targets of the workspace by name, and programs that cargo built, as its messages name them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::metadata::{self, Target};
use crate::setup::shown;

/// A program that was built.
#[derive(Debug)]
pub(crate) struct Artifact {
    /// The name of its target.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// One line of what cargo prints with `--message-format=json`; other lines lack these fields.
#[derive(Deserialize)]
struct Message {
    target: Target,
    executable: Option<PathBuf>,
}

/// The targets of a kind ("test", "example") that a package has, by the document of
/// `cargo metadata`, which may be none; a package that is not there is an error.
pub(crate) fn targets(document: &str, package: &str, kind: &str) -> anyhow::Result<Vec<String>> {
    let found = metadata::packages(document)?.into_iter().find(|found| found.name == package);
    let found = found.with_context(|| format!("there is no package {package}"))?;
    let targets = found.targets.into_iter().filter(|target| target.is(&[kind]));
    Ok(targets.map(|target| target.name).collect())
}

/// The arguments that name these targets to cargo: only they are built.
pub(crate) fn named<'a>(kind: &'a str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    names.into_iter().flat_map(|name| [kind, name]).collect()
}

/// Runs a cargo command that builds, and returns the programs.
pub(crate) fn build(command: &mut Command) -> anyhow::Result<Vec<Artifact>> {
    command.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(command), output.status);
    }
    Ok(artifacts(&String::from_utf8_lossy(&output.stdout)))
}

fn artifacts(messages: &str) -> Vec<Artifact> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let named =
        messages.filter_map(|Message { target, executable }| Some((target.name, executable?)));
    named.map(|(name, path)| Artifact { name, path }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn targets_are_found_by_package_and_kind() {
        let target =
            |name: &str, kind: &str| json!({"name": name, "kind": [kind], "src_path": "x.rs"});
        let package = |name: &str, targets: &[Value]| {
            let dependencies: [Value; 0] = [];
            json!({"name": name, "targets": targets, "dependencies": dependencies})
        };
        let of_a = [target("regions", "test"), target("a", "lib"), target("b", "test")];
        let packages = [package("a", &of_a), package("b", &[target("c", "test")])];
        let document = json!({"packages": packages});
        assert_eq!(targets(&document.to_string(), "a", "test").unwrap(), ["regions", "b"]);
        assert!(targets(&document.to_string(), "b", "example").unwrap().is_empty());
        assert!(targets(&document.to_string(), "c", "test").is_err(), "there is no such package");
        assert_eq!(named("--test", ["regions", "b"]), ["--test", "regions", "--test", "b"]);
    }

    #[test]
    fn programs_are_read_from_cargo_s_messages() {
        let artifact = |name: &str, executable: Option<&str>| {
            let target = json!({"name": name, "kind": ["test"], "src_path": "x.rs"});
            json!({"reason": "compiler-artifact", "target": target, "executable": executable})
                .to_string()
        };
        let messages = [
            artifact("regions", Some("/t/regions-1")),
            artifact("nanothreads", None),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = artifacts(&messages.join("\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].path.to_str()),
            ("regions", Some("/t/regions-1"))
        );
    }
}
