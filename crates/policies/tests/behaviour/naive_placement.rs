//! The placement beside one that keeps no index, no counts and no marks: it looks at everything
//! each time, and is slow and short.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use policies::{
    Allocation, AppId, AppView, Cause, Decision, Distances, Machine, MachineCpu, Placement, Smt,
};
use proptest::prelude::*;

use crate::support::{any_speeds, machine, slow_down, snapshot};

/// What ran where, as in the placement, for applications with processors of their own.
#[derive(Default)]
struct Naive {
    smt: Smt,
    /// Processor of each virtual processor, and how many are held.
    homes: BTreeMap<u64, (Vec<u32>, usize)>,
    last: BTreeMap<u32, u64>,
    sets: BTreeMap<u64, BTreeSet<u32>>,
}

/// One placement.
struct Now<'a> {
    smt: Smt,
    cpus: BTreeMap<u32, MachineCpu>,
    /// Of the core of each processor, 0, 1, ...
    classes: BTreeMap<u32, usize>,
    distances: &'a Distances,
    free: BTreeSet<u32>,
    /// Sets that bound something.
    rooms: BTreeMap<u64, BTreeSet<u32>>,
    seats: Vec<(u64, Vec<Option<u32>>)>,
    /// The most hardware threads that a core has.
    threads: usize,
}

impl Naive {
    fn place(&mut self, machine: &Machine, numbers: &[(u64, u32)], cluster: u32) -> Vec<Vec<u32>> {
        let is_named = |app: &u64| numbers.iter().any(|(named, _)| named == app);
        self.homes.retain(|app, _| is_named(app));
        self.sets.retain(|app, _| is_named(app));
        self.last.retain(|_, app| is_named(app));
        let cpus: BTreeMap<u32, MachineCpu> =
            machine.cpus.iter().map(|cpu| (cpu.id, *cpu)).collect();
        let here = |set: &BTreeSet<u32>| -> BTreeSet<u32> {
            set.iter().copied().filter(|id| cpus.contains_key(id)).collect()
        };
        let rooms = self.sets.iter().map(|(app, set)| (*app, here(set)));
        let rooms = rooms.filter(|(_, room)| !room.is_empty() && room.len() < cpus.len()).collect();
        let seat = |(app, number): &(u64, u32)| (*app, vec![None; *number as usize]);
        let core = |cpu: &MachineCpu| (cpu.node, cpu.llc, cpu.core);
        let threads = |of: &MachineCpu| cpus.values().filter(|it| core(it) == core(of)).count();
        let class_of_core = |of: &MachineCpu| {
            let first = cpus.values().find(|it| core(it) == core(of)).expect("it is of its core");
            machine.speeds.class_of(first.id)
        };
        let known: BTreeSet<u32> = cpus.values().map(class_of_core).collect();
        let class = |of: &MachineCpu| known.range(..class_of_core(of)).count();
        let classes = cpus.iter().map(|(id, cpu)| (*id, class(cpu))).collect();
        let mut now = Now {
            smt: self.smt,
            classes,
            threads: cpus.values().map(threads).max().unwrap_or(1),
            free: cpus.keys().copied().collect(),
            cpus,
            distances: &machine.distances,
            rooms,
            seats: numbers.iter().map(seat).collect(),
        };
        now.return_home(self);
        now.fill_rooms();
        now.divide_fast(cluster as usize);
        now.fill_near(cluster as usize);
        for (app, seat) in &now.seats {
            let (slots, held) = self.homes.entry(*app).or_default();
            let seat: Vec<u32> = seat.iter().flatten().copied().collect();
            self.last.extend(seat.iter().map(|id| (*id, *app)));
            *held = seat.len();
            let beyond = slots.iter().copied().skip(seat.len()).collect::<Vec<u32>>();
            *slots = seat.into_iter().chain(beyond).collect();
        }
        let own = |(app, _): &(u64, u32)| {
            let (slots, held) = &self.homes[app];
            slots[..*held].to_vec()
        };
        numbers.iter().map(own).collect()
    }
}

impl Now<'_> {
    fn may(&self, app: u64, id: u32) -> bool {
        self.rooms.get(&app).is_none_or(|room| room.contains(&id))
    }

    fn take(&mut self, seat: usize, slot: usize, id: u32) {
        let app = self.seats[seat].0;
        if self.seats[seat].1[slot].is_none() && self.may(app, id) && self.free.remove(&id) {
            self.seats[seat].1[slot] = Some(id);
        }
    }

    fn holes(&self, seat: usize) -> Vec<usize> {
        (0..self.seats[seat].1.len()).filter(|&slot| self.seats[seat].1[slot].is_none()).collect()
    }

    /// Steps 1 to 4.
    fn return_home(&mut self, naive: &Naive) {
        let home = |app: u64| naive.homes.get(&app).cloned().unwrap_or_default();
        for seat in 0..self.seats.len() {
            let (slots, held) = home(self.seats[seat].0);
            let len = self.seats[seat].1.len();
            for (slot, id) in slots[..held].iter().enumerate().take(len) {
                self.take(seat, slot, *id);
            }
            for id in slots[..held].iter().skip(len) {
                if let Some(slot) = self.holes(seat).first() {
                    self.take(seat, *slot, *id);
                }
            }
        }
        for step in [2, 3, 4] {
            for seat in 0..self.seats.len() {
                let app = self.seats[seat].0;
                if step == 3 {
                    for (id, _) in naive.last.iter().filter(|(_, last)| **last == app) {
                        if let Some(slot) = self.holes(seat).first() {
                            self.take(seat, *slot, *id);
                        }
                    }
                    continue;
                }
                let len = self.seats[seat].1.len();
                for (slot, id) in home(app).0.iter().enumerate().take(len) {
                    if step == 4 || naive.last.get(id) == Some(&app) {
                        self.take(seat, slot, *id);
                    }
                }
            }
        }
    }

    fn core(&self, id: u32) -> (u32, u32, u32) {
        let cpu = self.cpus[&id];
        (cpu.node, cpu.llc, cpu.core)
    }

    /// Its place in the order within a cache.
    fn rank(&self, id: u32) -> (usize, usize) {
        let siblings = self.cpus.keys().filter(|it| self.core(**it) == self.core(id));
        let taken = siblings.filter(|it| !self.free.contains(it)).count();
        if self.smt == Smt::Spread {
            (taken, self.classes[&id])
        } else {
            (self.classes[&id], self.threads - 1 - taken)
        }
    }

    fn is_idle(&self, id: u32) -> bool {
        self.cpus.keys().all(|it| self.core(*it) != self.core(id) || self.free.contains(it))
    }

    /// How many of these processors are free and of the class, as far as that counts: those on idle
    /// cores, or all; where no core is idle in a cache, all of any class.
    fn hole(&self, of: impl Fn(&MachineCpu) -> bool, class: usize, is_node: bool) -> usize {
        let free: Vec<u32> = self.free.iter().copied().filter(|id| of(&self.cpus[id])).collect();
        let all_of_class = free.iter().filter(|id| self.classes[id] == class);
        if self.smt == Smt::Pack {
            return all_of_class.count();
        }
        if !is_node && !free.iter().any(|id| self.is_idle(*id)) {
            return free.len();
        }
        let idle = all_of_class.filter(|id| self.is_idle(**id));
        idle.map(|id| self.core(*id)).collect::<BTreeSet<_>>().len()
    }

    /// The first processor of the best cache for an application that has these and wants so many
    /// more.
    fn best(&self, has: &[u32], number: usize, whole: bool) -> Option<u32> {
        let has: Vec<MachineCpu> = has.iter().map(|id| self.cpus[id]).collect();
        let in_node = |node: u32| has.iter().filter(|it| it.node == node).count();
        let first = |node: u32| self.cpus.values().position(|it| it.node == node);
        let home = has.iter().map(|it| it.node);
        let home = home.max_by_key(|&node| (in_node(node), Reverse(first(node))));
        let key = |id: &u32| {
            let cpu = self.cpus[id];
            let in_cache = |it: &MachineCpu| (it.node, it.llc) == (cpu.node, cpu.llc);
            let hole = self.hole(in_cache, self.classes[id], false);
            let node_hole = self.hole(|it| it.node == cpu.node, self.classes[id], true);
            let (suffices, node_suffices) = (hole >= number, hole.max(node_hole) >= number);
            let distance = match home {
                Some(home) if *self.distances != Distances::default() => {
                    self.distances.between(home, cpu.node)
                }
                home => u32::from(home != Some(cpu.node)),
            };
            let of_app = has.iter().filter(|it| in_cache(it)).count();
            let near = (Reverse(of_app), Reverse(in_node(cpu.node)), distance);
            let node_slack = if node_suffices && !suffices {
                (node_hole - number, first(cpu.node))
            } else {
                (0, None)
            };
            let slack = if suffices { hole - number } else { usize::MAX - hole };
            let cache = self.cpus.values().position(in_cache);
            let torn = (whole && !suffices, whole && !node_suffices);
            let order = (!suffices, !node_suffices, node_slack, slack);
            (self.level(*id), torn, near, order, cache)
        };
        let mut first_of = BTreeMap::new();
        for &id in &self.free {
            let (node, llc, _) = self.core(id);
            let best: &mut u32 = first_of.entry((node, llc)).or_insert(id);
            if self.rank(id) < self.rank(*best) {
                *best = id;
            }
        }
        first_of.into_values().min_by_key(key)
    }

    /// What comes before nearness.
    fn level(&self, id: u32) -> (usize, usize) {
        if self.smt == Smt::Spread { self.rank(id) } else { (self.classes[&id], 0) }
    }

    /// Among applications of which none has anything, each class of speed but the last one goes out
    /// in proportion to what they want, rounded up in order of arrival.
    fn divide_fast(&mut self, cluster: usize) {
        let has_any = self.seats.iter().any(|(_, slots)| slots.iter().any(Option::is_some));
        let classes = self.classes.values().collect::<BTreeSet<_>>().len();
        if has_any || cluster > 1 {
            return;
        }
        for _ in 1..classes {
            let level = |id: &u32| {
                let is_whole = self.smt == Smt::Pack || self.is_idle(*id);
                is_whole.then_some(self.classes[id])
            };
            let Some(best) = self.free.iter().filter_map(level).min() else { break };
            let number = self.hole(|_| true, best, true);
            let wants: Vec<usize> = (0..self.seats.len()).map(|it| self.holes(it).len()).collect();
            let all: usize = wants.iter().sum();
            if all <= number {
                break;
            }
            for seat in 0..self.seats.len() {
                let upto =
                    |seat: usize| (wants[..seat].iter().sum::<usize>() * number).div_ceil(all);
                self.fill_one(seat, upto(seat + 1) - upto(seat), 0);
            }
        }
    }

    /// Step 5 for those that may run everywhere.
    fn fill_near(&mut self, cluster: usize) {
        for seat in 0..self.seats.len() {
            self.fill_one(seat, self.holes(seat).len(), cluster);
        }
    }

    /// So many processors more for a seat.
    fn fill_one(&mut self, seat: usize, mut left: usize, cluster: usize) {
        while left > 0 {
            let whole = cluster > 1 && left >= cluster;
            let number = if whole { cluster } else { left };
            let has: Vec<u32> = self.seats[seat].1.iter().flatten().copied().collect();
            let first = self.best(&has, number, whole).expect("numbers fit the machine");
            // It stays the best cache for these until what is left of it is worse.
            let (node, llc, _) = self.core(first);
            let level = self.level(first);
            for _ in 0..number {
                let free = self.free.iter().copied();
                let of_cache =
                    free.filter(|id| (self.core(*id).0, self.core(*id).1) == (node, llc));
                let next = of_cache.min_by_key(|id| (self.rank(*id), *id));
                let Some(next) = next.filter(|id| self.level(*id) == level) else { break };
                self.take(seat, self.holes(seat)[0], next);
                left -= 1;
            }
        }
    }

    /// The same for those that have rooms: what is free there, then chains.
    fn fill_rooms(&mut self) {
        let confined: Vec<usize> = (0..self.seats.len())
            .filter(|seat| self.rooms.contains_key(&self.seats[*seat].0))
            .collect();
        for &seat in &confined {
            while let Some(slot) = self.holes(seat).first().copied() {
                let has: Vec<u32> = self.seats[seat].1.iter().flatten().copied().collect();
                let key = |id: &u32| {
                    let (node, llc, _) = self.core(*id);
                    let in_cache = has
                        .iter()
                        .filter(|it| self.core(**it).0 == node && self.core(**it).1 == llc)
                        .count();
                    let in_node = has.iter().filter(|it| self.core(**it).0 == node).count();
                    (self.level(*id), Reverse(in_cache), Reverse(in_node), self.rank(*id), *id)
                };
                let room = &self.rooms[&self.seats[seat].0];
                let Some(id) = room.intersection(&self.free).copied().min_by_key(key) else {
                    break;
                };
                self.take(seat, slot, id);
            }
        }
        loop {
            let got = confined.iter().filter(|seat| self.extend(**seat)).count();
            if got == 0 {
                break;
            }
        }
        for seat in confined {
            self.seats[seat].1.retain(Option::is_some);
        }
    }

    /// Which seat has this processor, and where.
    fn owner(&self, id: u32) -> Option<(usize, usize)> {
        let of = |seat: usize| self.seats[seat].1.iter().position(|it| *it == Some(id));
        (0..self.seats.len()).find_map(|seat| Some((seat, of(seat)?)))
    }

    /// One processor more for a seat by the shortest chain.
    fn extend(&mut self, start: usize) -> bool {
        let Some(hole) = self.holes(start).first().copied() else { return false };
        let number = |seat: usize| self.seats[seat].1.iter().flatten().count();
        // By seat the way to it: which seat gives which processor to the one before it.
        let mut ways: BTreeMap<usize, Vec<(usize, u32)>> = BTreeMap::from([(start, Vec::new())]);
        let mut queue = VecDeque::from([start]);
        let mut seen = BTreeSet::new();
        let mut everywhere: Option<(usize, usize, u32, usize)> = None;
        let mut richest: Option<(usize, u32, usize)> = None;
        let mut end = None;
        'search: while let Some(seat) = queue.pop_front() {
            let way = ways[&seat].clone();
            // An end that is as near as can be was found among shorter chains.
            if everywhere.as_ref().is_some_and(|(length, ..)| *length < way.len()) {
                break;
            }
            for &id in &self.rooms[&self.seats[seat].0] {
                if self.free.contains(&id) {
                    end = Some((id, seat));
                    break 'search;
                }
                let Some((other, slot)) = self.owner(id) else { continue };
                if other == seat || other == start || !seen.insert(id) {
                    continue;
                }
                if !self.rooms.contains_key(&self.seats[other].0) {
                    if everywhere.is_none_or(|(_, best, ..)| slot > best) {
                        everywhere = Some((way.len(), slot, id, seat));
                    }
                    continue;
                }
                let has = number(other);
                if has >= number(start) + 2 && richest.is_none_or(|(best, ..)| has > best) {
                    richest = Some((has, id, seat));
                }
                if let Entry::Vacant(entry) = ways.entry(other) {
                    entry.insert(way.iter().copied().chain([(other, id)]).collect());
                    queue.push_back(other);
                }
            }
        }
        let everywhere = everywhere.map(|(_, _, id, seat)| (id, seat));
        let richest = richest.map(|(_, id, seat)| (id, seat));
        let Some((end, last)) = end.or(everywhere).or(richest) else { return false };
        if let Some((seat, slot)) = self.owner(end) {
            self.seats[seat].1[slot] = None;
            let is_confined = self.rooms.contains_key(&self.seats[seat].0);
            let seat = &mut self.seats[seat].1;
            if let Some(after) = seat.iter().rposition(Option::is_some)
                && is_confined
                && after > slot
            {
                seat.swap(slot, after);
            }
        }
        self.free.remove(&end);
        // From the end of the chain to its begin each has what the next one gave.
        let mut passed = end;
        for (seat, gives) in ways[&last].iter().rev() {
            let slot = self.seats[*seat].1.iter_mut().find(|slot| **slot == Some(*gives));
            *slot.expect("it has what it gives") = Some(passed);
            passed = *gives;
        }
        self.seats[start].1[hole] = Some(passed);
        true
    }
}

/// What the next decision says: for each application of a list whether it is there and its number;
/// the cluster, and a processor that is offline.
type Step = (Vec<Option<u32>>, u32, Option<prop::sample::Index>);

fn any_step() -> impl Strategy<Value = Step> {
    let number = prop::option::weighted(0.8, 0..7_u32);
    let hole = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (prop::collection::vec(number, 8), 0..4_u32, hole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_placement_is_that_of_one_that_looks_at_everything(
        (nodes, caches, cores, threads) in (1..3_u32, 1..3_u32, 1..4_u32, 1..3_u32),
        pack in any::<bool>(),
        far in any::<bool>(),
        slow in any_speeds(24),
        sets in prop::collection::vec(
            prop::option::weighted(0.5, prop::collection::btree_set(0..24_u32, 1..6)), 8),
        steps in prop::collection::vec(any_step(), 1..10),
    ) {
        let mut whole = machine(nodes, caches, cores, threads);
        if far {
            whole.distances.set(0, 1, 30);
            whole.distances.set(1, 0, 15);
        }
        slow_down(&mut whole, &slow);
        let smt = if pack { Smt::Pack } else { Smt::Spread };
        let mut placement = Placement::with_smt(smt);
        let mut naive = Naive { smt, ..Naive::default() };
        let mut present = BTreeSet::new();
        for (numbers, cluster, hole) in &steps {
            let mut online = whole.clone();
            if let Some(index) = hole.filter(|_| online.cpus.len() > 1) {
                online.cpus.remove(index.index(online.cpus.len()));
            }
            let mut rest = online.cpus.len() as u32;
            let mut list: Vec<(u64, u32)> = Vec::new();
            for (app, number) in (1..).zip(numbers).filter_map(|(app, it)| Some((app, (*it)?))) {
                list.push((app, number.min(rest)));
                rest -= number.min(rest);
                if let Some(set) = &sets[app as usize - 1]
                    && !present.contains(&app)
                {
                    placement.confine(AppId(app), &set.iter().copied().collect::<Vec<u32>>());
                    naive.sets.insert(app, set.clone());
                }
            }
            present = list.iter().map(|(app, _)| *app).collect();
            let own = list.iter().map(|(app, number)| Allocation::own(AppId(*app), *number));
            let apps: Vec<AppView> = present.iter().map(|app| AppView::new(AppId(*app), 1)).collect();
            let mut decision =
                Decision::new(&snapshot(&apps, 0, Cause::Request, false), own.collect(), Vec::new());
            decision.cluster = *cluster;
            let slow = naive.place(&online, &list, *cluster);
            let placed = placement.place(&online, &decision);
            let guests = placement.guests();
            for ((app, cpus), slow) in placed.iter().zip(&slow).filter(|((app, _), _)| !guests.contains(app)) {
                prop_assert_eq!(cpus, slow, "{}", app);
            }
            prop_assert!(guests.iter().all(|app| list.iter().zip(&slow).any(|((it, _), cpus)| it == &app.0 && cpus.is_empty())));
            // A guest remembers where it was, as a home without anything held.
            for (app, cpus) in placed.iter().filter(|(app, _)| guests.contains(app)) {
                let (slots, _) = naive.homes.entry(app.0).or_default();
                if slots.len() <= 1 {
                    slots.clone_from(cpus);
                }
            }
        }
    }
}
