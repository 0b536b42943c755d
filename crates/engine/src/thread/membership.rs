//! Where a thread stands in the innermost region that it works for, and what carries its result
//! home.

use crate::work::{Region, Root, WorkDescriptor};
use crate::workers::worker::Worker;
use std::ptr;

/// Where a thread stands: its place in the innermost region that it works for.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    pub id: u32,
    pub size: u32,
    /// Open regions around the thread, regions of one thread included.
    pub level: u32,
    /// Threads of the program that run at the same time, as far as the thread can tell: its team,
    /// times the teams around it (whose other members fork alike, most likely), and other masters'
    /// teams. Where they are more than the processors, a waiter may wait for a thread that has
    /// none, and must not spin (D15).
    pub threads: u32,
    /// The root of the region; null outside any region.
    pub root: *const Root,
    /// What the member's result rides home on; `None` for the master, which is at home.
    pub result_place: Option<ResultPlace>,
}

impl Membership {
    pub const OUTSIDE: Self =
        Self { id: 0, size: 1, level: 0, threads: 1, root: ptr::null(), result_place: None };
}

/// The line in which a member arrives.
#[derive(Clone, Copy, Debug)]
pub enum ResultPlace {
    /// The worker's supply line.
    Line(&'static Worker),
    /// The worker's arrival line.
    Arrival(&'static Worker),
}

impl ResultPlace {
    /// Leaves the member's result, before it arrives.
    ///
    /// # Safety
    /// - The place is that of the calling member's [`Membership`], in the member's own work.
    #[inline]
    pub unsafe fn put<V: Send>(self, value: V) {
        match self {
            // SAFETY: - the member's work is not finished, and it copied the descriptor before it
            // began.
            ResultPlace::Line(worker) => unsafe { worker.put_on_line(value) },
            // SAFETY: - the member has not arrived.
            ResultPlace::Arrival(worker) => unsafe { worker.arrival().put(value) },
        }
    }

    /// Takes the result, after the join.
    ///
    /// # Safety
    /// - The caller is the region's master, joined it, and supplied nothing since.
    /// - The member has put a `V`, which was not taken yet.
    #[inline]
    pub unsafe fn take<V: Send>(self) -> V {
        match self {
            // SAFETY: - caller's contract.
            ResultPlace::Line(worker) => unsafe { worker.take_from_line() },
            // SAFETY: - caller's contract.
            ResultPlace::Arrival(worker) => unsafe { worker.arrival().take() },
        }
    }
}

impl Region {
    /// The place of member `id`, whose result rides in `result_place`.
    #[inline]
    pub(crate) fn membership(&self, id: u32, result_place: Option<ResultPlace>) -> Membership {
        Membership {
            id,
            size: self.size,
            level: self.level,
            threads: self.threads,
            root: self.root,
            result_place,
        }
    }
}

impl WorkDescriptor {
    /// The member's place in the region.
    #[inline]
    pub(crate) fn membership(&self, result_place: Option<ResultPlace>) -> Membership {
        let Self { id, size, level, root, .. } = *self;
        Membership {
            id: id.into(),
            size: size.into(),
            level: level.into(),
            threads: self.threads(),
            root,
            result_place,
        }
    }
}
