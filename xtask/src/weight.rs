//! `cargo xtask weight`: what the library costs a program that takes it: the seconds of a clean
//! release build, and the bytes of a small program, stripped. Nothing is judged here: seconds are
//! those of this machine, as quiet as it is.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, process};

use anyhow::Context;

use crate::measure::median;
use crate::setup::{Workspace, must_succeed};

/// What to build.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The library's features, with commas between them [default: its default ones].
    #[arg(long, value_name = "NAMES")]
    features: Option<String>,
    /// Clean builds; the median of their times is shown.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
}

/// The program with the library, and the one without.
const PROGRAMS: [(&str, &str); 2] = [
    (
        "with nanothreads",
        "fn main() {\n    nanothreads::par_for(0..2).run(|i| println!(\"hello {i}\"));\n}\n",
    ),
    ("without", "fn main() {\n    println!(\"hello\");\n}\n"),
];

/// Builds both programs, each time from nothing, and prints times and sizes.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let folder = workspace.target.join(format!("weight-{}", process::id()));
    let outcome = PROGRAMS.iter().enumerate().try_for_each(|(number, (name, source))| {
        let needs = if number == 0 { dependency(workspace, options) } else { String::new() };
        let (seconds, bytes) = weigh(workspace, &folder, source, &needs, options.repeats)
            .with_context(|| (*name).to_owned())?;
        println!("{name}: {seconds:.1} s for a clean release build, {bytes} bytes, stripped");
        Ok(())
    });
    // What a failure left there says nothing more.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

fn dependency(workspace: &Workspace, options: &Options) -> String {
    let path = workspace.root.join("crates/nanothreads");
    let features = options.features.as_ref().map_or(String::new(), |features| {
        let names: Vec<&str> = features.split(',').filter(|name| !name.is_empty()).collect();
        format!(", default-features = false, features = {names:?}")
    });
    format!("nanothreads = {{ path = {path:?}{features} }}\n")
}

/// Seconds and bytes.
fn weigh(
    workspace: &Workspace,
    folder: &Path,
    source: &str,
    needs: &str,
    repeats: u32,
) -> anyhow::Result<(f64, u64)> {
    let manifest = format!(
        "[package]\nname = \"hello\"\nedition = \"2024\"\n\n[dependencies]\n{needs}\n\
         [profile.release]\nstrip = true\n\n[workspace]\n"
    );
    let shown = || format!("cannot write below {}", folder.display());
    fs::create_dir_all(folder.join("src")).with_context(shown)?;
    fs::write(folder.join("Cargo.toml"), manifest).with_context(shown)?;
    fs::write(folder.join("src/main.rs"), source).with_context(shown)?;
    // The versions that are here: nothing is asked of a registry.
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock")).with_context(shown)?;
    let mut times = Vec::new();
    for _ in 0..repeats {
        // None is there at first.
        let _ = fs::remove_dir_all(folder.join("target"));
        times.push(build(folder)?.as_secs_f64());
    }
    let program = folder.join("target/release/hello");
    let size = fs::metadata(&program).with_context(|| program.display().to_string())?.len();
    Ok((median(&times), size))
}

fn build(folder: &Path) -> anyhow::Result<Duration> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--offline", "--quiet"]).current_dir(folder);
    // A user's build: none of what this one was built with.
    for variable in ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_ENCODED_RUSTFLAGS"] {
        build.env_remove(variable);
    }
    let begin = Instant::now();
    must_succeed(&mut build)?;
    Ok(begin.elapsed())
}
