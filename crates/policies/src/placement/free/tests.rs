//! The index finds the cache that a look at all of them finds, on any machine, after anything.

use proptest::prelude::*;

use super::super::machine::{Machine, MachineCpu};
use super::*;

/// The best of all caches, one by one.
fn look_at_all(free: &Free<'_>, has: &Near, number: usize, whole: bool) -> Option<usize> {
    let level = (0..free.topology.caches.len()).filter_map(|cache| free.level(cache)).min()?;
    let numbers: Vec<u32> = free.topology.nodes.iter().map(|node| node.number).collect();
    let row: Option<Vec<u32>> = has
        .home
        .map(|home| numbers.iter().map(|to| free.distances.between(numbers[home], *to)).collect());
    let best = (0..free.topology.caches.len()).filter(|&cache| free.level(cache) == Some(level));
    best.min_by_key(|&cache| {
        free.key(has, row.as_deref(), cache, free.hole(cache, level), number, whole)
    })
}

/// Irregular: any core, cache and node.
fn any_cpus() -> impl Strategy<Value = Vec<MachineCpu>> {
    let cpu = (0..3_u32, 0..4_u32, 0..4_u32);
    prop::collection::vec(cpu, 1..90).prop_map(|cpus| {
        let number = (0..).zip(cpus);
        number.map(|(id, (node, llc, core))| MachineCpu { id, core, llc, node }).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_index_finds_what_a_look_at_all_caches_finds(
        cpus in any_cpus(),
        pack in any::<bool>(),
        slow in prop::collection::vec(0..3_u32, 0..90),
        table in prop::option::of(prop::collection::vec(10..13_u32, 9)),
        steps in prop::collection::vec((0..3_u8, any::<prop::sample::Index>(), 1..20_usize, any::<bool>()), 1..30),
    ) {
        let mut distances = Distances::default();
        for (i, distance) in (0..).zip(table.into_iter().flatten()) {
            distances.set(i / 3, i % 3, distance);
        }
        let smt = if pack { Smt::Pack } else { Smt::Spread };
        let mut machine = Machine::new(cpus.clone());
        (0..).zip(slow).for_each(|(id, class)| machine.speeds.set(id, class));
        let topology = Topology::new(&machine);
        let mut free = Free::new(&topology, &distances, smt);
        let mut owned: Vec<usize> = Vec::new();
        for (what, index, number, whole) in steps {
            let cpu = index.index(cpus.len());
            match what {
                0 => drop(free.take(cpu).then(|| owned.push(cpu))),
                1 => {
                    owned.retain(|own| *own != cpu);
                    free.put_back(cpus[cpu].id);
                }
                _ => {
                    let mut has = std::mem::take(&mut free.near);
                    has.clear(&topology);
                    owned.iter().for_each(|&cpu| has.add(&topology.cpus[cpu]));
                    free.count_stock();
                    let all = look_at_all(&free, &has, number, whole);
                    let indexed = free.best_cache(&mut has, number, whole);
                    prop_assert_eq!(indexed, all);
                    free.near = has;
                    let mut taken = Vec::new();
                    free.take_near(&owned, number, if whole { number } else { 1 }, &mut taken);
                    prop_assert_eq!(taken.len(), number.min(free.free.iter().filter(|free| **free).count() + taken.len()));
                    // Another application: half of what it got stays in its hands.
                    owned = taken.into_iter().step_by(2).collect();
                }
            }
        }
    }
}
