//! What counts references: exactly, by samples, or not at all.
//!
//! # Protocol
//! 1. [`CounterSource::attach`] names the areas, before the first start and after each new area.
//! 2. [`CounterSource::start`] begins a recorded iteration, [`CounterSource::stop`] ends it. Only
//!    in between does the source cost anything; after `stop` no access faults because of it.
//! 3. [`CounterSource::snapshot`] has the sums since `attach`, so that the difference of two is
//!    what came in between.

#[cfg(not(loom))]
mod auto;
#[cfg(not(loom))]
mod evidence;
#[cfg(not(loom))]
mod hardware;
mod kind;
mod schedule;
mod scripted;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod trap;
#[cfg(not(loom))]
mod windows;

#[cfg(not(loom))]
pub use auto::AutoSource;
#[cfg(not(loom))]
pub use hardware::HardwareSource;
pub use kind::SourceKind;
pub use schedule::{Ledger, LoopSchedule, Pattern};
pub use scripted::{NoSource, ScriptedSource};
#[cfg(not(loom))]
pub use trap::TrapSource;
#[cfg(not(loom))]
pub use windows::TrapParameters;

use platform::SysError;

use crate::area::Areas;
use crate::counters::Counters;
use crate::statistics::Declined;
use crate::topology::Topology;

/// What a source can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Every reference is counted; else some are.
    pub is_exact: bool,
    /// Reads count, too.
    pub sees_reads: bool,
    /// Accesses fault while it counts.
    pub makes_faults: bool,
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A whole iteration: what is unclear in one window may be looked at more closely in the next.
    Iteration,
    /// Phases, whose counters are compared with each other: all windows alike.
    Phases,
}

/// Why a source does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The system refuses what it needs.
    #[error("{0}")]
    Sys(#[from] SysError),
    /// The memory has not the rights that it had to have.
    #[error("the area at {begin:#x} is not plain memory that may be read and written")]
    Rights {
        /// Where the area begins.
        begin: usize,
    },
    /// The memory is the process's own, and the source needs memory that may be shared.
    #[error("the area at {begin:#x} is private memory: only shared memory keeps unmapped pages")]
    Private {
        /// Where the area begins.
        begin: usize,
    },
    /// The process's mappings cannot be read.
    #[error("cannot read the process's mappings: {0}")]
    Mappings(String),
    /// There is none.
    #[error("{0}")]
    None(String),
    /// Too many of its kind are there.
    #[error("there are {0} such sources already")]
    TooMany(usize),
}

/// Counts references to the pages of areas.
pub trait CounterSource {
    /// Its name, for the report: "counted by ...".
    fn name(&self) -> &'static str;

    /// What it can do.
    fn caps(&self) -> Caps;

    /// These are the areas now; all counters begin at zero again.
    ///
    /// # Safety
    /// - Until the source is dropped or attached anew, the areas stay mapped, may be read and
    ///   written, and no other part of the process changes their rights.
    ///
    /// # Errors
    /// It cannot count there. Then `start` fails, too.
    unsafe fn attach(&mut self, areas: &Areas, topology: &dyn Topology) -> Result<(), SourceError>;

    /// A recorded iteration begins.
    ///
    /// # Errors
    /// It cannot count now; nothing was begun.
    fn start(&mut self, scope: Scope) -> Result<(), SourceError>;

    /// A good moment to look: between chunks of a loop, on any thread. Cheap.
    fn tick(&self) {}

    /// Nothing faults until [`CounterSource::resume`], within a recorded iteration.
    fn pause(&self) {}

    /// See [`CounterSource::pause`].
    fn resume(&self) {}

    /// Whether it found that the areas' memory is another one than when it was attached.
    fn is_lost(&self) -> bool {
        false
    }

    /// Why it counted nothing in the recorded iterations, and would not in others.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The sources that were tried before this one.
    fn declined(&self) -> &[Declined] {
        &[]
    }

    /// All references since `attach`, into `out`.
    fn snapshot(&mut self, out: &mut Counters);

    /// Whether enough was counted to decide by, since the beginning or [`CounterSource::note_use`].
    fn is_enough(&self) -> bool {
        true
    }

    /// What was counted so far was used to decide.
    fn note_use(&mut self) {}

    /// Whether all since `attach` decides each time, and not what was counted since the last use:
    /// of a source that does not count on where enough was counted.
    fn keeps_counts(&self) -> bool {
        false
    }

    /// The recorded iteration ended. After this no access faults because of the source.
    fn stop(&mut self);
}
