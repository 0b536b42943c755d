//! A thread, as one that a manager's grants put somewhere: what it knows of where it sits.

use crate::workers::worker::Worker;
use platform::affinity::CpuId;
use platform::clock::Ticks;
use std::cell::Cell;

/// See the module head. Touched by its thread alone.
#[derive(Debug, Default)]
pub(crate) struct Sitter {
    /// The worker that the thread is; none: one of the program's, a master.
    worker: Cell<Option<&'static Worker>>,
    /// The grant's epoch when the thread last looked between two pieces of its work; 0 before.
    worked_under: Cell<u32>,
    /// Where it, a master, sat down last.
    seat: Cell<Option<CpuId>>,
    /// When it went back there by itself last.
    sat_down: Cell<Option<Ticks>>,
}

impl Sitter {
    /// The worker that the thread is; none on threads of the program.
    #[inline]
    pub(crate) fn worker(&self) -> Option<&'static Worker> {
        self.worker.get()
    }

    /// The thread is `worker`, or none from now on.
    pub(crate) fn is(&self, worker: Option<&'static Worker>) {
        self.worker.set(worker);
    }

    /// It is where no grant put it: it looks at its next safe point.
    pub(crate) fn was_put_elsewhere(&self) {
        self.worked_under.set(0);
    }

    #[inline]
    pub(super) fn worked_under(&self) -> &Cell<u32> {
        &self.worked_under
    }

    #[inline]
    pub(super) fn seat(&self) -> &Cell<Option<CpuId>> {
        &self.seat
    }

    pub(super) fn sat_down(&self) -> &Cell<Option<Ticks>> {
        &self.sat_down
    }
}
