//! Applications that stay inside a set of processors: what they get, and which applications make
//! room for it.
//!
//! # Rule
//! Each takes what is free inside its set. An application that then lacks something looks for a
//! chain: a processor of its set whose owner could have another one instead, whose owner could in
//! turn, and so on. The chain ends, in this order of preference, at:
//! 1. a processor that is free;
//! 2. one of an application that may run everywhere, which finds another one later, because the
//!    numbers of all applications together fit the machine;
//! 3. one of the application that has most, if that is at least two more than this one has.
//!
//! The applications get one processor each in turn, until none finds anything. What is then still
//! lacking cannot be had: all that can be reached belongs to applications that stay inside sets,
//! too, and that have at most one processor more.
//!
//! # Cost
//! Nothing without such applications. A chain is O(applications x P), and there are few: as many as
//! processors are lacking, and those of end 3. The worst that was found: 60 ms, for 512
//! applications that all lack something, in sets of 3 of 1024 processors.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::free::Free;
use super::{MachineCpu, Seat};
use crate::snapshot::AppId;

/// For each application that stays inside a set the processors in it, by index, ascending.
pub(super) struct Rooms(HashMap<AppId, Vec<usize>>);

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
    rooms: &'a Rooms,
    free: &'a mut Free<'b>,
    /// By processor: the seat that has it, and the slot there.
    owner: Vec<Option<(usize, usize)>>,
}

/// How good the end of a chain is at which an application loses a processor: whether the
/// application may run everywhere; then the slot if so, where the last one is best, else the number
/// of processors that it has.
type End = (bool, usize);

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
        Self { seats, rooms, free, owner }
    }

    fn room(&self, seat: usize) -> Option<&[usize]> {
        self.rooms.of(self.seats[seat].app)
    }

    fn has(&self, seat: usize) -> usize {
        self.seats[seat].slots.iter().flatten().count()
    }

    /// Gets one processor more for a seat that has a room and a hole; false if there is none to be
    /// had.
    fn extend(&mut self, start: usize) -> bool {
        let Some(hole) = self.seats[start].slots.iter().position(Option::is_none) else {
            return false;
        };
        if self.room(start).is_none() {
            return false;
        }
        // By processor: the seat that would get it. By seat: the processor that it would give for
        // that.
        let mut getter: Vec<Option<usize>> = vec![None; self.owner.len()];
        let mut given: Vec<Option<usize>> = vec![None; self.seats.len()];
        let Some(end) = self.search(start, &mut getter, &mut given) else {
            return false;
        };
        self.vacate(end);
        let mut cpu = end;
        loop {
            let seat = getter[cpu].expect("the search came by here");
            let (slot, next) = if seat == start {
                (hole, None)
            } else {
                let next = given[seat].expect("the search came by here");
                (self.owner[next].expect("it is the seat's").1, Some(next))
            };
            self.seats[seat].slots[slot] = Some(cpu);
            self.owner[cpu] = Some((seat, slot));
            match next {
                Some(next) => cpu = next,
                None => return true,
            }
        }
    }

    /// The processor at the end of the best chain, breadth first.
    fn search(
        &self,
        start: usize,
        getter: &mut [Option<usize>],
        given: &mut [Option<usize>],
    ) -> Option<usize> {
        let enough = self.has(start) + 2;
        let mut best: Option<(End, usize)> = None;
        let mut queue = VecDeque::from([start]);
        while let Some(seat) = queue.pop_front() {
            let room = self.room(seat).expect("only seats with rooms are in the queue");
            for &cpu in room {
                let Some((other, slot)) = self.owner[cpu] else {
                    if self.free.has(cpu) {
                        getter[cpu] = Some(seat);
                        return Some(cpu);
                    }
                    continue;
                };
                if getter[cpu].is_some() || other == seat || other == start {
                    continue;
                }
                getter[cpu] = Some(seat);
                let everywhere = self.room(other).is_none();
                let end = (everywhere, if everywhere { slot } else { self.has(other) });
                if (everywhere || end.1 >= enough) && best.is_none_or(|(best, _)| end > best) {
                    best = Some((end, cpu));
                }
                if !everywhere && given[other].is_none() {
                    given[other] = Some(cpu);
                    queue.push_back(other);
                }
            }
        }
        best.map(|(_, cpu)| cpu)
    }

    /// Takes the processor at the end of a chain from the application that has it, or from what is
    /// free.
    fn vacate(&mut self, cpu: usize) {
        let Some((seat, slot)) = self.owner[cpu].take() else {
            let free = self.free.take(cpu);
            debug_assert!(free, "the search looked");
            return;
        };
        let is_bound = self.room(seat).is_some();
        let slots = &mut self.seats[seat].slots;
        slots[slot] = None;
        // The number of one that has a room falls: its last one comes to the hole.
        if is_bound
            && let Some(last) = slots.iter().rposition(Option::is_some).filter(|&last| last > slot)
            && let Some(moved) = slots[last].take()
        {
            slots[slot] = Some(moved);
            self.owner[moved] = Some((seat, slot));
        }
    }
}
