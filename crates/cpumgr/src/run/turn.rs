//! When a program starts, and what it waits for.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::time::Duration;

use arena::message::{After, ProcessorRange};

/// When a program starts.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// At once.
    Now,
    /// When the manager's multiprogramming level has room for it.
    InTurn(&'a Turn),
}

impl Start<'_> {
    /// A manager had it in its queue.
    pub(super) fn has_waited(self) -> bool {
        matches!(self, Self::InTurn(turn) if turn.id.get().is_some())
    }

    /// How long it waits at most.
    pub(super) fn within(self) -> Option<Duration> {
        match self {
            Self::InTurn(turn) => turn.within,
            Self::Now => None,
        }
    }
}

/// What a program waits for, besides its place in the queue.
#[derive(Debug)]
pub struct Turn {
    pub(super) after: Vec<After>,
    pub(super) within: Option<Duration>,
    pub(super) reported: bool,
    pub(super) limit: Option<Duration>,
    pub(super) processors: Option<ProcessorRange>,
    /// Where its number is told.
    tell: RefCell<Option<OwnedFd>>,
    pub(super) id: Cell<Option<u64>>,
}

impl Turn {
    /// `within`: how long it waits at most. `reported`: its parent says how it ended.
    pub fn new(
        after: Vec<After>,
        within: Option<Duration>,
        reported: bool,
        tell: Option<OwnedFd>,
    ) -> Self {
        let (tell, id) = (RefCell::new(tell), Cell::new(None));
        Self { after, within, reported, limit: None, processors: None, tell, id }
    }

    /// It runs for `limit` at most, on a number of processors in that range.
    #[must_use]
    pub fn as_job(self, limit: Option<Duration>, processors: Option<ProcessorRange>) -> Self {
        Self { limit, processors, ..self }
    }

    /// Without a manager it would begin too early, or with other processors.
    pub(super) fn needs_manager(&self) -> bool {
        !self.after.is_empty() || self.processors.is_some()
    }

    /// It has this number. What was opened for that stays open until it becomes the program.
    pub(super) fn tells(&self, id: u64) {
        self.id.set(Some(id));
        if let Some(tell) = &*self.tell.borrow() {
            // The one that asked may have gone.
            let _told = nix::unistd::write(tell, format!("{id}\n").as_bytes());
        }
    }
}
