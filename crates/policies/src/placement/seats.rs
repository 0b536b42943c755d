//! A seat for each application that has processors of its own, and how those that were somewhere
//! before find it: steps 1 to 4 of the placement.

use super::free::Free;
use super::tenants::{NOBODY, Rooms, Tenants};
use super::topology::{HOLE, Topology};

/// An application being placed.
#[derive(Debug)]
struct Seat {
    /// Its place among the tenants.
    tenant: usize,
    /// Where its slots begin, how many there are, and how many of them are holes.
    begin: usize,
    len: usize,
    holes: usize,
}

/// All of them, in the order in which they are served.
#[derive(Debug, Default)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    /// Of all seats, one after the other: the index of the processor of each virtual processor, or
    /// [`HOLE`].
    slots: Vec<usize>,
}

impl Seats {
    /// One more seat, with so many holes.
    pub(super) fn add(&mut self, tenant: usize, number: usize) {
        let begin = self.slots.len();
        self.slots.resize(begin + number, HOLE);
        self.seats.push(Seat { tenant, begin, len: number, holes: number });
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// Processors that all seats have, or are to have.
    pub(super) fn processors(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn tenant(&self, seat: usize) -> usize {
        self.seats[seat].tenant
    }

    pub(super) fn holes(&self, seat: usize) -> usize {
        self.seats[seat].holes
    }

    pub(super) fn slots(&self, seat: usize) -> &[usize] {
        let Seat { begin, len, .. } = self.seats[seat];
        &self.slots[begin..begin + len]
    }

    /// A hole has this processor now.
    pub(super) fn put(&mut self, seat: usize, slot: usize, cpu: usize) {
        let Seat { begin, ref mut holes, .. } = self.seats[seat];
        debug_assert_eq!(self.slots[begin + slot], HOLE);
        self.slots[begin + slot] = cpu;
        *holes -= 1;
    }

    /// A slot becomes a hole; what was there.
    pub(super) fn clear(&mut self, seat: usize, slot: usize) -> usize {
        let Seat { begin, ref mut holes, .. } = self.seats[seat];
        *holes += 1;
        std::mem::replace(&mut self.slots[begin + slot], HOLE)
    }

    /// Fills holes from the first on, as far as this goes, and empties it.
    pub(super) fn fill(&mut self, seat: usize, found: &mut Vec<usize>) {
        let mut found = found.drain(..);
        for slot in 0..self.seats[seat].len {
            if self.slots(seat)[slot] == HOLE {
                let Some(cpu) = found.next() else { break };
                self.put(seat, slot, cpu);
            }
        }
    }

    /// A seat has no holes any more: it is smaller.
    pub(super) fn cut_holes_off(&mut self, seat: usize) {
        let Seat { begin, ref mut len, ref mut holes, .. } = self.seats[seat];
        if std::mem::take(holes) > 0 {
            let mut kept = 0;
            for at in begin..begin + *len {
                if self.slots[at] != HOLE {
                    self.slots[begin + kept] = self.slots[at];
                    kept += 1;
                }
            }
            *len = kept;
        }
    }

    /// Steps 1 to 4.
    pub(super) fn return_home(
        &mut self,
        rooms: &Rooms<'_>,
        topology: &Topology,
        free: &mut Free<'_>,
    ) {
        for seat in 0..self.len() {
            self.keep(seat, rooms, topology, free);
        }
        let last = &rooms.tenants.last;
        self.return_to_slots(rooms, topology, free, |cpu, tenant| last[cpu] == tenant);
        self.take_last(rooms, free);
        self.return_to_slots(rooms, topology, free, |_, _| true);
    }

    /// Step 1.
    fn keep(&mut self, seat: usize, rooms: &Rooms<'_>, topology: &Topology, free: &mut Free<'_>) {
        let (at, len) = (self.tenant(seat), self.seats[seat].len);
        let held = rooms.tenants.list[at].held();
        for (slot, &id) in held.iter().enumerate().take(len) {
            if let Some(cpu) = rooms.find(topology, at, id).filter(|&cpu| free.take(cpu)) {
                self.put(seat, slot, cpu);
            }
        }
        if self.holes(seat) == 0 {
            return;
        }
        let mut cut_off = held.iter().skip(len).filter_map(|&id| rooms.find(topology, at, id));
        for slot in 0..len {
            if self.slots(seat)[slot] == HOLE {
                let Some(cpu) = cut_off.find(|&cpu| free.take(cpu)) else { break };
                self.put(seat, slot, cpu);
            }
        }
    }

    /// Steps 2 and 4: holes have the processor on which the virtual processor ran last, if that is
    /// free and `may` says so.
    fn return_to_slots(
        &mut self,
        rooms: &Rooms<'_>,
        topology: &Topology,
        free: &mut Free<'_>,
        may: impl Fn(usize, usize) -> bool,
    ) {
        for seat in 0..self.len() {
            if self.holes(seat) == 0 {
                continue;
            }
            let at = self.tenant(seat);
            let tenant = &rooms.tenants.list[at];
            for (slot, &id) in tenant.slots.iter().enumerate().take(self.seats[seat].len) {
                if self.slots(seat)[slot] == HOLE
                    && let Some(cpu) = rooms.find(topology, at, id)
                    && may(cpu, at)
                    && free.take(cpu)
                {
                    self.put(seat, slot, cpu);
                }
            }
        }
    }

    /// Step 3.
    fn take_last(&mut self, rooms: &Rooms<'_>, free: &mut Free<'_>) {
        let tenants = rooms.tenants;
        // For each tenant the first processor on which it was the last to run, and for each of
        // these the next one.
        let mut first = vec![HOLE; tenants.list.len()];
        let mut next = vec![HOLE; tenants.last.len()];
        for (cpu, &at) in tenants.last.iter().enumerate().rev() {
            if at != NOBODY && free.has(cpu) && rooms.may_use(at, cpu) {
                next[cpu] = std::mem::replace(&mut first[at], cpu);
            }
        }
        for seat in 0..self.len() {
            let mut cpu = first[self.tenant(seat)];
            for slot in 0..self.seats[seat].len {
                if cpu == HOLE || self.holes(seat) == 0 {
                    break;
                }
                if self.slots(seat)[slot] == HOLE {
                    if free.take(cpu) {
                        self.put(seat, slot, cpu);
                    }
                    cpu = next[cpu];
                }
            }
        }
    }

    /// Writes down what runs where now.
    pub(super) fn remember(&self, tenants: &mut Tenants, topology: &Topology) {
        for seat in 0..self.len() {
            let at = self.tenant(seat);
            let tenant = &mut tenants.list[at];
            // The free processors suffice for all seats, or the rest was cut off (`confined`).
            debug_assert_eq!(self.holes(seat), 0);
            let slots = self.slots(seat);
            tenant.held = slots.len();
            if tenant.slots.len() < slots.len() {
                tenant.slots.resize(slots.len(), 0);
            }
            for (slot, &cpu) in tenant.slots.iter_mut().zip(slots) {
                *slot = topology.cpus[cpu].id;
                tenants.last[cpu] = at;
            }
        }
    }
}
