//! Programs on threads that the drop-in library does not know (`tests/real/pools`): how each is
//! built, and what they run on. All compute the same sum.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::install::succeed;
use crate::setup::{Workspace, find_program};

/// Their names.
pub(super) const NAMES: [&str; 5] = ["spin", "rayon", "go", "java", "node"];
/// What each finds, with any number of threads.
pub(super) const SUM: f64 = 3_352_675_139.0;

/// Builds a program below `folder`; returns its command. An error says what the machine lacks.
pub(super) fn build(
    workspace: &Workspace,
    folder: &Path,
    name: &str,
) -> anyhow::Result<Vec<OsString>> {
    let source = workspace.root.join("tests/real/pools");
    let folder = folder.join("pools");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let program = folder.join(name);
    let tool = |tool: &str| find_program(tool).with_context(|| format!("there is no {tool} here"));
    match name {
        "spin" => {
            let mut build = Command::new(tool("rustc")?);
            build.args(["--edition", "2024", "-O"]).arg(source.join("spin.rs"));
            succeed(build.arg("-o").arg(&program))?;
        }
        "rayon" => {
            let target = folder.join("target");
            let mut build = Command::new(tool("cargo")?);
            build.args(["build", "--release", "--locked", "--manifest-path"]);
            build.arg(source.join("rayon/Cargo.toml")).arg("--target-dir").arg(&target);
            succeed(&mut build)?;
            return Ok(vec![target.join("release/sum-rayon").into()]);
        }
        "go" => {
            let mut build = Command::new(tool("go")?);
            build.args(["build", "-o"]).arg(&program).arg(source.join("sum.go"));
            // Neither its cache nor a newer version of itself on this system.
            build.env("GOCACHE", folder.join("go-cache")).env("GOTOOLCHAIN", "local");
            succeed(&mut build)?;
        }
        "java" => {
            let java = tool("java")?;
            let mut build = Command::new(tool("javac")?);
            succeed(build.arg("-d").arg(&folder).arg(source.join("Sum.java")))?;
            return Ok(vec![java.into(), "-cp".into(), folder.into(), "Sum".into()]);
        }
        _ => {
            let node = tool("node")?;
            let counts = "process.exit(require('os').availableParallelism ? 0 : 1)";
            let asked = succeed(Command::new(&node).args(["-e", counts]));
            ensure!(asked.is_ok(), "this node has no os.availableParallelism (it is of 18.14)");
            return Ok(vec![node.into(), source.join("sum.js").into()]);
        }
    }
    Ok(vec![program.into()])
}
