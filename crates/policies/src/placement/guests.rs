//! Applications that have nothing in their set: each is a guest on a processor that others use.
//!
//! # Rule
//! A guest goes where the fewest applications are. Where the decision says how far masters that
//! share may spread, a master goes, in this order:
//! 1. to a processor of its circle: one that the circle shares, or a seat of another pinned master;
//! 2. to one that nothing uses, if its circle has one less than it is due;
//! 3. to one that other circles share;
//! 4. to one of another application's own;
//! 5. to one that is kept free.
//!
//! Masters for which only the last four are left meet there on the fewest processors (`meeting`):
//! those with the worst choice first. The others of their circle do not join them. An application
//! that does not share goes where another one is, before it takes what is kept free.

use std::cmp::Reverse;

use super::meeting::Sets;
use super::sharers::{Pins, circle_of, is_bounded};
use super::tenants::{Room, Tenant};
use super::topology::Topology;
use super::{Lodging, Placement};
use crate::decision::Decision;

/// What a processor is to the guests of a circle, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Circles,
    Due,
    Shared,
    Owned,
    Kept,
}

impl Placement {
    /// Puts up those that have nothing; `pins` are of each circle.
    pub(super) fn put_up(&mut self, decision: &Decision, pins: &[Pins], lodgings: &mut [Lodging]) {
        let is_guest = |at: &usize| {
            let has_none = matches!(lodgings[*at], Lodging::Nothing);
            let wants = decision.allocations[*at].processors > 0;
            has_none && wants && self.tenants.list[*at].room.is_some()
        };
        let guests: Vec<usize> = (0..decision.allocations.len()).filter(is_guest).collect();
        if guests.is_empty() {
            return;
        }
        let shares = |at: &usize| decision.allocations[*at].shared;
        self.guests
            .extend(guests.iter().filter(|at| !shares(at)).map(|at| decision.allocations[*at].app));
        let mut users = count_users(&self.topology, &self.tenants.list, lodgings);
        if !is_bounded(decision) {
            for at in guests {
                self.put_up_one(at, &mut users, lodgings, |_, _| 0);
            }
            return;
        }
        let (masters, own): (Vec<usize>, Vec<usize>) = guests.into_iter().partition(shares);
        for at in own {
            self.put_up_one(at, &mut users, lodgings, |_, users| users == 0);
        }
        let mut owned = vec![false; users.len()];
        for (at, it) in decision.allocations.iter().enumerate().filter(|(_, it)| !it.shared) {
            let ids = ids(&self.tenants.list[at], &lodgings[at]);
            let cpus = ids.iter().filter_map(|id| self.topology.index_of(*id));
            cpus.for_each(|cpu| owned[cpu] |= it.processors > 0);
        }
        let all = pins.len();
        for (circle, pins) in pins.iter().enumerate() {
            let is_of = |at: &usize| circle_of(&decision.allocations[*at], all) == circle;
            let guests: Vec<usize> = masters.iter().copied().filter(is_of).collect();
            if guests.is_empty() {
                continue;
            }
            let standings = self.standings(circle, pins, &guests, &users, &owned);
            for at in guests {
                self.put_up_one(at, &mut users, lodgings, |cpu, _| standings[cpu]);
            }
        }
    }

    /// By processor what it is to the guests of a circle. True: it is no place for them, since it
    /// is neither one of their circle nor one where some of them meet.
    fn standings(
        &self,
        circle: usize,
        pins: &Pins,
        guests: &[usize],
        users: &[usize],
        owned: &[bool],
    ) -> Vec<(bool, Standing)> {
        let Self { topology, tenants, circles, .. } = self;
        let standing = |(cpu, users): (usize, &usize)| match users {
            _ if circles[circle].shares(topology.cpus[cpu].id) => Standing::Circles,
            0 => Standing::Kept,
            _ if owned[cpu] => Standing::Owned,
            _ => Standing::Shared,
        };
        let mut standings: Vec<(bool, Standing)> =
            users.iter().enumerate().map(|it| (true, standing(it))).collect();
        pins.cpus.iter().for_each(|cpu| standings[*cpu].1 = Standing::Circles);
        standings.iter_mut().for_each(|it| it.0 = it.1 != Standing::Circles);

        let room = |at: &usize| tenants.list[*at].room.as_ref();
        let rooms: Vec<&Room> = guests.iter().filter_map(room).collect();
        let is_unmet = |room: &&Room| room.cpus.iter().all(|cpu| standings[*cpu].0);
        let mut unmet = Sets::new(&rooms, rooms.iter().map(is_unmet).collect(), users.len());
        let mut spare = pins.spare;
        loop {
            let as_due = |it: Standing| match it {
                Standing::Kept if spare > 0 => Standing::Due,
                other => other,
            };
            // Those that are worst off first: others can join them, not the other way round.
            let best =
                |at: &usize| rooms[*at].cpus.iter().map(|cpu| as_due(standings[*cpu].1)).min();
            let Some(worst) = unmet.left().filter_map(|at| best(&at)).max() else { break };
            let mut is_worst = vec![false; rooms.len()];
            for at in unmet.left().filter(|at| best(at) == Some(worst)) {
                is_worst[at] = true;
            }
            let is_meant = |cpu: usize| as_due(standings[cpu].1) == worst;
            let cover = Sets::new(&rooms, is_worst, users.len()).cover(is_meant);
            let most = if worst == Standing::Due { spare } else { cover.len() };
            let mut is_of_cover = vec![false; users.len()];
            cover.into_iter().for_each(|cpu| is_of_cover[cpu] = true);
            for _ in 0..most {
                let key = |cpu: usize, count: usize| is_of_cover[cpu].then_some(Reverse(count));
                let Some(cpu) = unmet.best(key) else { break };
                if matches!(worst, Standing::Due | Standing::Kept) {
                    // It is the circle's alone from now on.
                    spare -= usize::from(worst == Standing::Due);
                    standings[cpu].1 = Standing::Due;
                }
                standings[cpu].0 = false;
                unmet.with(cpu).into_iter().for_each(|at| unmet.leave(at));
            }
        }
        standings
    }

    /// Puts one up in its set, where the rank is least, then where the fewest are, and where it
    /// was.
    fn put_up_one<K: Ord>(
        &mut self,
        at: usize,
        users: &mut [usize],
        lodgings: &mut [Lodging],
        rank: impl Fn(usize, usize) -> K,
    ) {
        let Self { topology, tenants, .. } = self;
        let tenant = &mut tenants.list[at];
        let Some(room) = &tenant.room else { return };
        let was_on = tenant.slots.first().copied();
        let key = |cpu: &usize| {
            let id = topology.cpus[*cpu].id;
            (rank(*cpu, users[*cpu]), users[*cpu], Some(id) != was_on, id)
        };
        let cpu = room.cpus.iter().copied().min_by_key(key).expect("a room has a processor");
        let id = topology.cpus[cpu].id;
        tenant.lodge(id);
        users[cpu] += 1;
        lodgings[at] = Lodging::One(id);
    }
}

/// What it has by its lodging, by id.
fn ids<'a>(tenant: &'a Tenant, lodging: &'a Lodging) -> &'a [u32] {
    match lodging {
        Lodging::Nothing => &[],
        Lodging::Own => tenant.held(),
        Lodging::One(id) => std::slice::from_ref(id),
    }
}

/// By processor how many applications use it.
fn count_users(topology: &Topology, tenants: &[Tenant], lodgings: &[Lodging]) -> Vec<usize> {
    let mut users = vec![0; topology.cpus.len()];
    for (tenant, lodging) in tenants.iter().zip(lodgings) {
        let ids = ids(tenant, lodging).iter();
        ids.filter_map(|id| topology.index_of(*id)).for_each(|cpu| users[cpu] += 1);
    }
    users
}
