//! The control variables of a task.

use super::choice::Bind;
use crate::schedule::Schedule;

/// Active levels that we support.
pub(crate) const SUPPORTED_LEVELS: u32 = 255;

/// No limit on the number of threads.
pub(crate) const NO_LIMIT: u32 = i32::MAX as u32;

/// dyn-var: whether a team of default size may have fewer threads than nthreads-var says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dynamic {
    /// It may not.
    Off,
    /// It may: the user, the program or a manager said so.
    On,
    /// It may until the program names a number of threads: the default where there is no manager.
    /// Such a program does what it finds out by itself, and a number that it names is exact, as on
    /// every other runtime.
    UntilNamed,
}

impl Dynamic {
    /// What the user or the program said.
    pub(crate) const fn said(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }

    /// True when such teams may be smaller.
    #[inline]
    pub(crate) const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// What holds after the program has named a number of threads.
    pub(crate) const fn after_a_number(self) -> Self {
        match self {
            Self::UntilNamed => Self::Off,
            other => other,
        }
    }
}

/// The control variables of one data environment: each task has its own copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Icvs {
    /// run-sched-var.
    pub(crate) schedule: Schedule,
    /// nthreads-var of this level; deeper levels come from the environment's list.
    pub(crate) num_threads: u32,
    /// thread-limit-var.
    pub(crate) thread_limit: u32,
    /// max-active-levels-var.
    pub(crate) max_active_levels: u32,
    /// default-device-var.
    pub(crate) default_device: i32,
    /// def-allocator-var.
    pub(crate) allocator: usize,
    /// dyn-var.
    pub(crate) dynamic: Dynamic,
    /// bind-var of this level.
    pub(crate) bind: Bind,
}
