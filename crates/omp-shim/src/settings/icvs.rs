//! The control variables of a task.

use super::choice::Bind;
use crate::schedule::Schedule;

/// Active levels that we support.
pub(crate) const SUPPORTED_LEVELS: u32 = 255;

/// No limit on the number of threads.
pub(crate) const NO_LIMIT: u32 = i32::MAX as u32;

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
    pub(crate) dynamic: bool,
    /// bind-var of this level.
    pub(crate) bind: Bind,
}
