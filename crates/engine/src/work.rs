//! Work as it is handed from thread to thread: plain data, which the modules that fork, supply and
//! run share. Where a member stands in it, with its way home, is a [`Membership`].
//!
//! [`Membership`]: crate::thread::membership::Membership

use crate::protocols::slot::Slot;
use crate::work::captures::Captures;
use std::ptr;

pub mod captures;

/// The root of a region, for all that only hand its address on: the thread state knows what it is.
#[derive(Debug)]
pub enum Root {}

/// One thread's place in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// 0 is the thread that forked.
    pub id: u32,
    /// Threads of the region.
    pub size: u32,
}

/// The work of a region: called once on each member, with the region's data and the member's place.
pub type Work = unsafe fn(data: *const (), member: Member);

/// What the members of a region share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) work: Work,
    pub(crate) data: *const (),
    /// The data themselves, if they are to stand in the line of the only worker; `data` is that
    /// place then.
    pub(crate) carried: Option<Captures>,
    pub(crate) root: *const Root,
    pub(crate) size: u32,
    pub(crate) level: u32,
    /// See [`Membership::threads`](crate::thread::membership::Membership).
    pub(crate) threads: u32,
}

impl Region {
    /// What stands in the line of member `id`.
    #[inline]
    pub(crate) fn descriptor(&self, id: u32) -> WorkDescriptor {
        let Region { work, root, carried, .. } = *self;
        // Teams have at most `LARGEST` threads.
        let (id, size) = (id as u16, self.size as u16);
        let level = self.level.min(u16::MAX.into()) as u16;
        let threads = self.threads.min((CARRIED - 1).into()) as u16
            | if carried.is_some() { CARRIED } else { 0 };
        WorkDescriptor { work, root, id, size, level, threads }
    }

    /// What stands beside the descriptor.
    #[inline]
    pub(crate) fn captures(&self) -> Captures {
        self.carried.unwrap_or_else(|| Captures::of(self.data))
    }
}

/// The work of one member of a region, as it stands in the supply line; the work's data, or their
/// address, are its cargo.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WorkDescriptor {
    pub work: Work,
    pub root: *const Root,
    /// Number and team size: at most [`LARGEST`].
    pub id: u16,
    pub size: u16,
    /// Regions around, saturating.
    pub level: u16,
    /// Threads that run at the same time as this one for the same root: see
    /// [`Membership::threads`](crate::thread::membership::Membership). Saturating, with [`CARRIED`]
    /// beside it.
    pub threads: u16,
}

/// The most threads of a team that a descriptor can number.
pub const LARGEST: usize = (u16::MAX / 2) as usize;

/// Beside `threads`: the data are the cargo, not at the address that is the cargo.
pub const CARRIED: u16 = 1 << 15;

impl WorkDescriptor {
    /// Threads that run at the same time, as far as a descriptor can say.
    #[inline]
    pub(crate) fn threads(&self) -> u32 {
        (self.threads & !CARRIED).into()
    }
}

// SAFETY: - the pointers are handed through a slot to the thread that the fork runs on; `Team::run`
//           keeps what they point to alive until the join.
unsafe impl Send for WorkDescriptor {}

/// What stands in a slot before the first supply; never called.
///
/// # Safety
/// - None: it does nothing.
pub(crate) unsafe fn no_work(_: *const (), _: Member) {}

pub(crate) const IDLE: WorkDescriptor =
    WorkDescriptor { work: no_work, root: ptr::null(), id: 0, size: 1, level: 0, threads: 1 };

const _: () = assert!(
    size_of::<WorkDescriptor>() + size_of::<Captures>() <= 48,
    "descriptor, captures and both numbers must share one line"
);

/// The supply line of a worker.
pub type SupplyLine = Slot<WorkDescriptor, Captures>;

/// Work that another thread than the master supplied: function and argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    pub(crate) work: Work,
    pub(crate) data: *const (),
}

// SAFETY: - the pointer is handed to the thread that the work runs on; its owner keeps what it
// points to alive until it is done.
unsafe impl Send for Offered {}
