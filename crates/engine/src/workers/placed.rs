//! A worker's place, as others see and change it: what its
//! [`Station`](crate::placement::station::Station) says.

use crate::placement::affinity_state::AffinityHold;
use crate::placement::home::Home;
use crate::placement::nearness::{Placed, Whereabouts};
use crate::workers::worker::Worker;
use platform::affinity::{CpuId, Tid};
use platform::mask::Mask;

impl Worker {
    /// Wakes on `home` from now on, unless it is bound. For its master.
    #[inline]
    pub(crate) fn set_home(&self, home: Home) {
        self.station().set_home(home)
    }

    /// Where it wakes, unless it is bound.
    #[inline]
    pub(crate) fn home(&self) -> Home {
        self.station().home()
    }

    /// As [`Worker::set_home`], and goes there now if it is awake: it would stay where it is as
    /// long as its master finds it awake. Where the program bound it itself, it stays. Not where a
    /// manager deals the seats.
    #[inline]
    pub(crate) fn move_to(&self, home: Home) {
        self.station().move_to(home, !self.may_sleep())
    }

    /// The number under which the worker was created.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.station().number()
    }

    /// Leaves what put it somewhere, on the worker itself. Cost: one load of a line that is rarely
    /// written; two system calls where it was put.
    #[inline]
    pub(crate) fn settle(&self) {
        self.station().settle()
    }

    /// No thread puts the worker, which calls, until the answer is dropped; nor is it where it was
    /// put. For handlers of signals, too.
    #[inline]
    pub(crate) fn hold(&self) -> AffinityHold<'_> {
        self.station().hold()
    }

    /// True when `own` may be what a child of the worker, which sleeps, was born with by `vfork`
    /// because the worker was put there.
    #[inline]
    pub(crate) fn was_put_on(&self, own: &Mask) -> bool {
        self.station().was_put_on(own)
    }

    /// Its number for a manager.
    #[inline]
    pub(crate) fn seat(&self) -> usize {
        self.station().seat()
    }

    /// Its kernel thread, once that runs.
    #[inline]
    pub(crate) fn tid(&self) -> Option<Tid> {
        self.station().tid()
    }

    /// True when the worker has fixed processors.
    #[inline]
    pub(crate) fn is_bound(&self) -> bool {
        self.station().is_bound()
    }

    /// The processor that the worker is bound to, if it is exactly one.
    #[inline]
    pub(crate) fn cpu(&self) -> Option<CpuId> {
        self.station().cpu()
    }

    /// True when the worker is bound to exactly `cpu`.
    #[inline]
    pub fn is_on(&self, cpu: CpuId) -> bool {
        self.station().is_on(cpu)
    }
}

impl Placed for Worker {
    fn whereabouts(&self) -> Whereabouts {
        match self.cpu() {
            Some(cpu) => Whereabouts::on(cpu),
            None if self.is_bound() => Whereabouts::SEVERAL,
            None => Whereabouts::wakes_at(self.home()),
        }
    }
}
