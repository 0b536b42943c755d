//! Applications that stay inside a set of processors: what they get, and which applications make
//! room for it.
//!
//! # Rule
//! Each takes what is free inside its set. An application that then lacks something looks for a
//! chain: a processor of its set whose owner could have another one instead, whose owner could in
//! turn, and so on. The chain ends at:
//! 1. a processor that is free;
//! 2. one of an application that may run everywhere, which finds another one later, because the
//!    numbers of all applications together fit the machine;
//! 3. where no chain ends so, one of the application that has most, if that is at least two more
//!    than this one has.
//!
//! The shortest chain is taken, which moves the fewest processors; of those of one length, a free
//! processor comes first, then the last one of an application that may run everywhere.
//!
//! The applications get one processor each in turn, until none finds anything. What is then still
//! lacking cannot be had: all that can be reached belongs to applications that stay inside sets,
//! too, and that have at most one processor more.
//!
//! # Searches that need not be made
//! A search that finds nothing has seen a closed part of the machine: all processors of the sets of
//! all applications in it are theirs. Of these applications each that has as many as the one that
//! searched, or more, would find nothing either. They are *settled*: they do not search again until
//! a chain takes a processor from one of them.
//!
//! # Cost
//! Nothing without such applications. A chain looks at each processor of the sets of the
//! applications that it comes by, at worst O(applications x P), and there are few: as many as
//! processors are lacking, and those of end 3. The worst that was found: 60 ms, for 512
//! applications that all lack something, in sets of 3 of 1024 processors.

use std::collections::{BTreeMap, BTreeSet};

use super::free::Free;
use super::quick::QuickMap;
use super::{MachineCpu, Seat};
use crate::snapshot::AppId;

/// For each application that stays inside a set the processors in it, by index, ascending.
pub(super) struct Rooms(QuickMap<AppId, Vec<usize>>);

impl Rooms {
    /// Of those sets that bound anything: which have some of these processors, and not all of them.
    /// `cpus` are in order of their numbers. O(sizes of the sets x log P).
    pub(super) fn new(within: &BTreeMap<AppId, BTreeSet<u32>>, cpus: &[MachineCpu]) -> Self {
        let at = |id: &u32| cpus.binary_search_by_key(id, |cpu| cpu.id).ok();
        let room = |ids: &BTreeSet<u32>| ids.iter().filter_map(at).collect::<Vec<usize>>();
        let rooms = within.iter().map(|(app, ids)| (*app, room(ids)));
        Self(rooms.filter(|(_, room)| !room.is_empty() && room.len() < cpus.len()).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its room; `None`: everywhere.
    pub(super) fn of(&self, app: AppId) -> Option<&[usize]> {
        self.0.get(&app).map(Vec::as_slice)
    }

    /// Whether the application may have this processor.
    pub(super) fn allow(&self, app: AppId, cpu: usize) -> bool {
        self.of(app).is_none_or(|room| room.binary_search(&cpu).is_ok())
    }
}

/// Fills the seats of applications that have rooms as far as that is possible, and cuts off what is
/// not. Seats of others may have holes afterwards.
pub(super) fn fill(seats: &mut [Seat], rooms: &Rooms, processors: usize, free: &mut Free<'_>) {
    if rooms.is_empty() {
        return;
    }
    for seat in seats.iter_mut() {
        if let Some(room) = rooms.of(seat.app) {
            let (near, number) = seat.near_and_holes();
            seat.fill(free.take_inside(&near, number, room));
        }
    }
    if !seats.iter().any(|seat| rooms.of(seat.app).is_some() && seat.has_holes()) {
        return;
    }
    let mut matching = Matching::new(seats, rooms, processors, free);
    // Not `any`: each gets one before any application gets the next one.
    while (0..matching.seats.len()).filter(|&seat| matching.extend(seat)).count() > 0 {}
    for seat in seats.iter_mut().filter(|seat| rooms.of(seat.app).is_some()) {
        seat.slots.retain(Option::is_some);
    }
}

/// Which application has which processor.
struct Matching<'a, 'b> {
    seats: &'a mut [Seat],
    free: &'a mut Free<'b>,
    /// By seat: the processors of its room; `None`: everywhere.
    rooms: Vec<Option<&'a [usize]>>,
    /// By seat: how many processors it has.
    has: Vec<usize>,
    /// By seat: it is settled.
    settled: Vec<bool>,
    /// By processor: the seat that has it, and the slot there.
    owner: Vec<Option<(usize, usize)>>,
    search: Search,
}

/// The best end so far, and how good it is: of those that may run everywhere the slot, of the
/// others how many processors the application has; and the processor.
type Best = Option<(usize, usize)>;

/// What the last search came by; marks of earlier ones are older and count as none.
struct Search {
    now: u32,
    /// By processor: the seat that would get it.
    getter: Vec<(u32, usize)>,
    /// By seat: the processor that it would give for that.
    given: Vec<(u32, usize)>,
    /// Seats in the order in which they were reached.
    queue: Vec<usize>,
}

impl<'a, 'b> Matching<'a, 'b> {
    fn new(
        seats: &'a mut [Seat],
        rooms: &'a Rooms,
        processors: usize,
        free: &'a mut Free<'b>,
    ) -> Self {
        let mut owner = vec![None; processors];
        for (i, seat) in seats.iter().enumerate() {
            for (slot, cpu) in seat.slots.iter().enumerate() {
                if let Some(cpu) = cpu {
                    owner[*cpu] = Some((i, slot));
                }
            }
        }
        let search = Search {
            now: 0,
            getter: vec![(0, 0); processors],
            given: vec![(0, 0); seats.len()],
            queue: Vec::new(),
        };
        Self {
            rooms: seats.iter().map(|seat| rooms.of(seat.app)).collect(),
            has: seats.iter().map(|seat| seat.slots.iter().flatten().count()).collect(),
            settled: vec![false; seats.len()],
            seats,
            free,
            owner,
            search,
        }
    }

    /// Gets one processor more for a seat that has a room and a hole; false if there is none to be
    /// had.
    fn extend(&mut self, start: usize) -> bool {
        if self.settled[start] || self.rooms[start].is_none() {
            return false;
        }
        let Some(hole) = self.seats[start].slots.iter().position(Option::is_none) else {
            return false;
        };
        let Some(end) = self.find(start) else {
            let least = self.has[start];
            for &seat in &self.search.queue {
                self.settled[seat] |= self.has[seat] >= least;
            }
            return false;
        };
        let mut touched = self.vacate(end);
        let mut cpu = end;
        loop {
            let (mark, seat) = self.search.getter[cpu];
            debug_assert_eq!(mark, self.search.now, "the search came by here");
            let (slot, next) = if seat == start {
                (hole, None)
            } else {
                let (mark, next) = self.search.given[seat];
                debug_assert_eq!(mark, self.search.now, "the search came by here");
                touched |= self.settled[seat];
                (self.owner[next].expect("it is the seat's").1, Some(next))
            };
            self.seats[seat].slots[slot] = Some(cpu);
            self.owner[cpu] = Some((seat, slot));
            match next {
                Some(next) => cpu = next,
                None => break,
            }
        }
        self.has[start] += 1;
        if touched {
            self.settled.fill(false);
        }
        true
    }

    /// The processor at the end of the best chain, breadth first.
    fn find(&mut self, start: usize) -> Option<usize> {
        let Search { now, getter, given, queue } = &mut self.search;
        *now += 1;
        queue.clear();
        queue.push(start);
        given[start].0 = *now;
        let enough = self.has[start] + 2;
        let (mut everywhere, mut richest): (Best, Best) = (None, None);
        // Where the chains end that are longer by one than those before.
        let (mut at, mut longer) = (0, 1);
        while at < queue.len() {
            let seat = queue[at];
            let room = self.rooms[seat].expect("only seats with rooms are in the queue");
            for &cpu in room {
                let Some((other, slot)) = self.owner[cpu] else {
                    if self.free.has(cpu) {
                        getter[cpu] = (*now, seat);
                        return Some(cpu);
                    }
                    continue;
                };
                if getter[cpu].0 == *now || other == seat || other == start {
                    continue;
                }
                getter[cpu] = (*now, seat);
                if self.rooms[other].is_none() {
                    if everywhere.is_none_or(|(best, _)| slot > best) {
                        everywhere = Some((slot, cpu));
                    }
                    continue;
                }
                let number = self.has[other];
                if number >= enough && richest.is_none_or(|(best, _)| number > best) {
                    richest = Some((number, cpu));
                }
                if given[other].0 != *now {
                    given[other] = (*now, cpu);
                    queue.push(other);
                }
            }
            at += 1;
            if at == longer {
                if everywhere.is_some() {
                    break;
                }
                longer = queue.len();
            }
        }
        everywhere.or(richest).map(|(_, cpu)| cpu)
    }

    /// Takes the processor at the end of a chain from the application that has it, or from what is
    /// free. True: that one was settled.
    fn vacate(&mut self, cpu: usize) -> bool {
        let Some((seat, slot)) = self.owner[cpu].take() else {
            let free = self.free.take(cpu);
            debug_assert!(free, "the search looked");
            return false;
        };
        self.has[seat] -= 1;
        let slots = &mut self.seats[seat].slots;
        slots[slot] = None;
        // The number of one that has a room falls: its last one comes to the hole.
        if self.rooms[seat].is_some()
            && let Some(last) = slots.iter().rposition(Option::is_some).filter(|&last| last > slot)
            && let Some(moved) = slots[last].take()
        {
            slots[slot] = Some(moved);
            self.owner[moved] = Some((seat, slot));
        }
        self.settled[seat]
    }
}
