//! Groups that follow the machine: the processors of the program by cache or memory node.
//!
//! Where every worker is bound to one processor (by a manager's grant, or because the
//! program wants it), members are grouped by where they are, the master's own domain first.
//! Elsewhere the kernel places them, and the groups are as large as the domains.

use engine::program::program;
use engine::source::source;
use engine::worker::Worker;
use platform::affinity::{CpuSet, current_cpu};
use platform::topology::{Cpu, Topology};

/// What the processors of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopologyLevel {
    /// The last-level cache.
    Cache,
    /// The memory node.
    Node,
}

impl TopologyLevel {
    fn of(self, cpu: &Cpu) -> u32 {
        match self {
            Self::Cache => cpu.llc,
            Self::Node => cpu.node,
        }
    }

    /// Members 1.. of a team by the domain that they are bound in, and how many threads each domain
    /// has, the calling master counted. `None` when some are not bound.
    pub(super) fn arrange(
        self,
        workers: &[&'static Worker],
    ) -> Option<(Vec<usize>, Vec<&'static Worker>)> {
        let machine = program().machine()?;
        let domains = workers.iter().map(|worker| {
            let cpu = machine.cpus().iter().find(|cpu| worker.is_on(cpu.id))?;
            Some(self.of(cpu))
        });
        let domains = domains.collect::<Option<Vec<u32>>>()?;
        let own = self.of(machine.get(current_cpu())?);
        let (sizes, order) = by_domain(own, &domains);
        Some((sizes, order.into_iter().map(|worker| workers[worker]).collect()))
    }

    /// How many of the program's processors each domain has, domains in the order of their first
    /// processor.
    pub(super) fn weights(self) -> Vec<usize> {
        let mask = program().mask();
        let own = source()
            .processors()
            .map_or_else(|| mask.clone(), |granted| granted.intersection(mask));
        match program().machine() {
            Some(machine) => self.weights_of(machine, &own),
            None => vec![1],
        }
    }

    fn weights_of(self, machine: &Topology, own: &CpuSet) -> Vec<usize> {
        let mut domains: Vec<(u32, usize)> = Vec::new();
        for cpu in machine.cpus().iter().filter(|cpu| own.contains(cpu.id)) {
            let domain = self.of(cpu);
            match domains.iter_mut().find(|(known, _)| *known == domain) {
                Some((_, count)) => *count += 1,
                None => domains.push((domain, 1)),
            }
        }
        // A mask of processors that went offline: one group of what there is.
        if domains.is_empty() {
            vec![1]
        } else {
            domains.into_iter().map(|(_, count)| count).collect()
        }
    }
}

/// Groups workers, of which each is in one of `domains`: how many threads each domain has, that of
/// the master (`own`) first, the others in the order of their first worker; and the workers in that
/// order.
fn by_domain(own: u32, domains: &[u32]) -> (Vec<usize>, Vec<usize>) {
    let mut kinds = vec![own];
    for &domain in domains {
        if !kinds.contains(&domain) {
            kinds.push(domain);
        }
    }
    let mut order = Vec::with_capacity(domains.len());
    let mut sizes = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let before = order.len();
        order.extend((0..domains.len()).filter(|&worker| domains[worker] == kind));
        sizes.push(order.len() - before + usize::from(kind == own));
    }
    (sizes, order)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(path: &Path, text: &str) {
        let folder = path.parent().expect("a file stands in a folder");
        std::fs::create_dir_all(folder).expect("the test's folder can be written");
        std::fs::write(path, text).expect("the test's folder can be written");
    }

    /// Two nodes of four processors with two caches each; processor numbers alternate between the
    /// nodes.
    fn two_nodes(root: &Path) -> Topology {
        write(&root.join("cpu/online"), "0-7\n");
        write(&root.join("cpu/possible"), "0-7\n");
        for cpu in 0..8 {
            let folder = root.join(format!("cpu/cpu{cpu}"));
            write(&folder.join("topology/physical_package_id"), &format!("{}\n", cpu % 2));
            write(&folder.join("topology/core_id"), &format!("{}\n", cpu / 2));
            let first = cpu % 4;
            let index = folder.join("cache/index3");
            write(&index.join("level"), "3\n");
            write(&index.join("type"), "Unified\n");
            write(&index.join("shared_cpu_list"), &format!("{first},{}\n", first + 4));
        }
        write(&root.join("node/online"), "0-1\n");
        write(&root.join("node/node0/cpulist"), "0,2,4,6\n");
        write(&root.join("node/node1/cpulist"), "1,3,5,7\n");
        Topology::read_from(root).expect("the tree is whole")
    }

    #[test]
    fn each_cache_and_each_node_weighs_as_many_processors_as_the_program_has_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let machine = two_nodes(folder.path());
        let all = machine.online();
        assert_eq!(TopologyLevel::Node.weights_of(&machine, &all), [4, 4]);
        assert_eq!(TopologyLevel::Cache.weights_of(&machine, &all), [2, 2, 2, 2]);
        let some = CpuSet::parse_list("0,2,4,1").unwrap();
        assert_eq!(TopologyLevel::Node.weights_of(&machine, &some), [3, 1]);
        assert_eq!(TopologyLevel::Cache.weights_of(&machine, &some), [2, 1, 1]);
    }

    #[test]
    fn workers_are_grouped_by_domain_the_masters_first_and_keep_their_order() {
        assert_eq!(by_domain(1, &[0, 1, 0, 2, 1]), (vec![3, 2, 1], vec![1, 4, 0, 2, 3]));
        assert_eq!(
            by_domain(7, &[0, 0]),
            (vec![1, 2], vec![0, 1]),
            "the master alone in its domain"
        );
        assert_eq!(by_domain(0, &[]), (vec![1], vec![]));
    }

    #[test]
    fn a_program_on_unknown_processors_has_one_group() {
        let machine = Topology::flat(&CpuSet::parse_list("0-3").unwrap()).unwrap();
        assert_eq!(
            TopologyLevel::Cache.weights_of(&machine, &CpuSet::parse_list("9").unwrap()),
            [1]
        );
        assert_eq!(TopologyLevel::Node.weights_of(&machine, &machine.online()), [4]);
    }
}
