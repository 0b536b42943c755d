//! `cargo xtask report`: records of benches and suite as one self-contained HTML page.

mod browser;
mod change;
mod chart;
mod data;
mod look;
mod manager;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

pub(crate) use self::data::{Chart, Label, Section, Unit, Value};
pub(crate) use self::look::run as look;
pub(crate) use self::page::{page, picture};
use crate::setup::Workspace;

/// What to show.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Records (CSV) of `cargo xtask bench` and `cargo xtask suite` [default: the newest of each
    /// bench in benches/records, what is in target/bench, and target/suite/suite.csv].
    #[arg(value_name = "FILE")]
    records: Vec<PathBuf>,
    /// Older records: a table says what changed since.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    against: Vec<PathBuf>,
    /// Where the page goes [default: target/report.html].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the page.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let records = match &options.records[..] {
        [] => usual(workspace)?,
        named => named.to_vec(),
    };
    ensure!(
        !records.is_empty(),
        "there is no record: run `cargo xtask bench` or `cargo xtask suite` first, or name one"
    );
    let read = |paths: &[PathBuf]| -> anyhow::Result<Vec<Section>> {
        paths.iter().map(|path| data::read(path)).collect()
    };
    let sections = read(&records)?;
    let before = read(&options.against)?;
    let changes = (!before.is_empty()).then(|| change::changes(&sections, &before));
    if let Some(changes) = &changes {
        changes.notes.iter().for_each(|note| println!("{note}"));
        ensure!(!changes.all.is_empty(), "nothing of these records can be compared with --against");
    }
    let output = options.output.clone().unwrap_or_else(|| workspace.target.join("report.html"));
    std::fs::write(&output, page(&sections, changes.as_ref()))
        .with_context(|| format!("cannot write {}", output.display()))?;
    println!("{}: {} records", output.display(), records.len());
    Ok(())
}

/// The newest record of each bench, and the suite's.
fn usual(workspace: &Workspace) -> anyhow::Result<Vec<PathBuf>> {
    let mut newest: BTreeMap<String, PathBuf> = BTreeMap::new();
    // Later folders and later dates replace earlier ones.
    for folder in [workspace.root.join("benches/records"), workspace.target.join("bench")] {
        for path in csv_files(&folder)? {
            // Other records than of times stand beside them: of transfers, of the manager.
            if let Ok(section) = data::read(&path) {
                newest.insert(section.title, path);
            }
        }
    }
    // The suite's are the last: they have the most to show.
    let last = newest.remove("suite");
    let suite = workspace.target.join("suite/suite.csv");
    // One in which nothing was measured yet is empty.
    let is_empty = |path: &Path| path.metadata().is_ok_and(|data| data.len() == 0);
    let suite = if suite.exists() && !is_empty(&suite) { Some(suite) } else { last };
    Ok(newest.into_values().chain(suite).collect())
}

/// The CSV files of a folder by their names; none where there is no folder.
fn csv_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let shown = || folder.display().to_string();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        if path.extension().is_some_and(|ending| ending == "csv") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
