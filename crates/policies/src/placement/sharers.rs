//! The masters that share, by circle: what each circle has, and which seats there are for those of
//! its masters that stay inside sets (the *pinned* ones).
//!
//! # Rule
//! What a circle has is divided between masters that may use every processor and pinned ones, by
//! their numbers. Where there are fewer seats for pinned masters than masters, and the decision
//! bounds what circles have, masters do not take them in order of arrival: they meet (`meeting`),
//! so that as many as possible are where their circle is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::circle::Master;
use super::meeting::meetings;
use super::seats::Seats;
use super::tenants::{Room, Tenants};
use super::topology::Topology;
use crate::decision::{Allocation, Decision};

/// The masters of a circle.
#[derive(Default)]
pub(super) struct Sharers {
    /// Those that may use every processor.
    pub(super) masters: Vec<Master>,
    pub(super) pinned: Vec<Master>,
}

/// Processors for a circle.
pub(super) struct Share {
    /// Of those that its pinned masters have seats for.
    of_pinned: usize,
    /// The most of the circle itself.
    pub(super) most: usize,
}

/// The seats of a circle's pinned masters, when they were placed.
pub(super) struct Pins {
    pub(super) seats: Range<usize>,
    tenants: BTreeSet<usize>,
    /// Their processors.
    pub(super) cpus: Vec<usize>,
    /// Seats for which there was no processor.
    pub(super) spare: usize,
}

impl Pins {
    pub(super) fn new(placed: Range<usize>, seats: &Seats, share: &Share) -> Self {
        let has_any = placed.clone().filter(|&seat| !seats.slots(seat).is_empty());
        let tenants = has_any.map(|seat| seats.tenant(seat)).collect();
        let mut pins = Self { seats: placed, tenants, cpus: Vec::new(), spare: 0 };
        pins.look(seats);
        pins.spare = share.of_pinned.saturating_sub(pins.cpus.len());
        pins
    }

    /// Seats have other processors.
    pub(super) fn look(&mut self, seats: &Seats) {
        let seated = self.seats.clone().flat_map(|seat| seats.slots(seat));
        self.cpus = seated.copied().collect();
    }
}

impl Sharers {
    fn is_empty(&self) -> bool {
        self.masters.is_empty() && self.pinned.is_empty()
    }

    /// Adds the seats of pinned masters, and to `closer` where those may be at which they meet.
    pub(super) fn take_seats(
        &self,
        share: &Share,
        meet: bool,
        tenants: &Tenants,
        seats: &mut Seats,
        closer: &mut BTreeMap<usize, Room>,
    ) -> Range<usize> {
        let begin = seats.len();
        if meet && share.of_pinned < self.pinned.len() {
            let room = |master: &Master| tenants.list[master.tenant].room.as_ref();
            let rooms: Vec<&Room> = self.pinned.iter().filter_map(room).collect();
            for it in meetings(&rooms, share.of_pinned, tenants.last.len()) {
                let tenant = self.pinned[it.host].tenant;
                seats.add(tenant, 1);
                closer.insert(tenant, it.room);
            }
        } else {
            let seated = self.pinned.iter().take(share.of_pinned);
            seated.for_each(|master| seats.add(master.tenant, 1));
        }
        begin..seats.len()
    }

    /// The sets of those that have no seat.
    pub(super) fn guests<'a>(
        &'a self,
        pins: &'a Pins,
        tenants: &'a Tenants,
    ) -> impl Iterator<Item = &'a Room> {
        let without = self.pinned.iter().filter(|it| !pins.tenants.contains(&it.tenant));
        without.filter_map(|master| tenants.list[master.tenant].room.as_ref())
    }

    /// The sets, by id, of those that have neither a seat nor one to join: they are guests.
    pub(super) fn unmet(
        &self,
        pins: &Pins,
        tenants: &Tenants,
        topology: &Topology,
    ) -> Vec<BTreeSet<u32>> {
        let unmet =
            self.guests(pins, tenants).filter(|room| !pins.cpus.iter().any(|cpu| room.has(*cpu)));
        unmet.map(|room| room.cpus.iter().map(|cpu| topology.cpus[*cpu].id).collect()).collect()
    }
}

/// Whether the decision says how far masters that share may spread.
pub(super) fn is_bounded(decision: &Decision) -> bool {
    decision.reserved > 0 || !decision.circles.is_empty()
}

/// The circle in which a master stands, of so many: one of no circle that there is stands in the
/// last one.
pub(super) fn circle_of(allocation: &Allocation, circles: usize) -> usize {
    usize::from(allocation.circle).min(circles.saturating_sub(1))
}

/// The masters that share, by circle; no circle where none shares.
pub(super) fn sharers(tenants: &Tenants, decision: &Decision) -> Vec<Sharers> {
    let mut sharers: Vec<Sharers> = Vec::new();
    if !decision.allocations.iter().any(|a| a.shared) {
        return sharers;
    }
    sharers.resize_with(decision.circles.len().max(1), Sharers::default);
    for (tenant, a) in decision.allocations.iter().enumerate().filter(|(_, a)| a.shared) {
        let master = Master { app: a.app, tenant, part: a.part.max(1) };
        let circle = circle_of(a, sharers.len());
        let is_pinned = tenants.list[tenant].room.is_some();
        let it = &mut sharers[circle];
        if is_pinned { it.pinned.push(master) } else { it.masters.push(master) }
    }
    sharers
}

/// What each circle has of the processors that are no application's own.
pub(super) fn share_out(left: usize, sharers: &[Sharers], decision: &Decision) -> Vec<Share> {
    // The circle has its part of what is shared, rounded up.
    let of_circle = |shared: usize, it: &Sharers| {
        (shared * it.masters.len()).div_ceil((it.masters.len() + it.pinned.len()).max(1))
    };
    if let ([it], []) = (sharers, decision.circles.as_slice()) {
        // What is kept free is not shared, as long as one processor is left for masters.
        let kept = (decision.reserved as usize).min(left.saturating_sub(1));
        let shared = left - kept;
        let own = of_circle(shared, it);
        let most = if kept == 0 { it.masters.len() } else { it.masters.len().min(own.max(1)) };
        return vec![Share { of_pinned: shared - own, most }];
    }
    // Each has one, as far as they go, first those whose masters have no sets; then in their order
    // what the decision says.
    let mut rest = left;
    let mut ones = vec![0; sharers.len()];
    for has_masters in [true, false] {
        for (one, it) in ones.iter_mut().zip(sharers) {
            let is_next = it.masters.is_empty() != has_masters && !it.is_empty();
            *one += usize::from(is_next).min(rest);
            rest -= *one * usize::from(is_next);
        }
    }
    let share = |((it, one), circle): ((&Sharers, &usize), &u32)| {
        let more = (*circle as usize).saturating_sub(*one).min(rest) * one;
        rest -= more;
        let shared = one + more;
        let own = of_circle(shared, it);
        Share { of_pinned: shared - own, most: it.masters.len().min(own) }
    };
    sharers.iter().zip(&ones).zip(&decision.circles).map(share).collect()
}
