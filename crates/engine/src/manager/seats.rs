//! Which thread has which seat, and putting it there.

use super::{Managed, Sitter};
use crate::placement::binding;
use crate::placement::station::Bounds;
use crate::program::program;
use crate::sizer::TeamSizer;
use crate::workers::pool::pool;
use crate::workers::worker::Worker;
use platform::affinity::{self, CpuSet, Tid, current_cpu};
use platform::clock::Ticks;

/// The least time between two moves of a master by itself, in us: each takes three system calls, in
/// which a change of its mask from outside is not heard.
const SEAT_US: u64 = 1_000;
/// The thread of a place that names none.
const NOBODY: Tid = Tid(0);

impl Managed {
    /// Where the manager means seat `seat` to be.
    pub(crate) fn place_of(&self, seat: usize) -> Bounds {
        if !self.client().is_alive() {
            return Bounds::Anywhere;
        }
        // A program that was started inside a narrower mask stays inside it.
        let mask = program().mask();
        let own = if program().masters().are_one() { self.manager.cpu_of_seat(seat) } else { None };
        if let Some(cpu) = own.filter(|cpu| mask.contains(*cpu)) {
            return Bounds::On(cpu);
        }
        let asked = self.manager.cpus();
        let granted = asked.intersection(mask);
        if granted.is_empty() {
            binding::say_no_overlap(&asked);
            return Bounds::Anywhere;
        }
        Bounds::Among(granted)
    }

    /// P1 and P2: binds `worker` to where its seat is now. Called by the worker itself, or by its
    /// master while the worker has no work.
    #[cold]
    pub(super) fn follow(&self, worker: &Worker) {
        worker.station().follow(self.epoch(), || self.place_of(worker.seat()));
    }

    /// P1: the calling thread, which is at work, has not looked at this grant yet. A master sits
    /// down, as at a fork.
    #[cold]
    pub(super) fn goes_on(&self, sitter: &Sitter) {
        match sitter.worker() {
            Some(worker) if !worker.station().follows(self.epoch()) => self.follow(worker),
            Some(_) => {}
            None if program().masters().are_one() => {
                self.sit_down(sitter);
            }
            None => {}
        }
    }

    /// The manager no longer binds `worker`, whose thread calls: it is to have another mask than
    /// the grant's for a moment. The manager may still act on what it read before.
    pub(crate) fn spare(&self, worker: &Worker) {
        let _changing = program().masters().changing_seats();
        self.client().publish_vp(worker.seat(), NOBODY);
    }

    /// The manager may bind `worker` again. The worker goes where the grant in force puts it: a
    /// squeeze may have passed it by.
    pub(crate) fn spare_no_more(&self, sitter: &Sitter, worker: &Worker) {
        let changing = program().masters().changing_seats();
        self.client().publish_vp(worker.seat(), worker.tid().unwrap_or(NOBODY));
        drop(changing);
        self.goes_on(sitter);
    }

    /// P2: thread i of the calling master's teams is `members[i - 1]`; all of them are idle. Those
    /// that are awake follow by themselves. `sitter`: the master.
    pub(crate) fn arrange(&self, members: &[&'static Worker], sitter: &Sitter) {
        if program().masters().are_one() {
            let changing = program().masters().changing_seats();
            for (worker, seat) in members.iter().zip(1..) {
                if worker.seat() != seat {
                    self.change_seats(worker, seat);
                }
            }
            drop(changing);
            self.sit_down(sitter);
        }
        let epoch = self.epoch();
        for worker in
            members.iter().filter(|worker| !worker.station().follows(epoch) && worker.may_sleep())
        {
            self.follow(worker);
        }
    }

    /// Gives `worker` seat `seat`, and the worker that has this seat the seat of `worker`.
    fn change_seats(&self, worker: &Worker, seat: usize) {
        let occupant = pool().all().iter().copied().find(|other| other.seat() == seat);
        let before = worker.seat();
        for (worker, seat) in [(Some(worker), seat), (occupant, before)] {
            let Some(worker) = worker else { continue };
            worker.station().take_seat(seat);
            // A thread that did not begin yet publishes itself when it begins.
            if let Some(tid) = worker.tid() {
                self.client().publish_vp(seat, tid);
            }
        }
    }

    /// True when the calling thread, a master, is where it sat down. Cost: two loads, and the
    /// question where it runs.
    #[inline]
    pub(crate) fn sits(&self, sitter: &Sitter) -> bool {
        // A worker is bound.
        sitter.worker().is_none() && sitter.seat().get() == Some(current_cpu())
    }

    /// P4: after a turn of the others. `sat`: the master was on its seat before that turn. True
    /// when it is not any more, and went back.
    #[inline]
    pub(crate) fn sits_down_again(&self, sitter: &Sitter, sat: bool) -> bool {
        sat && sitter.seat().get() != Some(current_cpu()) && self.goes_back(sitter)
    }

    /// At most once in [`SEAT_US`]: where the kernel insists, the master stays where that put it.
    #[cold]
    fn goes_back(&self, sitter: &Sitter) -> bool {
        let rests = sitter
            .sat_down()
            .get()
            .is_some_and(|last| last.elapsed_ticks() < Ticks::about_us(SEAT_US));
        if rests || !self.client().is_alive() || !program().masters().are_one() {
            return false;
        }
        sitter.sat_down().set(Some(Ticks::now()));
        self.sit_down(sitter);
        true
    }

    /// Moves the calling thread, the master, to seat 0, where it may go at all, and leaves its mask
    /// as it was.
    pub(crate) fn sit_down(&self, sitter: &Sitter) {
        let Bounds::On(cpu) = self.place_of(0) else { return };
        sitter.seat().set(Some(cpu));
        if cpu == current_cpu() {
            return;
        }
        // The program's own idea of where it should run comes first.
        let Ok(mask) = affinity::affinity(None) else { return };
        if mask.len() > 1
            && mask.contains(cpu)
            && affinity::set_affinity(None, &CpuSet::single(cpu)).is_ok()
        {
            // It was allowed a moment ago. If processors went offline meanwhile, the kernel takes
            // what is left of it.
            let _ = affinity::set_affinity(None, &mask);
        }
    }
}

/// P3: all workers may run where the program may.
pub(super) fn stand_up() {
    pool()
        .all()
        .iter()
        .filter(|worker| worker.is_bound())
        .for_each(|worker| worker.station().release());
}
