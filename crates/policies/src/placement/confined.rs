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

use super::free::Free;
use super::seats::Seats;
use super::tenants::{NOBODY, Room, Rooms};
use super::topology::HOLE;

/// Fills the seats of applications that have rooms as far as that is possible, and cuts off what is
/// not. Seats of others may have holes afterwards.
pub(super) fn fill(seats: &mut Seats, rooms: &Rooms<'_>, free: &mut Free<'_>) {
    let processors = rooms.tenants.last.len();
    let room = |seat: usize| rooms.of(seats.tenant(seat));
    let rooms: Vec<Option<&Room>> = (0..seats.len()).map(room).collect();
    let confined: Vec<usize> = (0..seats.len()).filter(|&seat| rooms[seat].is_some()).collect();
    let mut found = Vec::new();
    for (seat, room) in confined.iter().filter_map(|&seat| Some((seat, rooms[seat]?))) {
        if seats.holes(seat) > 0 {
            free.take_inside(seats.slots(seat), seats.holes(seat), &room.cpus, &mut found);
            seats.fill(seat, &mut found);
        }
    }
    if confined.iter().all(|&seat| seats.holes(seat) == 0) {
        return;
    }
    let mut matching = Matching::new(seats, rooms, processors, free);
    // Not `any`: each gets one before any application gets the next one.
    while confined.iter().filter(|&&seat| matching.extend(seat)).count() > 0 {}
    confined.iter().for_each(|&seat| seats.cut_holes_off(seat));
}

/// Which application has which processor.
struct Matching<'a, 'b> {
    seats: &'a mut Seats,
    free: &'a mut Free<'b>,
    /// By seat: its room; `None`: everywhere.
    rooms: Vec<Option<&'a Room>>,
    /// By seat: how many processors it has.
    has: Vec<usize>,
    /// By seat: it is settled.
    settled: Vec<bool>,
    /// By processor: the seat that has it, or [`NOBODY`], and the slot there.
    owner: Vec<(usize, usize)>,
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
        seats: &'a mut Seats,
        rooms: Vec<Option<&'a Room>>,
        processors: usize,
        free: &'a mut Free<'b>,
    ) -> Self {
        let mut owner = vec![(NOBODY, 0); processors];
        for seat in 0..seats.len() {
            for (slot, &cpu) in seats.slots(seat).iter().enumerate().filter(|(_, it)| **it != HOLE)
            {
                owner[cpu] = (seat, slot);
            }
        }
        let search = Search {
            now: 0,
            getter: vec![(0, 0); processors],
            given: vec![(0, 0); seats.len()],
            queue: Vec::new(),
        };
        Self {
            rooms,
            has: (0..seats.len()).map(|seat| seats.slots(seat).len() - seats.holes(seat)).collect(),
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
        if self.settled[start] || self.seats.holes(start) == 0 {
            return false;
        }
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
            if seat == start {
                break;
            }
            let (mark, next) = self.search.given[seat];
            debug_assert_eq!(mark, self.search.now, "the search came by here");
            touched |= self.settled[seat];
            // It gives one processor and gets another one for it.
            let (_, slot) = self.owner[next];
            self.seats.clear(seat, slot);
            self.put(seat, slot, cpu);
            cpu = next;
        }
        let hole = self.seats.slots(start).iter().position(|&slot| slot == HOLE);
        self.put(start, hole.expect("it was counted"), cpu);
        self.has[start] += 1;
        if touched {
            self.settled.fill(false);
        }
        true
    }

    fn put(&mut self, seat: usize, slot: usize, cpu: usize) {
        self.seats.put(seat, slot, cpu);
        self.owner[cpu] = (seat, slot);
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
            for &cpu in &room.cpus {
                let (other, slot) = self.owner[cpu];
                if other == NOBODY {
                    if self.free.has(cpu) {
                        getter[cpu] = (*now, seat);
                        return Some(cpu);
                    }
                    continue;
                }
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
        let (seat, slot) = std::mem::replace(&mut self.owner[cpu], (NOBODY, 0));
        if seat == NOBODY {
            let free = self.free.take(cpu);
            debug_assert!(free, "the search looked");
            return false;
        }
        self.has[seat] -= 1;
        self.seats.clear(seat, slot);
        // The number of one that has a room falls: its last one comes to the hole.
        if self.rooms[seat].is_some() {
            let last = self.seats.slots(seat).iter().rposition(|&slot| slot != HOLE);
            if let Some(last) = last.filter(|&last| last > slot) {
                let moved = self.seats.clear(seat, last);
                self.put(seat, slot, moved);
            }
        }
        self.settled[seat]
    }
}
