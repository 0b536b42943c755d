//! What a team's region is, as its members read it: written between regions, and only where
//! something changes.

use crate::body::Body;
use crate::settings::{Bind, Icvs};
use crate::task::TaskGroup;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::AtomicU32;

/// What a region is.
pub(super) struct Orders {
    pub(super) size: Steady<u32>,
    pub(super) level: Steady<u32>,
    pub(super) active_level: Steady<u32>,
    pub(super) body: Steady<Option<Body>>,
    pub(super) data: Steady<*mut c_void>,
    pub(super) icvs: Steady<Icvs>,
    /// How the region's threads are said to be bound.
    pub(super) bind: Steady<Bind>,
    /// The largest size that OMP_DISPLAY_AFFINITY has shown.
    pub(super) displayed: Steady<u32>,
    /// What the thread that forked was in; null for initial teams.
    pub(super) parent: Steady<*const ()>,
    /// Which team of which league.
    pub(super) league: Steady<League>,
    /// The task group that the implicit tasks are in (reductions of a whole region).
    pub(super) group: Steady<*const TaskGroup>,
    /// The region's first construct is laid out already.
    pub(super) laid_out: Steady<bool>,
    /// Members may leave at the end without waiting for tasks: see `task_free`.
    pub(super) task_free: Steady<bool>,
}

impl Orders {
    /// Those of a team that has had no region.
    pub(super) fn new(icvs: Icvs) -> Self {
        Self {
            size: Steady::new(1),
            level: Steady::new(0),
            active_level: Steady::new(0),
            body: Steady::new(None),
            data: Steady::new(ptr::null_mut()),
            icvs: Steady::new(icvs),
            bind: Steady::new(icvs.bind),
            displayed: Steady::new(0),
            parent: Steady::new(ptr::null()),
            league: Steady::new(League { number: 0, count: 1, counter: ptr::null() }),
            group: Steady::new(ptr::null()),
            laid_out: Steady::new(false),
            task_free: Steady::new(false),
        }
    }
}

/// How many constructs members have met.
pub(super) struct ConstructCounts {
    pub(super) constructs: Steady<u64>,
    pub(super) singles: Steady<u32>,
}

/// A cell that is written only when its value changes, so that its line stays in the readers'
/// caches.
pub(super) struct Steady<T>(Cell<T>);

impl<T: Copy + PartialEq> Steady<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    #[inline]
    pub(super) fn get(&self) -> T {
        self.0.get()
    }

    #[inline]
    pub(super) fn set(&self, value: T) {
        if self.0.get() != value {
            self.0.set(value);
        }
    }
}

/// Which team of which league: teams construct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct League {
    /// Number of the initial team.
    pub(crate) number: u32,
    /// Teams of the league.
    pub(crate) count: u32,
    /// Where the contention group's threads are counted: with its initial team; null there.
    pub(super) counter: *const AtomicU32,
}
