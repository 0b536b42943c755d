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
//! 5. the rest comes from what is free, fast and [near](crate::placement::Smt) to what the
//!    application has: `free`; under a policy that hands out clusters ([`Decision::cluster`]) a
//!    cluster at a time, each within one cache, else one node, if any has enough free.
//!
//! Steps 1 to 4 are the two levels of affinity: processor to application, then to virtual
//! processor.
//!
//! Masters that share a processor stand in a circle, cut into as many runs of equal length (to
//! within one) as there are processors for them; each run shares one processor. At each turn the
//! circle moves on by one place: one master per run changes its processor, and in as many turns as
//! there are masters each of them has been in every place, so that all of them get the same. Where
//! their [parts](crate::Allocation::part) differ, those with equal parts are such a circle, and runs
//! are the shorter the larger the parts are. A decision may name several circles
//! ([`Decision::circles`]): each has processors and masters of its own.
//!
//! # Processors of unequal speed
//! Fast ones go out before slow ones, as whole cores before siblings ([`Speeds`]), and like these
//! only in step 5: no virtual processor moves because a fast one became free, and one that returns
//! goes where it ran last, fast or slow. What an application loses is the end of its list.
//!
//! Applications that come one after the other find what those before them left. Where none has
//! anything yet, and they are not handed clusters, those of one decision have fast processors in
//! proportion to their numbers. So none has all of them for its place in the order. That is for
//! programs that hand out their work piece by piece: a team that cuts it into equal parts goes as
//! fast as its slowest thread, and a mixed one gains nothing over a slow one.
//!
//! Masters that share processors of unequal speed take turns on them, also where each processor has
//! as many of them.
//!
//! # Applications that stay inside a set of processors
//! What [`Placement::confine`] says holds in every step; in step 5 those applications come first.
//! Then `confined` makes room for what they lack, at the expense of applications that may run
//! elsewhere, and shares out evenly what several of them can only have together. Masters of theirs
//! that share do not stand in the circle: each has a seat for one as far as its part of what is
//! shared goes. Under a decision that keeps some free, or names circles, fewer seats than masters
//! are where masters can meet (`sharers`): one joins a processor that its circle has wherever its
//! set allows one, in whatever order they came. What the masters of a circle that may be everywhere
//! share comes to a processor where the confined ones can join them; an application or a circle
//! that has it, and could be elsewhere, passes it on (`exchange`). An application that has nothing
//! after all that is a guest (`guests`).
//!
//! # Invariants
//! P1  A processor of its own belongs to one application, and no shared one does, but for guests.
//! P2  Each application has as many processors as the decision says, with two exceptions. If the
//!     machine has fewer than the decision shares out, the applications that came last go short. If
//!     the set of an application has fewer left, that application goes short, and no other one for
//!     its sake.
//! P3  An application whose number does not fall keeps all that it holds, and one whose number
//!     falls to k keeps k of it (apart from processors that left the machine, and those needed by
//!     an application that can be nowhere else, or by masters of a circle that can meet nowhere
//!     else). Nothing moves when nothing changes, but for turns.
//! P4  In a circle of S masters (with equal parts) each place on a shared processor is held by each
//!     master once in S turns.
//! P5  An unbound decision places no application: each has all processors, and what ran where is
//!     forgotten.
//! P6  No application has a processor outside its set, and each one whose number is not 0 has one
//!     (as long as the machine has one in its set).
//! P7  As many processors as the decision keeps free are no application's and no shared master's,
//!     as far as one is left for masters. No circle shares more processors than the decision gives
//!     it, and none shares one with another circle; but an application that can be nowhere else is
//!     where it can (P6).

mod at_home;
mod circle;
mod confined;
mod exchange;
mod free;
mod guests;
mod machine;
mod meeting;
mod seats;
mod sharers;
mod shelves;
mod tenants;
mod topology;

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::Decision;
use crate::snapshot::AppId;
use circle::Circle;
use exchange::{Exchange, Party};
use free::Free;
pub use machine::{Distances, Machine, MachineCpu, Smt, Speeds};
use seats::Seats;
use sharers::{Pins, is_bounded, share_out, sharers};
use tenants::{Rooms, Tenants};
use topology::Topology;

/// What ran where: the memory of the placement. A placement follows from its inputs.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub struct Placement {
    smt: Smt,
    /// Of the last placement.
    topology: Topology,
    tenants: Tenants,
    /// As in the decision.
    circles: Vec<Circle>,
    guests: BTreeSet<AppId>,
}

/// What a placement gives an application.
#[derive(Clone, Copy)]
enum Lodging {
    Nothing,
    /// What it holds.
    Own,
    /// This one, which is not its own.
    One(u32),
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
        if let Some(tenant) = self.tenants.of_mut(app) {
            let held = &mut tenant.slots[..tenant.held];
            // Stable: those that stay keep their order.
            held.sort_by_key(|cpu| cpus.contains(cpu));
        }
    }

    /// A newcomer held these processors before (under another manager): it gets those that no other
    /// application holds.
    pub fn remember_newcomer(&mut self, app: AppId, cpus: &[u32]) {
        self.tenants.remember(app, cpus);
    }

    /// A newcomer that the next decision names never gets a processor other than these, until it
    /// leaves. A set of which the machine has no processor is no bound: the application is
    /// somewhere else anyway.
    pub fn confine(&mut self, app: AppId, cpus: &[u32]) {
        self.tenants.confine(app, cpus);
    }

    /// Whether the application stays inside a set of processors.
    #[must_use]
    pub fn is_confined(&self, app: AppId) -> bool {
        self.tenants.is_confined(app)
    }

    /// Whether the application may have this processor.
    #[must_use]
    pub fn may_use(&self, app: AppId, cpu: u32) -> bool {
        self.tenants.may_use(app, cpu)
    }

    /// Whether the decision of the last placement, made again and with a turn if it has one, moves
    /// an application. False is certain; where applications stay inside sets of processors the
    /// answer is always true.
    #[must_use]
    pub fn is_moved_by_turns(&self) -> bool {
        self.tenants.confined > 0 || self.circles.iter().any(|circle| circle.turns(false))
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
            self.place_in_steps(machine, decision, put);
        }
    }

    fn place_in_steps(
        &mut self,
        machine: &Machine,
        decision: &Decision,
        mut put: impl FnMut(AppId, &[u32]),
    ) {
        self.guests.clear();
        if !self.topology.is_of(machine) {
            let topology = Topology::new(machine);
            self.tenants.move_to(&self.topology, &topology);
            self.topology = topology;
        }
        if let Some(moved) = self.tenants.line_up(decision) {
            self.circles.iter_mut().for_each(|circle| circle.move_along(&moved));
        }
        if decision.unbound {
            self.tenants.forget();
            self.circles.clear();
            let ids: Vec<u32> = self.topology.cpus.iter().map(|cpu| cpu.id).collect();
            decision.allocations.iter().for_each(|allocation| put(allocation.app, &ids));
            return;
        }

        let lodgings = self.lodge(&machine.distances, decision);
        for (tenant, lodging) in self.tenants.list.iter().zip(lodgings) {
            match lodging {
                Lodging::Nothing => put(tenant.app, &[]),
                Lodging::Own => put(tenant.app, tenant.held()),
                Lodging::One(id) => put(tenant.app, &[id]),
            }
        }
    }

    /// Places all applications, which stand as in the decision; by tenant what it has then.
    fn lodge(&mut self, distances: &Distances, decision: &Decision) -> Vec<Lodging> {
        let Self { topology, tenants, circles, .. } = self;
        tenants.renew_rooms(topology);
        let mut free = Free::new(topology, distances, self.smt);
        let sharers = sharers(tenants, decision);
        // One processor stays for the masters of each circle that may use every processor, if there
        // are any.
        let inhabited = sharers.iter().filter(|it| !it.masters.is_empty()).count();
        let mut seats = own_seats(topology.cpus.len().saturating_sub(inhabited), decision);
        let left = topology.cpus.len().saturating_sub(seats.processors());
        let shares = share_out(left, &sharers, decision);
        let (mut closer, mut pins) = (BTreeMap::new(), Vec::with_capacity(sharers.len()));
        let is_bounded = is_bounded(decision);
        for (it, share) in sharers.iter().zip(&shares) {
            pins.push(it.take_seats(share, is_bounded, tenants, &mut seats, &mut closer));
        }
        let rooms = Rooms::new(tenants, closer);
        fill(&mut seats, &rooms, topology, decision, &mut free);
        let mut pins: Vec<Pins> =
            pins.into_iter().zip(&shares).map(|(it, share)| Pins::new(it, &seats, share)).collect();

        circles.resize_with(sharers.len(), Circle::default);
        for (circle, share) in circles.iter_mut().zip(&shares) {
            circle.keep(share.most, &mut free);
        }
        if is_bounded {
            let mut parties = Vec::with_capacity(circles.len());
            let of_circles = sharers.iter().zip(&shares).zip(&pins);
            for (circle, ((it, share), pins)) in circles.iter_mut().zip(of_circles) {
                circle.meet(&it.unmet(pins, tenants, topology), share.most, &mut free);
                let guests = it.guests(pins, tenants).collect();
                parties.push(Party { most: share.most, guests, seats: pins.seats.clone() });
            }
            let (seats, free) = (&mut seats, &mut free);
            Exchange { topology, rooms: &rooms, seats, circles, free, parties }.run();
            pins.iter_mut().for_each(|it| it.look(seats));
        }
        for (circle, (it, share)) in circles.iter_mut().zip(sharers.iter().zip(&shares)) {
            let came_from = |tenant: usize| tenants.list[tenant].slots.first().copied();
            let tenants = tenants.list.len();
            let shared_before =
                circle.renew(&it.masters, share.most, tenants, came_from, &mut free);
            circle.measure(|id| topology.index_of(id).map(|cpu| topology.class_of(cpu)));
            if shared_before && decision.rotate {
                circle.turn(!it.pinned.is_empty());
            }
        }

        let mut lodgings = vec![Lodging::Nothing; tenants.list.len()];
        seats.remember(tenants, topology);
        for seat in (0..seats.len()).filter(|&seat| !seats.slots(seat).is_empty()) {
            lodgings[seats.tenant(seat)] = Lodging::Own;
        }
        for (id, run) in circles.iter().flat_map(Circle::places) {
            for master in run {
                // While the others of its team wait, the master's turn elsewhere does not move the
                // team's home.
                let tenant = &mut tenants.list[master.tenant];
                tenant.held = 0;
                tenant.lodge(id);
                lodgings[master.tenant] = Lodging::One(id);
            }
            // All of them are there; that with the largest number is remembered.
            let last = run.iter().max_by_key(|master| master.app);
            if let (Some(master), Some(cpu)) = (last, topology.index_of(id)) {
                tenants.last[cpu] = master.tenant;
            }
        }
        // What it held before is another application's to keep from now on (P3).
        let placed = self.tenants.list.iter_mut().zip(&lodgings);
        for (tenant, _) in placed.filter(|(_, it)| matches!(it, Lodging::Nothing)) {
            tenant.held = 0;
        }
        self.put_up(decision, &pins, &mut lodgings);
        lodgings
    }
}

/// A seat for each application that does not share, in order of arrival, as far as `most`
/// processors go.
fn own_seats(most: usize, decision: &Decision) -> Seats {
    let mut rest = most;
    let mut seats = Seats::default();
    for (tenant, allocation) in decision.allocations.iter().enumerate().filter(|(_, a)| !a.shared) {
        let number = (allocation.processors as usize).min(rest);
        rest -= number;
        seats.add(tenant, number);
    }
    seats
}

/// Steps 1 to 5.
fn fill(
    seats: &mut Seats,
    rooms: &Rooms<'_>,
    topology: &Topology,
    decision: &Decision,
    free: &mut Free<'_>,
) {
    seats.return_home(rooms, topology, free);
    confined::fill(seats, rooms, free);
    let mut found = Vec::new();
    let cluster = decision.cluster as usize;
    if topology.classes > 1 && cluster <= 1 {
        divide_fast(seats, topology.classes, free);
    }
    for seat in 0..seats.len() {
        free.take_near(seats.slots(seat), seats.holes(seat), cluster, &mut found);
        seats.fill(seat, &mut found);
    }
}

/// Where no application has anything, those that want processors at the same time have fast ones in
/// proportion to what they want, as near as whole numbers come to it; without this the first one
/// would have all. Rounded up in order of arrival.
fn divide_fast(seats: &mut Seats, classes: usize, free: &mut Free<'_>) {
    let wants = |seats: &Seats| (0..seats.len()).map(|seat| seats.holes(seat)).sum::<usize>();
    if wants(seats) < seats.processors() {
        return;
    }
    let mut found = Vec::new();
    // The slowest class is what remains.
    for _ in 1..classes {
        let (number, all) = (free.best_left(), wants(seats));
        if all <= number {
            return;
        }
        let (mut before, mut given) = (0, 0);
        for seat in 0..seats.len() {
            before += seats.holes(seat);
            let upto = (before * number).div_ceil(all);
            free.take_near(seats.slots(seat), upto - given, 1, &mut found);
            seats.fill(seat, &mut found);
            given = upto;
        }
    }
}
