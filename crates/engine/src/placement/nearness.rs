//! Which members of a team are near each other: the order in which a member without work looks at
//! the others, and wakes them.
//!
//! # Order
//! Members that share the last-level cache first, then those on the same memory node, then the
//! rest; within each part by the distance of their numbers. Members are numbered along processors
//! (F7: a team is a run of consecutive ones), so neighbours by number share a core, or a small
//! cache. Where all processors of the program are in one cache, or the system does not say, the
//! numbers alone decide, and nothing is computed or kept.
//!
//! A member is where it is bound, else where it is woken ([`placement`](crate::placement)); the
//! master, where it was when the region began. This is a hint: members that moved meanwhile cost
//! time only.
//!
//! # Papers
//! Min, Iancu and Yelick, Hierarchical work stealing on manycore clusters, PGAS 2011 (near victims
//! first). Deviation: no random choice among equals; that each thief begins at its own neighbours
//! spreads them.

use crate::placement::home::Home;
use crate::process::per_process::{PerProcess, State};
use crate::program::program;
use platform::affinity::{CpuId, CpuSet, current_cpu};
use platform::lock::Once;
use platform::topology::Topology;
use std::iter;

/// A thread that other threads put on processors.
pub trait Placed {
    /// Where it is.
    fn whereabouts(&self) -> Whereabouts;
}

/// Where a thread is, as far as the threads that put it there know.
#[derive(Clone, Copy, Debug)]
pub struct Whereabouts(Where);

#[derive(Clone, Copy, Debug)]
enum Where {
    On(CpuId),
    Several,
    WakesAt(Home),
}

impl Whereabouts {
    /// Bound to several processors.
    pub(crate) const SEVERAL: Self = Self(Where::Several);

    /// Bound to one processor.
    pub(crate) fn on(cpu: CpuId) -> Self {
        Self(Where::On(cpu))
    }

    /// Not bound: it is woken there.
    pub(crate) fn wakes_at(home: Home) -> Self {
        Self(Where::WakesAt(home))
    }
}

/// What a processor shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The last-level cache.
    pub(crate) cache: u32,
    /// The memory node.
    node: u32,
}

impl Place {
    /// 0: the same cache; 1: the same node; 2: farther.
    fn distance(self, other: Self) -> u8 {
        if self.cache == other.cache {
            0
        } else if self.node == other.node {
            1
        } else {
            2
        }
    }
}

/// The places of a program's processors.
pub(crate) struct Map {
    /// By the processor's number.
    of_cpu: Vec<Option<Place>>,
    /// The program's.
    cpus: Vec<CpuId>,
}

impl Map {
    /// `None` when those of `mask` that are online are all in one place.
    pub(crate) fn new(machine: &Topology, mask: &CpuSet) -> Option<Self> {
        let place =
            |cpu: CpuId| machine.get(cpu).map(|cpu| Place { cache: cpu.llc, node: cpu.node });
        let cpus: Vec<CpuId> = mask.iter().collect();
        let mut known = cpus.iter().filter_map(|&cpu| place(cpu));
        let first = known.next()?;
        if known.all(|other| other == first) {
            return None;
        }
        let last = machine.cpus().last()?;
        Some(Self { of_cpu: (0..=last.id.0).map(|cpu| place(CpuId(cpu))).collect(), cpus })
    }

    fn at(&self, cpu: CpuId) -> Option<Place> {
        self.of_cpu.get(cpu.0 as usize).copied().flatten()
    }

    /// Where a thread is, for a caller on processor `here`, which may wake it. `None`: on several
    /// processors, or on one that is offline.
    fn of(&self, whereabouts: Whereabouts, here: CpuId) -> Option<Place> {
        match whereabouts.0 {
            Where::On(cpu) => self.at(cpu),
            Where::Several => None,
            Where::WakesAt(home) => self.at(self.processor(home, here)),
        }
    }

    /// As [`Home::processor`] says it for a caller on `here`, without a walk over the mask for
    /// most.
    fn processor(&self, home: Home, here: CpuId) -> CpuId {
        let cpus = &self.cpus;
        match home {
            Home::Of(number) => {
                let own = cpus[number % cpus.len()];
                if own == here { cpus[0] } else { own }
            }
            Home::Beside => here,
            Home::Behind(places) => {
                let place = cpus.iter().position(|&cpu| cpu == here).unwrap_or(0);
                cpus[(place + places) % cpus.len()]
            }
        }
    }
}

/// The places of the program's processors; `None` where all are in one, or the system does not say.
/// Looked up at first use, and leaked: forked children go on with it.
struct Places(Once<Option<&'static Map>>);

static PLACES: PerProcess<Places> = PerProcess::new(|| PLACES.renew());

impl State for Places {
    fn begin() -> Self {
        Self(Once::new())
    }

    fn in_child(&self) -> Self {
        let fresh = Once::new();
        if let Some(&map) = self.0.get() {
            let _ = fresh.set(map);
        }
        Self(fresh)
    }
}

fn map() -> Option<&'static Map> {
    let leaked = |map| -> &'static Map { Box::leak(Box::new(map)) };
    *PLACES.get().0.get_or_init(|| {
        let program = program();
        Map::new(program.machine()?, program.mask()).map(leaked)
    })
}

/// Where the members of a team are, the calling master first. `None` where all processors of the
/// program are in one place. Cost: a load or two for each member; the first call reads the
/// topology.
pub(crate) fn places(
    workers: &[&'static impl Placed],
) -> Option<impl Iterator<Item = Option<Place>> + Clone> {
    let map = map()?;
    let here = current_cpu();
    Some(
        iter::once(map.at(here))
            .chain(workers.iter().map(move |worker| map.of(worker.whereabouts(), here))),
    )
}

/// The orders of one team's members; see the module head.
#[derive(Debug, Default)]
pub struct Nearness {
    /// Empty: the numbers decide.
    places: Vec<Option<Place>>,
    /// Of each member, when it has looked once.
    orders: Vec<Once<Box<[u32]>>>,
}

impl Nearness {
    /// For the caller's next region with `workers`. Cost when no member moved: as [`places`].
    pub fn update(&mut self, workers: &[&'static impl Placed]) {
        if let Some(places) = places(workers) {
            self.set(places);
        }
    }

    fn set(&mut self, places: impl Iterator<Item = Option<Place>> + Clone) {
        if self.places.iter().copied().eq(places.clone()) {
            return;
        }
        self.places = places.collect();
        self.orders.clear();
        if self.places.iter().any(|place| *place != self.places[0]) {
            self.orders.resize_with(self.places.len(), Once::new);
        }
    }

    /// The members of a team of `size` but `own`, near ones first. Cost: nothing until the first
    /// one is asked for.
    #[inline]
    pub fn others(&self, own: usize, size: usize) -> impl Iterator<Item = usize> {
        iter::once_with(move || {
            let order =
                self.orders.get(own).map(|order| order.get_or_init(|| by_place(own, &self.places)));
            let by_number = by_number(own, if order.is_some() { 0 } else { size });
            by_number.chain(order.into_iter().flatten().map(|&member| member as usize))
        })
        .flatten()
    }
}

/// All members but `own`, by place, then by number.
fn by_place(own: usize, places: &[Option<Place>]) -> Box<[u32]> {
    let mut order: Vec<(usize, usize)> = by_number(own, places.len()).enumerate().collect();
    // A member that has no certain place is far. An unstable sort is a third of a stable one's
    // code.
    order.sort_unstable_by_key(|&(turn, member)| {
        let distance = places[own].zip(places[member]);
        (distance.map_or(2, |(own, other)| own.distance(other)), turn)
    });
    order
        .into_iter()
        .map(|(_, member)| u32::try_from(member).expect("teams have less than 2^32 members"))
        .collect()
}

/// All members but `own` of a team of `size`, by the distance of their numbers; of two, the one
/// above first.
fn by_number(own: usize, size: usize) -> impl Iterator<Item = usize> {
    (1..size).flat_map(move |distance| {
        let above = own.checked_add(distance).filter(|&member| member < size);
        let below = own.checked_sub(distance);
        above.into_iter().chain(below)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    /// A tree like `/sys/devices/system`: of each processor, the first of those that it shares its
    /// cache with, and its node.
    fn machine(cpus: &[(usize, usize)]) -> Topology {
        let folder = tempfile::tempdir().expect("the test has a folder");
        let write = |path: &str, text: String| {
            let path: &Path = &folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a file stands in a folder"))
                .expect("it can be written");
            std::fs::write(path, text + "\n").expect("it can be written");
        };
        let list = |wanted: &dyn Fn(usize) -> bool| {
            let chosen: Vec<String> =
                (0..cpus.len()).filter(|&cpu| wanted(cpu)).map(|cpu| cpu.to_string()).collect();
            chosen.join(",")
        };
        write("cpu/online", list(&|_| true));
        write("cpu/possible", list(&|_| true));
        for (cpu, &(cache, node)) in cpus.iter().enumerate() {
            write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), node.to_string());
            write(&format!("cpu/cpu{cpu}/topology/core_id"), cpu.to_string());
            write(&format!("cpu/cpu{cpu}/cache/index3/level"), "3".into());
            write(&format!("cpu/cpu{cpu}/cache/index3/type"), "Unified".into());
            write(
                &format!("cpu/cpu{cpu}/cache/index3/shared_cpu_list"),
                list(&|other| cpus[other].0 == cache),
            );
            write(&format!("node/node{node}/cpulist"), list(&|other| cpus[other].1 == node));
        }
        let nodes = cpus.iter().map(|&(_, node)| node).max().expect("a machine has processors");
        write("node/online", format!("0-{nodes}"));
        Topology::read_from(folder.path()).expect("the tree is whole")
    }

    /// The places of a team whose member i is on processor `cpus[i]`.
    fn on(machine: &Topology, cpus: &[u32]) -> Vec<Option<Place>> {
        let map = Map::new(machine, &machine.online()).expect("it has several places");
        cpus.iter().map(|&cpu| map.at(CpuId(cpu))).collect()
    }

    fn orders(places: &[Option<Place>]) -> Vec<Vec<usize>> {
        let mut nearness = Nearness::default();
        nearness.set(places.iter().copied());
        (0..places.len()).map(|own| nearness.others(own, places.len()).collect()).collect()
    }

    #[test]
    fn with_two_caches_members_look_through_their_own_first() {
        // Numbers alternate between the caches.
        let machine = machine(&[(0, 0), (1, 0), (0, 0), (1, 0), (0, 0), (1, 0)]);
        let orders = orders(&on(&machine, &[0, 1, 2, 3, 4, 5]));
        assert_eq!(orders[0], [2, 4, 1, 3, 5]);
        assert_eq!(orders[3], [5, 1, 4, 2, 0]);
    }

    #[test]
    fn on_four_nodes_of_two_caches_the_cache_goes_before_the_node_and_the_node_before_the_rest() {
        // Processors 0 to 15: four to a node, two to a cache.
        let processors: Vec<(usize, usize)> = (0..16).map(|cpu| (cpu / 2, cpu / 4)).collect();
        let machine = machine(&processors);
        // Members 0 to 7 are dealt over the nodes, as a manager's scattered grant does it.
        let orders = orders(&on(&machine, &[0, 4, 8, 12, 2, 6, 1, 5]));
        // The cache has 6, the node 4.
        assert_eq!(orders[0], [6, 4, 1, 2, 3, 5, 7]);
        // Processor 4: 5 shares its cache, 6 its node.
        assert_eq!(orders[1], [7, 5, 2, 0, 3, 4, 6]);
        // Alone on its node.
        assert_eq!(orders[2], [3, 1, 4, 0, 5, 6, 7]);
    }

    #[test]
    fn in_one_cache_the_numbers_decide_and_nothing_is_kept() {
        let machine = machine(&[(0, 0), (0, 0), (2, 1), (2, 1)]);
        assert!(Map::new(&machine, &CpuSet::parse_list("0-1").unwrap()).is_none());
        assert!(Map::new(&Topology::flat(&machine.online()).unwrap(), &machine.online()).is_none());
        let mut nearness = Nearness::default();
        assert_eq!(nearness.others(1, 4).collect::<Vec<_>>(), [2, 0, 3]);
        nearness.set(on(&machine, &[2, 3, 2]).into_iter());
        assert_eq!(nearness.others(1, 3).collect::<Vec<_>>(), [2, 0]);
        assert!(nearness.orders.is_empty());
    }

    #[test]
    fn orders_follow_members_that_move_and_one_that_is_nowhere_is_far() {
        let machine = machine(&[(0, 0), (0, 0), (2, 1), (2, 1)]);
        let mut nearness = Nearness::default();
        nearness.set(on(&machine, &[0, 2, 1, 3]).into_iter());
        assert_eq!(nearness.others(0, 4).collect::<Vec<_>>(), [2, 1, 3]);
        nearness.set(on(&machine, &[0, 2, 3, 1]).into_iter());
        assert_eq!(nearness.others(0, 4).collect::<Vec<_>>(), [3, 1, 2]);
        // Processor 9 does not exist.
        nearness.set(on(&machine, &[0, 9, 3, 1]).into_iter());
        assert_eq!(nearness.others(0, 4).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(nearness.others(1, 4).collect::<Vec<_>>(), [2, 0, 3]);
    }

    #[test]
    fn a_worker_that_lodges_elsewhere_than_its_number_says_is_there() {
        let machine = machine(&[(0, 0), (1, 0), (2, 1), (3, 1)]);
        let map = Map::new(&machine, &machine.online()).expect("it has several places");
        let place = |cpu| map.at(CpuId(cpu));
        let home = Whereabouts::wakes_at(Home::Behind(2));
        // After the caller's processor, round and round; beside the caller; and at another one's
        // place.
        assert_eq!([0, 1, 3].map(|here| map.of(home, CpuId(here))), [2, 3, 1].map(place));
        let home = Whereabouts::wakes_at(Home::Beside);
        assert_eq!([0, 3].map(|here| map.of(home, CpuId(here))), [0, 3].map(place));
        let home = Whereabouts::wakes_at(Home::Of(7));
        assert_eq!([0, 3].map(|here| map.of(home, CpuId(here))), [3, 0].map(place));
    }

    proptest! {
        #[test]
        fn each_member_is_looked_at_once_and_none_before_a_nearer_one(
            places in prop::collection::vec(prop::option::of((0_u32..4, 0_u32..2)), 1..20),
        ) {
            let place = |(cache, half)| Place { cache: cache * 2 + half, node: half };
            let places: Vec<_> = places.into_iter().map(|known| known.map(place)).collect();
            for (own, order) in orders(&places).into_iter().enumerate() {
                let distance = |member: &usize| {
                    let by_place = places[own].zip(places[*member]).map_or(2, |(own, other)| own.distance(other));
                    (by_place, member.abs_diff(own))
                };
                prop_assert!(order.iter().is_sorted_by_key(distance));
                let mut all: Vec<usize> = order.into_iter().chain([own]).collect();
                all.sort_unstable();
                prop_assert_eq!(all, (0..places.len()).collect::<Vec<_>>());
            }
        }
    }
}
