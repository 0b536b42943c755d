//! Fences in directories that look like control groups; `tests/fence.rs` has real ones.

use super::*;
use crate::kernel::Linux;

fn set(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

fn file(group: &Path, name: &str, text: &str) {
    fs::create_dir_all(group).unwrap();
    fs::write(group.join(name), text).unwrap();
}

fn own() -> (Pid, Threads) {
    let pid = process::current_pid();
    (pid, Threads::of(pid, process::pidfd_open(pid).unwrap()).unwrap())
}

/// The group in which this process is, below a directory that looks like a mount.
fn own_home(top: &Path, version: Version) -> PathBuf {
    let places = fs::read_to_string("/proc/self/cgroup").unwrap();
    let home = top.join(home(&places, version).unwrap_or_default());
    file(&home, PROCESSES, "");
    home
}

#[test]
fn the_way_back_is_what_the_kernel_says() {
    let places = "12:cpu,cpuacct:/a\n3:cpuset:/b/c\n0::/user.slice/s.scope\n";
    assert_eq!(home(places, Version::One), Some("b/c".into()));
    assert_eq!(home(places, Version::Two), Some("user.slice/s.scope".into()));
    assert_eq!(home("0::/", Version::Two), Some("".into()));
    // Above what we can see; another hierarchy; nothing that the kernel would say.
    for places in ["0::/../x", "1:name=systemd:/x", "", "0:", "0::x"] {
        assert_eq!(home(places, Version::Two), None, "{places:?}");
    }
}

#[test]
fn a_delegated_group_of_version_2_gets_the_controller_and_loses_the_manager() {
    let top = tempfile::tempdir().unwrap();
    let group = top.path().join("cpumgr.service");
    file(top.path(), PROCESSES, "1");
    file(&group, "cgroup.controllers", "cpuset cpu\n");
    file(&group, PROCESSES, &format!("7\n{}\n", process::current_pid()));
    let home = own_home(top.path(), Version::Two);
    let fences = Fences::below(&group).unwrap();
    assert_eq!(fs::read_to_string(group.join("cgroup.subtree_control")).unwrap(), "+cpuset");
    let own_group = fs::read_to_string(group.join(OWN).join(PROCESSES)).unwrap();
    assert_eq!(own_group, process::current_pid().to_string());

    let (pid, threads) = own();
    let mut fence = fences.put(&Linux, (3, pid, &threads), &set("0-1")).unwrap();
    let read = |name: &str| fs::read_to_string(fence.group.join(name)).unwrap();
    assert_eq!((read(CPUS), read(PROCESSES)), ("0-1".into(), pid.to_string()));
    assert!(!fence.group.join(NODES).exists(), "the group above says which nodes");
    fence.move_to(&set("4")).unwrap();
    assert_eq!(fs::read_to_string(fence.group.join(CPUS)).unwrap(), "4");
    fence.lift(&Linux, &threads);
    assert_eq!(fs::read_to_string(home.join(PROCESSES)).unwrap(), pid.to_string());
}

#[test]
fn a_cpuset_of_version_1_needs_nodes() {
    let top = tempfile::tempdir().unwrap();
    let group = top.path().join("nanos");
    for (name, text) in [(PROCESSES, ""), (CPUS, "0-3\n"), (NODES, "\n")] {
        file(&group, name, text);
    }
    file(top.path(), PROCESSES, "1");
    let refused = Fences::below(&group).unwrap_err();
    assert!(refused.to_string().contains("cpuset.mems is empty"), "{refused}");
    file(&group, NODES, "0\n");
    // One of a manager that was killed, in which there is still a process.
    let left = group.join(format!("{PREFIX}1-1"));
    file(&left, CPUS, "0");
    let fences = Fences::below(&group).unwrap();
    assert_eq!(fs::read_to_string(left.join(CPUS)).unwrap(), "0-3", "it is open now");
    if home(&fs::read_to_string("/proc/self/cgroup").unwrap(), Version::One).is_none() {
        platform::skip!("this system has no cpuset of version 1");
        return;
    }
    own_home(top.path(), Version::One);
    let (pid, threads) = own();
    let fence = fences.put(&Linux, (1, pid, &threads), &set("2")).unwrap();
    assert_eq!(fs::read_to_string(fence.group.join(NODES)).unwrap(), "0");
    assert_eq!(fs::read_to_string(fence.group.join(CPUS)).unwrap(), "2");
}

#[test]
fn what_is_no_group_or_has_no_way_back_is_refused_by_name() {
    let top = tempfile::tempdir().unwrap();
    let refused = Fences::below(top.path()).unwrap_err();
    assert!(
        matches!(refused, Error::Usage(_)) && refused.to_string().contains("no control group"),
        "{refused}"
    );
    let group = top.path().join("g");
    file(&group, "cgroup.controllers", "cpu memory\n");
    let refused = Fences::below(&group).unwrap_err();
    assert!(refused.to_string().contains("Delegate=cpuset"), "{refused}");
    file(&group, "cgroup.controllers", "cpuset\n");
    file(&group, PROCESSES, "");
    let fences = Fences {
        directory: group.clone(),
        version: Version::Two,
        top: top.path().join("elsewhere"),
    };
    let (pid, threads) = own();
    let refused = fences.put(&Linux, (1, pid, &threads), &set("0")).unwrap_err();
    assert!(refused.to_string().contains("no way back"), "{refused}");
    let left = fs::read_dir(&group).unwrap().flatten().filter(|it| it.path().is_dir()).count();
    assert_eq!(left, 0, "nothing was made");
}
