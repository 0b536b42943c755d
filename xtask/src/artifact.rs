//! Programs that cargo built, as its messages name them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

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

#[derive(Deserialize)]
struct Target {
    name: String,
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
    let named = messages.filter_map(|Message { target, executable }| Some((target.name, executable?)));
    named.map(|(name, path)| Artifact { name, path }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_cargo_s_messages() {
        let artifact = |name: &str, executable: Option<&str>| {
            let target = serde_json::json!({"name": name});
            serde_json::json!({"reason": "compiler-artifact", "target": target, "executable": executable}).to_string()
        };
        let messages = [
            artifact("regions", Some("/t/regions-1")),
            artifact("nanothreads", None),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = artifacts(&messages.join("\n"));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].path.to_str()), ("regions", Some("/t/regions-1")));
    }
}
