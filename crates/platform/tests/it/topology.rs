//! Topologies of made-up machines, and of this one.

use std::path::Path;

use nanothreads_platform::affinity::{CpuId, CpuSet, affinity};
use nanothreads_platform::topology::{Topology, TopologyError};
use tempfile::TempDir;

use crate::tree::{tree, write};

/// A regular machine, as Linux numbers most of them: all first hardware threads, then all second
/// ones.
#[derive(Clone, Copy)]
struct Machine {
    packages: u32,
    llcs_per_package: u32,
    cores_per_llc: u32,
    smt: u32,
    nodes_per_package: u32,
}

const SERVER: Machine =
    Machine { packages: 2, llcs_per_package: 4, cores_per_llc: 3, smt: 2, nodes_per_package: 2 };
const LAPTOP: Machine =
    Machine { packages: 1, llcs_per_package: 1, cores_per_llc: 4, smt: 1, nodes_per_package: 1 };

impl Machine {
    fn cores(self) -> u32 {
        self.packages * self.llcs_per_package * self.cores_per_llc
    }

    fn cpus(self) -> u32 {
        self.cores() * self.smt
    }

    fn core_of(self, cpu: u32) -> u32 {
        cpu % self.cores()
    }

    fn llc_of(self, cpu: u32) -> u32 {
        self.core_of(cpu) / self.cores_per_llc
    }

    fn package_of(self, cpu: u32) -> u32 {
        self.llc_of(cpu) / self.llcs_per_package
    }

    fn node_of(self, cpu: u32) -> u32 {
        self.core_of(cpu) * self.nodes_per_package * self.packages / self.cores()
    }

    /// The online processors that `group` does not tell from `cpu`.
    fn sharers(self, online: &CpuSet, cpu: u32, group: impl Fn(Machine, u32) -> u32) -> String {
        let alike = |other: &CpuId| group(self, other.0) == group(self, cpu);
        online.iter().filter(alike).collect::<CpuSet>().to_string()
    }

    /// The files below `/sys/devices/system`, as the kernel shows them with only `online` switched
    /// on.
    fn files(self, online: &CpuSet) -> Vec<(String, String)> {
        let mut files = vec![
            ("cpu/online".to_owned(), online.to_string()),
            ("cpu/possible".to_owned(), CpuSet::first_n(self.cpus()).to_string()),
        ];
        for CpuId(cpu) in online {
            let mut file =
                |name: &str, content: String| files.push((format!("cpu/cpu{cpu}/{name}"), content));
            let core = self.sharers(online, cpu, Machine::core_of);
            let package = self.sharers(online, cpu, Machine::package_of);
            file("topology/core_cpus_list", core.clone());
            file("topology/package_cpus_list", package);
            // The kernel's core numbers begin anew in each package.
            let core_id = self.core_of(cpu) % (self.cores() / self.packages);
            file("topology/core_id", core_id.to_string());
            file("topology/physical_package_id", self.package_of(cpu).to_string());
            let llc = self.sharers(online, cpu, Machine::llc_of);
            let caches = [
                (1, "Data", &core),
                (1, "Instruction", &core),
                (2, "Unified", &core),
                (3, "Unified", &llc),
            ];
            for (index, (level, kind, sharers)) in caches.into_iter().enumerate() {
                file(&format!("cache/index{index}/level"), level.to_string());
                file(&format!("cache/index{index}/type"), kind.to_owned());
                file(&format!("cache/index{index}/shared_cpu_list"), sharers.clone());
            }
        }
        for node in 0..self.packages * self.nodes_per_package {
            let cpus: CpuSet = online.iter().filter(|cpu| self.node_of(cpu.0) == node).collect();
            files.push((format!("node/node{node}/cpulist"), cpus.to_string()));
        }
        files
    }

    fn tree(self) -> TempDir {
        tree(self.files(&CpuSet::first_n(self.cpus())))
    }
}

fn read(root: &TempDir) -> Topology {
    Topology::read_from(root.path()).unwrap()
}

fn refused(root: &TempDir) -> String {
    Topology::read_from(root.path()).unwrap_err().to_string()
}

fn list(text: &str) -> CpuSet {
    CpuSet::parse_list(text).unwrap()
}

#[test]
fn a_server_with_packages_caches_threads_and_nodes_is_read_exactly() {
    let topology = read(&SERVER.tree());
    assert_eq!(topology.cpus().len(), 48);
    for cpu in topology.cpus() {
        let number = cpu.id.0;
        assert_eq!(cpu.package, SERVER.package_of(number), "package of {number}");
        assert_eq!(cpu.core, SERVER.core_of(number), "core of {number}");
        assert_eq!(cpu.smt_index, number / SERVER.cores(), "hardware thread of {number}");
        assert_eq!(cpu.llc, SERVER.llc_of(number), "cache of {number}");
        assert_eq!(cpu.node, SERVER.node_of(number), "node of {number}");
    }
    assert_eq!(
        (topology.packages(), topology.cores(), topology.llcs(), topology.nodes()),
        (2, 24, 8, 4)
    );
    assert_eq!(topology.online(), CpuSet::first_n(48));
}

#[test]
fn groups_are_listed_by_processor_and_by_number() {
    let topology = read(&SERVER.tree());
    assert_eq!(topology.smt_siblings(CpuId(1)), list("25"));
    assert_eq!(topology.smt_siblings(CpuId(25)), list("1"));
    assert_eq!(topology.core_cpus(1), list("1,25"));
    assert_eq!(topology.llc_of(CpuId(4)), Some(1));
    assert_eq!(topology.llc_cpus(1), list("3-5,27-29"));
    assert_eq!(topology.node_of(CpuId(23)), Some(3));
    assert_eq!(topology.node_cpus(3), list("18-23,42-47"));
    assert_eq!(topology.package_cpus(1), list("12-23,36-47"));
    let absent = CpuId(48);
    assert_eq!(
        (topology.get(absent), topology.llc_of(absent), topology.node_of(absent)),
        (None, None, None)
    );
    assert!(topology.smt_siblings(absent).is_empty() && topology.llc_cpus(8).is_empty());
}

#[test]
fn a_machine_without_hardware_threads_has_a_core_per_processor() {
    let topology = read(&LAPTOP.tree());
    assert_eq!(
        (topology.packages(), topology.cores(), topology.llcs(), topology.nodes()),
        (1, 4, 1, 1)
    );
    assert!(topology.cpus().iter().all(|cpu| cpu.smt_index == 0 && cpu.core == cpu.id.0));
    assert!(topology.smt_siblings(CpuId(0)).is_empty());
}

#[test]
fn processors_that_are_offline_leave_holes_but_no_holes_in_the_numbers_of_groups() {
    // Off: all of package 0 but processor 2, and the first hardware threads of cores 12 and 13.
    let online = list("2,14-23,36-47");
    let topology = read(&tree(SERVER.files(&online)));
    assert_eq!(topology.online(), online);
    assert_eq!(topology.possible(), &CpuSet::first_n(48));
    assert_eq!(topology.get(CpuId(0)), None);
    let first = topology.cpus()[0];
    assert_eq!(
        (first.id, first.package, first.core, first.llc, first.node),
        (CpuId(2), 0, 0, 0, 0)
    );
    // The second hardware thread of a core whose first one is off is the first that there is.
    assert_eq!(topology.get(CpuId(36)).unwrap().smt_index, 0);
    assert_eq!(topology.get(CpuId(38)).unwrap().smt_index, 1);
    assert_eq!(topology.smt_siblings(CpuId(36)), CpuSet::new());
    assert_eq!((topology.packages(), topology.cores(), topology.llcs()), (2, 13, 5));
    assert_eq!(topology.cpus().iter().map(|cpu| cpu.core).max(), Some(12));
    // Nodes keep the system's numbers.
    assert_eq!(topology.node_of(CpuId(47)), Some(3));
}

#[test]
fn without_cache_folders_a_package_is_one_cache() {
    let root = SERVER.tree();
    for cpu in 0..SERVER.cpus() {
        std::fs::remove_dir_all(root.path().join(format!("cpu/cpu{cpu}/cache"))).unwrap();
    }
    let topology = read(&root);
    assert_eq!(topology.llcs(), 2);
    assert!(topology.cpus().iter().all(|cpu| cpu.llc == cpu.package));
}

#[test]
fn without_node_folders_all_is_node_zero() {
    let root = SERVER.tree();
    std::fs::remove_dir_all(root.path().join("node")).unwrap();
    assert!(read(&root).cpus().iter().all(|cpu| cpu.node == 0));
}

#[test]
fn nodes_without_processors_are_no_nodes_of_processors() {
    let root = LAPTOP.tree();
    write(root.path(), "node/node7/cpulist", "");
    write(root.path(), "node/has_cpu", "0");
    let topology = read(&root);
    assert_eq!((topology.nodes(), topology.node_cpus(7)), (1, CpuSet::new()));
}

#[test]
fn distances_are_read_also_of_nodes_without_processors() {
    let root = SERVER.tree();
    // Node 4 has memory and no processor, far from all others.
    write(root.path(), "node/node4/cpulist", "");
    for (node, row) in
        ["10 12 32 32 40", "12 10 32 32 40", "32 32 10 12 40", "32 32 12 10 40", "40 40 40 40 10"]
            .into_iter()
            .enumerate()
    {
        write(root.path(), &format!("node/node{node}/distance"), row);
    }
    let topology = read(&root);
    let distance = |from, to| {
        topology.distances().find(|(a, b, _)| (*a, *b) == (from, to)).map(|(.., far)| far)
    };
    assert_eq!((topology.distances().count(), topology.nodes()), (25, 4));
    assert_eq!(
        (distance(0, 0), distance(0, 1), distance(1, 2), distance(3, 4)),
        (Some(10), Some(12), Some(32), Some(40))
    );
    assert_eq!(read(&SERVER.tree()).distances().count(), 0);
    write(root.path(), "node/node2/distance", "32 32 10");
    assert!(refused(&root).contains("node2/distance") && refused(&root).contains("5 numbers"));
}

#[test]
fn a_hybrid_processor_has_cores_with_and_without_threads_and_caches_of_both_kinds() {
    // Two large cores with two threads and a second-level cache each; four small ones with one for
    // all of them; one third-level cache over all but the two of low power, which have none.
    let mut files = vec![("cpu/online".to_owned(), "0-9".to_owned())];
    let groups = [
        ("0-1", 0..2),
        ("2-3", 2..4),
        ("4", 4..5),
        ("5", 5..6),
        ("6", 6..7),
        ("7", 7..8),
        ("8", 8..9),
        ("9", 9..10),
    ];
    for (core, cpus) in groups {
        for cpu in cpus {
            let mut file = |name: &str, content: &str| {
                files.push((format!("cpu/cpu{cpu}/{name}"), content.to_owned()))
            };
            file("topology/core_cpus_list", core);
            file("topology/package_cpus_list", "0-9");
            let second = if cpu < 4 {
                core
            } else if cpu < 8 {
                "4-7"
            } else {
                "8-9"
            };
            file("cache/index2/level", "2");
            file("cache/index2/shared_cpu_list", second);
            if cpu < 8 {
                file("cache/index3/level", "3");
                file("cache/index3/shared_cpu_list", "0-7");
            }
        }
    }
    let topology = read(&tree(files));
    assert_eq!((topology.cores(), topology.llcs(), topology.packages()), (8, 2, 1));
    assert_eq!((topology.llc_cpus(0), topology.llc_cpus(1)), (list("0-7"), list("8-9")));
    assert_eq!(
        (topology.smt_siblings(CpuId(2)), topology.smt_siblings(CpuId(4))),
        (list("3"), CpuSet::new())
    );
}

#[test]
fn files_of_older_kernels_are_read_too() {
    let root = SERVER.tree();
    for cpu in 0..SERVER.cpus() {
        let folder = root.path().join(format!("cpu/cpu{cpu}/topology"));
        std::fs::rename(folder.join("core_cpus_list"), folder.join("thread_siblings_list"))
            .unwrap();
        std::fs::rename(folder.join("package_cpus_list"), folder.join("core_siblings_list"))
            .unwrap();
    }
    assert_eq!(read(&root), read(&SERVER.tree()));
}

#[test]
fn without_a_list_of_online_processors_their_folders_are_counted() {
    let files = [
        ("cpu/cpu0/x", ""),
        ("cpu/cpu1/online", "0"),
        ("cpu/cpu10/online", "1"),
        ("cpu/cpufreq/x", ""),
    ];
    let topology = read(&tree(files));
    assert_eq!(topology.online(), list("0,10"));
    // Nothing but the folders is known: cores of one package with one cache.
    assert_eq!(
        (topology.packages(), topology.cores(), topology.llcs(), topology.nodes()),
        (1, 2, 1, 1)
    );
    assert_eq!(Some(topology.cpus()), Topology::flat(&list("0,10")).as_ref().map(Topology::cpus));
}

#[test]
fn the_highest_cache_that_holds_data_counts_not_the_last_listed() {
    let files = [
        ("cpu/online", "0-3"),
        ("cpu/cpu0/cache/index0/level", "2"),
        ("cpu/cpu0/cache/index0/type", "Unified"),
        ("cpu/cpu0/cache/index0/shared_cpu_list", "0-1"),
        ("cpu/cpu1/cache/index0/level", "2"),
        ("cpu/cpu1/cache/index0/shared_cpu_list", "0-1"),
        ("cpu/cpu1/cache/index1/level", "1"),
        ("cpu/cpu1/cache/index1/type", "Data"),
        ("cpu/cpu1/cache/index1/shared_cpu_list", "1"),
        ("cpu/cpu2/cache/index0/level", "2"),
        ("cpu/cpu2/cache/index0/shared_cpu_list", "2-3"),
        ("cpu/cpu2/cache/index1/level", "3"),
        ("cpu/cpu2/cache/index1/type", "Instruction"),
        ("cpu/cpu2/cache/index1/shared_cpu_list", "0-3"),
        ("cpu/cpu3/cache/index0/level", "2"),
        ("cpu/cpu3/cache/index0/shared_cpu_list", "2-3"),
    ];
    let topology = read(&tree(files));
    assert_eq!(topology.cpus().iter().map(|cpu| cpu.llc).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn machines_beyond_1024_processors_are_read() {
    let files = [
        ("cpu/online", "0-1279"),
        ("cpu/cpu639/topology/core_cpus_list", "639,1279"),
        ("cpu/cpu1279/topology/core_cpus_list", "639,1279"),
        ("cpu/cpu1278/topology/package_cpus_list", "1278-1279"),
        ("cpu/cpu1279/topology/package_cpus_list", "1278-1279"),
        ("node/node0/cpulist", "0-1277"),
        ("node/node1/cpulist", "1278-1279"),
    ];
    let topology = read(&tree(files));
    assert_eq!((topology.cpus().len(), topology.cores(), topology.llcs()), (1280, 1279, 2));
    assert_eq!(topology.smt_siblings(CpuId(1279)), list("639"));
    assert_eq!(topology.get(CpuId(1279)).unwrap().smt_index, 1);
    assert_eq!(
        (topology.package_cpus(1), topology.node_cpus(1)),
        (list("1278-1279"), list("1278-1279"))
    );
}

#[test]
fn garbage_is_refused_with_the_file_and_its_content() {
    for (file, content) in [
        ("cpu/online", "0-x"),
        ("cpu/online", "3-0"),
        ("cpu/possible", "all"),
        ("cpu/cpu1/topology/core_cpus_list", "one"),
        ("cpu/cpu1/topology/package_cpus_list", "\u{1b}[31m"),
        ("cpu/cpu1/cache/index3/level", "third"),
        ("cpu/cpu1/cache/index3/shared_cpu_list", "0-9999999999"),
        ("node/node0/cpulist", "0-"),
    ] {
        let root = LAPTOP.tree();
        write(root.path(), file, content);
        let message = refused(&root);
        let shown = format!("{content:?}");
        assert!(message.contains(&root.path().join(file).display().to_string()), "{message}");
        assert!(message.contains(&shown) && !message.contains('\u{1b}'), "{message}");
    }
}

#[test]
fn a_group_that_does_not_hold_its_own_processor_is_refused() {
    for file in
        ["topology/core_cpus_list", "topology/package_cpus_list", "cache/index3/shared_cpu_list"]
    {
        let root = LAPTOP.tree();
        write(root.path(), &format!("cpu/cpu1/{file}"), "2-3");
        let message = refused(&root);
        assert!(
            message.contains(file) && message.contains("processor 1 is not in its own group"),
            "{message}"
        );
    }
}

#[test]
fn a_long_garbage_file_is_cut_in_the_message() {
    let root = LAPTOP.tree();
    write(root.path(), "cpu/cpu0/cache/index3/level", &"9".repeat(5000));
    let message = refused(&root);
    assert!(message.contains(&"9".repeat(80)) && !message.contains(&"9".repeat(81)), "{message}");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_not_a_missing_file() {
    let root = LAPTOP.tree();
    let path = root.path().join("cpu/cpu2/topology/core_cpus_list");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = Topology::read_from(root.path()).unwrap_err();
    assert!(
        matches!(&error, TopologyError::Unreadable { path: bad, .. } if *bad == path),
        "{error}"
    );
}

#[test]
fn a_machine_without_processors_is_refused() {
    let nothing = tempfile::tempdir().unwrap();
    assert!(refused(&nothing).contains("no processor is online"));
    assert!(refused(&tree([("cpu/online", "")])).contains("no processor is online"));
    let missing = Topology::read_from(Path::new("/nonexistent")).unwrap_err();
    assert!(matches!(missing, TopologyError::NoProcessors { .. }), "{missing}");
    assert_eq!(Topology::flat(&CpuSet::new()), None);
}

#[test]
fn this_machine_has_at_least_the_processors_that_we_may_use() {
    let topology = match Topology::read() {
        Err(TopologyError::NoProcessors { .. }) => {
            return nanothreads_platform::skip!("/sys is not mounted");
        }
        topology => topology.unwrap(),
    };
    assert!(affinity(None).unwrap().is_subset(&topology.online()));
    assert!(topology.online().is_subset(topology.possible()));
    for cpu in topology.cpus() {
        assert!(topology.core_cpus(cpu.core).is_subset(&topology.llc_cpus(cpu.llc)), "{cpu:?}");
        assert!(!topology.smt_siblings(cpu.id).contains(cpu.id));
    }
}

/// Two opinions on one machine: the same processors share cores, caches and packages.
#[cfg(feature = "hwloc")]
#[test]
fn hwloc_says_the_same_as_the_files() {
    let (files, hwloc) = (Topology::read().unwrap(), Topology::read_hwloc().unwrap());
    assert!(!hwloc.cpus().is_empty() && hwloc.online().is_subset(&files.online()));
    assert!(affinity(None).unwrap().is_subset(&hwloc.online()));
    for cpu in hwloc.cpus() {
        let own = files.get(cpu.id).unwrap();
        let both = |set: CpuSet| set.intersection(&hwloc.online());
        assert_eq!(
            hwloc.core_cpus(cpu.core),
            both(files.core_cpus(own.core)),
            "core of {}",
            cpu.id
        );
        assert_eq!(hwloc.llc_cpus(cpu.llc), both(files.llc_cpus(own.llc)), "cache of {}", cpu.id);
        assert_eq!(
            hwloc.package_cpus(cpu.package),
            both(files.package_cpus(own.package)),
            "package of {}",
            cpu.id
        );
        assert_eq!((cpu.node, cpu.id), (own.node, own.id));
    }
}
