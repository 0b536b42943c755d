//! Which processors: turns the numbers of a decision into sets of processors, moving as little as
//! possible.
//!
//! # Rule
//! An application's virtual processor i runs on the i-th processor of its list, so a list is only
//! cut or extended at its end. In this order, each step for all applications (in order of arrival)
//! before the next one:
//! 1. what an application holds it keeps, as far as its number goes; for a processor that left the
//!    machine comes one that would be cut off at the end;
//! 2. a virtual processor returns to the processor on which it ran last, if no other application
//!    ran there since;
//! 3. an application takes processors on which it was the last to run;
//! 4. a virtual processor returns to the processor on which it ran last;
//! 5. the rest comes from what is free, [near](crate::placement::Smt) to what the application has:
//!    `free`; under a policy that hands out clusters ([`Decision::cluster`]) a cluster at a time,
//!    each within one cache, else one node, if any has enough free.
//!
//! Steps 1 to 4 are the two levels of affinity: processor to application, then to virtual
//! processor.
//!
//! Masters that share a processor stand in a circle, cut into as many runs of equal length (to
//! within one) as there are processors for them; each run shares one processor. At each turn the
//! circle moves on by one place: one master per run changes its processor, and in as many turns as
//! there are masters each of them has been in every place, so that all of them get the same. Where
//! their [parts](crate::Allocation::part) differ, those with equal parts are such a circle, and runs
//! are the shorter the larger the parts are.
//!
//! # Applications that stay inside a set of processors
//! What [`Placement::confine`] says holds in every step; in step 5 those applications come first.
//! Then `confined` makes room for what they lack, at the expense of applications that may run
//! elsewhere, and shares out evenly what several of them can only have together. Masters of theirs
//! that share do not stand in the circle: each has a seat for one as far as its part of what is
//! shared goes. An application that has nothing after all that is a guest on the least used
//! processor of its set.
//!
//! # Invariants
//! P1  A processor of its own belongs to one application, and no shared one does, but for guests.
//! P2  Each application has as many processors as the decision says, with two exceptions. If the
//!     machine has fewer than the decision shares out, the applications that came last go short. If
//!     the set of an application has fewer left, that application goes short, and no other one for
//!     its sake.
//! P3  An application whose number does not fall keeps all that it holds, and one whose number
//!     falls to k keeps k of it (apart from processors that left the machine, and those needed by
//!     an application that can be nowhere else). Nothing moves when nothing changes, but for turns.
//! P4  In a circle of S masters (with equal parts) each place on a shared processor is held by each
//!     master once in S turns.
//! P5  An unbound decision places no application: each has all processors, and what ran where is
//!     forgotten.
//! P6  No application has a processor outside its set, and each one whose number is not 0 has one
//!     (as long as the machine has one in its set).
//! P7  As many processors as the decision keeps free are no application's and no shared master's,
//!     as far as one is left for masters.

mod at_home;
mod circle;
mod confined;
mod free;
mod quick;
mod shelves;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::snapshot::AppId;
use circle::Circle;
use confined::Rooms;
use free::Free;

/// One logical processor. `core`, `llc` and `node` are any numbers that are equal for processors
/// that share a core, a last-level cache, a memory node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCpu {
    /// The operating system's number.
    pub id: u32,
    /// Its core, unique in the machine; hardware threads of a core share it.
    pub core: u32,
    /// Its last-level cache, unique in the machine.
    pub llc: u32,
    /// Its memory node.
    pub node: u32,
}

/// How far two memory nodes are from each other: the firmware's numbers, 10 within a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distances(BTreeMap<u32, BTreeMap<u32, u32>>);

/// Within a node, and between two of which nothing is known: as the firmware's tables have it.
const NEAR: u32 = 10;
const FAR: u32 = 20;

impl Distances {
    /// Sets the distance from one node to another.
    pub fn set(&mut self, from: u32, to: u32, distance: u32) {
        self.0.entry(from).or_default().insert(to, distance);
    }

    /// The distance from one node to another; where nothing is known, 10 within a node and 20
    /// beyond.
    #[must_use]
    pub fn between(&self, from: u32, to: u32) -> u32 {
        let known = self.0.get(&from).and_then(|row| row.get(&to)).copied();
        known.unwrap_or(if from == to { NEAR } else { FAR })
    }
}

/// The managed processors that are online: exactly the P of
/// [`Snapshot::processors`](crate::Snapshot::processors). Under a quota below the number of
/// processors the manager chooses P of them; sharing masters use all that are here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// In any order; an id that comes twice counts once.
    pub cpus: Vec<MachineCpu>,
    /// Between memory nodes; may be empty.
    #[serde(default)]
    pub distances: Distances,
}

impl Machine {
    /// These processors; nothing is known of distances between nodes.
    #[must_use]
    pub fn new(cpus: Vec<MachineCpu>) -> Self {
        Self { cpus, distances: Distances::default() }
    }
}

/// In which order the hardware threads of a core are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Smt {
    /// Whole cores first, near ones before far ones; siblings of busy ones last.
    #[default]
    Spread,
    /// Near processors first, siblings of busy ones before idle cores.
    Pack,
}

/// What ran where: the memory of the placement. Its maps are looked up, never listed: a placement
/// follows from its inputs.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub struct Placement {
    smt: Smt,
    /// Of each application of the last decision.
    homes: BTreeMap<AppId, Home>,
    /// Of each processor: the application that ran there last, as long as that stays.
    last: BTreeMap<u32, AppId>,
    circle: Circle,
    /// Applications that stay inside a set of processors.
    within: BTreeMap<AppId, BTreeSet<u32>>,
    /// Of the last placement.
    guests: BTreeSet<AppId>,
}

/// Where the virtual processors of an application ran last.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
struct Home {
    /// Processor of virtual processor i; the first `held` of them are held now.
    slots: Vec<u32>,
    held: usize,
}

/// An application being placed.
struct Seat {
    app: AppId,
    /// Indices of processors, one per virtual processor.
    slots: Vec<Option<usize>>,
}

impl Seat {
    /// What it has, and how many it lacks.
    fn near_and_holes(&self) -> (Vec<usize>, usize) {
        let near: Vec<usize> = self.slots.iter().flatten().copied().collect();
        let holes = self.slots.len() - near.len();
        (near, holes)
    }

    fn has_holes(&self) -> bool {
        self.slots.iter().any(Option::is_none)
    }

    /// Fills holes as far as this goes.
    fn fill(&mut self, found: Vec<usize>) {
        let holes = self.slots.iter_mut().filter(|slot| slot.is_none());
        holes.zip(found).for_each(|(slot, cpu)| *slot = Some(cpu));
    }
}

/// A seat for each application that does not share, in order of arrival.
fn seats(processors: usize, decision: &Decision, rooms: &Rooms) -> Vec<Seat> {
    let allocations = &decision.allocations;
    // One processor stays for shared masters, if there are any that may use every processor.
    let masters = usize::from(allocations.iter().any(|a| a.shared && rooms.of(a.app).is_none()));
    let mut rest = processors.saturating_sub(masters);
    let mut seats: Vec<Seat> = Vec::new();
    for allocation in allocations.iter().filter(|a| !a.shared) {
        let number = (allocation.processors as usize).min(rest);
        rest -= number;
        seats.push(Seat { app: allocation.app, slots: vec![None; number] });
    }
    seats
}

impl Placement {
    /// A placement without history that spreads over cores.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with another order for hardware threads.
    #[must_use]
    pub fn with_smt(smt: Smt) -> Self {
        Self { smt, ..Self::default() }
    }

    /// Changes the order for hardware threads; processors that are held stay where they are.
    pub fn set_smt(&mut self, smt: Smt) {
        self.smt = smt;
    }

    /// An application gave these processors back: they are the ones that it loses when its number
    /// falls. To be called before the [`Placement::place`] of the decision that follows.
    pub fn give_back(&mut self, app: AppId, cpus: &[u32]) {
        if let Some(home) = self.homes.get_mut(&app) {
            let held = &mut home.slots[..home.held];
            // Stable: those that stay keep their order.
            held.sort_by_key(|cpu| cpus.contains(cpu));
        }
    }

    /// A newcomer held these processors before (under another manager): it gets those that no other
    /// application holds.
    pub fn remember_newcomer(&mut self, app: AppId, cpus: &[u32]) {
        let taken =
            |cpu: &u32| self.homes.values().any(|home| home.slots[..home.held].contains(cpu));
        let mut slots: Vec<u32> = Vec::new();
        for cpu in cpus {
            if !taken(cpu) && !slots.contains(cpu) {
                slots.push(*cpu);
            }
        }
        self.homes.insert(app, Home { held: slots.len(), slots });
    }

    /// A newcomer that the next decision names never gets a processor other than these, until it
    /// leaves. A set of which the machine has no processor is no bound: the application is
    /// somewhere else anyway.
    pub fn confine(&mut self, app: AppId, cpus: &[u32]) {
        self.within.insert(app, cpus.iter().copied().collect());
    }

    /// Whether the application stays inside a set of processors.
    #[must_use]
    pub fn is_confined(&self, app: AppId) -> bool {
        self.within.contains_key(&app)
    }

    /// Whether the application may have this processor.
    #[must_use]
    pub fn may_use(&self, app: AppId, cpu: u32) -> bool {
        self.within.get(&app).is_none_or(|within| within.contains(&cpu))
    }

    /// Whether the decision of the last placement, made again and with a turn if it has one, moves
    /// an application. False is certain; where applications stay inside sets of processors the
    /// answer is always true.
    #[must_use]
    pub fn is_moved_by_turns(&self) -> bool {
        !self.within.is_empty() || self.circle.turns(false)
    }

    /// Applications that were to have processors of their own by the last decision, and have a
    /// processor of another application, because their set has no more.
    #[must_use]
    pub fn guests(&self) -> &BTreeSet<AppId> {
        &self.guests
    }

    /// The processors of each application, in the order of the decision; processor i is for virtual
    /// processor i.
    ///
    /// Call it once for each decision that takes effect: [`Decision::rotate`] says when a turn
    /// begins. History of applications that the decision does not name is forgotten.
    ///
    /// A decision that shares out more than the machine has is served in order of arrival as far as
    /// it goes (P2); a shared master for which no processor is left gets none.
    pub fn place(&mut self, machine: &Machine, decision: &Decision) -> Vec<(AppId, Vec<u32>)> {
        let mut placed = Vec::with_capacity(decision.allocations.len());
        self.place_each(machine, decision, |app, cpus| placed.push((app, cpus.to_vec())));
        placed
    }

    /// The same, handed out one by one: `put` is called once for each application, in the order of
    /// the decision.
    pub fn place_each(
        &mut self,
        machine: &Machine,
        decision: &Decision,
        mut put: impl FnMut(AppId, &[u32]),
    ) {
        if !self.place_at_home(machine, decision, &mut put) {
            for (app, cpus) in self.place_in_steps(machine, decision) {
                put(app, &cpus);
            }
        }
    }

    fn place_in_steps(&mut self, machine: &Machine, decision: &Decision) -> Vec<(AppId, Vec<u32>)> {
        let mut cpus = machine.cpus.clone();
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        self.guests.clear();
        if decision.unbound {
            *self = Self { within: std::mem::take(&mut self.within), ..Self::with_smt(self.smt) };
            self.forget(decision);
            let ids: Vec<u32> = cpus.iter().map(|cpu| cpu.id).collect();
            return decision
                .allocations
                .iter()
                .map(|allocation| (allocation.app, ids.clone()))
                .collect();
        }

        self.forget(decision);
        let mut free = Free::new(&cpus, &machine.distances, self.smt);
        let rooms = Rooms::new(&self.within, &cpus);
        let sharers = decision.allocations.iter().filter(|a| a.shared).map(|a| (a.app, a.part));
        let (pinned, masters): (Vec<_>, Vec<_>) =
            sharers.partition(|(app, _)| rooms.of(*app).is_some());
        let mut seats = seats(cpus.len(), decision, &rooms);
        let taken: usize = seats.iter().map(|seat| seat.slots.len()).sum();
        // The circle has its part of what is shared, rounded up. What is kept free is not shared,
        // as long as one processor is left for masters.
        let shared = cpus.len().saturating_sub(taken);
        let kept = (decision.reserved as usize).min(shared.saturating_sub(1));
        let shared = shared - kept;
        let of_circle = (shared * masters.len()).div_ceil((masters.len() + pinned.len()).max(1));
        seats.extend(
            pinned
                .iter()
                .take(shared - of_circle)
                .map(|(app, _)| Seat { app: *app, slots: vec![None] }),
        );
        self.fill(&mut seats, &cpus, decision, &rooms, &mut free);

        let came_from =
            |app: &AppId| self.homes.get(app).and_then(|home| home.slots.first()).copied();
        let most = if kept == 0 { masters.len() } else { masters.len().min(of_circle.max(1)) };
        let shared_before = self.circle.renew(&masters, most, came_from, &mut free);
        if shared_before && decision.rotate {
            self.circle.turn(!pinned.is_empty());
        }
        let shared = self.circle.places();
        self.remember(&cpus, &seats, &shared);

        let own = |seat: &Seat| {
            (seat.app, seat.slots.iter().flatten().map(|&at| cpus[at].id).collect::<Vec<u32>>())
        };
        let mut lists: BTreeMap<AppId, Vec<u32>> = seats.iter().map(own).collect();
        lists.extend(shared.into_iter().map(|(app, id)| (app, vec![id])));
        self.put_up(decision, &cpus, &rooms, &mut lists);
        let placed =
            decision.allocations.iter().map(|a| (a.app, lists.remove(&a.app).unwrap_or_default()));
        placed.collect()
    }

    /// Applications that have nothing in their set become guests on the processor of it that the
    /// fewest applications use.
    fn put_up(
        &mut self,
        decision: &Decision,
        cpus: &[MachineCpu],
        rooms: &Rooms,
        lists: &mut BTreeMap<AppId, Vec<u32>>,
    ) {
        if rooms.is_empty() {
            return;
        }
        let mut users: BTreeMap<u32, usize> = BTreeMap::new();
        lists.values().flatten().for_each(|id| *users.entry(*id).or_default() += 1);
        for allocation in decision.allocations.iter().filter(|a| a.processors > 0) {
            let app = allocation.app;
            let Some(room) = rooms.of(app).filter(|_| lists.get(&app).is_none_or(Vec::is_empty))
            else {
                continue;
            };
            let home = self.homes.entry(app).or_default();
            let was_on = home.slots.first().copied();
            let ids = room.iter().map(|&at| cpus[at].id);
            let key = |id: &u32| (users.get(id).copied().unwrap_or(0), Some(*id) != was_on, *id);
            let id = ids.min_by_key(key).expect("a room has a processor");
            if home.slots.len() <= 1 {
                home.slots = vec![id];
            }
            *users.entry(id).or_default() += 1;
            lists.insert(app, vec![id]);
            if !allocation.shared {
                self.guests.insert(app);
            }
        }
    }

    /// Drops what is known about applications that left.
    fn forget(&mut self, decision: &Decision) {
        let mut named: Vec<AppId> = decision.allocations.iter().map(|a| a.app).collect();
        named.sort_unstable();
        let is_named = |app: &AppId| named.binary_search(app).is_ok();
        let before = self.homes.len();
        self.homes.retain(|app, _| is_named(app));
        // What ran somewhere last has a home.
        if self.homes.len() < before {
            let homes = &self.homes;
            self.last.retain(|_, app| homes.contains_key(app));
        }
        self.within.retain(|app, _| is_named(app));
    }

    /// Steps 1 to 5.
    fn fill(
        &self,
        seats: &mut [Seat],
        cpus: &[MachineCpu],
        decision: &Decision,
        rooms: &Rooms,
        free: &mut Free<'_>,
    ) {
        let find = |id: u32| cpus.binary_search_by_key(&id, |cpu| cpu.id).ok();
        let at = |app: AppId, id: u32| find(id).filter(|&cpu| rooms.allow(app, cpu));
        let home = |app: AppId| self.homes.get(&app);

        for seat in &mut *seats {
            let app = seat.app;
            let held = home(seat.app).map_or(&[][..], |home| &home.slots[..home.held]);
            for (slot, &id) in seat.slots.iter_mut().zip(held) {
                *slot = at(app, id).filter(|&cpu| free.take(cpu));
            }
            let mut cut_off = held.iter().skip(seat.slots.len()).filter_map(|&id| at(app, id));
            for slot in seat.slots.iter_mut().filter(|slot| slot.is_none()) {
                *slot = cut_off.find(|&cpu| free.take(cpu));
            }
        }
        self.return_home(seats, free, |app, id| {
            at(app, id).filter(|_| self.last.get(&id) == Some(&app))
        });
        let mut was_last: BTreeMap<AppId, Vec<usize>> = BTreeMap::new();
        for (cpu, id) in cpus.iter().map(|cpu| cpu.id).enumerate() {
            if let Some(app) =
                self.last.get(&id).filter(|app| free.has(cpu) && rooms.allow(**app, cpu))
            {
                was_last.entry(*app).or_default().push(cpu);
            }
        }
        for seat in &mut *seats {
            let found = was_last.remove(&seat.app).unwrap_or_default();
            for (slot, cpu) in seat.slots.iter_mut().filter(|slot| slot.is_none()).zip(found) {
                *slot = Some(cpu).filter(|&cpu| free.take(cpu));
            }
        }
        self.return_home(seats, free, at);
        confined::fill(seats, rooms, cpus.len(), free);
        for seat in seats.iter_mut().filter(|seat| rooms.of(seat.app).is_none()) {
            let (near, number) = seat.near_and_holes();
            seat.fill(free.take_near(&near, number, decision.cluster as usize));
        }
    }

    /// Fills holes with the processor on which the virtual processor ran last, if `may` finds it
    /// and it is free.
    fn return_home(
        &self,
        seats: &mut [Seat],
        free: &mut Free<'_>,
        may: impl Fn(AppId, u32) -> Option<usize>,
    ) {
        for seat in seats {
            let Some(home) = self.homes.get(&seat.app) else {
                continue;
            };
            for (slot, &id) in seat.slots.iter_mut().zip(&home.slots) {
                if slot.is_none() {
                    *slot = may(seat.app, id).filter(|&cpu| free.take(cpu));
                }
            }
        }
    }

    /// Writes down what runs where now.
    fn remember(&mut self, cpus: &[MachineCpu], seats: &[Seat], shared: &BTreeMap<AppId, u32>) {
        for seat in seats {
            let home = self.homes.entry(seat.app).or_default();
            home.held = 0;
            for (slot, cpu) in
                seat.slots.iter().enumerate().filter_map(|(i, cpu)| cpu.map(|cpu| (i, cpu)))
            {
                let id = cpus[cpu].id;
                // Slots are filled from the first on, because the free processors suffice for all
                // seats, or the rest was cut off (`confined`).
                if slot < home.slots.len() {
                    home.slots[slot] = id
                } else {
                    home.slots.push(id)
                }
                home.held = slot + 1;
                self.last.insert(id, seat.app);
            }
        }
        for (&app, &id) in shared {
            // While the others of its team wait, the master's turn elsewhere does not move the
            // team's home.
            let home = self.homes.entry(app).or_default();
            home.held = 0;
            if home.slots.len() <= 1 {
                home.slots = vec![id];
            }
            self.last.insert(id, app);
        }
    }
}
