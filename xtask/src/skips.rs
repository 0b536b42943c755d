//! What was left out: tests and lanes that lack something write a line to a file that a variable
//! names.
//!
//! # Protocol
//! 1. `cargo xtask test` makes the file and names it in [`VARIABLE`] to all that it starts.
//! 2. A test or lane that leaves something out appends one line, `skipped: REASON [file:line]`, and
//!    prints it, too. Where other programs had the processors and the same test says more on a
//!    quiet machine, it is `skipped (busy): REASON [file:line]`.
//! 3. The lines are read after each lane. A test that was skipped ends like one that passed, so
//!    that they are the only sign of it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "NANOS_SKIPS";

/// The file of this run.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// One thing that was left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    /// For the processors that others had, and not for what the machine lacks.
    pub(crate) busy: bool,
    /// Why, and where.
    pub(crate) reason: String,
}

/// All that was left out, lane by lane.
pub(crate) struct Skips {
    file: PathBuf,
    /// Bytes of the file that were read.
    read: usize,
    all: BTreeMap<(&'static str, Skip), u64>,
}

/// The file that skips go to, if they are counted.
pub(crate) fn file() -> Option<PathBuf> {
    FILE.get().cloned().or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from))
}

/// Leaves something of a lane out: says so, and notes it where skips are counted.
pub(crate) fn note(reason: impl std::fmt::Display) {
    let line = format!("skipped: {reason}").replace('\n', "; ");
    println!("{line}");
    append(&line);
}

/// The same where other programs had the processors.
pub(crate) fn note_busy(reason: impl std::fmt::Display) {
    let line = format!("skipped (busy): {reason}").replace('\n', "; ");
    println!("{line}");
    append(&line);
}

/// Takes a line down that was said elsewhere: a guest cannot write to the file.
pub(crate) fn append(line: &str) {
    let Some(path) = file() else { return };
    let written = OpenOptions::new().create(true).append(true).open(&path);
    if let Err(fault) = written.and_then(|mut file| writeln!(file, "{line}")) {
        eprintln!("cannot note a skip in {}: {fault}", path.display());
    }
}

impl Skip {
    fn parse(line: &str) -> Option<Skip> {
        let (busy, reason) = match line.strip_prefix("skipped (busy): ") {
            Some(reason) => (true, reason),
            None => (false, line.strip_prefix("skipped: ")?),
        };
        Some(Skip { busy, reason: reason.trim().to_owned() })
    }
}

impl Skips {
    /// Starts with an empty file in `folder`, for this process and what it starts.
    pub(crate) fn begin(folder: &Path) -> anyhow::Result<Skips> {
        let file = folder.join(format!("skips-{}.txt", std::process::id()));
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        let file = FILE.get_or_init(|| file).clone();
        Ok(Skips { file, read: 0, all: BTreeMap::new() })
    }

    /// Reads what came since the last call and books it to `lane`; returns how much.
    pub(crate) fn take(&mut self, lane: &'static str) -> anyhow::Result<u64> {
        let bytes =
            fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let fresh = String::from_utf8_lossy(&bytes[self.read.min(bytes.len())..]).into_owned();
        self.read = bytes.len();
        let mut count = 0;
        for skip in fresh.lines().filter_map(Skip::parse) {
            *self.all.entry((lane, skip)).or_default() += 1;
            count += 1;
        }
        Ok(count)
    }

    /// How many were for a busy machine, and how many for what it lacks.
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.all.iter().fold((0, 0), |(busy, lacking), ((_, skip), count)| {
            if skip.busy { (busy + count, lacking) } else { (busy, lacking + count) }
        })
    }

    /// The list for the end of a run, a line for each reason.
    pub(crate) fn list(&self) -> String {
        let line = |((lane, Skip { busy, reason }), count): (&(&str, Skip), &u64)| {
            let kind = if *busy { "skipped (busy)" } else { "skipped" };
            let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
            format!("{lane}: {kind}: {reason}{times}\n")
        };
        self.all.iter().map(line).collect()
    }
}

impl Drop for Skips {
    fn drop(&mut self) {
        // Only a list: what is in it was printed.
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips(folder: &Path) -> Skips {
        Skips { file: folder.join("skips"), read: 0, all: BTreeMap::new() }
    }

    #[test]
    fn lines_are_counted_by_lane_and_by_kind() {
        let folder = tempfile::tempdir().unwrap();
        let mut skips = skips(folder.path());
        let write = |text: &str| {
            let file =
                OpenOptions::new().create(true).append(true).open(folder.path().join("skips"));
            file.unwrap().write_all(text.as_bytes()).unwrap();
        };
        write("skipped: needs root [a.rs:1]\nskipped: needs root [a.rs:1]\nnonsense\n");
        assert_eq!(skips.take("tests").unwrap(), 2);
        write("skipped (busy): others used 0.5 processors [b.rs:2]\n");
        assert_eq!(skips.take("flip").unwrap(), 1);
        assert_eq!(skips.take("flip").unwrap(), 0);
        assert_eq!(skips.totals(), (1, 2));
        assert_eq!(
            skips.list(),
            "flip: skipped (busy): others used 0.5 processors [b.rs:2]\ntests: skipped: needs root \
             [a.rs:1] (2 times)\n"
        );
    }

    #[test]
    fn a_file_that_is_gone_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(skips(folder.path()).take("tests").is_err());
    }
}
