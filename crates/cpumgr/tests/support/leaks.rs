//! What a test must not leave: processes of its manager's directory, shared memory with a name,
//! another mask of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use platform::affinity::{CpuSet, Tid, affinity};

/// What was there when a test began.
pub(crate) struct Check {
    dir: PathBuf,
    mask: CpuSet,
    shared: BTreeSet<String>,
}

impl Check {
    pub(crate) fn begin(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), mask: own_mask(), shared: shared_memory() }
    }

    /// To be called when the manager has ended.
    pub(crate) fn end(&self) {
        // A program may be about to end: its death is what a test waits for last.
        super::eventually("no process of the test is left", || {
            processes(&self.dir).is_empty().then_some(())
        });
        assert_eq!(own_mask(), self.mask, "the test's own mask has changed");
        let left: Vec<String> = shared_memory().difference(&self.shared).cloned().collect();
        assert!(left.is_empty(), "named shared memory is left: {left:?}");
    }
}

/// The initial thread's: the others belong to tests, some of which bind themselves.
fn own_mask() -> CpuSet {
    affinity(Some(Tid(std::process::id().cast_signed()))).unwrap()
}

/// Ours is memory without a name, so of all names in /dev/shm only those count that look like ours.
fn shared_memory() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| ["nanos", "cpumgr", "arena"].iter().any(|part| name.contains(part)))
        .collect()
}

/// Processes that live and name the directory in their command line or environment.
fn processes(dir: &Path) -> Vec<i32> {
    let needle = dir.as_os_str().as_encoded_bytes();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    let names = |pid: &i32| {
        // Of a process that ended, reaped or not, nothing is to be read.
        ["cmdline", "environ"].iter().any(|file| {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text.windows(needle.len()).any(|window| window == needle)
        })
    };
    pids.filter(|pid| *pid != own).filter(names).collect()
}
