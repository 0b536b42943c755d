//! Checked-in numbers of faults that are still there, which may only fall.
//!
//! A number that grew is a fault, and so is one that fell: `--update` then writes the lower one, so
//! that it cannot grow again unseen. After a merge whose sides both lowered a number, take either
//! side's file and update it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Numbers by table and key.
pub(crate) type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// A file of such numbers.
pub(crate) struct Ratchet {
    file: PathBuf,
    /// The file's first lines, which say what it is.
    head: &'static str,
    /// What is allowed without a line in the file.
    floor: u64,
    kept: Counts,
}

/// A number that is no longer the one in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) table: String,
    pub(crate) key: String,
    pub(crate) allowed: u64,
    pub(crate) found: u64,
}

impl Change {
    pub(crate) fn grew(&self) -> bool {
        self.found > self.allowed
    }
}

impl Ratchet {
    /// Reads a file, and takes a missing one for an empty one.
    pub(crate) fn read(file: &Path, head: &'static str, floor: u64) -> anyhow::Result<Ratchet> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(fault) => {
                return Err(fault).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        let kept =
            toml::from_str(&text).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(Ratchet { file: file.to_owned(), head, floor, kept })
    }

    pub(crate) fn allowed(&self, table: &str, key: &str) -> u64 {
        self.line(table, key).unwrap_or(self.floor)
    }

    fn line(&self, table: &str, key: &str) -> Option<u64> {
        self.kept.get(table)?.get(key).copied()
    }

    /// Every number that differs from the file's; what was not found is none.
    pub(crate) fn changes(&self, found: &Counts) -> Vec<Change> {
        let keys = |counts: &Counts| -> BTreeSet<(String, String)> {
            let pairs = counts
                .iter()
                .flat_map(|(table, keys)| keys.keys().map(|key| (table.clone(), key.clone())));
            pairs.collect()
        };
        let mut changes = Vec::new();
        for (table, key) in keys(found).union(&keys(&self.kept)) {
            let now = found.get(table).and_then(|keys| keys.get(key)).copied().unwrap_or(0);
            let wanted = (now > self.floor).then_some(now);
            if wanted != self.line(table, key) {
                let (table, key) = (table.clone(), key.clone());
                changes.push(Change {
                    allowed: self.allowed(&table, &key),
                    table,
                    key,
                    found: now,
                });
            }
        }
        changes
    }

    /// Writes the numbers found: those that fell, with `force` also those that grew. Returns what
    /// it did not write.
    pub(crate) fn update(&mut self, found: &Counts, force: bool) -> anyhow::Result<Vec<Change>> {
        let (refused, written): (Vec<Change>, Vec<Change>) =
            self.changes(found).into_iter().partition(|change| change.grew() && !force);
        for change in written {
            let keys = self.kept.entry(change.table).or_default();
            if change.found > self.floor {
                keys.insert(change.key, change.found);
            } else {
                keys.remove(&change.key);
            }
        }
        self.kept.retain(|_, keys| !keys.is_empty());
        std::fs::write(&self.file, self.text())
            .with_context(|| format!("cannot write {}", self.file.display()))?;
        Ok(refused)
    }

    fn text(&self) -> String {
        let mut text = self.head.to_owned();
        for (table, keys) in &self.kept {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[{table}]\n");
            for (key, number) in keys {
                let _ = writeln!(text, "\"{key}\" = {number}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        let keys = pairs.iter().map(|(key, number)| ((*key).to_owned(), *number)).collect();
        BTreeMap::from([("table".to_owned(), keys)])
    }

    fn planted(floor: u64, pairs: &[(&str, u64)]) -> (tempfile::TempDir, Ratchet) {
        let folder = tempfile::tempdir().unwrap();
        let mut ratchet =
            Ratchet::read(&folder.path().join("counts.toml"), "# Head.\n", floor).unwrap();
        assert_eq!(ratchet.update(&counts(pairs), true).unwrap(), []);
        (folder, ratchet)
    }

    #[test]
    fn the_same_numbers_are_no_change() {
        let (folder, _) = planted(0, &[("a", 3), ("crates/b", 7)]);
        let again = Ratchet::read(&folder.path().join("counts.toml"), "# Head.\n", 0).unwrap();
        assert_eq!(again.changes(&counts(&[("a", 3), ("crates/b", 7), ("c", 0)])), []);
    }

    #[test]
    fn an_update_lowers_and_never_raises() {
        let (_folder, mut ratchet) = planted(0, &[("a", 3), ("b", 7), ("gone", 2)]);
        let found = counts(&[("a", 4), ("b", 6), ("new", 1)]);
        assert_eq!(ratchet.changes(&found).iter().filter(|change| change.grew()).count(), 2);
        assert_eq!(ratchet.changes(&found).len(), 4);
        let refused = ratchet.update(&found, false).unwrap();
        assert_eq!(
            refused.iter().map(|change| change.key.as_str()).collect::<Vec<_>>(),
            ["a", "new"]
        );
        assert_eq!((ratchet.allowed("table", "a"), ratchet.allowed("table", "b")), (3, 6));
        assert_eq!((ratchet.allowed("table", "gone"), ratchet.allowed("table", "new")), (0, 0));
    }

    #[test]
    fn force_raises() {
        let (_folder, mut ratchet) = planted(0, &[("a", 3)]);
        assert_eq!(ratchet.update(&counts(&[("a", 4)]), true).unwrap(), []);
        assert_eq!(ratchet.allowed("table", "a"), 4);
    }

    #[test]
    fn up_to_the_floor_there_is_no_line() {
        let (_folder, mut ratchet) = planted(4, &[("a", 9), ("b", 4)]);
        assert!(!ratchet.text().contains("\"b\""), "{}", ratchet.text());
        assert_eq!(ratchet.allowed("table", "b"), 4);
        assert!(ratchet.changes(&counts(&[("a", 9), ("b", 5)]))[0].grew());
        assert!(!ratchet.changes(&counts(&[("a", 2)]))[0].grew());
        assert_eq!(ratchet.update(&counts(&[("a", 2)]), false).unwrap(), []);
        assert_eq!(ratchet.text(), "# Head.\n");
    }

    #[test]
    fn a_file_of_another_shape_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counts.toml");
        std::fs::write(&file, "table = 3").unwrap();
        assert!(Ratchet::read(&file, "", 0).is_err());
    }
}
