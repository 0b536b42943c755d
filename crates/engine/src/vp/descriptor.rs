//! What stands in a supply line beside its numbers.

use crate::captures::Captures;
use crate::local::Root;
use crate::membership::{Carrier, Membership};
use crate::slot::Slot;
use crate::team::Work;
use std::ptr;

/// The work of one member of a region, as it stands in the supply line; the work's data, or their address, are its cargo.
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
    /// Threads that run at the same time as this one for the same root: see [`Membership::crowd`]. Saturating, with
    /// [`CARRIED`] beside it.
    pub crowd: u16,
}

/// The most threads of a team that a descriptor can number.
pub const LARGEST: usize = (u16::MAX / 2) as usize;

/// Beside the crowd: the data are the cargo, not at the address that is the cargo.
pub const CARRIED: u16 = 1 << 15;

impl WorkDescriptor {
    /// The member's place in the region.
    #[inline]
    pub(super) fn membership(&self, carrier: Option<Carrier>) -> Membership {
        let Self { id, size, level, root, .. } = *self;
        Membership { id: id.into(), size: size.into(), level: level.into(), crowd: self.crowd(), root, carrier }
    }

    /// Threads that run at the same time, as far as a descriptor can say.
    #[inline]
    pub(super) fn crowd(&self) -> u32 {
        (self.crowd & !CARRIED).into()
    }
}

// SAFETY: - the pointers are handed through a slot to the thread that the fork runs on; `Team::run` keeps what they
//           point to alive until the join.
unsafe impl Send for WorkDescriptor {}

/// What stands in a slot before the first supply; never called.
///
/// # Safety
/// - None: it does nothing.
pub(super) unsafe fn no_work(_: *const (), _: crate::team::Member) {}

pub(super) const IDLE: WorkDescriptor =
    WorkDescriptor { work: no_work, root: ptr::null(), id: 0, size: 1, level: 0, crowd: 1 };

const _: () = assert!(
    size_of::<WorkDescriptor>() + size_of::<Captures>() <= 48,
    "descriptor, captures and both numbers must share one line"
);

/// The supply line of a virtual processor.
pub type Line = Slot<WorkDescriptor, Captures>;
