//! Limits of control groups: trees of version 1, version 2 and both, and of this machine.

use nanothreads_platform::affinity::{CpuSet, affinity};
use nanothreads_platform::cgroup::{CgroupError, Limits, usable_processors};
use proptest::prelude::*;

use crate::tree::tree;

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
const V1: &str = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:2 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
34 31 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd";
const V1_PLACES: &str = "5:name=systemd:/user\n4:cpuset:/set\n3:cpu,cpuacct:/a/b";

/// Reads a tree: the two files of /proc, and files below /sys/fs/cgroup (`G/` before the name).
fn read(mounts: &str, places: &str, files: &[(&str, &str)]) -> Result<Limits, CgroupError> {
    let proc = [("P/self/mountinfo", mounts), ("P/self/cgroup", places)];
    let root = tree(proc.iter().chain(files).copied());
    Limits::read_from(&root.path().join("P"), &root.path().join("G"))
}

fn limits(quota: Option<f64>, cpuset: Option<&str>) -> Limits {
    Limits { quota, cpuset: cpuset.map(|list| CpuSet::parse_list(list).unwrap()) }
}

#[test]
fn version_2_reads_quota_and_processors_of_our_group() {
    let files = [("G/a/cpu.max", "250000 100000"), ("G/a/cpuset.cpus.effective", "0-3,8")];
    assert_eq!(read(V2, "0::/a", &files).unwrap(), limits(Some(2.5), Some("0-3,8")));
}

#[test]
fn a_quota_of_any_group_above_limits_us_too() {
    let files = [
        ("G/a/cpu.max", "150000 50000"),
        ("G/a/b/cpu.max", "max 100000"),
        ("G/a/b/c/cpu.max", "400000 100000"),
        ("G/a/b/c/d/cpu.max", "1000 100000"),
        ("G/a/other/cpu.max", "1000 100000"),
    ];
    assert_eq!(read(V2, "0::/a/b/c", &files).unwrap().quota, Some(3.0));
    assert_eq!(read(V2, "0::/a/b", &files).unwrap().quota, Some(3.0));
    assert_eq!(read(V2, "0::/a/b/c/d", &files).unwrap().quota, Some(0.01));
    assert_eq!(read(V2, "0::/", &files).unwrap(), Limits::default());
}

#[test]
fn max_is_no_limit() {
    let files = [("G/a/cpu.max", "max 100000")];
    assert_eq!(read(V2, "0::/a", &files).unwrap(), Limits::default());
}

#[test]
fn the_processors_are_those_of_the_nearest_group_that_has_a_set() {
    let files = [
        ("G/a/cpuset.cpus.effective", "0-7"),
        ("G/a/b/cpuset.cpus.effective", "2-3"),
        ("G/a/b/c/x", ""),
    ];
    assert_eq!(read(V2, "0::/a/b/c", &files).unwrap().cpuset, limits(None, Some("2-3")).cpuset);
    assert_eq!(read(V2, "0::/a", &files).unwrap().cpuset, limits(None, Some("0-7")).cpuset);
}

#[test]
fn version_1_reads_each_controller_from_its_own_hierarchy() {
    let files = [
        ("G/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1"),
        ("G/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000"),
        ("G/cpu,cpuacct/a/cpu.cfs_quota_us", "175000"),
        ("G/cpu,cpuacct/a/cpu.cfs_period_us", "50000"),
        ("G/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
        ("G/cpuset/set/cpuset.cpus", "0-7"),
        ("G/cpuset/set/cpuset.effective_cpus", "4-7"),
        ("G/cpuset/cpuset.cpus", "0-63"),
        // Files of the other controller in a hierarchy that does not have it.
        ("G/cpuset/set/cpu.cfs_quota_us", "1000"),
        ("G/cpuset/set/cpu.cfs_period_us", "1000"),
    ];
    assert_eq!(read(V1, V1_PLACES, &files).unwrap(), limits(Some(3.5), Some("4-7")));
}

#[test]
fn version_1_without_effective_sets_takes_the_set_and_skips_empty_ones() {
    let files = [("G/cpuset/set/cpuset.cpus", ""), ("G/cpuset/cpuset.cpus", "0-3")];
    assert_eq!(read(V1, V1_PLACES, &files).unwrap(), limits(None, Some("0-3")));
}

#[test]
fn a_hybrid_system_takes_the_least_of_both_versions() {
    let mounts = format!("{V1}\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
    let places = format!("{V1_PLACES}\n0::/u");
    let files = [
        ("G/cpu,cpuacct/a/cpu.cfs_quota_us", "800000"),
        ("G/cpu,cpuacct/a/cpu.cfs_period_us", "100000"),
        ("G/unified/u/cpu.max", "600000 100000"),
        ("G/cpuset/set/cpuset.effective_cpus", "0-3"),
        ("G/unified/u/cpuset.cpus.effective", "2-5"),
    ];
    assert_eq!(read(&mounts, &places, &files).unwrap(), limits(Some(6.0), Some("2-3")));
    // As systemd's hybrid mode has it: version 2 without controllers.
    assert_eq!(read(&mounts, &places, &files[..2]).unwrap(), limits(Some(8.0), None));
}

#[test]
fn a_container_sees_its_group_at_the_top_of_the_mount() {
    // The last file lies beside the mount, where a path with ".." would lead.
    let files = [
        ("G/cpu.max", "200000 100000"),
        ("G/in/cpu.max", "100000 100000"),
        ("in/cpu.max", "1000 100000"),
    ];
    let part = V2.replace(" / /sys", " /docker/abc /sys");
    // Without a cgroup namespace /proc shows the path from the machine's top, and the mount says
    // where it begins.
    assert_eq!(read(&part, "0::/docker/abc", &files).unwrap().quota, Some(2.0));
    assert_eq!(read(&part, "0::/docker/abc/in", &files).unwrap().quota, Some(1.0));
    // With one, it shows the path from the container's top.
    assert_eq!(read(V2, "0::/", &files).unwrap().quota, Some(2.0));
    // Outside of what is mounted: the top is all that we see.
    assert_eq!(read(&part, "0::/docker/abcdef/in", &files).unwrap().quota, Some(2.0));
    assert_eq!(read(V2, "0::/../in", &files).unwrap().quota, Some(2.0));
}

#[test]
fn a_mount_that_shows_another_containers_group_does_not_limit_us() {
    let files = [
        ("G/cpu.max", "max 100000"),
        ("G/me/cpu.max", "700000 100000"),
        ("G/other/cpu.max", "1000 100000"),
    ];
    let foreign = "31 23 0:26 /box /sys/fs/cgroup/other rw - cgroup2 cgroup2 rw";
    for mounts in [format!("{V2}\n{foreign}"), format!("{foreign}\n{V2}")] {
        assert_eq!(read(&mounts, "0::/me", &files).unwrap().quota, Some(7.0));
    }
}

#[test]
fn of_two_mounts_that_show_our_group_the_one_with_more_groups_above_it_counts() {
    let files = [("G/a/cpu.max", "200000 100000"), ("G/part/cpu.max", "max 100000")];
    let part = "31 23 0:26 /a/b /sys/fs/cgroup/part rw - cgroup2 cgroup2 rw";
    for mounts in [format!("{V2}\n{part}"), format!("{part}\n{V2}")] {
        assert_eq!(read(&mounts, "0::/a/b", &files).unwrap().quota, Some(2.0));
    }
}

#[test]
fn mount_points_elsewhere_and_with_blanks_are_found() {
    let place = tree([("my groups/a/cpu.max", "300000 100000")]);
    let point = place.path().join("my groups").display().to_string().replace(' ', "\\040");
    let mounts = format!("30 23 0:26 / {point} rw - cgroup2 none rw");
    assert_eq!(read(&mounts, "0::/a", &[]).unwrap().quota, Some(3.0));
    let blank = [("G/my slice/cpu.max", "300000 100000"), ("G/a:b/cpu.max", "100000 100000")];
    assert_eq!(read(V2, "0::/my slice", &blank).unwrap().quota, Some(3.0));
    assert_eq!(read(V2, "0::/a:b", &blank).unwrap().quota, Some(1.0));
}

#[test]
fn what_is_missing_does_not_limit() {
    assert_eq!(read(V2, "0::/gone", &[]).unwrap(), Limits::default());
    assert_eq!(read(V1, V1_PLACES, &[]).unwrap(), Limits::default());
    assert_eq!(read("", "", &[]).unwrap(), Limits::default());
    assert_eq!(read(V2, V1_PLACES, &[("G/a/cpu.max", "1000 1000")]).unwrap(), Limits::default());
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Limits::read_from(empty.path(), empty.path()).unwrap(), Limits::default());
}

#[test]
fn garbage_in_version_2_is_refused_with_the_file_and_its_content() {
    for (file, content) in [
        ("G/a/cpu.max", "lots"),
        ("G/a/cpu.max", ""),
        ("G/a/cpu.max", "max"),
        ("G/a/cpu.max", "max soon"),
        ("G/a/cpu.max", "100000 0"),
        ("G/a/cpu.max", "0 100000"),
        ("G/a/cpu.max", "-1 100000"),
        ("G/a/cpu.max", "1.5 100000"),
        ("G/a/cpu.max", "1000 1000 1000"),
        ("G/a/cpuset.cpus.effective", "0-x"),
    ] {
        let message = read(V2, "0::/a", &[(file, content)]).unwrap_err().to_string();
        assert!(message.contains(file) && message.contains(&format!("{content:?}")), "{message}");
    }
}

#[test]
fn garbage_in_version_1_is_refused_with_the_file_and_its_content() {
    const QUOTA: &str = "G/cpu,cpuacct/a/b/cpu.cfs_quota_us";
    const PERIOD: &str = "G/cpu,cpuacct/a/b/cpu.cfs_period_us";
    for (quota, period, named, shown) in [
        ("-2", "100000", QUOTA, "-2"),
        ("0", "100000", QUOTA, "0"),
        ("half", "100000", QUOTA, "half"),
        ("50000", "0", PERIOD, "0"),
        ("50000", "-1", PERIOD, "-1"),
    ] {
        let message =
            read(V1, V1_PLACES, &[(QUOTA, quota), (PERIOD, period)]).unwrap_err().to_string();
        assert!(message.contains(named) && message.contains(&format!("{shown:?}")), "{message}");
    }
    let message = read(V1, V1_PLACES, &[(QUOTA, "50000")]).unwrap_err().to_string();
    assert!(message.contains(PERIOD) && message.contains("is missing"), "{message}");
}

#[test]
fn garbage_in_proc_is_refused_with_the_line() {
    let message = read(V2, "0::/a\nnonsense", &[]).unwrap_err().to_string();
    assert!(message.contains("self/cgroup") && message.contains("\"nonsense\""), "{message}");
    for line in [
        "nonsense",
        "1 2 - cgroup2",
        "30 23 0:26 / /sys/fs/cgroup rw -",
        "3 2 0:2 / /x rw - cgroup",
    ] {
        let message = read(line, "0::/a", &[]).unwrap_err().to_string();
        assert!(
            message.contains("self/mountinfo") && message.contains(&format!("{line:?}")),
            "{message}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_not_a_missing_limit() {
    let error = read(V2, "0::/a", &[("G/a/cpu.max/is_a_folder", "")]).unwrap_err();
    assert!(
        matches!(&error, CgroupError::Unreadable { path, .. } if path.ends_with("G/a/cpu.max")),
        "{error}"
    );
}

#[test]
fn usable_processors_are_the_least_of_mask_set_and_whole_quota() {
    let mask = CpuSet::first_n(8);
    for (quota, cpuset, expected) in [
        (None, None, 8),
        (None, Some("0-3"), 4),
        (None, Some("6-9"), 2),
        (Some(3.0), None, 3),
        (Some(2.999), None, 2),
        (Some(0.5), None, 1),
        (Some(100.0), None, 8),
        (Some(3.0), Some("0-1"), 2),
        // A mask outside of the set is stale: something is left all the same.
        (None, Some("16-31"), 1),
        (Some(f64::INFINITY), None, 8),
        (Some(f64::NAN), None, 1),
        (Some(-1.0), None, 1),
    ] {
        assert_eq!(
            usable_processors(&mask, &limits(quota, cpuset)),
            expected,
            "{quota:?} {cpuset:?}"
        );
    }
    assert_eq!(usable_processors(&CpuSet::new(), &Limits::default()), 1);
}

proptest! {
    // Each case writes files.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whole_quotas_are_not_rounded_below_themselves(processors in 1_usize..1024, period in 1000_u64..1_000_000) {
        let quota = format!("{} {period}", processors as u64 * period);
        let read = read(V2, "0::/a", &[("G/a/cpu.max", &quota)]).unwrap();
        prop_assert_eq!(usable_processors(&CpuSet::first_n(2000), &read), processors);
    }
}

#[test]
fn this_machines_limits_leave_at_least_one_processor_of_our_mask() {
    let limits = Limits::read().unwrap();
    let mask = affinity(None).unwrap();
    assert!((1..=mask.len()).contains(&usable_processors(&mask, &limits)));
    if let Some(cpuset) = &limits.cpuset {
        assert!(
            mask.is_subset(cpuset),
            "the kernel keeps the mask within the set: {mask} and {cpuset}"
        );
    }
}

#[test]
fn a_process_is_read_by_its_number_too() {
    let own = std::process::id().cast_signed();
    assert_eq!(Limits::of_process(own).unwrap(), Limits::read().unwrap());
    // No process has this number.
    assert_eq!(Limits::of_process(i32::MAX).unwrap(), Limits::default());
}
