//! Groups by memory node and by cache on bound threads: each thread of a group is where its group
//! is. One test, since binding belongs to the process.

use nanothreads::{Team, Waiting, builder, groups};
use platform::affinity::current_cpu;
use platform::topology::Topology;

#[test]
fn bound_threads_are_grouped_by_where_they_are() {
    own_process!();
    let machine = match Topology::read() {
        Ok(machine) => machine,
        Err(error) => return platform::skip!("{error}"),
    };
    builder()
        .bind(true)
        .adapt(false)
        .waiting(Waiting::Passive)
        .install()
        .expect("nothing was forked before");
    let node = || machine.node_of(current_cpu());
    let cache = || machine.llc_of(current_cpu());
    let whole = Team::available().map(|_| current_cpu());
    for _ in 0..3 {
        let nodes = groups()
            .by_node()
            .map(|group| (group, Team::available().map(|_| (node(), current_cpu()))));
        let mut seen = Vec::new();
        for (group, threads) in &nodes {
            assert_eq!(threads.len(), group.size());
            assert!(
                threads.iter().all(|&(node, _)| node == threads[0].0),
                "{group:?}: {threads:?}"
            );
            assert_eq!(group.members().start, seen.len());
            seen.extend(threads.iter().map(|&(_, cpu)| cpu));
        }
        let mut kinds: Vec<_> = nodes.iter().map(|(_, threads)| threads[0].0).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), nodes.len(), "one group for each node");
        seen.sort();
        let mut all = whole.clone();
        all.sort();
        assert_eq!(seen, all, "each thread is in one group");
        let caches = groups().by_cache().map(|_| Team::available().map(|_| cache()));
        assert!(
            caches.iter().all(|caches| caches.iter().all(|cache| *cache == caches[0])),
            "{caches:?}"
        );
        assert_eq!(caches.concat().len(), whole.len());
    }
    println!("{} threads on {} nodes", whole.len(), groups().by_node().map(|_| ()).len());
}
