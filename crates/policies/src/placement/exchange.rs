//! Chains of exchange: how a circle comes to a processor on which it meets masters that stay inside
//! a set, when another circle or an application has that processor and could be elsewhere.
//!
//! # Rule
//! A confined master that has no seat is *met* when its circle has a processor in its set. For one
//! that is not met its circle looks for a chain: a processor of the set that the circle can take,
//! whose holder could have another one instead, whose holder could in turn, and so on. The circle
//! takes it as one more, up to what it is due, or in place of one without which it misses no set;
//! that one is free then. A holder is a circle, or an application, also a master with a seat. It
//! can have each processor of its set, and if a circle meets masters there and nowhere else, only
//! those of all of their sets. The chain ends at:
//! 1. a processor that is free, with the one that the circle gives up;
//! 2. one whose holder can be everywhere, if anything is free: it takes what is near to it.
//!
//! The shortest chain is taken; of those of one length end 2 comes first, and there a circle, whose
//! masters have no home, then the last processor of an application. Only one processor of a circle
//! that has such masters is in the chains of a search: which sets it would miss without two is not
//! known from each of them. So where circles have several processors some chains are not found.
//! Where each has one, and its confined masters one set, a chain is an augmenting path of a
//! bipartite matching, and as many circles meet their masters as can.
//!
//! A chain meets one more set, and none is missed for it. So after the last one nothing moves when
//! the same decision is placed again: circles search again until none finds anything.
//!
//! # Cost
//! Nothing where each confined master has a seat or is met. A search looks at each holder once, and
//! at a set in words of 64 processors: O(P + holders x P / 64). A circle searches for at most
//! [`SEARCHES`] sets in vain, and all circles for [`ALL_SEARCHES`]: the others are `guests`'. A
//! part of the machine that only confined applications have, and that a search left as it was, is
//! not searched again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::circle::Circle;
use super::free::Free;
use super::seats::Seats;
use super::tenants::{NOBODY, Room, Rooms};
use super::topology::{HOLE, Topology};

/// Searches in vain of a circle, and of all circles, until something moves again.
const SEARCHES: usize = 16;
const ALL_SEARCHES: usize = 128;

/// What a circle is to have, and for which sets.
pub(super) struct Party<'a> {
    pub(super) most: usize,
    /// Of its masters without a seat.
    pub(super) guests: Vec<&'a Room>,
    /// Those of its masters.
    pub(super) seats: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Circle { circle: usize, place: usize },
    Seat { slot: Reverse<usize>, seat: usize },
    None,
}

/// What has processors, and where it could be.
pub(super) struct Exchange<'a, 'b> {
    pub(super) topology: &'a Topology,
    pub(super) rooms: &'a Rooms<'a>,
    pub(super) seats: &'a mut Seats,
    pub(super) circles: &'a mut [Circle],
    pub(super) free: &'a mut Free<'b>,
    /// By circle.
    pub(super) parties: Vec<Party<'a>>,
}

/// The same, as it is between two chains.
#[derive(Default)]
struct Held {
    /// By processor.
    holders: Vec<Holder>,
    /// By processor: the circle that has guests and holds it, itself or by a seat, or [`NOBODY`].
    circles: Vec<usize>,
    /// By processor: where its circle could be instead, as a set of processors in words; none: each
    /// guest that is met there is met elsewhere, too.
    ties: BTreeMap<usize, Vec<u64>>,
    is_any_free: bool,
    /// Processors, in words, of applications that can have none but these: no chain ends here.
    closed: Vec<u64>,
}

impl Held {
    /// Whether a search has seen all of this set, and no chain can end there.
    fn is_closed(&self, room: &Room) -> bool {
        room.words().iter().zip(&self.closed).all(|(room, closed)| room & !closed == 0)
    }

    /// Whether the circle that has one of these could have the other one instead.
    fn fits(&self, cpu: usize, other: usize) -> bool {
        self.ties.get(&cpu).is_none_or(|tie| has(tie, other))
    }
}

/// What a search has seen.
struct Search {
    /// Processors that it has not come by, in words.
    unseen: Vec<u64>,
    /// By processor: the one whose holder would get it, or [`HOLE`]; and the first of the chain.
    from: Vec<(usize, usize)>,
    /// By circle and by seat: it is in a chain.
    circles: Vec<bool>,
    seats: Vec<bool>,
}

fn has(words: &[u64], cpu: usize) -> bool {
    words[cpu / 64] & 1 << (cpu % 64) != 0
}

impl Exchange<'_, '_> {
    /// Looks for chains until there are no others. To be called when all circles have what they had
    /// and what is free of their sets.
    pub(super) fn run(mut self) {
        if (0..self.parties.len()).all(|circle| self.unmet(circle).is_empty()) {
            return;
        }
        let mut held = self.look();
        loop {
            let (mut has_moved, mut all_in_vain) = (false, 0);
            for circle in 0..self.parties.len() {
                let mut in_vain = 0;
                for at in self.unmet(circle) {
                    if in_vain == SEARCHES || all_in_vain == ALL_SEARCHES {
                        break;
                    }
                    let room = self.parties[circle].guests[at];
                    if self.is_met(circle, room) {
                        continue;
                    }
                    if held.is_closed(room) {
                        continue;
                    }
                    let Some(chain) = self.find(&mut held, circle, room) else {
                        (in_vain, all_in_vain) = (in_vain + 1, all_in_vain + 1);
                        continue;
                    };
                    self.pass_on(&held, circle, &chain);
                    held = self.look();
                    has_moved = true;
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Whether the circle has a processor in this set.
    fn is_met(&self, circle: usize, room: &Room) -> bool {
        let seats = self.parties[circle].seats.clone();
        let mut of_seats = seats.flat_map(|seat| self.seats.slots(seat)).filter(|it| **it != HOLE);
        let of_circle = self.circles[circle].shared().iter();
        of_seats.any(|cpu| room.has(*cpu))
            || of_circle.filter_map(|id| self.topology.index_of(*id)).any(|cpu| room.has(cpu))
    }

    /// Which guests of a circle it does not meet, one of each set.
    fn unmet(&self, circle: usize) -> Vec<usize> {
        let Party { most, guests, .. } = &self.parties[circle];
        if *most == 0 {
            return Vec::new();
        }
        let mut seen = BTreeSet::new();
        let unmet = (0..guests.len()).filter(|at| !self.is_met(circle, guests[*at]));
        unmet.filter(|at| seen.insert(&guests[*at].cpus)).collect()
    }

    /// What is where.
    fn look(&self) -> Held {
        let all = self.topology.cpus.len();
        let mut held = Held {
            holders: vec![Holder::None; all],
            circles: vec![NOBODY; all],
            ties: BTreeMap::new(),
            is_any_free: (0..all).any(|cpu| self.free.has(cpu)),
            closed: vec![0; all.div_ceil(64)],
        };
        for seat in 0..self.seats.len() {
            for (slot, cpu) in self.seats.slots(seat).iter().enumerate() {
                held.holders[*cpu] = Holder::Seat { slot: Reverse(slot), seat };
            }
        }
        for (circle, party) in self.parties.iter().enumerate() {
            let mut own: Vec<usize> =
                party.seats.clone().flat_map(|seat| self.seats.slots(seat)).copied().collect();
            for (place, id) in self.circles[circle].shared().iter().enumerate() {
                let cpu = self.topology.index_of(*id).expect("it was taken out of what is free");
                held.holders[cpu] = Holder::Circle { circle, place };
                own.push(cpu);
            }
            if party.guests.is_empty() {
                continue;
            }
            let mut words = vec![0; all.div_ceil(64)];
            for cpu in own {
                words[cpu / 64] |= 1 << (cpu % 64);
                held.circles[cpu] = circle;
            }
            for room in &party.guests {
                let met = words.iter().zip(room.words()).map(|(own, room)| own & room);
                let mut met = met.enumerate().filter(|(_, word)| *word != 0);
                if let (Some((at, word)), None) = (met.next(), met.next())
                    && word.is_power_of_two()
                {
                    let tie = held.ties.entry(at * 64 + word.trailing_zeros() as usize);
                    let tie = tie.or_insert_with(|| vec![u64::MAX; words.len()]);
                    tie.iter_mut().zip(room.words()).for_each(|(tie, room)| *tie &= room);
                }
            }
        }
        held
    }

    /// Where among its processors a circle can have this one: in place of that one, or as one more
    /// (the inner `None`).
    fn place_for(&self, held: &Held, circle: usize, cpu: usize) -> Option<Option<usize>> {
        let shared = self.circles[circle].shared();
        if shared.len() < self.parties[circle].most {
            return Some(None);
        }
        let is_spare = |place: &usize| {
            self.topology.index_of(shared[*place]).is_some_and(|own| held.fits(own, cpu))
        };
        (0..shared.len()).rev().find(is_spare).map(Some)
    }

    /// The shortest chain that brings a circle into a set: first the processor that it gets.
    fn find(&self, held: &mut Held, circle: usize, room: &Room) -> Option<Vec<usize>> {
        let all = self.topology.cpus.len();
        let mut search = Search {
            unseen: held.closed.iter().map(|closed| !closed).collect(),
            from: vec![(HOLE, HOLE); all],
            circles: vec![false; self.circles.len()],
            seats: vec![false; self.seats.len()],
        };
        search.circles[circle] = true;
        let can_have =
            |cpu: &usize| has(&search.unseen, *cpu) && self.place_for(held, circle, *cpu).is_some();
        let mut level: Vec<usize> = room.cpus.iter().copied().filter(can_have).collect();
        let mut seen = Vec::new();
        for cpu in &level {
            search.unseen[cpu / 64] &= !(1 << (cpu % 64));
            search.from[*cpu] = (HOLE, *cpu);
        }
        while !level.is_empty() {
            let left = level.iter().find(|cpu| self.is_left(held, circle, **cpu, &search));
            let ends = || level.iter().filter(|cpu| self.is_movable(held, circle, **cpu, &search));
            if let Some(end) =
                left.or_else(|| ends().min_by_key(|cpu| (held.holders[**cpu], **cpu)))
            {
                let back = |cpu: &usize| Some(search.from[*cpu].0).filter(|cpu| *cpu != HOLE);
                let mut chain: Vec<usize> = std::iter::successors(Some(*end), back).collect();
                chain.reverse();
                return Some(chain);
            }
            let mut longer = Vec::new();
            level.iter().for_each(|cpu| self.reach(held, *cpu, &mut search, &mut longer));
            seen.extend(std::mem::replace(&mut level, longer));
        }
        // Where it came by no circle, what another circle gives up changes nothing.
        let is_closed = |cpu: &usize| match held.holders[*cpu] {
            Holder::Seat { seat, .. } => {
                held.circles[*cpu] == NOBODY && self.rooms.of(self.seats.tenant(seat)).is_some()
            }
            _ => false,
        };
        if seen.iter().all(is_closed) {
            seen.iter().for_each(|cpu| held.closed[cpu / 64] |= 1 << (cpu % 64));
        }
        None
    }

    /// The place that a circle gives up for the chain in which this processor is.
    fn given_up(&self, held: &Held, circle: usize, cpu: usize, search: &Search) -> Option<usize> {
        self.place_for(held, circle, search.from[cpu].1).flatten()
    }

    /// End 1.
    fn is_left(&self, held: &Held, of: usize, cpu: usize, search: &Search) -> bool {
        self.free.has(cpu)
            || matches!(held.holders[cpu], Holder::Circle { circle, place } if circle == of
                && self.given_up(held, of, cpu, search) == Some(place))
    }

    /// End 2.
    fn is_movable(&self, held: &Held, of: usize, cpu: usize, search: &Search) -> bool {
        let is_anywhere = match held.holders[cpu] {
            Holder::Circle { circle, .. } => !search.circles[circle],
            Holder::Seat { seat, .. } => self.rooms.of(self.seats.tenant(seat)).is_none(),
            Holder::None => false,
        };
        let is_tied = held.ties.contains_key(&cpu);
        is_anywhere
            && !is_tied
            && (held.is_any_free || self.given_up(held, of, cpu, search).is_some())
    }

    /// What the holder of a processor could have instead and is not seen yet.
    fn reach(&self, held: &Held, cpu: usize, search: &mut Search, found: &mut Vec<usize>) {
        let circle = held.circles[cpu];
        if circle != NOBODY && search.circles[circle] {
            return;
        }
        let tie = held.ties.get(&cpu).map(Vec::as_slice);
        let room = match held.holders[cpu] {
            Holder::Seat { seat, .. } => {
                if std::mem::replace(&mut search.seats[seat], true) {
                    return;
                }
                self.rooms.of(self.seats.tenant(seat)).map(Room::words)
            }
            _ => None,
        };
        let Some(first) = room.or(tie) else { return };
        let second = tie.unwrap_or(first);
        if circle != NOBODY {
            search.circles[circle] = true;
        }
        let root = search.from[cpu].1;
        for (at, (first, second)) in first.iter().zip(second).enumerate() {
            let mut new = first & second & search.unseen[at];
            search.unseen[at] &= !new;
            while new != 0 {
                let other = at * 64 + new.trailing_zeros() as usize;
                new &= new - 1;
                search.from[other] = (cpu, root);
                found.push(other);
            }
        }
    }

    /// Each holder of a chain gets the next processor.
    fn pass_on(&mut self, held: &Held, circle: usize, chain: &[usize]) {
        let id = |cpu: usize| self.topology.cpus[cpu].id;
        let place = self.place_for(held, circle, chain[0]).expect("the chain begins so");
        if let Some(given_up) = self.circles[circle].stand(place, id(chain[0])) {
            self.free.put_back(given_up);
        }
        let end = *chain.last().expect("a chain has one processor at least");
        let is_left = self.free.take(end);
        for (at, cpu) in chain.iter().enumerate() {
            let next = chain.get(at + 1).copied();
            match held.holders[*cpu] {
                _ if next.is_none() && is_left => {}
                Holder::Circle { circle, place } => {
                    let next = next.map(id).or_else(|| self.free.take_ids(1).next());
                    self.circles[circle].stand(Some(place), next.expect("something is free"));
                }
                Holder::Seat { slot: Reverse(slot), seat } => {
                    self.seats.clear(seat, slot);
                    let mut found: Vec<usize> = next.into_iter().collect();
                    if found.is_empty() {
                        self.free.take_near(self.seats.slots(seat), 1, 1, &mut found);
                    }
                    self.seats.put(seat, slot, found.pop().expect("something is free"));
                }
                Holder::None => debug_assert!(false, "the search came by a holder"),
            }
        }
    }
}
