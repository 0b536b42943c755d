//! How often control groups stopped this process because its time was used up.

use super::{
    CgroupError, Hierarchy, MOUNTED_AT, garbage, parse_mounts, parse_places, read_bytes, read_text,
};
use std::path::Path;

/// Periods in which our control groups, or those above, stopped their processes because the quota
/// was used up: a number that only grows while the process stays where it is. `None` when no group
/// that we see has a quota's counters. Some ten small files: do it now and then.
///
/// # Errors
/// When a file is unreadable or garbage.
pub fn throttled_periods() -> Result<Option<u64>, CgroupError> {
    throttled_periods_in(Path::new("/proc"), Path::new(MOUNTED_AT))
}

/// The same for trees of the same form as `/proc` and `/sys/fs/cgroup`, as
/// [`Limits::read_from`](super::Limits::read_from) takes them.
///
/// # Errors
/// When a file that is there is unreadable or garbage.
pub fn throttled_periods_in(
    proc_root: &Path,
    cgroup_root: &Path,
) -> Result<Option<u64>, CgroupError> {
    let (mounts_file, places_file) =
        (proc_root.join("self/mountinfo"), proc_root.join("self/cgroup"));
    let (Some(mounts), Some(places)) = (read_bytes(&mounts_file)?, read_bytes(&places_file)?)
    else {
        return Ok(None);
    };
    let places = parse_places(&places).map_err(|error| error.at(&places_file))?;
    let mounts = parse_mounts(&mounts).map_err(|error| error.at(&mounts_file))?;
    let mut sum = None;
    for place in &places {
        let Some(mount) = place.nearest_mount(&mounts).filter(|mount| mount.controls("cpu")) else {
            continue;
        };
        for group in Hierarchy::new(mount, &place.path, cgroup_root).groups {
            if let Some(count) = throttled(&group)? {
                sum = Some(sum.unwrap_or(0_u64).saturating_add(count));
            }
        }
    }
    Ok(sum)
}

/// The line `nr_throttled N` of a group's `cpu.stat`, which both versions have where the group may
/// have a quota.
fn throttled(group: &Path) -> Result<Option<u64>, CgroupError> {
    let path = group.join("cpu.stat");
    let Some(text) = read_text(&path)? else { return Ok(None) };
    let Some(count) = text.lines().find_map(|line| line.strip_prefix("nr_throttled ")) else {
        return Ok(None);
    };
    let count = count.trim().parse();
    count
        .map(Some)
        .map_err(|_| garbage(&path, &text, "expected a number after nr_throttled".to_owned()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        root
    }

    fn count(root: &tempfile::TempDir) -> Result<Option<u64>, CgroupError> {
        throttled_periods_in(&root.path().join("proc"), &root.path().join("cgroup"))
    }

    const V2: &str = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const STAT: &str = "usage_usec 12\nnr_periods 9\nnr_throttled 4\nthrottled_usec 77\n";

    #[test]
    fn groups_above_ours_count_and_groups_without_quota_do_not() {
        let root = tree(&[
            ("proc/self/mountinfo", V2),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("cgroup/a/b/cpu.stat", STAT),
            ("cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 30\n"),
            ("cgroup/cpu.stat", "usage_usec 12\n"),
        ]);
        assert_eq!(count(&root).unwrap(), Some(34));
    }

    #[test]
    fn version_1_has_the_counter_in_the_hierarchy_of_the_cpu_controller() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let root = tree(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "2:memory:/m\n1:cpu:/c\n"),
            ("cgroup/cpu/c/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 1\n"),
            ("cgroup/memory/m/cpu.stat", "nr_throttled 500\n"),
        ]);
        assert_eq!(count(&root).unwrap(), Some(2));
    }

    #[test]
    fn no_groups_and_no_counters_are_nothing_and_garbage_is_named() {
        assert_eq!(count(&tree(&[])).unwrap(), None);
        let bare = [("proc/self/mountinfo", V2), ("proc/self/cgroup", "0::/\n")];
        assert_eq!(count(&tree(&bare)).unwrap(), None);
        let bad = tree(&[bare[0], bare[1], ("cgroup/cpu.stat", "nr_throttled many\n")]);
        assert!(count(&bad).unwrap_err().to_string().contains("cpu.stat"));
        // This machine's own.
        throttled_periods().unwrap();
    }
}
