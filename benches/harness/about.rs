//! Raw records as files: CSV that any reader reads, each with a file that says on what it was
//! taken.

use procfs::{CpuInfo, Current};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Writes `DATE-NAME.csv` and `DATE-NAME.about.csv` into the repository's records, or `NAME.csv`
/// and `NAME.about.csv` into `folder`.
pub(crate) fn record(
    folder: Option<PathBuf>,
    name: &str,
    heads: &[String],
    rows: impl Iterator<Item = Vec<String>>,
) -> Result<PathBuf, String> {
    let path = match folder {
        Some(folder) => folder.join(format!("{name}.csv")),
        None => repository()
            .join("benches/records")
            .join(format!("{}-{name}.csv", said("date", &["+%F"]))),
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    write(&path, heads, rows)?;
    let about = taken_on().into_iter().map(|(what, value)| vec![what.to_owned(), value]);
    write(&path.with_extension("about.csv"), &["what".to_owned(), "value".to_owned()], about)?;
    Ok(path)
}

fn write(
    path: &Path,
    heads: &[String],
    rows: impl Iterator<Item = Vec<String>>,
) -> Result<(), String> {
    let fault = |error: csv::Error| format!("{}: {error}", path.display());
    let mut writer = csv::Writer::from_path(path).map_err(fault)?;
    writer.write_record(heads).map_err(fault)?;
    for row in rows {
        writer.write_record(row).map_err(fault)?;
    }
    writer.flush().map_err(|error| format!("{}: {error}", path.display()))
}

/// What a number depends on besides the code of the bench: machine, kernel, compiler, commit,
/// command.
fn taken_on() -> Vec<(&'static str, String)> {
    let model = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
    let commit = said("git", &["rev-parse", "HEAD"]);
    let clean = said("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    // The path of this program is the builder's own.
    let arguments: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    vec![
        ("date", said("date", &["+%FT%T%z"])),
        ("machine", model.unwrap_or_else(|| "unknown".to_owned())),
        (
            "processors",
            std::thread::available_parallelism()
                .map_or("unknown".to_owned(), |count| count.to_string()),
        ),
        ("kernel", said("uname", &["-r"])),
        ("compiler", said("rustc", &["--version"])),
        ("commit", if clean { commit } else { format!("{commit}, with changes") }),
        ("arguments", arguments.join(" ")),
    ]
}

/// What a program prints, in the repository; nothing where it is not here.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(repository()).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The folder of the workspace, also for a bench of one of its crates.
fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().find(|folder| folder.join("benches/records").is_dir()).unwrap_or(own).to_owned()
}
